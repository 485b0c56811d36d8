//! The wake-ups of followed threads: when each was due, when the thread ran, and the parts of the
//! time between.
//!
//! Each wake-up has a reference time, at which it is due. If a timer that a followed thread has set
//! wakes the thread, the reference is the time that the program asked for. If an interrupt or a
//! softirq wakes the thread, the reference is the entry of this interrupt or softirq. If another
//! thread wakes the thread, the reference is the event `sched_waking`. Each `sched_waking` of a
//! followed thread is either measured, or counted together with the reason why it is not
//! ([`WakingCounts`]).
//!
//! Each timer that a followed thread sets ends in exactly one way ([`TimerCounts`]): it wakes the
//! thread, nobody waits for it, it is cancelled, lost, or still pending.
//!
//! The trace must contain `hrtimer_start`, `hrtimer_cancel`, `hrtimer_expire_entry`,
//! `hrtimer_expire_exit`, `sched_waking`, `sched_switch`, and the entries and exits of interrupts
//! and softirqs. This module never accesses the system: its caller selects the threads, and passes
//! the offsets between the kernel's clocks.
//!
//! A program's timer is due at the time that the program asked for, not at the end of its slack.
//! The latency is therefore what the program experiences, and the slack is one part of the latency.
//!
//! A wake-up is attributed to a timer if it comes between the entry and the exit of the timer's
//! function. Without the exit event, an unrelated wake-up in the same interrupt could be attributed
//! to the timer, with a latency as long as the wait.
//!
//! When events were lost, all timers that are set count as lost. If the lost events set one of
//! these timers again, its latency would be too large by a whole period.

use foldhash::{HashMap, HashSet};
use serde::Serialize;

use crate::contexts::{Contexts, Waker};
use crate::event::{Event, Head, Kind, Thread};
use crate::explain::rules::RuleScopes;
use crate::explain::{self, Rules};
use crate::merge::Item;
use crate::recent::Recent;
use crate::text::Text;
use crate::timers::{ClockOffsets, TimerClock, TimerCounts, TimerKind};

/// Maximum number of timers that are set at the same time; any timer beyond that counts as lost.
const ARMED_MAX: usize = 1 << 18;
/// Maximum number of timer functions that may be nested on a CPU. Two are possible: one in a
/// softirq thread of PREEMPT_RT, and another one in an interrupt of this thread. If there are more,
/// the trace is damaged.
const NESTED_MAX: usize = 16;
/// Maximum number of threads for which the rules for real-time loops are checked.
const JUDGED_MAX: usize = 1024;
/// Minimum number of threads whose last known priority is stored.
const KNOWN_MAX: usize = 1 << 12;
/// Smallest `prev_state` of a preempted thread (TASK_REPORT_MAX); a thread that yields has 0.
pub(crate) const PREEMPTED: i64 = 0x100;

/// What caused a wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A timer that a followed thread had set.
    Timer {
        /// The kind of the timer.
        kind: TimerKind,
        /// The clock of the timer.
        clock: TimerClock,
    },
    /// An interrupt, with the name of its handler.
    Interrupt(Text),
    /// A softirq, with its number.
    Softirq(i64),
    /// The thread with this ID.
    Thread(i32),
    /// No wake-up took place. The time between two functions of the program is stored in the form
    /// of a wake-up.
    Functions,
}

impl Cause {
    /// Returns the waker.
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

/// The parts of the latency, from the due time until the thread ran, in ns. The parts follow one
/// another, and their sum is always the latency. Only wake-ups by timers have the parts `armed`,
/// `slack` and `timer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts {
    /// From the due time until the thread set the timer, if it did so after the due time.
    pub armed: i64,
    /// Starts at the due time, or when the thread set the timer, whichever was later. Ends with the
    /// thread's timer slack.
    pub slack: i64,
    /// From the end of `slack` to the call of the timer's function.
    pub timer: i64,
    /// From the end of `timer`, or from the entry of the interrupt or softirq, to `sched_waking`.
    pub waking: i64,
    /// From `sched_waking` until the CPU switched to the thread.
    pub switch: i64,
}

