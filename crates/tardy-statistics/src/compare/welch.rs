//! Computes the difference of two means with unequal variances (Welch, Biometrika 34, 1947). The
//! test is suitable for totals and build times, but not for the tails of distributions.

use serde::{Deserialize, Serialize};

use crate::confidence::{Confidence, Interval};
use crate::moments::Moments;
use crate::student;

/// The difference of two means, and its error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Welch {
    /// Mean of the candidate minus mean of the baseline.
    pub difference: f64,
    /// Interval of the difference.
    pub interval: Interval,
    /// The difference divided by its standard error.
    pub statistic: f64,
    /// Degrees of freedom, which need not be a whole number.
    pub freedom: f64,
    /// Probability that the statistic is at least this far from 0 if the means are equal.
    pub probability: f64,
}

/// Returns the difference; `None` unless both sides have at least two values and the values of at
/// least one side vary.
#[must_use]
pub fn welch(baseline: &Moments, candidate: &Moments, confidence: Confidence) -> Option<Welch> {
    let share = |side: &Moments| Some(side.variance()? / side.count() as f64);
    let (of_baseline, of_candidate) = (share(baseline)?, share(candidate)?);
    let variance = of_baseline + of_candidate;
    if variance.is_nan() || variance <= 0.0 {
        return None;
    }
    let difference = candidate.mean()? - baseline.mean()?;
    let lost = of_baseline.powi(2) / (baseline.count() - 1) as f64
        + of_candidate.powi(2) / (candidate.count() - 1) as f64;
    let freedom = variance * variance / lost;
    let statistic = difference / variance.sqrt();
    let reach = student::deviate(confidence, freedom) * variance.sqrt();
    Some(Welch {
        difference,
        interval: Interval {
            lower: difference - reach,
            upper: difference + reach,
        },
        statistic,
        freedom,
        probability: student::both_tails(statistic, freedom),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::fremantle;

    #[test]
    fn the_halves_of_fremantle_are_met() {
        let levels = fremantle();
        let (first, last): (Moments, Moments) = (
            levels[..43].iter().copied().collect(),
            levels[levels.len() - 43..].iter().copied().collect(),
        );
        let found = welch(&last, &first, Confidence::NINETY_FIVE).unwrap();
        assert!((found.statistic + 2.959_479_4).abs() < 5e-8, "{found:?}");
        assert!((found.freedom - 80.784_889).abs() < 5e-7, "{found:?}");
        assert!((found.probability - 0.004_042_53).abs() < 5e-9, "{found:?}");
        // At a confidence of 1 minus the test's probability, one end of the interval is 0.
        let edge = welch(
            &last,
            &first,
            Confidence::new(1.0 - found.probability).unwrap(),
        )
        .unwrap();
        assert!(edge.interval.upper.abs() < 1e-9, "{edge:?}");
    }

    #[test]
    fn without_spread_there_is_no_test() {
        let constant: Moments = [3.0, 3.0].into_iter().collect();
        let one: Moments = [3.0].into_iter().collect();
        assert_eq!(welch(&constant, &constant, Confidence::NINETY_FIVE), None);
        assert_eq!(welch(&constant, &one, Confidence::NINETY_FIVE), None);
    }
}
