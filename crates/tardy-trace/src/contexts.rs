//! What interrupts the thread on each CPU: a timer's function, an interrupt or a softirq. This
//! shows what woke a thread, and when the waker itself had started. It also shows which interrupt
//! or softirq had a CPU while a thread waited for this CPU.
//!
//! The trace must contain the entries and exits of timers' functions, interrupts and softirqs.
//! Without these events, it is unknown which interrupt woke a thread, and when the interrupt
//! started.

use std::collections::VecDeque;

use foldhash::HashMap;

use crate::event::{Event, Kind};
use crate::text::Text;

/// Maximum number of CPUs (NR_CPUS).
const CPUS_MAX: usize = 8192;

/// What woke a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waker {
    /// The trace does not show what woke the thread.
    #[default]
    Unknown,
    /// A timer's function.
    Timer,
    /// An interrupt, with its handler if known.
    Interrupt(Text),
    /// A softirq, with its number if known.
    Softirq(Option<i64>),
    /// The thread with this ID.
    Thread(i32),
}

/// Number of recent interrupts and softirqs that are stored for each CPU.
const HELD_MAX: usize = 16;
/// Maximum number of timers' functions, interrupts and softirqs that a CPU has entered and not
/// left. On PREEMPT_RT, threads that serve softirqs can preempt each other. If there are more, the
/// trace is damaged.
const ENTERED_MAX: usize = 64;

/// An interrupt or a softirq that had a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The interrupt or softirq.
    pub by: Waker,
    /// When the interrupt or softirq was entered, in ns of the trace's clock.
    pub start: i64,
    /// When the interrupt or softirq was left.
    pub end: i64,
    /// For how long it was preempted in between, in ns. Only a softirq of PREEMPT_RT can be.
    pub preempted: i64,
}

impl Held {
    /// Returns for how many ns the interrupt or softirq had the CPU in this interval, if this is at
    /// least half of the interval.
    #[must_use]
    pub fn most_of(&self, start: i64, end: i64) -> Option<i64> {
        let overlap = self.end.min(end) - self.start.max(start) - self.preempted;
        (overlap > 0 && overlap >= (end - start) / 2).then_some(overlap)
    }

    fn length(&self) -> i64 {
        self.end - self.start - self.preempted
    }
}

/// Work that can interrupt a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// The function of the timer with this address.
    Timer(u64),
    /// An interrupt, with its handler.
    Interrupt(Text),
    /// A softirq, with its number.
    Softirq(i64),
}

/// Whether a thread that serves a softirq has its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnCpu {
    Yes,
    /// The thread was preempted at this time.
    PreemptedAt(u64),
    /// The trace does not show when the thread was preempted.
    Unknown,
}

/// A timer's function, an interrupt or a softirq that a CPU has entered and not left.
#[derive(Debug, Clone, Copy)]
struct Entered {
    work: Work,
    /// The thread that was interrupted. On PREEMPT_RT, the thread that serves the softirq.
    thread: i32,
    is_in_interrupt: bool,
    time: u64,
    on_cpu: OnCpu,
    /// For how long the thread was preempted until now, in ns.
    preempted: u64,
}

/// The work that interrupts the threads on a CPU, and so may wake other threads.
#[derive(Debug, Clone, Default)]
struct Context {
    /// In the order in which they were entered.
    entered: Vec<Entered>,
    held: VecDeque<Held>,
}

/// What interrupts the threads on all CPUs.
#[derive(Debug, Default)]
pub struct Contexts {
    cpus: HashMap<u32, Context>,
}

impl Contexts {
    /// Processes an event.
    pub fn take(&mut self, event: &Event) {
        let is_change = matches!(
            event.kind,
            Kind::TimerExpireEntry { .. }
                | Kind::TimerExpireExit { .. }
                | Kind::IrqEntry { .. }
                | Kind::IrqExit { .. }
                | Kind::SoftirqEntry { .. }
                | Kind::SoftirqExit { .. }
        );
        if is_change && (self.cpus.len() < CPUS_MAX || self.cpus.contains_key(&event.cpu)) {
            self.cpus.entry(event.cpu).or_default().take(event);
        }
    }

