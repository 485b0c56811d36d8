//! The requirement that a run must meet.
//!
//! Skipped periods have a separate limit: a user's loop with this period would have missed them. A
//! deadline that is at most the period implies such a limit: no period may be skipped or, if
//! `--misses` allows a share of misses, at most the same share of the periods may be skipped.

use serde::{Deserialize, Serialize};

use super::Window;
use crate::units::Nanos;

/// Which latencies meet the requirement, and how many due times may be missed or skipped. Without a
/// window and without `skipped_allowed`, nothing is required.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Requirement {
    /// Allowed latencies.
    pub window: Option<Window>,
    /// The allowed share of misses; if absent, no miss is allowed.
    pub misses_allowed: Option<f64>,
    /// The allowed number of skipped periods; if absent, see [`Requirement::limits_skipped`].
    pub skipped_allowed: Option<u64>,
}

impl Requirement {
    /// Makes a requirement that latencies lie within `window`, if it is given.
    #[must_use]
    pub fn window(window: Option<Window>) -> Self {
        Self {
            window,
            ..Self::default()
        }
    }

    /// Makes a requirement that latencies are at most `latest`.
    #[must_use]
    pub fn deadline(latest: Nanos) -> Self {
        Self::window(Some(Window::deadline(latest)))
    }

    /// Returns this requirement; fields that are absent here are taken from `planned`.
    #[must_use]
    pub fn or(self, planned: Self) -> Self {
        Self {
            window: self.window.or(planned.window),
            misses_allowed: self.misses_allowed.or(planned.misses_allowed),
            skipped_allowed: self.skipped_allowed.or(planned.skipped_allowed),
        }
    }

    /// Returns whether anything is required.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.window.is_some() || self.skipped_allowed.is_some()
    }

    /// Returns whether skipped periods are limited: either a number is given, or the deadline is at
    /// most `period`, so that a wake-up in the next period misses it. If `is_work`, every skipped
    /// period is a miss and needs no separate limit.
    #[must_use]
    pub fn limits_skipped(&self, period: Nanos, is_work: bool) -> bool {
        self.skipped_allowed.is_some()
            || (!is_work && self.window.is_some_and(|window| window.latest <= period))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_up_to_the_period_limits_skipped_periods_and_a_longer_one_does_not() {
        let deadline = Requirement::deadline(Nanos::from_millis(1));
        assert!(
            deadline.limits_skipped(Nanos::from_millis(1), false)
                && deadline.limits_skipped(Nanos::from_millis(2), false)
        );
        assert!(
            !deadline.limits_skipped(Nanos::from_micros(999), false)
                && !deadline.limits_skipped(Nanos::from_millis(1), true)
        );
        assert!(
            Requirement {
                skipped_allowed: Some(0),
                ..deadline
            }
            .limits_skipped(Nanos(1), true)
        );
        assert!(!Requirement::default().limits_skipped(Nanos(1), false));
    }

    #[test]
    fn what_is_not_asked_again_is_as_planned() {
        let planned = Requirement {
            misses_allowed: Some(1e-3),
            ..Requirement::deadline(Nanos(5))
        };
        let asked = Requirement {
            skipped_allowed: Some(3),
            ..Requirement::deadline(Nanos(7))
        };
        assert_eq!(
            asked.or(planned),
            Requirement {
                misses_allowed: Some(1e-3),
                ..asked
            }
        );
        assert!(!Requirement::default().is_asked() && asked.is_asked());
    }
}