impl Parts {
    /// The names of the parts, in the order of time.
    pub const NAMES: [&'static str; 5] = ["armed", "slack", "timer", "waking", "switch"];

    /// Returns the parts in the order of [`Parts::NAMES`].
    #[must_use]
    pub fn values(&self) -> [i64; 5] {
        [self.armed, self.slack, self.timer, self.waking, self.switch]
    }
}

/// A wake-up of a followed thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeUp {
    /// The thread that was woken.
    pub thread: i32,
    /// What caused the wake-up.
    pub cause: Cause,
    /// The CPU on which the thread ran; if the trace lacks the switch, the CPU that woke the
    /// thread.
    pub cpu: u32,
    /// The reference time of the wake-up, in ns on the monotonic clock; for a timer, the time that
    /// the program asked for, without slack.
    pub due: i64,
    /// When the thread ran.
    pub ran: i64,
    /// The parts of which the latency consists.
    pub parts: Parts,
    /// How the thread got to run.
    pub start: Start,
}

/// How a thread got to run after it was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The CPU switched to the thread.
    Switch,
    /// The thread had not left the CPU, and continued after the interrupt.
    OnCpu,
    /// The trace lacks the switch, but a later event shows that the thread ran. Either the thread
    /// had not left its CPU, or the kernel does not trace this switch. The latency is then a lower
    /// bound.
    Unseen,
}

impl WakeUp {
    /// Returns the latency, in ns.
    #[must_use]
    pub fn lateness(&self) -> i64 {
        self.ran - self.due
    }

    /// Returns the time of `sched_waking`.
    #[must_use]
    pub fn woken(&self) -> i64 {
        self.ran - self.parts.switch
    }
}

/// What became of the `sched_waking` events of followed threads:
/// `wakings = measured + no_entry + unknown_timer + lost + pending`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct WakingCounts {
    /// All events.
    pub wakings: u64,
    /// Wake-ups whose latency was measured.
    pub measured: u64,
    /// Wake-ups by an interrupt or a softirq for which the trace lacks the entry.
    pub no_entry: u64,
    /// Wake-ups by a timer whose due time cannot be used. Either the trace does not show that a
    /// followed thread set the timer, or the timer had already woken another thread.
    pub unknown_timer: u64,
    /// Wake-ups for which the event that shows the thread running may have been lost.
    pub lost: u64,
    /// Wake-ups after which the thread had not run before the trace ended.
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
    mode: Option<i64>,
}

/// A timer whose function a CPU executes.
#[derive(Debug, Clone, Copy)]
struct ExpiringTimer {
    timer: u64,
    armed: ArmedTimer,
    time: i64,
    now: i64,
    head: Head,
    has_woken: bool,
}

/// What woke a thread.
#[derive(Debug, Clone, Copy)]
enum WokenBy {
    Timer(ExpiringTimer),
    Other { cause: Cause, reference: i64 },
}

/// A thread that was woken, and is not running yet.
#[derive(Debug, Clone, Copy)]
struct WokenThread {
    by: WokenBy,
    time: i64,
    cpu: u32,
}

/// Reads a trace event by event, and returns wake-ups.
#[derive(Debug)]
pub struct WakeUpWatch {
    kinds: HashMap<u64, TimerKind>,
    offsets: ClockOffsets,
    followed: HashSet<i32>,
    armed: HashMap<u64, ArmedTimer>,
    /// Sleep timers that are set, by thread; a thread has at most one of them.
    sleeping: HashMap<i32, u64>,
    expiring: HashMap<u32, Vec<ExpiringTimer>>,
    woken: HashMap<i32, WokenThread>,
    contexts: Contexts,
    counts: [TimerCounts; TimerKind::ALL.len()],
    wakings: WakingCounts,
    other_wake_ups: u64,
    finished: Vec<WakeUp>,
    rules: RuleScopes,
    /// The last known priority of followed threads and of their wakers.
    known: Recent<i32, Thread>,
}