    /// Records that a CPU switched from one thread to another.
    pub fn switch(&mut self, cpu: u32, time: u64, previous: i32, next: i32) {
        if let Some(context) = self.cpus.get_mut(&cpu) {
            for entered in &mut context.entered {
                entered.switch(time, previous, next);
            }
        }
    }

    /// Forgets all contexts, because events were lost.
    pub fn clear(&mut self) {
        self.cpus.clear();
    }

    /// Returns the longest of a CPU's recent interrupts and softirqs that ended after `since`.
    /// Leaves out softirqs that were preempted for an unknown time.
    #[must_use]
    pub fn longest_after(&self, cpu: u32, since: i64) -> Option<Held> {
        let held = self.cpus.get(&cpu)?.held.iter();
        held.filter(|held| held.end > since)
            .max_by_key(|held| held.length())
            .copied()
    }

    /// Returns what wakes a thread in this event.
    #[must_use]
    pub fn waker(&self, event: &Event) -> Waker {
        self.waker_and_reference(event).0
    }

    /// Returns what wakes a thread in this event, and the reference time of the wake-up: the time
    /// at which the timer's function, interrupt or softirq was entered, if the trace shows it. If a
    /// thread is the waker, the reference time is the time of the event.
    #[must_use]
    pub fn waker_and_reference(&self, event: &Event) -> (Waker, Option<u64>) {
        let is_in_interrupt = event.head.is_in_interrupt() || event.head.is_in_nmi();
        if !is_in_interrupt && !event.head.is_in_softirq() {
            return (Waker::Thread(event.head.pid), Some(event.time));
        }
        let innermost = self.cpus.get(&event.cpu).and_then(|context| {
            let mut entered = context.entered.iter().rev();
            entered.find(|entered| {
                entered.thread == event.head.pid && entered.is_in_interrupt == is_in_interrupt
            })
        });
        match innermost {
            Some(entered) => (entered.work.waker(), Some(entered.time)),
            None if is_in_interrupt => (Waker::Interrupt(Text::default()), None),
            None => (Waker::Softirq(None), None),
        }
    }
}

impl Work {
    fn waker(self) -> Waker {
        match self {
            Self::Timer(_) => Waker::Timer,
            Self::Interrupt(name) => Waker::Interrupt(name),
            Self::Softirq(vector) => Waker::Softirq(Some(vector)),
        }
    }
}

impl Entered {
    fn switch(&mut self, time: u64, previous: i32, next: i32) {
        match self.on_cpu {
            OnCpu::Yes if self.thread == previous => self.on_cpu = OnCpu::PreemptedAt(time),
            OnCpu::Yes => self.on_cpu = OnCpu::Unknown,
            OnCpu::PreemptedAt(since) if self.thread == next => {
                self.preempted += time.saturating_sub(since);
                self.on_cpu = OnCpu::Yes;
            }
            OnCpu::PreemptedAt(_) | OnCpu::Unknown => {}
        }
    }
}

impl Context {
    fn take(&mut self, event: &Event) {
        match event.kind {
            Kind::TimerExpireEntry { timer, .. } => self.enter(Work::Timer(timer), event),
            Kind::TimerExpireExit { timer } => {
                self.leave(event, |work| work == Work::Timer(timer));
            }
            Kind::IrqEntry { name, .. } => self.enter(Work::Interrupt(name), event),
            Kind::IrqExit { .. } => {
                let left = self.leave(event, |work| matches!(work, Work::Interrupt(_)));
                self.hold(left, event.time);
            }
            Kind::SoftirqEntry { vector } => self.enter(Work::Softirq(vector), event),
            Kind::SoftirqExit { .. } => {
                let left = self.leave(event, |work| matches!(work, Work::Softirq(_)));
                self.hold(left, event.time);
            }
            _ => {}
        }
    }

