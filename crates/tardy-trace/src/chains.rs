//! Chains of wake-ups: an interrupt wakes a thread, this thread wakes the next one, and so on up to
//! a followed thread.
//!
//! A chain is built backwards: from a thread to the thread that woke it, and from there to the
//! wake-up with which that thread's cycle started. The chain starts with an interrupt, a timer, or
//! a thread whose own wake-up is unknown. The times in a chain add up to its latency: each thread
//! first waited for a CPU, and then took some time to wake the next one.

use foldhash::HashMap;

use crate::contexts::{Held, Waker};
use crate::event::{Event, Kind};
use crate::merge::Item;
use crate::occupants::Occupant;

/// Maximum number of links that are stored per chain; if there are more, the last ones are stored.
pub const LINKS_MAX: usize = 8;
/// Maximum number of threads whose last wake-up is stored.
const THREADS_MAX: usize = 4096;

/// One thread in a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Thread ID in the initial PID namespace.
    pub thread: i32,
    /// When the thread was woken, in ns on the trace's clock.
    pub woken: i64,
    /// When the thread got a CPU.
    pub ran: i64,
    /// The thread that had this CPU longest during the wait; absent if it is unknown.
    pub occupant: Option<Occupant>,
    /// The interrupt or softirq that had this CPU for most of the wait.
    pub held: Option<Held>,
}

/// A chain of wake-ups, up to a followed thread that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// What woke the first thread.
    pub origin: Waker,
    /// The threads, in the order of time.
    pub links: Vec<Link>,
    /// Whether links at the start of the chain were left out.
    pub is_longer: bool,
}

impl Chain {
    /// Returns the time from the first wake-up until the last thread ran, in ns.
    #[must_use]
    pub fn latency(&self) -> i64 {
        match (self.links.first(), self.links.last()) {
            (Some(first), Some(last)) => last.ran - first.woken,
            _ => 0,
        }
    }

    /// Returns each link with two times in ns: how long the thread waited for a CPU, and how long
    /// it then took to wake the next thread. All these times add up to the latency.
    pub fn parts(&self) -> impl Iterator<Item = (Link, i64, i64)> {
        let next = self.links.iter().skip(1).map(|link| Some(link.woken));
        self.links
            .iter()
            .zip(next.chain([None]))
            .map(|(link, next)| {
                let took = next.map_or(0, |next| next - link.ran);
                (*link, link.ran - link.woken, took)
            })
    }
}

/// A thread that was woken and has not got a CPU yet.
#[derive(Debug, Clone)]
struct Pending {
    before: Option<Chain>,
    waker: Waker,
    woken: i64,
}

/// Builds the chain of each woken thread from a trace, event by event.
#[derive(Debug, Default)]
pub struct Chains {
    pending: HashMap<i32, Pending>,
    current: HashMap<i32, Chain>,
}

impl Chains {
    /// Records an event in which `waker` wakes a thread.
    pub fn wake(&mut self, event: &Event, waker: Waker) {
        let Kind::Waking { thread, .. } = event.kind else {
            return;
        };
        if self.pending.len() >= THREADS_MAX && !self.pending.contains_key(&thread.pid) {
            return;
        }
        let before = match waker {
            Waker::Thread(by) => self.current.get(&by).cloned(),
            _ => None,
        };
        let woken = i64::try_from(event.time).unwrap_or(i64::MAX);
        let pending = Pending {
            before,
            waker,
            woken,
        };
        self.pending.insert(thread.pid, pending);
    }

