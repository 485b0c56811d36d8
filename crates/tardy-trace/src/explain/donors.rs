//! Finds the donor: a thread that waits for a mutex while the owner of the mutex runs in its place
//! (proxy execution, Linux 7.1 and later, CONFIG_SCHED_PROXY_EXEC).
//!
//! Events do not name the donor. `sched_switch` names the owner and shows the owner's own priority
//! (kernel/sched/core.c, `__schedule`). The donor seems to sleep uninterruptibly until the owner
//! releases the mutex and wakes it. If a thread of lower priority does not give up the CPU and then
//! wakes such a sleeping thread, this module assumes that the sleeping thread is the donor.

use std::collections::VecDeque;

use foldhash::HashMap;

use super::blocked::UNINTERRUPTIBLE;
use super::{Cause, Certainty, Holder};
use crate::event::{Event, Kind, Thread};

/// Maximum number of sleeping threads, and of ended sleeps, that are stored.
const ASLEEP_MAX: usize = 1 << 12;
const SLEEPS_MAX: usize = 1 << 12;

/// An uninterruptible sleep that another thread ended.
#[derive(Debug)]
struct Sleep {
    from: u64,
    to: u64,
    donor: Thread,
    /// The thread that ended the sleep.
    owner: i32,
}

/// The latest uninterruptible sleeps of all threads.
#[derive(Debug, Default)]
pub(super) struct Donors {
    asleep: HashMap<i32, (u64, Thread)>,
    sleeps: VecDeque<Sleep>,
}

impl Donors {
    pub(super) fn take(&mut self, event: &Event) {
        match event.kind {
            Kind::Switch {
                previous,
                previous_state,
                ..
            } if previous_state & UNINTERRUPTIBLE != 0 && self.asleep.len() < ASLEEP_MAX => {
                self.asleep.insert(previous.pid, (event.time, previous));
            }
            Kind::Waking { thread, .. } => {
                let Some((from, donor)) = self.asleep.remove(&thread.pid) else {
                    return;
                };
                let head = event.head;
                if head.is_in_interrupt() || head.is_in_softirq() || head.is_in_nmi() {
                    return;
                }
                if self.sleeps.len() == SLEEPS_MAX {
                    self.sleeps.pop_front();
                }
                self.sleeps.push_back(Sleep {
                    from,
                    to: event.time,
                    donor,
                    owner: head.pid,
                });
            }
            _ => {}
        }
    }

    /// Forgets the sleeps that are in progress, because events were lost.
    pub(super) fn lose(&mut self) {
        self.asleep.clear();
    }

    pub(super) fn forget_before(&mut self, time: u64) {
        while self.sleeps.front().is_some_and(|sleep| sleep.to < time) {
            self.sleeps.pop_front();
        }
    }

    /// Returns the donor: the thread in whose place `owner` had the CPU in `start..end`, while
    /// `waiting` waited.
    pub(super) fn of(&self, owner: i32, waiting: Thread, start: u64, end: u64) -> Option<Thread> {
        let is_donor = |sleep: &&Sleep| {
            sleep.owner == owner
                && sleep.from < end
                && sleep.to > start
                && sleep.donor.priority <= waiting.priority
                && sleep.donor.pid != waiting.pid
        };
        let found = self.sleeps.iter().rev().find(is_donor);
        found.map(|sleep| sleep.donor)
    }
}

/// If `holder` had the CPU although its own priority is too low, the result says that it is the
/// owner of a mutex and ran in place of `donor`. Otherwise, `holder` is returned unchanged. If
/// `is_switch`, the interval is the switch itself.
pub(super) fn owner(
    holder: Holder,
    known: Certainty,
    thread: Thread,
    donor: Thread,
    is_switch: bool,
) -> (Holder, Certainty) {
    let known = match (holder.cause, known) {
        (Cause::FairServer, _) => Certainty::Inferred,
        // The woken thread ran, and then lost the CPU before it read the clock. Even if the woken
        // thread now waits for something else, the owner has the CPU because of the donor.
        (Cause::Blocked, Certainty::CannotTell(Cause::FairServer)) => Certainty::Inferred,
        (Cause::Switch, _) if !is_switch => Certainty::Inferred,
        (Cause::PreemptionOff | Cause::KernelCode, _) => Certainty::CannotTell(holder.cause),
        _ => return (holder, known),
    };
    let owner = Holder {
        cause: Cause::LockOwner,
        name: thread.name,
        priority: Some(thread.priority),
        sender: Some(donor.name),
        ..holder
    };
    (owner, known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_takes_the_cpu_from_a_thread_that_has_not_read_the_clock() {
        let thread = |pid, priority, name: &str| Thread {
            pid,
            priority,
            name: name.into(),
        };
        let (owning, donor) = (thread(20, 120, "dd"), thread(30, 9, "motor"));
        let blocked = Holder::of(Cause::Blocked);
        let unclear = Certainty::CannotTell(Cause::FairServer);
        let (found, known) = owner(blocked, unclear, owning, donor, false);
        assert_eq!(
            (found.cause, found.name, found.priority, found.sender),
            (Cause::LockOwner, owning.name, Some(120), Some(donor.name))
        );
        assert_eq!(known, Certainty::Inferred);
        // The idle task owns no mutex.
        let idle = owner(blocked, Certainty::Inferred, owning, donor, false);
        assert_eq!(idle, (blocked, Certainty::Inferred));
    }
}
