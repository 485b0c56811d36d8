//! A number with its uncertainty.

use serde::{Deserialize, Serialize};

use super::confidence::Interval;

/// A number, and its interval if it is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub value: f64,
    /// The interval; `None` if the number was published or stated without one.
    pub interval: Option<Interval>,
}

impl Estimate {
    /// Creates a number without uncertainty.
    #[must_use]
    pub const fn exact(value: f64) -> Self {
        Self {
            value,
            interval: None,
        }
    }

    /// Returns the interval. If the number has no interval, both ends of the returned interval are
    /// the number itself.
    #[must_use]
    pub fn ends(self) -> Interval {
        self.interval.unwrap_or(Interval {
            lower: self.value,
            upper: self.value,
        })
    }
}