    /// Records that a woken thread got a CPU, and returns the chain that ends with this thread.
    /// `held` is an interrupt or a softirq of this CPU. `occupant` returns the thread that had this
    /// CPU longest in an interval. Returns `None` if the thread was woken within its cycle, because
    /// the wait for such a wake-up is part of the cycle.
    pub fn run(
        &mut self,
        thread: i32,
        time: i64,
        held: Option<Held>,
        occupant: impl FnOnce(i64, i64) -> Option<Occupant>,
        is_inside: bool,
    ) -> Option<&Chain> {
        let pending = self.pending.remove(&thread)?;
        if is_inside && self.current.contains_key(&thread) {
            return None;
        }
        let mut chain = match pending.before {
            Some(before) => before,
            None => Chain {
                origin: pending.waker,
                links: Vec::new(),
                is_longer: false,
            },
        };
        if chain.links.len() >= LINKS_MAX {
            chain.links.remove(0);
            chain.is_longer = true;
        }
        let (woken, ran) = (pending.woken, time.max(pending.woken));
        chain.links.push(Link {
            thread,
            woken,
            ran,
            occupant: occupant(woken, ran),
            held: held.filter(|held| held.most_of(woken, ran).is_some()),
        });
        if self.current.len() >= THREADS_MAX && !self.current.contains_key(&thread) {
            self.current.clear();
        }
        self.current.insert(thread, chain);
        self.current.get(&thread)
    }

    /// Forgets all chains because events were lost: wake-ups before the loss cannot explain later
    /// ones.
    pub fn take_loss(&mut self, item: &Item) {
        if matches!(item, Item::Lost { .. }) {
            self.pending.clear();
            self.current.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_events::*;

    fn wake(chains: &mut Chains, time: u64, waker: Waker, pid: i32) {
        let Item::Event(event) = waking(time, 0, 0, pid) else {
            return;
        };
        chains.wake(&event, waker);
    }

    const IRQ: Waker = Waker::Softirq(Some(3));

    #[test]
    fn a_chain_goes_back_to_the_interrupt_and_its_parts_add_up() {
        let mut chains = Chains::default();
        wake(&mut chains, 100, IRQ, 1);
        chains.run(1, 110, None, |_, _| None, false).unwrap();
        wake(&mut chains, 150, Waker::Thread(1), 2);
        let behind = |woken, ran| {
            Some(Occupant {
                thread: thread(77),
                length: ran - woken,
            })
        };
        chains.run(2, 500, None, behind, false).unwrap();
        // The thread blocks before it wakes the next one, so the time for which it blocks is part
        // of its own time.
        wake(&mut chains, 550, IRQ, 2);
        assert_eq!(chains.run(2, 560, None, |_, _| None, true), None);
        wake(&mut chains, 600, Waker::Thread(2), 3);
        let chain = chains.run(3, 620, None, |_, _| None, false).unwrap();
        assert_eq!((chain.origin, chain.latency()), (IRQ, 520));
        let parts: Vec<(i32, i64, i64)> = chain
            .parts()
            .map(|(link, waited, took)| (link.thread, waited, took))
            .collect();
        assert_eq!(parts, [(1, 10, 40), (2, 350, 100), (3, 20, 0)]);
        assert_eq!(chain.links[1].occupant, behind(150, 500));
    }

    #[test]
    fn a_long_chain_keeps_its_last_links_and_a_loss_ends_all() {
        let mut chains = Chains::default();
        wake(&mut chains, 100, IRQ, 1);
        chains.run(1, 110, None, |_, _| None, false).unwrap();
        for pid in 2..=12 {
            let time = 100 * u64::try_from(pid).unwrap();
            wake(&mut chains, time, Waker::Thread(pid - 1), pid);
            let chain = chains
                .run(pid, i64::from(pid) * 100 + 10, None, |_, _| None, false)
                .unwrap();
            let parts: i64 = chain.parts().map(|(_, waited, took)| waited + took).sum();
            assert_eq!(parts, chain.latency());
            assert_eq!(chain.is_longer, pid > 8);
            assert!(chain.links.len() <= LINKS_MAX);
        }
        wake(&mut chains, 2_000, Waker::Thread(12), 13);
        chains.take_loss(&lost(2_001));
        assert_eq!(chains.run(13, 2_010, None, |_, _| None, false), None);
    }
}
