//! Tracks how far each probe has progressed in a phase whose length is given in cycles.
//!
//! Cycles are counted from the time at which all loads of the phase have started to work, so that
//! at least the requested number of samples is taken under load, as in the papers. For probes with
//! a grid, the clock shows how many due times have passed. Probes without a grid sleep for unknown
//! times, so the recorder counts their cycles. The phase ends when the slowest probe has completed
//! its cycles.
//!
//! A single phase without loads is different: there each thread ends by itself after exactly the
//! requested number of cycles.

use tardy_core::units::Nanos;
use tardy_samples::series_writer::FLUSH_INTERVAL;

/// The recorder counts a cycle at most this long after it happened.
const BEHIND: Nanos = Nanos(FLUSH_INTERVAL.0 * 2);

/// How long to wait for loads that do not start to work. After this time, cycles are counted
/// without these loads, so that every run ends.
const PATIENCE: Nanos = Nanos::from_secs(30);

/// The cycles of one phase.
#[derive(Debug)]
pub(super) struct CycleCount {
    wanted: u64,
    /// The time that the requested cycles take on the grid with the longest period.
    length: Nanos,
    asked: Option<Nanos>,
    began: Option<Nanos>,
    /// For each series without a clock-driven grid, the number of its cycles at the first check
    /// that was at least [`BEHIND`] after the start of the count. By then, the recorder had
    /// recorded all cycles from before the start.
    before: Option<Vec<u64>>,
}

impl CycleCount {
    /// Starts a count of `wanted` cycles, which take `length` on the grid with the longest period.
    pub(super) fn new(wanted: u64, length: Nanos) -> Self {
        Self {
            wanted,
            length,
            asked: None,
            began: None,
            before: None,
        }
    }

    /// Returns the earliest time at which the cycles can be complete; zero until the loads work.
    pub(super) fn next(&self) -> Nanos {
        self.began.map_or(Nanos::ZERO, |began| began + self.length)
    }

    /// Returns whether all probes have completed their cycles by `now`. `cycles` returns the
    /// recorder's count of cycles for each series without a clock-driven grid.
    pub(super) fn are_made(
        &mut self,
        now: Nanos,
        is_under_load: bool,
        cycles: impl FnOnce() -> Vec<u64>,
    ) -> bool {
        let asked = *self.asked.get_or_insert(now);
        if self.began.is_none() && !is_under_load && now < asked + PATIENCE {
            return false;
        }
        let began = *self.began.get_or_insert(now);
        let is_long_enough = now >= began + self.length;
        let is_known = now >= began + BEHIND;
        // The phase cannot end yet, and `before` is already stored or cannot be stored yet.
        if !is_long_enough && (self.before.is_some() || !is_known) {
            return false;
        }
        let cycles = cycles();
        if cycles.is_empty() || !is_known {
            return cycles.is_empty() && is_long_enough;
        }
        let before = self.before.get_or_insert_with(|| cycles.clone());
        is_long_enough
            && cycles
                .iter()
                .zip(before)
                .all(|(now, before)| now.saturating_sub(*before) >= self.wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(count: i64) -> Nanos {
        Nanos::from_millis(count)
    }

    #[test]
    fn due_times_on_a_grid_come_by_the_clock_from_when_the_loads_work() {
        let mut count = CycleCount::new(500, millis(500));
        assert!(!count.are_made(millis(10_000), false, Vec::new));
        assert!(!count.are_made(millis(10_100), true, Vec::new));
        assert!(!count.are_made(millis(10_599), true, Vec::new));
        assert!(count.are_made(millis(10_600), true, Vec::new));
    }

    #[test]
    fn loads_that_never_work_are_not_waited_for_for_ever() {
        let mut count = CycleCount::new(500, millis(500));
        assert!(!count.are_made(millis(0), false, Vec::new));
        assert!(!count.are_made(millis(30_000), false, Vec::new));
        assert!(count.are_made(millis(30_500), false, Vec::new));
    }

    #[test]
    fn sleeps_are_counted_from_when_the_recorder_knows_of_the_first_ones() {
        let mut count = CycleCount::new(500, millis(500));
        for (now, cycles, is_made) in [
            (0, [90, 80], false),
            (200, [190, 170], false),
            (300, [270, 240], false),
            (700, [600, 500], false),
        ] {
            assert_eq!(
                count.are_made(millis(now), true, || cycles.to_vec()),
                is_made,
                "{now}"
            );
        }
        assert!(
            !count.are_made(millis(900), true, || vec![790, 739]),
            "the slower one has one to go"
        );
        assert!(count.are_made(millis(910), true, || vec![800, 740]));
    }

    #[test]
    fn a_phase_that_is_shorter_than_the_recorder_is_behind_waits_for_it() {
        let mut count = CycleCount::new(5, millis(5));
        assert!(!count.are_made(millis(0), true, || vec![100]));
        assert!(!count.are_made(millis(249), true, || vec![340]));
        assert!(!count.are_made(millis(250), true, || vec![350]));
        assert!(count.are_made(millis(375), true, || vec![470]));
    }
}
