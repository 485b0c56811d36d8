//! Wake-ups of followed threads: when each was due, when the thread ran, and what lies between.
//!
//! A wake-up is due at its reference time. If a timer that a followed thread set ends the wait, this
//! is the time that the program asked for. If an interrupt or a softirq wakes the thread, it is the
//! entry of that; if another thread does, it is the waking. Every waking of a followed thread is
//! either measured, or counted with the reason why it is not ([`WakingCounts`]).
//!
//! A timer that a followed thread sets begins a story, which ends in exactly one way
//! ([`TimerCounts`]): as a wake-up, unawaited, cancelled, lost, or pending.
//!
//! The events that this needs: `hrtimer_start`, `hrtimer_cancel`, `hrtimer_expire_entry`,
//! `hrtimer_expire_exit`, `sched_waking`, `sched_switch`, and the entries and exits of interrupts
//! and softirqs. Nothing here knows of the system: whoever feeds it says which threads to follow,
//! and how far the kernel's clocks lie apart.
//!
//! A program's timer is due when the program asked, not when its slack ends. A loop sees the same
//! latency; the slack is a named part of it.
//!
//! A cancelled timer did not end the wait. A timer ended it if the wake-up lies between the entry
//! and the exit of the timer's function. An unrelated wake-up in the same interrupt would otherwise
//! become a sample as late as the wait was long. The exit event is worth its cost.
//!
//! After lost events, all pending timers count as lost. One of them may have been set again among
//! the lost events; it would then look late by a whole period.

use foldhash::{HashMap, HashSet};
use serde::Serialize;

use crate::contexts::{Contexts, Waker};
use crate::event::{Event, Head, Kind};
use crate::merge::Item;
use crate::text::Text;
use crate::timers::{ClockOffsets, TimerClock, TimerCounts, TimerKind};

/// Timers that are set at the same time; the start of a further one counts as lost.
const ARMED_MAX: usize = 1 << 18;
/// Timers' functions that a CPU is in at once: one that a thread of PREEMPT_RT serves, and one in
/// an interrupt above it. More are damage.
const NESTED_MAX: usize = 16;
/// The least state of a thread that lost its CPU to another one (TASK_REPORT_MAX); one that yields
/// it has 0.
pub(crate) const PREEMPTED: i64 = 0x100;

/// What woke a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A timer that a followed thread had set.
    Timer {
        /// What the program had set.
        kind: TimerKind,
        /// The clock that it had set it on.
        clock: TimerClock,
    },
    /// An interrupt, by its handler.
    Interrupt(Text),
    /// A softirq, by its number.
    Softirq(i64),
    /// The thread with this number.
    Thread(i32),
    /// None: the time between two functions of the program, which is kept like a wake-up.
    Functions,
}

impl Cause {
    /// The waker.
    #[must_use]
    pub fn waker(self) -> Waker {
        match self {
            Self::Timer { .. } => Waker::Timer,
            Self::Interrupt(handler) => Waker::Interrupt(handler),
            Self::Softirq(number) => Waker::Softirq(Some(number)),
            Self::Thread(thread) => Waker::Thread(thread),
            Self::Functions => Waker::Unknown,
        }
    }
}

/// What lies between the due time and the thread's running, in ns. The parts follow one another:
/// their sum is the latency, always. The first three are of timers only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts {
    /// From the due time to when the thread set the timer, where it did so too late.
    pub armed: i64,
    /// From there on, for as long as the thread allows its timer to be late (timer slack).
    pub slack: i64,
    /// From there to the call of the timer's function.
    pub timer: i64,
    /// From there, or from the entry of the interrupt, to the waking of the thread.
    pub waking: i64,
    /// From there to the switch to the thread.
    pub switch: i64,
}

impl Parts {
    /// Names of the parts, in the order of time.
    pub const NAMES: [&'static str; 5] = ["armed", "slack", "timer", "waking", "switch"];

    /// In the order of [`Parts::NAMES`].
    #[must_use]
    pub fn values(&self) -> [i64; 5] {
        [self.armed, self.slack, self.timer, self.waking, self.switch]
    }
}

/// A thread that was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeUp {
    /// The thread that was woken.
    pub thread: i32,
    /// What woke it.
    pub cause: Cause,
    /// The CPU that it ran on; where the switch is not in the trace, the one that woke it.
    pub cpu: u32,
    /// Its reference time, in ns of the monotonic clock. Of a timer, what the program asked for,
    /// without slack.
    pub due: i64,
    /// When it ran.
    pub ran: i64,
    /// What lies between.
    pub parts: Parts,
    /// How the thread came to run.
    pub start: Start,
}