    fn enter(&mut self, work: Work, event: &Event) {
        if self.entered.len() == ENTERED_MAX {
            self.entered.remove(0);
        }
        self.entered.push(Entered {
            work,
            thread: event.head.pid,
            is_in_interrupt: match work {
                Work::Timer(_) => event.head.is_in_interrupt(),
                Work::Interrupt(_) => true,
                Work::Softirq(_) => false,
            },
            time: event.time,
            on_cpu: OnCpu::Yes,
            preempted: 0,
        });
    }

    /// Removes the last such work that interrupted the event's thread.
    fn leave(&mut self, event: &Event, is_it: impl Fn(Work) -> bool) -> Option<Entered> {
        let index = self
            .entered
            .iter()
            .rposition(|entered| entered.thread == event.head.pid && is_it(entered.work))?;
        Some(self.entered.remove(index))
    }

    fn hold(&mut self, left: Option<Entered>, end: u64) {
        // A thread that leaves a softirq has its CPU again, even if the trace lacks the switch.
        let Some(entered) = left.filter(|entered| entered.on_cpu != OnCpu::Unknown) else {
            return;
        };
        let preempted = match entered.on_cpu {
            OnCpu::PreemptedAt(since) => entered.preempted + end.saturating_sub(since),
            _ => entered.preempted,
        };
        if self.held.len() == HELD_MAX {
            self.held.pop_front();
        }
        let [start, end, preempted] =
            [entered.time, end, preempted].map(|time| i64::try_from(time).unwrap_or(i64::MAX));
        self.held.push_back(Held {
            by: entered.work.waker(),
            start,
            end,
            preempted,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::Item;
    use crate::test_events::{HARD_INTERRUPT, SOFT_INTERRUPT, entry, event, exit, waking};

    /// Returns what wakes a thread in the last of these events.
    fn waker_of(items: &[Item]) -> (Waker, Option<u64>) {
        let mut contexts = Contexts::default();
        let mut events = items.iter().map(|item| match item {
            Item::Event(event) => event,
            Item::Lost { .. } => unreachable!(),
        });
        let last = events.next_back().unwrap();
        events.for_each(|event| contexts.take(event));
        contexts.waker_and_reference(last)
    }

    #[test]
    fn a_softirq_that_preempts_another_one_does_not_wake_for_it() {
        let (low, high) = (20, 30);
        let softirq = |time, thread, kind| event(time, 0, thread, SOFT_INTERRUPT, kind);
        let enters = softirq(100, low, Kind::SoftirqEntry { vector: 3 });
        let preempts = softirq(110, high, Kind::SoftirqEntry { vector: 6 });
        let ends = softirq(120, high, Kind::SoftirqExit { vector: 6 });
        let wakes = waking(130, low, SOFT_INTERRUPT, 10);
        let expected = (Waker::Softirq(Some(3)), Some(100));
        assert_eq!(waker_of(&[enters, preempts, ends, wakes]), expected);
        // The second softirq waits for a lock.
        assert_eq!(waker_of(&[enters, preempts, wakes]), expected);
        let ends = softirq(120, low, Kind::SoftirqExit { vector: 3 });
        let wakes = waking(130, high, SOFT_INTERRUPT, 10);
        let found = waker_of(&[enters, preempts, ends, wakes]);
        assert_eq!(found, (Waker::Softirq(Some(6)), Some(110)));
    }

    #[test]
    fn a_timer_that_interrupts_a_softirq_does_not_wake_for_it() {
        let softirq = event(100, 0, 20, SOFT_INTERRUPT, Kind::SoftirqEntry { vector: 3 });
        let timer = entry(110, 20, 5, 0xf000, 110);
        let [in_timer, after] =
            [HARD_INTERRUPT, SOFT_INTERRUPT].map(|flags| waking(120, 20, flags, 10));
        let found = waker_of(&[softirq, timer, in_timer]);
        assert_eq!(found, (Waker::Timer, Some(110)));
        let found = waker_of(&[softirq, timer, exit(115, 20, 5), after]);
        assert_eq!(found, (Waker::Softirq(Some(3)), Some(100)));
    }
}
