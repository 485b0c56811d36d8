//! Counts wake-ups one by one: the distributions of the latency and of its parts for each thread
//! and kind of wake-up, and the worst wake-ups.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use foldhash::HashMap;
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;
use tardy_trace::timers::TimerClock;
use tardy_trace::wake_ups::{Cause, Parts, Start, WakeUp};

use crate::wake_up_kind::WakeUpKind;

/// Maximum number of wake-ups that are stored individually.
pub const WORST_MAX: usize = 10;
/// Stands for the thread ID in the rows that all threads without their own rows share.
pub const OTHERS: i32 = 0;
/// Maximum number of rows for single threads in a bounded tally. Further threads share one row for
/// each kind of waker.
pub const ROWS_MAX: usize = 256;
/// Memory budget of each distribution in a bounded tally.
const BOUNDED: Budget = Budget {
    pages: 4,
    values: 1024,
};

/// Maps a thread and a kind of its wake-ups to an index.
#[derive(Debug, Default)]
pub struct KindIndex(HashMap<(i32, WakeUpKind), usize>);

impl KindIndex {
    /// Returns the index of this thread and kind.
    #[must_use]
    pub fn get(&self, thread: i32, kind: &WakeUpKind) -> Option<usize> {
        self.0.get(&(thread, kind.clone())).copied()
    }

    /// Sets the index of this thread and kind.
    pub fn insert(&mut self, thread: i32, kind: &WakeUpKind, index: usize) {
        self.0.insert((thread, kind.clone()), index);
    }

    /// Removes the threads for which `is_kept` returns false.
    pub fn retain(&mut self, is_kept: &dyn Fn(i32) -> bool) {
        self.0.retain(|(thread, _), _| is_kept(*thread));
    }
}

/// The wake-ups of one kind of one thread.
#[derive(Debug)]
pub struct TallyRow {
    /// ID of the thread, or [`OTHERS`].
    pub thread: i32,
    /// The kind of the wake-ups.
    pub kind: WakeUpKind,
    /// Distribution of the latency.
    pub lateness: Histogram,
    /// Distribution of each part of the latency, in the order of [`Parts::NAMES`].
    pub parts: [Histogram; Parts::NAMES.len()],
    /// Number of wake-ups outside of the window.
    pub misses: u64,
    /// Number of wake-ups for which the trace has no switch to the thread.
    pub unseen: u64,
}

/// Counts wake-ups.
#[derive(Debug)]
pub struct WakeUpTally {
    window: Option<Window>,
    rows: Vec<TallyRow>,
    index: KindIndex,
    /// Maximum number of rows for single threads.
    rows_max: usize,
    /// Memory budget of each distribution.
    budget: Budget,
    all: Histogram,
    clocks: BTreeMap<TimerClock, u64>,
    /// The worst wake-ups so far, in any order, and some others.
    worst: Vec<(WakeUp, WakeUpKind)>,
    /// Latencies below this are not among the worst.
    worst_min: i64,
}

impl WakeUpTally {
    /// Makes an empty tally. Wake-ups outside of `window` are misses.
    #[must_use]
    pub fn new(window: Option<Window>) -> Self {
        Self {
            window,
            rows: Vec::new(),
            index: KindIndex::default(),
            rows_max: usize::MAX,
            budget: Budget::RECORDER,
            all: Histogram::new(Budget::ANALYSIS),
            clocks: BTreeMap::new(),
            worst: Vec::new(),
            worst_min: i64::MIN,
        }
    }

    /// Returns the tally with a limit on its memory, for a recording without a set end. After
    /// [`ROWS_MAX`] rows, it counts the wake-ups of all further threads together.
    #[must_use]
    pub fn bounded(self) -> Self {
        Self {
            rows_max: ROWS_MAX,
            budget: BOUNDED,
            ..self
        }
    }

