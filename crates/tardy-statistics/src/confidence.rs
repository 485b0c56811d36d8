//! A confidence level, and the interval to which it applies.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A confidence level: the fraction of intervals that contain the true value if the measurement is
/// repeated often. It is more than 0 and less than 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(into = "f64", try_from = "f64")]
pub struct Confidence(f64);

/// The error for a number that is not a confidence level.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "`{0}` is not a confidence level: write a share between 0 and 1 such as 0.95, or a percentage \
     such as 95%"
)]
pub struct ConfidenceError(String);

impl Confidence {
    /// 95 %, the level of all published numbers against which this crate is checked.
    pub const NINETY_FIVE: Self = Self(0.95);
    /// A confidence of 99 %.
    pub const NINETY_NINE: Self = Self(0.99);

    /// Creates a confidence level from a share.
    ///
    /// # Errors
    /// Fails if `level` is not strictly between 0 and 1.
    pub fn new(level: f64) -> Result<Self, ConfidenceError> {
        if level > 0.0 && level < 1.0 {
            Ok(Self(level))
        } else {
            Err(ConfidenceError(level.to_string()))
        }
    }

    /// Returns the level as a fraction, more than 0 and less than 1.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    /// Returns the fraction of intervals that do not contain the true value: `1 - level`.
    #[must_use]
    pub fn miss(self) -> f64 {
        1.0 - self.0
    }

    /// Returns the one-sided level of each end of a two-sided interval. Half of the error
    /// probability belongs to each end.
    #[must_use]
    pub fn of_each_side(self) -> Self {
        Self(self.0.midpoint(1.0).min(1.0 - f64::EPSILON / 2.0))
    }

    /// Returns the level that each of `statements` statements needs so that all of them together
    /// hold with this level (Bonferroni).
    #[must_use]
    pub fn shared_by(self, statements: u32) -> Self {
        Self((1.0 - self.miss() / f64::from(statements.max(1))).min(1.0 - f64::EPSILON / 2.0))
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 0.95 * 100 is not exactly 95 in binary. Rounding to ten digits hides this, and no user
        // writes more digits.
        let percent = (self.0 * 100.0 * 1e10).round() / 1e10;
        formatter.pad(&format!("{percent} %"))
    }
}

impl FromStr for Confidence {
    type Err = ConfidenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ConfidenceError(text.to_owned());
        let (number, scale) = match text.trim().strip_suffix('%') {
            Some(number) => (number.trim(), 100.0),
            None => (text.trim(), 1.0),
        };
        Self::new(number.parse::<f64>().map_err(|_| error())? / scale).map_err(|_| error())
    }
}

impl From<Confidence> for f64 {
    fn from(confidence: Confidence) -> Self {
        confidence.0
    }
}

impl TryFrom<f64> for Confidence {
    type Error = ConfidenceError;
    fn try_from(level: f64) -> Result<Self, Self::Error> {
        Self::new(level)
    }
}

/// Both ends of an interval, in the unit of the estimate. An infinite end means that the data give
/// no limit on that side. No end is ever NaN.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub lower: f64,
    /// The upper end.
    pub upper: f64,
}

impl Interval {
    /// Returns whether `value` is between the ends or equal to one of them.
    #[must_use]
    pub fn contains(self, value: f64) -> bool {
        self.lower <= value && value <= self.upper
    }

    /// Returns whether both ends are finite.
    #[must_use]
    pub fn is_finite(self) -> bool {
        self.lower.is_finite() && self.upper.is_finite()
    }

    /// Returns the upper end minus the lower end.
    #[must_use]
    pub fn width(self) -> f64 {
        self.upper - self.lower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_read_as_a_share_or_as_per_cent() {
        assert_eq!("0.95".parse(), Ok(Confidence::NINETY_FIVE));
        assert_eq!("99 %".parse(), Ok(Confidence::NINETY_NINE));
        assert_eq!(Confidence::NINETY_FIVE.to_string(), "95 %");
    }

    #[test]
    fn what_is_no_level_is_refused_with_the_remedy() {
        for text in ["0", "1", "95", "-1%", "100%", "nan", "inf", ""] {
            let error = text.parse::<Confidence>().expect_err(text);
            assert!(error.to_string().contains("0.95"), "{error}");
        }
    }

    #[test]
    fn a_two_sided_interval_gives_each_end_half_of_the_misses() {
        assert!((Confidence::NINETY_FIVE.of_each_side().get() - 0.975).abs() < 1e-15);
        assert!((Confidence::NINETY_FIVE.shared_by(5).get() - 0.99).abs() < 1e-15);
    }

    #[test]
    fn levels_next_to_one_stay_below_one() {
        let highest = Confidence::new(1.0 - f64::EPSILON / 2.0).unwrap();
        assert!(highest.of_each_side().get() < 1.0);
        assert!(highest.shared_by(u32::MAX).get() < 1.0);
    }
}
