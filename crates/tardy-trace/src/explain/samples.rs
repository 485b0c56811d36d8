//! Explains samples of a measuring thread: the time from each sample's due time until the thread
//! read the clock.
//!
//! A sample carries its due time and its clock read, and the trace shows what happened in between.
//! The pieces cover exactly this interval, even if the trace has gaps, so their sum is the sample's
//! latency to the nanosecond. A gap in the trace becomes a piece whose cause is unknown, or is a
//! loss of events.
//!
//! A sample of a probe with several threads belongs to the thread that had a CPU at the clock read.
//! Probes therefore need not declare which thread records which series.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::waiting::{Functions, Way};
use super::{
    Cause, Certainty, Component, DueFrom, Explainer, Facts, Holder, Piece, Rules, Target, WakeUp,
    Waker,
};
use crate::event::Thread;
use crate::merge::Item;
use crate::text::Text;

/// Maximum number of wake-ups per thread that wait for their samples.
const WAKE_UPS_MAX: usize = 1 << 14;
/// Usual number of pieces of a sample in addition to those of its wake-up.
const PIECES_BESIDE: usize = 3;

/// Reads a trace, and explains samples once the trace has reached their time.
#[derive(Debug)]
pub struct Samples {
    explainer: Explainer,
    /// Duration of the context switch itself, in ns.
    switch_ns: u64,
    /// Wake-ups by thread, in the order of time.
    wake_ups: BTreeMap<i32, VecDeque<WakeUp>>,
}

/// The explained interval of a sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Delay {
    /// The thread that took the sample, if the trace shows it.
    pub pid: Option<i32>,
    /// The CPU on which the thread ran.
    pub cpu: u32,
    /// The waker; `None` if the thread was awake.
    pub waker: Option<Waker>,
    /// Whether the trace contains the switch to the thread.
    pub is_switch_seen: bool,
    /// The pieces in the order of time, without a gap, from due to the clock read.
    pub pieces: Vec<Piece>,
}

impl Samples {
    /// Creates the state for an unread trace, without a followed thread. `threads` are names known
    /// in advance.
    #[must_use]
    pub fn new(facts: Facts, threads: &HashMap<i32, Text>) -> Self {
        let mut explainer = Explainer::new(Target::Pids(Vec::new()), facts, threads);
        explainer.judge_single_threads();
        explainer.span_losses();
        Self {
            explainer,
            switch_ns: facts.switch_ns,
            wake_ups: BTreeMap::new(),
        }
    }

    /// Starts to explain samples of this thread, too.
    pub fn follow(&mut self, pid: i32) {
        self.explainer.follow(pid);
    }

    /// Starts counting actions of this thread that a real-time loop must avoid.
    pub fn judge(&mut self, pid: i32) {
        self.explainer.judge(pid);
    }

    /// Stops counting wake-ups by this thread of the measuring tool as violations of the rules for
    /// real-time loops.
    pub fn add_observer(&mut self, pid: i32) {
        self.explainer.add_observer(pid);
    }

    /// Returns the last known state of a thread, and its counts.
    #[must_use]
    pub fn rules(&self, pid: i32) -> Option<(Thread, &Rules)> {
        Some((self.explainer.thread(pid), self.explainer.rules_of(pid)?))
    }

    /// Returns the names of threads in the trace, by number.
    pub fn names(&self) -> impl Iterator<Item = (i32, Text)> {
        self.explainer.names()
    }

    /// Processes the next item of the stream.
    pub fn take(&mut self, item: &Item) {
        self.explainer.take(item);
        if !self.explainer.has_finished() {
            return;
        }
        for wake_up in self.explainer.finished() {
            let kept = self.wake_ups.entry(wake_up.thread.pid).or_default();
            if kept.len() == WAKE_UPS_MAX {
                kept.pop_front();
            }
            kept.push_back(wake_up);
        }
    }

    /// Forgets events before `time`. All samples up to `time` must have been explained.
    pub fn forget_before(&mut self, time: u64) {
        self.explainer.forget_before(time);
        for kept in self.wake_ups.values_mut() {
            let gone = kept.partition_point(|wake_up| wake_up.ran < time);
            for wake_up in kept.drain(..gone) {
                self.explainer.give_back(wake_up.pieces);
            }
        }
    }

    /// Returns the due time of the thread's last wake-up that ended by `time`; `None` if a timer
    /// did not cause this wake-up.
    #[must_use]
    pub fn due_of_wake_up(&self, pid: i32, time: u64) -> Option<u64> {
        let kept = self.wake_ups.get(&pid)?;
        let last = kept.get(
            kept.partition_point(|wake_up| wake_up.ran <= time)
                .checked_sub(1)?,
        )?;
        (last.due_from == DueFrom::Timer).then_some(last.due)
    }

    /// Reuses the memory of a sample that is finished.
    pub fn give_back(&mut self, delay: Delay) {
        self.explainer.give_back(delay.pieces);
    }