impl WakeUpWatch {
    /// Creates a watch for timers that call one of these functions, whose addresses are given.
    #[must_use]
    pub fn new(functions: impl IntoIterator<Item = (u64, TimerKind)>) -> Self {
        Self {
            kinds: functions.into_iter().collect(),
            offsets: ClockOffsets::default(),
            followed: HashSet::default(),
            armed: HashMap::default(),
            sleeping: HashMap::default(),
            expiring: HashMap::default(),
            woken: HashMap::default(),
            contexts: Contexts::default(),
            counts: Default::default(),
            wakings: WakingCounts::default(),
            other_wake_ups: 0,
            finished: Vec::new(),
            rules: RuleScopes::single_threads(),
            known: Recent::new(KNOWN_MAX),
        }
    }

    /// Starts to follow a thread, given by its ID in the initial PID namespace.
    pub fn follow(&mut self, thread: i32) {
        self.followed.insert(thread);
        if self.rules.len() < JUDGED_MAX {
            self.rules.add(thread);
        }
    }

    /// Adds a thread whose name and priority the caller knows. If the priority of a waker is
    /// unknown, it never counts as a waker of lower priority.
    pub fn learn(&mut self, thread: Thread) {
        match self.known.touch(&thread.pid) {
            Some(known) => *known = thread,
            None => self.known.insert(thread.pid, thread),
        }
    }

    /// Returns what was last known about a thread, and how often it did what a real-time loop must
    /// avoid. Returns `None` if the thread was never seen to wake up, or is not among the first
    /// `JUDGED_MAX` threads.
    #[must_use]
    pub fn rules(&self, thread: i32) -> Option<(Thread, &Rules)> {
        Some((*self.known.get(&thread)?, self.rules.of(thread)?))
    }

    /// Records a loss of events that are needed only to check the rules for real-time loops, not to
    /// measure wake-ups.
    pub fn lose_explanations(&mut self) {
        self.rules.lose();
    }

    /// Records that a thread waited for a futex without priority inheritance.
    pub fn waited_at_futex(&mut self, thread: i32) {
        if let Some(rules) = self.rules.of_mut(thread) {
            rules.waited_at_futex();
        }
    }

    /// Stops following a thread that has ended. This is necessary because another program may get
    /// its ID. Timers that the thread set for other threads are kept.
    pub fn unfollow(&mut self, thread: i32) {
        self.end_unseen(thread);
        self.followed.remove(&thread);
    }

    /// From now on, uses these offsets between the clocks.
    pub fn set_offsets(&mut self, offsets: ClockOffsets) {
        self.offsets = offsets;
    }

    /// Returns how the timers of a kind have ended so far; [`WakeUpWatch::finish`] adds the pending
    /// ones.
    #[must_use]
    pub fn counts(&self, kind: TimerKind) -> TimerCounts {
        self.counts[kind as usize]
    }

    /// Returns what became of the `sched_waking` events so far.
    #[must_use]
    pub fn wakings(&self) -> WakingCounts {
        self.wakings
    }

    /// Returns how often followed threads were woken by something other than their own timers.
    #[must_use]
    pub fn other_wake_ups(&self) -> u64 {
        self.other_wake_ups
    }

    /// Returns the wake-ups that ended since the last call, in the order in which they ended.
    pub fn finished(&mut self) -> impl Iterator<Item = WakeUp> {
        self.finished.drain(..)
    }

    /// Processes the next item of the stream.
    pub fn take(&mut self, item: &Item) {
        match item {
            Item::Event(event) => self.take_event(event),
            Item::Lost { .. } => self.lose(),
        }
    }

