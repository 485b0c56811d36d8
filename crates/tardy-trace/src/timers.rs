//! Wake-ups that threads asked the kernel's timers for: when each was due, when the thread ran, and
//! what lies between.
//!
//! A timer that a followed thread sets begins a story, which ends in exactly one way
//! ([`TimerCounts`]): as a wake-up, unawaited, cancelled, lost, or pending. A thread that something
//! else wakes is no wake-up of a timer; such wakings are counted beside.
//!
//! The events that this needs: `hrtimer_start`, `hrtimer_cancel`, `hrtimer_expire_entry`,
//! `hrtimer_expire_exit`, `sched_waking`, `sched_switch`. Nothing here knows of the system: whoever
//! feeds it says which threads to follow, and how far the kernel's clocks lie apart.
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
//!
//! The clock of a timer follows from the value that its interrupt read. The events do not name the
//! clock. The offsets between clocks are read exactly in user space, because the event comes some
//! microseconds after the interrupt's read.

use foldhash::{HashMap, HashSet};
use serde::Serialize;

use crate::event::{Event, Head, Kind};
use crate::merge::Item;

/// Timers that are set at the same time; the start of a further one counts as lost.
const ARMED_MAX: usize = 1 << 18;
/// Timers' functions that a CPU is in at once: one that a thread of PREEMPT_RT serves, and one in
/// an interrupt above it. More are damage.
const NESTED_MAX: usize = 16;
/// The monotonic clock at an expiry, and what a timer of that clock read there, lie no further
/// apart, in ns.
const SAME_CLOCK_NS: i64 = 1_000_000_000;
/// The same limit for a clock that can be set, which is compared by its offset at the last reading.
const SETTABLE_CLOCK_NS: i64 = 10_000_000;

/// The least state of a thread that lost its CPU to another one (TASK_REPORT_MAX); one that yields
/// it has 0.
pub(crate) const PREEMPTED: i64 = 0x100;

/// What a program set, by the function that its timer calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimerKind {
    /// A sleep, or a wait with a time limit: clock_nanosleep, futex, poll, epoll, select. The
    /// thread's stack has the timer.
    Sleep,
    /// timer_create(2).
    PosixTimer,
    /// timerfd_create(2).
    Timerfd,
    /// setitimer(2) and alarm(2), of ITIMER_REAL.
    Itimer,
}

impl TimerKind {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Sleep, Self::PosixTimer, Self::Timerfd, Self::Itimer];

    /// The kernel's function that a timer of this kind calls.
    #[must_use]
    pub fn function(self) -> &'static str {
        match self {
            Self::Sleep => "hrtimer_wakeup",
            Self::PosixTimer => "posix_timer_fn",
            Self::Timerfd => "timerfd_tmrproc",
            Self::Itimer => "it_real_fn",
        }
    }

    /// Returns the word used in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::PosixTimer => "posix-timer",
            Self::Timerfd => "timerfd",
            Self::Itimer => "itimer",
        }
    }
}

/// The clock that a timer was set on, as its expiry shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimerClock {
    /// CLOCK_MONOTONIC; also CLOCK_BOOTTIME of a machine that was never suspended.
    Monotonic,
    /// CLOCK_REALTIME.
    Realtime,
    /// CLOCK_BOOTTIME.
    Boottime,
    /// CLOCK_TAI.
    Tai,
    /// A clock that matches no offset of the last reading: it was set since then. Due times are
    /// then relative to the moment of the expiry, and too late by at most the time from the
    /// interrupt's reading of the clock to the timer's function.
    Set,
}

/// Distances of clocks ahead of the monotonic clock, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockOffsets {
    /// CLOCK_REALTIME.
    pub realtime: i64,
    /// CLOCK_BOOTTIME.
    pub boottime: i64,
    /// CLOCK_TAI.
    pub tai: i64,
}

impl ClockOffsets {
    /// The clock that read `now` at an expiry, and how far it is ahead of the monotonic one, which
    /// read `time` shortly after.
    fn clock(self, time: i64, now: i64) -> (TimerClock, i64) {
        let ahead = now.saturating_sub(time);
        if ahead.saturating_abs()
            < SAME_CLOCK_NS.min(
                ahead
                    .saturating_sub(self.boottime)
                    .saturating_abs()
                    .saturating_add(1),
            )
        {
            return (TimerClock::Monotonic, 0);
        }
        let others = [
            (TimerClock::Realtime, self.realtime),
            (TimerClock::Tai, self.tai),
            (TimerClock::Boottime, self.boottime),
        ];
        let nearest = others
            .into_iter()
            .min_by_key(|&(_, offset)| offset.saturating_sub(ahead).saturating_abs());
        match nearest {
            Some((clock, offset))
                if offset.saturating_sub(ahead).saturating_abs() < SETTABLE_CLOCK_NS =>
            {
                (clock, offset)
            }
            _ => (TimerClock::Set, ahead),
        }
    }
}

/// What lies between the due time and the thread's running, in ns. The parts follow one another:
/// their sum is the lateness, always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts {
    /// From the due time to when the thread set the timer, where it did so too late.
    pub armed: i64,
    /// From there on, for as long as the thread allows its timer to be late (timer slack).
    pub slack: i64,
    /// From there to the call of the timer's function.
    pub timer: i64,
    /// From there to the waking of the thread.
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

/// A thread that a timer woke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerWakeUp {
    /// The thread that was woken.
    pub thread: i32,
    /// What the program had set.
    pub kind: TimerKind,
    /// The clock that it had set it on.
    pub clock: TimerClock,
    /// The CPU that it ran on; where the switch is not in the trace, the one that woke it.
    pub cpu: u32,
    /// When it was due, in ns of the monotonic clock: what the program asked for, without slack.
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
    /// run: it had not left its CPU, or the kernel does not trace that switch. Its lateness is a
    /// lower bound.
    Unseen,
}

