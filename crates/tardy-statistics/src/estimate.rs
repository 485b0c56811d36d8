//! A number with its uncertainty.

use serde::{Deserialize, Serialize};

use super::confidence::Interval;

/// A number, and the interval that holds it where one is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub value: f64,
    /// `None` for numbers that were published or stated without an interval.
    pub interval: Option<Interval>,
}

impl Estimate {
    /// A number that is taken as it is.
    #[must_use]
    pub const fn exact(value: f64) -> Self {
        Self {
            value,
            interval: None,
        }
    }

    /// Both ends, which are the number itself where no interval is known.
    #[must_use]
    pub fn ends(self) -> Interval {
        self.interval.unwrap_or(Interval {
            lower: self.value,
            upper: self.value,
        })
    }
}
