//! Finds out from a CPU's activity what had the CPU while a thread waited: a [`Holder`] with its
//! [`Cause`], and how certain this is ([`Certainty`]).

use super::timeline::{Context, Moment};
use super::{Cause, Certainty, Component, Facts, Holder, Preemption};
use crate::event::Thread;

/// ID of the idle thread.
const IDLE: i32 = 0;
/// The smallest priority number of threads that are not real-time threads.
const FAIR: i32 = 100;
/// Names of softirqs by number (include/linux/interrupt.h).
const SOFTIRQS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// Facts about the wait to which an interval belongs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait<'a> {
    pub(super) facts: &'a Facts,
    /// The thread that waits.
    pub(super) thread: Thread,
    pub(super) component: Component,
    /// Whether an event between the due time and the timer interrupt shows that interrupts were on.
    pub(super) were_interrupts_on: bool,
    /// How many nested sections had preemption off on the CPU when the waking interrupt came.
    pub(super) interrupted_depth: Option<u8>,
    /// The thread that had the CPU when the waiting thread was woken.
    pub(super) found: Option<i32>,
    /// Whether another thread's time slice was extended before this thread started to wait.
    pub(super) is_earlier_extension: bool,
}

impl Wait<'_> {
    /// Returns what had the CPU in an interval of `length` ns. Only the last interval before the
    /// thread runs can be the switch itself.
    pub(super) fn holder(
        &self,
        moment: Option<&Moment>,
        length: u64,
        is_last: bool,
        work: impl Fn(i32) -> Option<u64>,
    ) -> (Holder, Certainty) {
        let is_short = is_last && length <= self.facts.switch_ns;
        let nobody = Holder::of;
        let named = |cause, name| Holder {
            name,
            ..nobody(cause)
        };
        let Some(moment) = moment else {
            return (nobody(Cause::Unknown), Certainty::Seen);
        };
        if moment.is_lost {
            return (nobody(Cause::Lost), Certainty::Seen);
        }
        let Some(thread) = moment.thread else {
            return (nobody(Cause::Unknown), Certainty::Seen);
        };
        match moment.top {
            Context::Nmi => return (nobody(Cause::Nmi), Certainty::Seen),
            Context::Interrupt(Some(name)) => {
                return (named(Cause::Interrupt, name), Certainty::Seen);
            }
            Context::Interrupt(None) => return (nobody(Cause::Interrupt), Certainty::Inferred),
            Context::Softirq(Some(vector)) => {
                let name = usize::try_from(vector)
                    .ok()
                    .and_then(|vector| SOFTIRQS.get(vector))
                    .copied()
                    .unwrap_or_default();
                return (named(Cause::Softirq, name.into()), Certainty::Seen);
            }
            Context::Softirq(None) => return (nobody(Cause::Softirq), Certainty::Inferred),
            Context::Thread => {}
        }
        let (cause, known) = match self.component {
            Component::Switch
            | Component::SwitchAndReturn
            | Component::Return
            | Component::Awake
                if self.is_extended(moment, thread) =>
            {
                (Cause::ExtendedSlice, Certainty::Seen)
            }
            Component::Switch => self.before_switch(thread, is_short),
            Component::Timer | Component::Interrupt | Component::Expiry => {
                self.before_waking(thread)
            }
            Component::Request if thread.pid == self.thread.pid => {
                (Cause::OwnCode, Certainty::Seen)
            }
            Component::Request => (Cause::LaterTimer, Certainty::Seen),
            Component::Waker => (Cause::Waker, Certainty::Inferred),
            Component::SwitchAndReturn if [IDLE, self.thread.pid].contains(&thread.pid) => {
                (Cause::OwnCode, Certainty::CannotTell(Cause::LeavingIdle))
            }
            Component::SwitchAndReturn => self.before_switch(thread, is_short),
            Component::Return | Component::Awake => self.awake(thread),
        };
        let is_named = match cause {
            Cause::LeavingIdle
            | Cause::LateInterrupt
            | Cause::Itself
            | Cause::OwnCode
            | Cause::Blocked
            | Cause::LaterTimer => false,
            Cause::Waker => thread.pid != IDLE,
            _ => true,
        };
        let of_thread = Holder {
            cause,
            name: thread.name,
            priority: Some(thread.priority),
            work: work(thread.pid),
            sender: None,
        };
        (if is_named { of_thread } else { nobody(cause) }, known)
    }

    /// Returns whether `thread` still has the CPU because its time slice was extended.
    fn is_extended(&self, moment: &Moment, thread: Thread) -> bool {
        let is_for_other = self.component == Component::Switch && self.is_earlier_extension;
        moment.is_extended && !is_for_other && thread.pid != self.thread.pid
    }

    /// Returns why there is no interrupt yet, although the timer is due and the CPU only executes a
    /// thread.
    fn before_waking(&self, thread: Thread) -> (Cause, Certainty) {
        if self.component != Component::Timer {
            return (Cause::BeforeSoftirq, Certainty::Inferred);
        }
        let or_late = if self.facts.is_guest == Some(false) {
            Certainty::Inferred
        } else {
            Certainty::CannotTell(Cause::LateInterrupt)
        };
        if thread.pid == IDLE {
            (Cause::LeavingIdle, or_late)
        } else if self.were_interrupts_on {
            (Cause::LateInterrupt, Certainty::Inferred)
        } else if self.interrupted_depth.is_some_and(|depth| depth > 0) {
            (Cause::InterruptsOff, Certainty::Inferred)
        } else {
            (Cause::InterruptsOff, or_late)
        }
    }

    /// Returns why the woken thread does not run while the CPU executes `thread`.
    fn before_switch(&self, thread: Thread, is_short: bool) -> (Cause, Certainty) {
        let waiting = self.thread;
        if thread.pid == waiting.pid {
            return (Cause::Itself, Certainty::Seen);
        }
        if thread.pid == IDLE {
            return (Cause::LeavingIdle, Certainty::Inferred);
        }
        if waiting.priority >= FAIR && thread.priority >= FAIR {
            return (Cause::Turns, Certainty::Seen);
        }
        match thread.priority.cmp(&waiting.priority) {
            std::cmp::Ordering::Less => (Cause::HigherPriority, Certainty::Seen),
            std::cmp::Ordering::Equal => (Cause::EqualPriority, Certainty::Seen),
            std::cmp::Ordering::Greater if self.found != Some(thread.pid) => {
                (Cause::FairServer, Certainty::Inferred)
            }
            std::cmp::Ordering::Greater => self.not_preempted(is_short),
        }
    }

    /// Returns why a thread that was already awake has not read the clock yet.
    fn awake(&self, thread: Thread) -> (Cause, Certainty) {
        let own = self.thread;
        if thread.pid == own.pid {
            return (Cause::OwnCode, Certainty::Seen);
        }
        if thread.pid == IDLE {
            return (Cause::Blocked, Certainty::Inferred);
        }
        if own.priority >= FAIR && thread.priority >= FAIR {
            return (Cause::Turns, Certainty::Seen);
        }
        match thread.priority.cmp(&own.priority) {
            std::cmp::Ordering::Less => (Cause::HigherPriority, Certainty::Seen),
            std::cmp::Ordering::Equal => (Cause::EqualPriority, Certainty::Seen),
            std::cmp::Ordering::Greater => {
                (Cause::Blocked, Certainty::CannotTell(Cause::FairServer))
            }
        }
    }

    /// Returns why a thread of lower priority continues to run although it should have been
    /// preempted.
    fn not_preempted(&self, is_short: bool) -> (Cause, Certainty) {
        match (self.interrupted_depth, self.facts.preemption) {
            _ if is_short => (Cause::Switch, Certainty::Inferred),
            (Some(1..), _) | (None, Some(Preemption::Full)) => {
                (Cause::PreemptionOff, Certainty::Inferred)
            }
            (Some(0), Some(Preemption::No)) => (Cause::KernelCode, Certainty::Inferred),
            (Some(0), Some(Preemption::Full)) => (Cause::Switch, Certainty::Inferred),
            (Some(0) | None, None) => (
                Cause::KernelCode,
                Certainty::CannotTell(Cause::PreemptionOff),
            ),
            (None, Some(Preemption::No)) => (
                Cause::KernelCode,
                Certainty::CannotTell(Cause::PreemptionOff),
            ),
        }
    }
}