/// How a woken thread came to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// By a switch to it.
    Switch,
    /// It had not left the CPU yet, and goes on behind the interrupt.
    OnCpu,
    /// No switch is in the trace, and the thread did something later or lost its CPU while it could
    /// run: it had not left its CPU, or the kernel does not trace that switch. Its latency is a
    /// lower bound.
    Unseen,
}

impl WakeUp {
    /// From due to running, in ns.
    #[must_use]
    pub fn lateness(&self) -> i64 {
        self.ran - self.due
    }

    /// The time of the waking.
    #[must_use]
    pub fn woken(&self) -> i64 {
        self.ran - self.parts.switch
    }
}

/// Wakings of followed threads:
/// `wakings = measured + no_entry + unknown_timer + lost + pending`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct WakingCounts {
    /// All.
    pub wakings: u64,
    /// They have a latency.
    pub measured: u64,
    /// By an interrupt or a softirq whose entry is not in the trace.
    pub no_entry: u64,
    /// By a timer that no followed thread was seen to set, or that woke another thread before.
    pub unknown_timer: u64,
    /// When the thread ran may be among lost events.
    pub lost: u64,
    /// The thread had not run when the trace ended.
    pub pending: u64,
}

/// A timer that is set.
#[derive(Debug, Clone, Copy)]
struct ArmedTimer {
    kind: TimerKind,
    by: i32,
    started: i64,
    expires: i64,
    soft_expires: i64,
}

/// A timer whose function a CPU is in.
#[derive(Debug, Clone, Copy)]
struct ExpiringTimer {
    timer: u64,
    armed: ArmedTimer,
    time: i64,
    now: i64,
    head: Head,
    has_woken: bool,
}

/// What a woken thread was woken by.
#[derive(Debug, Clone, Copy)]
enum WokenBy {
    Timer(ExpiringTimer),
    Other { cause: Cause, reference: i64 },
}

/// A thread that was woken and that does not run yet.
#[derive(Debug, Clone, Copy)]
struct WokenThread {
    by: WokenBy,
    time: i64,
    cpu: u32,
}

/// Takes a trace in, event by event, and gives wake-ups out.
#[derive(Debug, Default)]
pub struct WakeUpWatch {
    kinds: HashMap<u64, TimerKind>,
    offsets: ClockOffsets,
    followed: HashSet<i32>,
    armed: HashMap<u64, ArmedTimer>,
    /// Sleep timers that are set, by thread, which has one at most.
    sleeping: HashMap<i32, u64>,
    expiring: HashMap<u32, Vec<ExpiringTimer>>,
    woken: HashMap<i32, WokenThread>,
    contexts: Contexts,
    counts: [TimerCounts; TimerKind::ALL.len()],
    wakings: WakingCounts,
    other_wake_ups: u64,
    finished: Vec<WakeUp>,
}