impl TimerWakeUp {
    /// From due to running, in ns.
    #[must_use]
    pub fn lateness(&self) -> i64 {
        self.ran - self.due
    }
}

/// How the timers of one kind ended: `started = wake_ups + unawaited + cancelled + lost + pending`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct TimerCounts {
    /// Timers that followed threads set; one that is set again counts again.
    pub started: u64,
    /// They woke a followed thread.
    pub wake_ups: u64,
    /// They expired while no followed thread waited for them.
    pub unawaited: u64,
    /// Timers that were cancelled or set again before they expired: the wait had ended.
    pub cancelled: u64,
    /// Their end may be among lost events.
    pub lost: u64,
    /// Their end had not come when the trace ended.
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

/// A thread that a timer woke and that does not run yet.
#[derive(Debug, Clone, Copy)]
struct WokenThread {
    expiring: ExpiringTimer,
    time: i64,
    cpu: u32,
}

/// Takes a trace in, event by event, and gives wake-ups out.
#[derive(Debug, Default)]
pub struct TimerWatch {
    kinds: HashMap<u64, TimerKind>,
    offsets: ClockOffsets,
    followed: HashSet<i32>,
    armed: HashMap<u64, ArmedTimer>,
    /// Sleep timers that are set, by thread, which has one at most.
    sleeping: HashMap<i32, u64>,
    expiring: HashMap<u32, Vec<ExpiringTimer>>,
    woken: HashMap<i32, WokenThread>,
    counts: [TimerCounts; TimerKind::ALL.len()],
    other_wake_ups: u64,
    finished: Vec<TimerWakeUp>,
}

impl TimerWatch {
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
    /// [`TimerWatch::finish`].
    #[must_use]
    pub fn counts(&self, kind: TimerKind) -> TimerCounts {
        self.counts[kind as usize]
    }

    /// Wakings of followed threads by something other than a timer of theirs.
    #[must_use]
    pub fn other_wake_ups(&self) -> u64 {
        self.other_wake_ups
    }

    /// The wake-ups that are known since the last call, each in the order in which it ended.
    pub fn finished(&mut self) -> impl Iterator<Item = TimerWakeUp> {
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
                let Some(&kind) = self.kinds.get(&function) else {
                    return;
                };
                let armed = ArmedTimer {
                    kind,
                    by: event.head.pid,
                    started: stamp(event.time),
                    expires,
                    soft_expires,
                };
                self.start(timer, armed);
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
        let is_same = |head: Head| {
            head.pid == event.head.pid && head.is_in_interrupt() == event.head.is_in_interrupt()
        };
        let is_its = |armed: ArmedTimer| armed.kind != TimerKind::Sleep || armed.by == thread;
        let nested = self.expiring.entry(event.cpu).or_default();
        let by = nested.last_mut().filter(|expiring| {
            !expiring.has_woken && is_same(expiring.head) && is_its(expiring.armed)
        });
        let Some(expiring) = by else {
            self.other_wake_ups += 1;
            // It ran meanwhile, or it would not be woken.
            self.end_unseen(thread);
            return;
        };
        expiring.has_woken = true;
        let woken = WokenThread {
            expiring: *expiring,
            time: stamp(event.time),
            cpu: event.cpu,
        };
        self.end_unseen(thread);
        if event.head.pid == thread {
            self.end(thread, woken, event.cpu, woken.time, Start::OnCpu);
        } else {
            self.woken.insert(thread, woken);
        }
    }

    fn end_unseen(&mut self, thread: i32) {
        if let Some(woken) = self.woken.remove(&thread) {
            self.end(thread, woken, woken.cpu, woken.time, Start::Unseen);
        }
    }

    fn end(&mut self, thread: i32, woken: WokenThread, cpu: u32, ran: i64, start: Start) {
        let WokenThread {
            expiring:
                ExpiringTimer {
                    armed,
                    time: expiry,
                    now,
                    ..
                },
            time: waking,
            ..
        } = woken;
        let (clock, ahead) = self.offsets.clock(expiry, now);
        let due = armed.soft_expires.saturating_sub(ahead);
        let set = armed.started.min(expiry).max(due);
        let allowed = armed.expires.saturating_sub(ahead).min(expiry).max(set);
        let parts = Parts {
            armed: set.saturating_sub(due),
            slack: allowed.saturating_sub(set),
            timer: expiry.saturating_sub(allowed),
            waking: waking.saturating_sub(expiry),
            switch: ran.saturating_sub(waking),
        };
        self.counts[armed.kind as usize].wake_ups += 1;
        self.finished.push(TimerWakeUp {
            thread,
            kind: armed.kind,
            clock,
            cpu,
            due,
            ran,
            parts,
            start,
        });
    }

    /// Events were lost: what was under way may have ended among them, and a timer may have been
    /// set anew.
    fn lose(&mut self) {
        for kind in self.under_way() {
            self.counts[kind as usize].lost += 1;
        }
        self.forget();
    }

    /// The trace has ended: what is under way is pending.
    pub fn finish(&mut self) {
        for kind in self.under_way() {
            self.counts[kind as usize].pending += 1;
        }
        self.forget();
    }

    fn under_way(&self) -> Vec<TimerKind> {
        let expiring = self
            .expiring
            .values()
            .flatten()
            .filter(|expiring| !expiring.has_woken)
            .map(|expiring| expiring.armed.kind);
        let woken = self.woken.values().map(|woken| woken.expiring.armed.kind);
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
    }
}

/// A stamp of the trace's monotonic clock; no clock of a machine comes to half of its range.
fn stamp(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
