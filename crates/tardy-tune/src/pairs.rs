//! Pairs of runs that differ in one setting: the median of all averages of two differences, with
//! the interval of Wilcoxon's signed ranks, which asks for no normal distribution (J. L. Hodges and
//! E. L. Lehmann, Ann. Math. Stat. 34, 1963).

use serde::{Deserialize, Serialize};
use tardy_statistics::confidence::{Confidence, Interval};

use crate::ranks::{median, statistics_within, without_ends};

/// A difference, of logarithms of the goal here.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The expected value.
    pub value: f64,
    /// The interval that contains it at the requested confidence.
    pub interval: Interval,
}

impl Difference {
    /// Returns whether it is surely not zero.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.interval.lower > 0.0 || self.interval.upper < 0.0
    }
}

/// Estimates the centre of differences that are independent and symmetric; unbounded with too few
/// for the confidence, `None` without any.
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

/// Returns how many averages are outside on each side, so that the sum of signed ranks is beyond
/// them with at most this probability: 0 if even one would be too many.
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

    /// Tables of the signed-rank test at 5 % on both sides: the largest sum that is refused is 8 of
    /// 10, 52 of 20, 0 of 6, and none of 5.
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