impl WakeUpWatch {
    /// For timers with these functions, by address.
    #[must_use]
    pub fn new(functions: impl IntoIterator<Item = (u64, TimerKind)>) -> Self {
        Self {
            kinds: functions.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Also looks at this thread, by its number outside of any container.
    pub fn follow(&mut self, thread: i32) {
        self.followed.insert(thread);
    }

    /// Looks at it no more: it has ended, and its number may become another program's. Timers that
    /// it set for others stay.
    pub fn unfollow(&mut self, thread: i32) {
        self.end_unseen(thread);
        self.followed.remove(&thread);
    }

    /// Says how far the clocks lie apart from now on.
    pub fn set_offsets(&mut self, offsets: ClockOffsets) {
        self.offsets = offsets;
    }

    /// What became of the timers of a kind so far; those that are pending are told by
    /// [`WakeUpWatch::finish`].
    #[must_use]
    pub fn counts(&self, kind: TimerKind) -> TimerCounts {
        self.counts[kind as usize]
    }

    /// What became of the wakings so far.
    #[must_use]
    pub fn wakings(&self) -> WakingCounts {
        self.wakings
    }

    /// Wakings of followed threads by something other than a timer of theirs.
    #[must_use]
    pub fn other_wake_ups(&self) -> u64 {
        self.other_wake_ups
    }

    /// The wake-ups that are known since the last call, each in the order in which it ended.
    pub fn finished(&mut self) -> impl Iterator<Item = WakeUp> {
        self.finished.drain(..)
    }

    /// Takes in what comes next.
    pub fn take(&mut self, item: &Item) {
        match item {
            Item::Event(event) => self.take_event(event),
            Item::Lost { .. } => self.lose(),
        }
    }

    fn take_event(&mut self, event: &Event) {
        let is_thread =
            !event.head.is_in_interrupt() && !event.head.is_in_softirq() && !event.head.is_in_nmi();
        // The event of a switch is written by the thread before it, which may be one that is woken
        // on its way to sleep.
        if is_thread && !matches!(event.kind, Kind::Switch { .. }) {
            self.end_unseen(event.head.pid);
        }
        match event.kind {
            Kind::TimerStart {
                timer,
                function,
                expires,
                soft_expires,
                ..
            } if is_thread && self.followed.contains(&event.head.pid) => {
                if let Some(&kind) = self.kinds.get(&function) {
                    let armed = ArmedTimer {
                        kind,
                        by: event.head.pid,
                        started: stamp(event.time),
                        expires,
                        soft_expires,
                    };
                    self.start(timer, armed);
                }
            }
            // Kernels up to 6.17 also tell that a timer is taken out of the queue because it
            // expires, in the interrupt.
            Kind::TimerCancel { timer } if is_thread && self.followed.contains(&event.head.pid) => {
                self.cancel(timer)
            }
            Kind::TimerExpireEntry {
                timer,
                function,
                now,
            } => self.expire(event, timer, function, now),
            Kind::TimerExpireExit { timer } => self.end_expiry(event.cpu, timer),
            Kind::Waking { thread, .. } if self.followed.contains(&thread.pid) => {
                self.wake(event, thread.pid)
            }
            Kind::Switch {
                previous,
                previous_state,
                next,
            } => {
                // One that could have gone on was on its CPU when it was woken elsewhere. Whether
                // it went on then, or was on its way to sleep until now, is not told.
                if previous_state == 0 || previous_state >= PREEMPTED {
                    self.end_unseen(previous.pid);
                }
                if let Some(woken) = self.woken.remove(&next.pid) {
                    self.end(next.pid, woken, event.cpu, stamp(event.time), Start::Switch);
                }
            }
            _ => {}
        }
        self.contexts.take(event);
    }

    fn start(&mut self, timer: u64, armed: ArmedTimer) {
        // A thread that sleeps again no longer sleeps as before.
        if armed.kind == TimerKind::Sleep
            && let Some(before) = self
                .sleeping
                .insert(armed.by, timer)
                .filter(|&before| before != timer)
        {
            self.cancel(before);
            self.sleeping.insert(armed.by, timer);
        }
        self.counts[armed.kind as usize].started += 1;
        if self.armed.len() >= ARMED_MAX && !self.armed.contains_key(&timer) {
            self.counts[armed.kind as usize].lost += 1;
            return;
        }
        if let Some(before) = self.armed.insert(timer, armed) {
            self.counts[before.kind as usize].cancelled += 1;
        }
    }

    fn cancel(&mut self, timer: u64) {
        if let Some(armed) = self.disarm(timer) {
            self.counts[armed.kind as usize].cancelled += 1;
        }
    }

    fn disarm(&mut self, timer: u64) -> Option<ArmedTimer> {
        let armed = self.armed.remove(&timer)?;
        if self.sleeping.get(&armed.by) == Some(&timer) {
            self.sleeping.remove(&armed.by);
        }
        Some(armed)
    }

    fn expire(&mut self, event: &Event, timer: u64, function: u64, now: i64) {
        let Some(armed) = self.disarm(timer) else {
            return;
        };
        let nested = self.expiring.entry(event.cpu).or_default();
        // The memory of a timer that was lost may be another one's by now.
        if self.kinds.get(&function) != Some(&armed.kind) || nested.len() >= NESTED_MAX {
            self.counts[armed.kind as usize].lost += 1;
            return;
        }
        nested.push(ExpiringTimer {
            timer,
            armed,
            time: stamp(event.time),
            now,
            head: event.head,
            has_woken: false,
        });
    }

    fn end_expiry(&mut self, cpu: u32, timer: u64) {
        let Some(nested) = self.expiring.get_mut(&cpu) else {
            return;
        };
        let Some(place) = nested.iter().rposition(|expiring| expiring.timer == timer) else {
            return;
        };
        let ended = nested.remove(place);
        if !ended.has_woken {
            self.counts[ended.armed.kind as usize].unawaited += 1;
        }
    }

    /// A followed thread is woken: by the timer whose function this CPU is in, or by something
    /// else.
    fn wake(&mut self, event: &Event, thread: i32) {
        self.wakings.wakings += 1;
        // It ran meanwhile, or it would not be woken.
        self.end_unseen(thread);
        let by = match self.timer_of(event, thread) {
            Some(expiring) => WokenBy::Timer(expiring),
            None => {
                self.other_wake_ups += 1;
                let (waker, reference) = self.contexts.waker_and_reference(event);
                let cause = match (waker, reference) {
                    (Waker::Interrupt(handler), Some(_)) => Cause::Interrupt(handler),
                    (Waker::Softirq(Some(number)), Some(_)) => Cause::Softirq(number),
                    (Waker::Thread(by), _) => Cause::Thread(by),
                    (Waker::Timer, _) => {
                        self.wakings.unknown_timer += 1;
                        return;
                    }
                    (Waker::Interrupt(_) | Waker::Softirq(_) | Waker::Unknown, _) => {
                        self.wakings.no_entry += 1;
                        return;
                    }
                };
                let reference = stamp(reference.unwrap_or(event.time).min(event.time));
                WokenBy::Other { cause, reference }
            }
        };
        let woken = WokenThread {
            by,
            time: stamp(event.time),
            cpu: event.cpu,
        };
        if event.head.pid == thread {
            self.end(thread, woken, event.cpu, woken.time, Start::OnCpu);
        } else {
            self.woken.insert(thread, woken);
        }
    }

    /// The timer whose function wakes this thread.
    fn timer_of(&mut self, event: &Event, thread: i32) -> Option<ExpiringTimer> {
        let is_same = |head: Head| {
            head.pid == event.head.pid && head.is_in_interrupt() == event.head.is_in_interrupt()
        };
        let is_its = |armed: ArmedTimer| armed.kind != TimerKind::Sleep || armed.by == thread;
        let nested = self.expiring.get_mut(&event.cpu)?;
        let expiring = nested.last_mut().filter(|expiring| {
            !expiring.has_woken && is_same(expiring.head) && is_its(expiring.armed)
        })?;
        expiring.has_woken = true;
        Some(*expiring)
    }

    fn end_unseen(&mut self, thread: i32) {
        if let Some(woken) = self.woken.remove(&thread) {
            self.end(thread, woken, woken.cpu, woken.time, Start::Unseen);
        }
    }

    fn end(&mut self, thread: i32, woken: WokenThread, cpu: u32, ran: i64, start: Start) {
        let switch = ran.saturating_sub(woken.time);
        let (cause, due, parts) = match woken.by {
            WokenBy::Timer(expiring) => {
                let kind = expiring.armed.kind;
                self.counts[kind as usize].wake_ups += 1;
                let (clock, due, parts) = self.until_waking(expiring, woken.time);
                (Cause::Timer { kind, clock }, due, parts)
            }
            WokenBy::Other { cause, reference } => {
                let parts = Parts {
                    waking: woken.time.saturating_sub(reference),
                    ..Parts::default()
                };
                (cause, reference, parts)
            }
        };
        self.wakings.measured += 1;
        self.finished.push(WakeUp {
            thread,
            cause,
            cpu,
            due,
            ran,
            parts: Parts { switch, ..parts },
            start,
        });
    }

    /// The clock of a timer, its due time, and the parts up to the waking at `waking`.
    fn until_waking(&self, expiring: ExpiringTimer, waking: i64) -> (TimerClock, i64, Parts) {
        let ExpiringTimer {
            armed,
            time: expiry,
            now,
            ..
        } = expiring;
        let (clock, ahead) = self.offsets.clock(expiry, now);
        let due = armed.soft_expires.saturating_sub(ahead);
        let set = armed.started.min(expiry).max(due);
        let allowed = armed.expires.saturating_sub(ahead).min(expiry).max(set);
        let parts = Parts {
            armed: set.saturating_sub(due),
            slack: allowed.saturating_sub(set),
            timer: expiry.saturating_sub(allowed),
            waking: waking.saturating_sub(expiry),
            switch: 0,
        };
        (clock, due, parts)
    }

    /// Events were lost: what was under way may have ended among them, and a timer may have been
    /// set anew.
    fn lose(&mut self) {
        for kind in self.under_way() {
            self.counts[kind as usize].lost += 1;
        }
        self.wakings.lost += self.woken.len() as u64;
        self.forget();
    }

    /// The trace has ended: what is under way is pending.
    pub fn finish(&mut self) {
        for kind in self.under_way() {
            self.counts[kind as usize].pending += 1;
        }
        self.wakings.pending += self.woken.len() as u64;
        self.forget();
    }

    fn under_way(&self) -> Vec<TimerKind> {
        let expiring = self
            .expiring
            .values()
            .flatten()
            .filter(|expiring| !expiring.has_woken)
            .map(|expiring| expiring.armed.kind);
        let woken = self.woken.values().filter_map(|woken| match woken.by {
            WokenBy::Timer(expiring) => Some(expiring.armed.kind),
            WokenBy::Other { .. } => None,
        });
        self.armed
            .values()
            .map(|armed| armed.kind)
            .chain(expiring)
            .chain(woken)
            .collect()
    }

    fn forget(&mut self) {
        self.armed.clear();
        self.sleeping.clear();
        self.expiring.clear();
        self.woken.clear();
        self.contexts.clear();
    }
}

/// A stamp of the trace's monotonic clock; no clock of a machine comes to half of its range.
fn stamp(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