    fn take_event(&mut self, event: &Event) {
        let is_thread =
            !event.head.is_in_interrupt() && !event.head.is_in_softirq() && !event.head.is_in_nmi();
        // The event of a switch is written by the previous thread, which may have been woken on its
        // way to sleep.
        if is_thread && !matches!(event.kind, Kind::Switch { .. }) {
            self.end_unseen(event.head.pid);
        }
        if let Some(rules) = self.rules.of_mut(event.head.pid) {
            rules.take(event);
        }
        match event.kind {
            Kind::TimerStart {
                timer,
                function,
                expires,
                soft_expires,
                mode,
            } if is_thread && self.followed.contains(&event.head.pid) => {
                if let Some(&kind) = self.kinds.get(&function) {
                    let armed = ArmedTimer {
                        kind,
                        by: event.head.pid,
                        started: stamp(event.time),
                        expires,
                        soft_expires,
                        mode,
                    };
                    self.start(timer, armed);
                }
            }
            // Kernels up to 6.17 also write this event in the interrupt, when an expired timer
            // leaves the queue.
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
                self.learn(thread);
                self.wake(event, thread)
            }
            Kind::Switch {
                previous,
                previous_state,
                next,
            } => {
                // If a woken thread is still runnable when it loses the CPU, it had not left its
                // CPU when another CPU woke it. The trace does not show whether it continued at
                // once, or was about to go to sleep until now.
                if previous_state == 0 || previous_state >= PREEMPTED {
                    self.end_unseen(previous.pid);
                }
                if let Some(woken) = self.woken.remove(&next.pid) {
                    self.end(next.pid, woken, event.cpu, stamp(event.time), Start::Switch);
                }
                for thread in [previous, next] {
                    if let Some(known) = self.known.touch(&thread.pid) {
                        *known = thread;
                    }
                }
            }
            _ => {}
        }
        self.contexts.take(event);
    }

    fn start(&mut self, timer: u64, armed: ArmedTimer) {
        // A thread has only one sleep timer, so its previous one has ended.
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
        // Another timer may have got the address of a lost timer.
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

    /// Records that a followed thread is woken, either by the timer whose function this CPU
    /// executes or by another cause.
    fn wake(&mut self, event: &Event, woken: Thread) {
        let thread = woken.pid;
        self.wakings.wakings += 1;
        // A thread that is woken again must have run since it was last woken.
        self.end_unseen(thread);
        let timer = self.timer_of(event, thread);
        self.judge(event, woken, timer);
        let by = match timer {
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

    /// Checks a wake-up against the rules for real-time loops.
    fn judge(&mut self, event: &Event, woken: Thread, timer: Option<ExpiringTimer>) {
        let Some(rules) = self.rules.of_mut(woken.pid) else {
            return;
        };
        if timer.is_some() {
            rules.begin();
        }
        let waker = self.known.get(&event.head.pid);
        match self.contexts.waker(event) {
            _ if event.head.is_in_interrupt() => {}
            // A timer's function runs in an interrupt or in a softirq.
            Waker::Softirq(_) | Waker::Timer => rules.woken(woken, explain::Waker::Softirq),
            Waker::Thread(_) => {
                if let Some(waker) = waker {
                    rules.woken(woken, explain::Waker::Thread(*waker));
                }
            }
            Waker::Interrupt(_) | Waker::Unknown => {}
        }
        if let Some(ExpiringTimer { armed, .. }) = timer.filter(|timer| timer.armed.by == woken.pid)
        {
            rules.slept(armed.mode, armed.soft_expires);
        }
    }

    /// Returns the timer in whose function this thread is woken.
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

    /// Returns a timer's clock, its due time, and the parts of the latency that come before
    /// `waking`.
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

    /// Counts all pending timers and wake-ups as lost, because events that were lost may have ended
    /// them or set a timer again.
    fn lose(&mut self) {
        for kind in self.under_way() {
            self.counts[kind as usize].lost += 1;
        }
        self.wakings.lost += self.woken.len() as u64;
        self.forget();
    }

    /// Ends the trace: counts the remaining timers and wake-ups as pending.
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

/// Converts a timestamp of the monotonic clock; an `i64` of ns holds 292 years.
fn stamp(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