    /// Counts a wake-up.
    pub fn add(&mut self, wake_up: &WakeUp, kind: &WakeUpKind) {
        let lateness = wake_up.lateness();
        let is_miss = |window: Window| window.misses(Nanos(lateness));
        let is_miss = self.window.is_some_and(is_miss);
        let place = self.place(wake_up.thread, kind);
        let row = &mut self.rows[place];
        row.lateness.record(lateness);
        for (part, value) in row.parts.iter_mut().zip(wake_up.parts.values()) {
            part.record(value);
        }
        row.misses += u64::from(is_miss);
        row.unseen += u64::from(wake_up.start == Start::Unseen);
        self.all.record(lateness);
        if let Cause::Timer { clock, .. } = wake_up.cause {
            *self.clocks.entry(clock).or_default() += 1;
        }
        if lateness >= self.worst_min {
            self.worst.push((*wake_up, kind.clone()));
            if self.worst.len() >= 2 * WORST_MAX {
                self.keep_worst();
            }
        }
    }

    /// Returns the index of the row in which to count a wake-up.
    fn place(&mut self, thread: i32, kind: &WakeUpKind) -> usize {
        if let Some(place) = self.index.get(thread, kind) {
            return place;
        }
        let (thread, kind) = if self.rows.len() < self.rows_max {
            (thread, kind.clone())
        } else {
            (OTHERS, kind.of_others())
        };
        if let Some(place) = self.index.get(thread, &kind) {
            return place;
        }
        let place = self.rows.len();
        self.index.insert(thread, &kind, place);
        self.rows.push(TallyRow {
            thread,
            kind,
            lateness: Histogram::new(self.budget),
            parts: std::array::from_fn(|_| Histogram::new(self.budget)),
            misses: 0,
            unseen: 0,
        });
        place
    }

    fn keep_worst(&mut self) {
        self.worst
            .sort_by_key(|(wake_up, _)| (Reverse(wake_up.lateness()), wake_up.due));
        self.worst.truncate(WORST_MAX);
        if let [.., (least, _)] = self.worst.as_slice()
            && self.worst.len() == WORST_MAX
        {
            self.worst_min = least.lateness();
        }
    }

    /// Returns the rows, in the order of threads and kinds.
    #[must_use]
    pub fn rows(&self) -> Vec<&TallyRow> {
        let mut rows: Vec<&TallyRow> = self.rows.iter().collect();
        rows.sort_by(|a, b| (a.thread, &a.kind).cmp(&(b.thread, &b.kind)));
        rows
    }

    /// Returns the distribution of the latencies of all wake-ups.
    #[must_use]
    pub fn all(&self) -> &Histogram {
        &self.all
    }

    /// Returns the number of wake-ups by timers, by the clock of the timer.
    #[must_use]
    pub fn clocks(&self) -> &BTreeMap<TimerClock, u64> {
        &self.clocks
    }

    /// Returns the worst wake-ups, the worst first.
    pub fn worst(&mut self) -> &[(WakeUp, WakeUpKind)] {
        self.keep_worst();
        &self.worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_trace::timers::TimerKind;

    #[test]
    fn the_worst_wake_ups_are_those_of_a_sorted_list() {
        let kind = WakeUpKind::Timer(TimerKind::Sleep);
        let mut tally = WakeUpTally::new(None);
        // The latencies occur in an irregular order, and most of them several times.
        let all: Vec<WakeUp> = (0..1000_i64)
            .map(|number| WakeUp {
                thread: 7,
                cause: Cause::Thread(9),
                cpu: 0,
                due: number * 1_000,
                ran: number * 1_000 + number * 7919 % 331,
                parts: Parts::default(),
                start: Start::Switch,
            })
            .collect();
        for wake_up in &all {
            tally.add(wake_up, &kind);
        }
        let mut expected = all;
        expected.sort_by_key(|wake_up| (Reverse(wake_up.lateness()), wake_up.due));
        let found: Vec<WakeUp> = tally.worst().iter().map(|(wake_up, _)| *wake_up).collect();
        assert_eq!(found, expected[..WORST_MAX]);
        assert_eq!(tally.all().count(), 1000);
    }
}
