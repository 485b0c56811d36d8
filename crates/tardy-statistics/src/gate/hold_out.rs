//! A check without assumptions: a fit to the first half of the time predicts how many clusters in
//! the second half exceed a level.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Evidence, excesses_of};
use crate::confidence::{Confidence, Interval};
use crate::gpd::return_level::Tail;
use crate::incomplete_gamma::incomplete_gamma;

/// Minimum number of clusters that the first half needs for a prediction.
const CLUSTERS_MIN: usize = 25;
/// Maximum number of clusters that are predicted to exceed the level in the second half. With this
/// number, the level is well above the threshold, but so low that enough clusters exceed it for a
/// meaningful count.
const EXPECTED_MAX: f64 = 10.0;
/// Minimum probability of the observed count under the prediction. The predicted level is an
/// interval; the test uses the end of the interval at which the count and the prediction agree
/// best.
const PROBABILITY_MIN: f64 = 0.01;

/// A prediction, and the observed numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HoldOut {
    /// The second half is expected to exceed this level `expected` times, according to the fit of
    /// the first half. The level is an interval, because the fit has an error.
    pub level: Interval,
    /// Predicted number of clusters above the level.
    pub expected: f64,
    /// Observed number of clusters above the lower end of the level.
    pub above_lower: u64,
    /// Observed number of clusters above the upper end of the level.
    pub above_upper: u64,
}

impl HoldOut {
    /// Returns whether the interval contains a level at which the observed count agrees with a
    /// Poisson distribution that has the predicted mean.
    #[must_use]
    pub fn passed(&self) -> bool {
        let at_least = |count: u64| {
            if count == 0 {
                1.0
            } else {
                incomplete_gamma(count as f64, self.expected)
            }
        };
        let at_most = |count: u64| 1.0 - incomplete_gamma(count as f64 + 1.0, self.expected);
        at_least(self.above_upper) >= PROBABILITY_MIN
            && at_most(self.above_lower) >= PROBABILITY_MIN
    }
}

impl fmt::Display for HoldOut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            level,
            expected,
            above_lower,
            above_upper,
        } = self;
        write!(
            formatter,
            "hold-out: the first half predicts {expected:.0} clusters above a level of {:.3} to \
             {:.3} in the second half, which has {above_upper} to {above_lower}",
            level.lower, level.upper
        )
    }
}

/// Returns the check; `None` if the first half has too few clusters or cannot be fitted.
pub(super) fn hold_out(
    maxima: &[(u64, f64)],
    evidence: &Evidence<'_>,
    confidence: Confidence,
) -> Option<HoldOut> {
    let half = evidence.samples / 2;
    let (first, second) = maxima.split_at(maxima.partition_point(|maximum| maximum.0 < half));
    if first.len() < CLUSTERS_MIN {
        return None;
    }
    let tail = Tail::new(evidence.threshold, half, 1.0, excesses_of(first, evidence)).ok()?;
    let rest = (evidence.samples - half) as f64;
    let expected = (first.len() as f64 / 5.0).min(EXPECTED_MAX);
    let level = tail.return_level_interval(rest / expected, confidence)?;
    let above = |level: f64| second.iter().filter(|maximum| maximum.1 > level).count() as u64;
    Some(HoldOut {
        level,
        expected,
        above_lower: above(level.lower),
        above_upper: above(level.upper),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_on_both_sides_of_the_prediction_decide() {
        let level = Interval {
            lower: 40.0,
            upper: 60.0,
        };
        let passed = |above_lower, above_upper| {
            HoldOut {
                level,
                expected: 10.0,
                above_lower,
                above_upper,
            }
            .passed()
        };
        assert!(passed(10, 10) && passed(30, 0) && passed(4, 0) && passed(40, 18));
        // Poisson probabilities for a mean of 10: P(>= 19) = 0.0072, P(<= 3) = 0.0103, P(<= 2) =
        // 0.0028.
        assert!(!passed(40, 19) && !passed(2, 0));
    }
}
