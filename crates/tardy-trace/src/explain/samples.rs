//! Explains samples of a measuring thread: what happened from each sample's due time until the
//! thread read the clock.
//!
//! A sample contains its due time and the time at which the thread then read the clock. The trace
//! shows what happened between these two times. The pieces cover exactly this interval, even if
//! events are missing, so their sum is the sample's latency to the nanosecond. Where the trace
//! shows nothing, there is a piece whose cause is either unknown or a loss of events.
//!
//! If a probe has several threads, a sample is assigned to the thread that had a CPU at the clock
//! read. So probes do not have to declare which thread records which series.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::waiting::{Functions, Way};
use super::{
    Cause, Certainty, Component, DueFrom, Explainer, Facts, Holder, Piece, Rules, Target, WakeUp,
    Waker,
};
use crate::event::Thread;
use crate::merge::Item;
use crate::text::Text;

/// Maximum number of wake-ups per thread that are stored until their samples arrive.
const WAKE_UPS_MAX: usize = 1 << 14;
/// How many pieces a sample usually has in addition to those of its wake-up.
const PIECES_BESIDE: usize = 3;

/// Reads a trace, and explains a sample once the trace has been read up to the sample's time.
#[derive(Debug)]
pub struct Samples {
    explainer: Explainer,
    /// How long the context switch itself takes, in ns.
    switch_ns: u64,
    /// The wake-ups of each thread, in the order of time.
    wake_ups: BTreeMap<i32, VecDeque<WakeUp>>,
}

/// A sample, explained.
#[derive(Debug, Clone, PartialEq)]
pub struct Delay {
    /// The thread that took the sample, if the trace shows it.
    pub pid: Option<i32>,
    /// The CPU on which the thread ran.
    pub cpu: u32,
    /// What woke the thread; `None` if it was awake.
    pub waker: Option<Waker>,
    /// Whether the trace contains the switch to the thread.
    pub is_switch_seen: bool,
    /// The pieces from the due time to the clock read, in the order of time, without a gap.
    pub pieces: Vec<Piece>,
}

impl Samples {
    /// Creates an explainer that has read nothing yet and follows no thread. `threads` are names
    /// known in advance.
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

    /// Also explains samples of this thread from now on.
    pub fn follow(&mut self, pid: i32) {
        self.explainer.follow(pid);
    }

    /// From now on, counts those actions of this thread that a real-time loop must avoid.
    pub fn judge(&mut self, pid: i32) {
        self.explainer.judge(pid);
    }

    /// This thread belongs to tardy: its wake-ups of other threads no longer count as violations of
    /// the rules for real-time loops.
    pub fn add_observer(&mut self, pid: i32) {
        self.explainer.add_observer(pid);
    }

    /// Returns what was last known about a thread, and its counts.
    #[must_use]
    pub fn rules(&self, pid: i32) -> Option<(Thread, &Rules)> {
        Some((self.explainer.thread(pid), self.explainer.rules_of(pid)?))
    }

    /// Returns the names of the threads in the trace, by thread ID.
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

    /// Forgets the events before `time`. All samples up to `time` must have been explained before.
    pub fn forget_before(&mut self, time: u64) {
        self.explainer.forget_before(time);
        for kept in self.wake_ups.values_mut() {
            let gone = kept.partition_point(|wake_up| wake_up.ran < time);
            for wake_up in kept.drain(..gone) {
                self.explainer.give_back(wake_up.pieces);
            }
        }
    }

    /// Returns the due time of the wake-up after which the thread last got the CPU, at or before
    /// `time`. Returns `None` if this due time does not come from a timer.
    #[must_use]
    pub fn due_of_wake_up(&self, pid: i32, time: u64) -> Option<u64> {
        let kept = self.wake_ups.get(&pid)?;
        let last = kept.get(
            kept.partition_point(|wake_up| wake_up.ran <= time)
                .checked_sub(1)?,
        )?;
        (last.due_from == DueFrom::Timer).then_some(last.due)
    }

    /// Takes the memory of a sample that is no longer needed, to use it for another one.
    pub fn give_back(&mut self, delay: Delay) {
        self.explainer.give_back(delay.pieces);
    }

    /// Explains a sample that was taken by one of `threads`, was due at `due`, and read the clock
    /// at `woke`. The stream must have been read to some ms after `woke`. `home` is the CPU to
    /// examine if the trace does not show on which CPU the thread ran.
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
        // The thread ran at `woke`: the sample proves it. If the thread was woken and got the CPU
        // between the due time and `woke`, this wake-up belongs to the sample; if this happened
        // several times, the first wake-up does.
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

    /// Explains a sample in whose interval there is no wake-up, because the thread was awake or the
    /// trace does not show the wake-up.
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
        // The event of the thread's wake-up may have been lost.
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

/// Returns a piece for an interval that the trace does not explain.
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