    /// Explains a sample of one of `threads`: its due time is `due`, and its clock read is `woke`.
    /// Call this function once the stream is some ms past `woke`. `home` is the CPU to examine if
    /// the trace does not show which one was used.
    pub fn explain(&mut self, threads: &[i32], home: u32, due: u64, woke: u64) -> Delay {
        let taker = match threads {
            [only] => Some(*only),
            several => self
                .explainer
                .running(woke)
                .map(|(_, thread)| thread.pid)
                .find(|pid| several.contains(pid)),
        };
        let Some(pid) = taker else {
            return nobody_s(home, due, woke, Cause::Unknown);
        };
        self.explainer.settle(pid, woke);
        for wake_up in self.explainer.finished() {
            self.wake_ups
                .entry(wake_up.thread.pid)
                .or_default()
                .push_back(wake_up);
        }
        // The thread ran at `woke`. If wake-ups gave the thread the CPU after the due time and by
        // `woke`, the first of them belongs to this sample.
        let room = self.explainer.room();
        let kept = self.wake_ups.get(&pid);
        let found =
            kept.and_then(|kept| kept.get(kept.partition_point(|wake_up| wake_up.ran <= due)));
        match found.filter(|wake_up| wake_up.ran <= woke) {
            Some(wake_up) => self.woken(wake_up, due, woke, room),
            None => self.awake(pid, home, due, woke, room),
        }
    }

    fn woken(&self, wake_up: &WakeUp, due: u64, woke: u64, mut pieces: Vec<Piece>) -> Delay {
        let way = Way {
            thread: wake_up.thread,
            waking_cpu: wake_up.waking_cpu,
            interrupted_depth: None,
            functions: Functions::default(),
        };
        pieces.reserve(wake_up.pieces.len() + PIECES_BESIDE);
        let (begin, before) = match wake_up.due_from {
            DueFrom::Waking => (wake_up.waking, Component::Waker),
            DueFrom::Timer | DueFrom::Period => (wake_up.due, Component::Request),
        };
        self.explainer
            .cut(way, before, wake_up.waking_cpu, due, begin, &mut pieces);
        let clipped = wake_up.pieces.iter().map(|piece| Piece {
            start: piece.start.max(due),
            ..*piece
        });
        pieces.extend(clipped.filter(|piece| piece.start < piece.end));
        let is_switch_seen = wake_up.first_sign.is_none();
        let last = pieces.last_mut().filter(|piece| {
            piece.component == Component::Switch && piece.has_functions(self.switch_ns)
        });
        if let Some(last) = last {
            last.ended = self.explainer.stack_at(wake_up.cpu, wake_up.ran);
        }
        let after = if is_switch_seen {
            Component::Return
        } else {
            Component::SwitchAndReturn
        };
        self.explainer
            .cut(way, after, wake_up.cpu, wake_up.ran, woke, &mut pieces);
        self.explainer.lay_waits(wake_up.thread.pid, &mut pieces);
        Delay {
            pid: Some(wake_up.thread.pid),
            cpu: wake_up.cpu,
            waker: Some(wake_up.waker),
            is_switch_seen,
            pieces,
        }
    }

    /// Explains a sample without a wake-up in its interval, because the thread was awake or the
    /// trace lacks the wake-up.
    fn awake(&self, pid: i32, home: u32, due: u64, woke: u64, mut pieces: Vec<Piece>) -> Delay {
        let on = |time| {
            self.explainer
                .running(time)
                .find(|(_, thread)| thread.pid == pid)
                .map(|(cpu, _)| cpu)
        };
        let found = on(woke).or_else(|| on(due));
        let cpu = found.unwrap_or(home);
        let way = Way {
            thread: self.explainer.thread(pid),
            waking_cpu: cpu,
            interrupted_depth: None,
            functions: Functions::default(),
        };
        self.explainer
            .cut(way, Component::Awake, cpu, due, woke, &mut pieces);
        // The thread's wake-up may be among the lost events.
        let is_lost = pieces.iter().any(|piece| piece.holder.cause == Cause::Lost);
        if is_lost || found.is_none() {
            return Delay {
                pid: Some(pid),
                ..nobody_s(
                    cpu,
                    due,
                    woke,
                    if is_lost { Cause::Lost } else { Cause::Unknown },
                )
            };
        }
        self.explainer.lay_waits(pid, &mut pieces);
        Delay {
            pid: Some(pid),
            cpu,
            waker: None,
            is_switch_seen: true,
            pieces,
        }
    }
}

/// Returns an interval that the trace does not explain.
fn nobody_s(cpu: u32, due: u64, woke: u64, cause: Cause) -> Delay {
    let piece = Piece {
        component: Component::Awake,
        holder: Holder::of(cause),
        known: Certainty::Seen,
        cpu,
        start: due,
        end: woke,
        stack: None,
        ended: None,
    };
    Delay {
        pid: None,
        cpu,
        waker: None,
        is_switch_seen: false,
        pieces: vec![piece],
    }
}
