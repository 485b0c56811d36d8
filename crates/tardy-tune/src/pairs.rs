//! Estimates the effect of a setting from pairs of runs that differ in this setting. Each pair of
//! runs gives one difference. The estimate is the median of the averages of any two differences.
//! The interval of the estimate comes from Wilcoxon's signed ranks, which do not assume a normal
//! distribution (Hodges and Lehmann, Annals of Mathematical Statistics 34, 1963).

use serde::{Deserialize, Serialize};
use tardy_statistics::confidence::{Confidence, Interval};

use crate::ranks::{median, statistics_within, without_ends};

/// An estimated difference between the metric's logarithm on one side and that on the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The estimate.
    pub value: f64,
    /// The interval that contains the true value at the requested confidence.
    pub interval: Interval,
}

impl Difference {
    /// Returns whether the interval excludes zero.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.interval.lower > 0.0 || self.interval.upper < 0.0
    }
}

/// Estimates the centre of independent, symmetric differences. The interval is unbounded if there
/// are too few differences for the confidence. The result is `None` if there are no differences, or
/// if one of them is not finite.
#[must_use]
pub fn difference(differences: &[f64], confidence: Confidence) -> Option<Difference> {
    let count = differences.len();
    if count == 0 || differences.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut averages: Vec<f64> = Vec::with_capacity(count * (count + 1) / 2);
    for (place, one) in differences.iter().enumerate() {
        averages.extend(
            differences[place..]
                .iter()
                .map(|other| f64::midpoint(*one, *other)),
        );
    }
    averages.sort_unstable_by(f64::total_cmp);
    let value = median(&averages)?;
    Some(Difference {
        value,
        interval: without_ends(&averages, left_out(count, confidence.miss() / 2.0)),
    })
}

/// Returns the number k for which the interval of the estimate reaches from the k-th smallest to
/// the k-th largest average. The probability that the true value lies below this interval is at
/// most `probability`; the same holds above it. Returns 0 if there are too few differences.
fn left_out(count: usize, probability: f64) -> usize {
    let sums = count * (count + 1) / 2;
    let mut ways = vec![0.0_f64; sums + 1];
    ways[0] = 1.0;
    for rank in 1..=count {
        for sum in (rank..=sums).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    statistics_within(&ways, probability)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From tables of the two-sided signed-rank test at 5 %: the largest rejected sum is 8 for 10
    /// differences, 52 for 20, 0 for 6. For 5 differences, rejection is impossible.
    #[test]
    fn critical_sums_are_those_of_the_tables() {
        for (count, sums) in [(5, 0), (6, 1), (10, 9), (20, 53)] {
            assert_eq!(left_out(count, 0.025), sums, "{count}");
        }
    }

    #[test]
    fn a_shift_is_found_and_too_few_pairs_decide_nothing() {
        let differences: Vec<f64> = (0..10)
            .map(|place| -0.5 + 0.01 * f64::from(place))
            .collect();
        let found = difference(&differences, Confidence::NINETY_FIVE).unwrap();
        assert!(
            (found.value + 0.455).abs() < 1e-12 && found.interval.upper < 0.0 && found.is_decided(),
            "{found:?}"
        );
        let few = difference(&differences[..5], Confidence::NINETY_FIVE).unwrap();
        assert!(!few.is_decided() && !few.interval.is_finite());
        assert_eq!(difference(&[], Confidence::NINETY_FIVE), None);
        assert_eq!(difference(&[f64::NAN], Confidence::NINETY_FIVE), None);
    }
}
