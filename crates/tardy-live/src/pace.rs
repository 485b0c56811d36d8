//! Limits how often an expensive action is repeated.
//!
//! How often an action is repeated depends on what it costs. To compute figures, the recorder must
//! walk through every histogram. On a large machine, that takes longer than drawing a frame. Each
//! action may be repeated after 250 times the CPU time that it took. Together, the actions use less
//! than 1 % of one CPU on any machine.

use tardy_core::units::Nanos;

/// An action may use at most the time of one CPU divided by this number.
const PARTS: i64 = 250;
/// Shortest interval between two runs of an action; a person could not follow faster changes.
const INTERVAL: Nanos = Nanos::from_millis(500);
/// Longest interval between two frames, even if drawing is slow.
pub const INTERVAL_OF_VIEW: Nanos = Nanos::from_secs(1);

/// Schedules the next run of an action from the cost of its last run.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    next: Nanos,
    longest: Nanos,
}

impl Pace {
    /// Creates a pace. The first run of the action is at `now`.
    #[must_use]
    pub fn new(now: Nanos) -> Self {
        Self {
            next: now,
            longest: Nanos::MAX,
        }
    }

    /// Allows at most the interval `longest` between two runs of the action.
    #[must_use]
    pub fn at_least_every(self, longest: Nanos) -> Self {
        Self { longest, ..self }
    }

    /// Returns when the action should run next.
    #[must_use]
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// Records that the action ran at `now` and took the CPU time `cost`.
    pub fn spent(&mut self, now: Nanos, cost: Nanos) {
        let rest = Nanos(cost.get().saturating_mul(PARTS)).max(INTERVAL);
        self.next = now + rest.min(self.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cheap_turns_come_twice_a_second() {
        let mut pace = Pace::new(Nanos::ZERO);
        pace.spent(Nanos::ZERO, Nanos::from_micros(80));
        assert_eq!(pace.next(), Nanos::from_millis(500));
    }

    #[test]
    fn a_view_moves_every_second_whatever_a_frame_costs() {
        let mut pace = Pace::new(Nanos::ZERO).at_least_every(INTERVAL_OF_VIEW);
        pace.spent(Nanos::ZERO, Nanos::from_millis(200));
        assert_eq!(pace.next(), Nanos::from_secs(1));
    }

    proptest! {
        #[test]
        fn turns_use_less_than_a_half_of_a_hundredth_whatever_they_cost(costs in prop::collection::vec(1_i64..200_000_000, 10..60)) {
            let (mut pace, mut used) = (Pace::new(Nanos::ZERO), 0);
            for cost in costs {
                let now = pace.next() + Nanos(cost);
                used += cost;
                pace.spent(now, Nanos(cost));
                prop_assert!(used * 200 <= pace.next().get(), "{used} of {:?}", pace.next());
            }
        }
    }
}
