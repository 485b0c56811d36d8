//! Computes the shift between two sides, with an exact interval. The shift is the median of all
//! differences between a run of one side and a run of the other side.
//!
//! The input has one number per run, because whole runs were repeated, not single samples. The
//! number is, for example, the 99.99 % quantile, or the maximum that is expected if all runs have
//! the same length. Source: Hodges and Lehmann, Annals of Mathematical Statistics 34, 1963. The
//! interval is found by inverting Mann and Whitney's test.

use serde::{Deserialize, Serialize};

use crate::confidence::{Confidence, Interval};
use crate::profile::normal_deviate;

/// Maximum number of pairs of runs for which the exact distribution is used. For more pairs, the
/// normal distribution is used.
const EXACT_PAIRS_MAX: usize = 2500;

/// The shift between the baseline and the candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// Median of all differences, candidate minus baseline.
    pub shift: f64,
    /// The interval. It is infinite on both sides if there are too few runs for the confidence; 95
    /// % needs four runs per side.
    pub interval: Interval,
}

/// Returns the shift; `None` if a side is empty. The function needs memory for the differences of
/// all pairs.
#[must_use]
pub fn shift(baseline: &[f64], candidate: &[f64], confidence: Confidence) -> Option<Shift> {
    let mut differences: Vec<f64> = candidate
        .iter()
        .flat_map(|to| baseline.iter().map(move |from| to - from))
        .collect();
    differences.sort_unstable_by(f64::total_cmp);
    let pairs = differences.len();
    let shift = differences
        .get(pairs.checked_sub(1)? / 2)?
        .midpoint(differences[pairs / 2]);
    let left_out = pairs_left_out(baseline.len(), candidate.len(), confidence);
    let interval = match left_out {
        Some(count) => Interval {
            lower: differences[count],
            upper: differences[pairs - 1 - count],
        },
        None => Interval {
            lower: f64::NEG_INFINITY,
            upper: f64::INFINITY,
        },
    };
    Some(Shift { shift, interval })
}

/// The ratio of the candidate's numbers to the baseline's. It is estimated from the ratios of all
/// pairs of runs, sorted by size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Median of all ratios of the candidate's to the baseline's numbers; infinite if most numbers
    /// of the baseline are 0, `None` if both sides contain only 0.
    pub ratio: Option<f64>,
    /// Interval of the ratio; 0 to infinity if there are too few runs for the confidence.
    pub interval: Interval,
}

/// Works like [`shift`] with ratios of numbers that are not negative. The ratio of two zeros is
/// unknown, so it widens the interval on both sides.
#[must_use]
pub fn shift_ratio(baseline: &[f64], candidate: &[f64], confidence: Confidence) -> Ratio {
    let ratios = |of_zeros: Option<f64>| {
        let one = |(from, to): (f64, f64)| {
            if from == 0.0 && to == 0.0 {
                of_zeros
            } else {
                Some(to / from)
            }
        };
        let mut ratios: Vec<f64> = candidate
            .iter()
            .flat_map(|&to| baseline.iter().filter_map(move |&from| one((from, to))))
            .collect();
        ratios.sort_unstable_by(f64::total_cmp);
        ratios
    };
    let known = ratios(None);
    let ratio = known
        .len()
        .checked_sub(1)
        .map(|last| known[last / 2].midpoint(known[known.len() / 2]));
    let interval = match pairs_left_out(baseline.len(), candidate.len(), confidence) {
        Some(count) => {
            let (low, high) = (ratios(Some(0.0)), ratios(Some(f64::INFINITY)));
            Interval {
                lower: low[count],
                upper: high[high.len() - 1 - count],
            }
        }
        None => Interval {
            lower: 0.0,
            upper: f64::INFINITY,
        },
    };
    Ratio { ratio, interval }
}

/// Returns how many of the ordered differences lie outside the interval on each side. This number
/// follows from the largest k for which P(statistic <= k) is at most half of the error probability.
/// Returns `None` if even P(statistic <= 0) exceeds half of the error probability.
fn pairs_left_out(n: usize, m: usize, confidence: Confidence) -> Option<usize> {
    let miss = confidence.miss() / 2.0;
    if n * m > EXACT_PAIRS_MAX {
        let (n, m) = (n as f64, m as f64);
        let count =
            n * m / 2.0 - normal_deviate(confidence) * (n * m * (n + m + 1.0) / 12.0).sqrt();
        return (count >= 1.0).then_some(count as usize - 1);
    }
    let law = mann_whitney_law(n, m);
    let mut cumulative = 0.0;
    let within = law.iter().take_while(|&&probability| {
        cumulative += probability;
        cumulative <= miss + 1e-12
    });
    within
        .count()
        .checked_sub(1)
        .map(|left_out| left_out.min((n * m).saturating_sub(1) / 2))
}

/// Returns the probabilities of the values 0 to `n * m` of Mann and Whitney's statistic, without
/// ties.
fn mann_whitney_law(n: usize, m: usize) -> Vec<f64> {
    // The recursion distinguishes two cases: the largest value is on one side, or on the other. It
    // uses probabilities, because counts could overflow.
    let mut rows: Vec<Vec<f64>> = vec![vec![1.0]; m + 1];
    for i in 1..=n {
        for j in 1..=m {
            let size = i * j + 1;
            let share = i as f64 / (i + j) as f64;
            let law = (0..size).map(|u| {
                let largest_mine = u
                    .checked_sub(j)
                    .and_then(|rest| rows[j].get(rest))
                    .copied()
                    .unwrap_or(0.0);
                let largest_theirs = rows[j - 1].get(u).copied().unwrap_or(0.0);
                share * largest_mine + (1.0 - share) * largest_theirs
            });
            rows[j] = law.collect();
        }
    }
    rows.swap_remove(m)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_law_of_small_samples_is_met() {
        // With 4 runs per side, there are 70 ways to order them. The numbers of ways that give the
        // statistic 0, 1, 2, ... are 1, 1, 2, 3, 5, 5, 7, 7, 8, ...
        let law = mann_whitney_law(4, 4);
        assert_eq!(law.len(), 17);
        for (probability, count) in law
            .iter()
            .zip([1.0, 1.0, 2.0, 3.0, 5.0, 5.0, 7.0, 7.0, 8.0])
        {
            assert!((probability - count / 70.0).abs() < 1e-12, "{law:?}");
        }
        assert!((mann_whitney_law(30, 40).iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(mann_whitney_law(0, 3), [1.0]);
    }

    #[test]
    fn a_known_interval_is_met() {
        // With 4 runs per side, the interval at 95 % has the ranks 1 and 16 of 16, because P(U <=
        // 0) = 1/70 and P(U <= 1) = 2/70 = 0.0286. With 5 runs, it has the ranks 3 and 23 of 25,
        // because P(U <= 2) = 4/252 and P(U <= 3) = 7/252 = 0.0278.
        let (a, b) = ([1.0, 2.0, 4.0, 8.0], [11.0, 13.0, 17.0, 26.0]);
        let found = shift(&a, &b, Confidence::NINETY_FIVE).unwrap();
        assert_eq!(
            (found.shift, found.interval),
            (
                11.5,
                Interval {
                    lower: 3.0,
                    upper: 25.0
                }
            )
        );
        let narrower = shift(&a, &b, Confidence::new(0.94).unwrap()).unwrap();
        assert_eq!(
            narrower.interval,
            Interval {
                lower: 5.0,
                upper: 24.0
            }
        );
        assert_eq!(pairs_left_out(5, 5, Confidence::NINETY_FIVE), Some(2));
    }

    #[test]
    fn three_runs_a_side_are_too_few() {
        let found = shift(
            &[1.0, 2.0, 3.0],
            &[11.0, 12.0, 13.0],
            Confidence::NINETY_FIVE,
        )
        .unwrap();
        assert_eq!(
            (found.shift, found.interval.lower, found.interval.upper),
            (10.0, f64::NEG_INFINITY, f64::INFINITY)
        );
        assert_eq!(shift(&[], &[1.0], Confidence::NINETY_FIVE), None);
        assert_eq!(shift(&[1.0], &[], Confidence::NINETY_FIVE), None);
    }

    #[test]
    fn ratios_of_zeros_leave_an_interval_open() {
        let found = shift_ratio(
            &[508.0, 362.0, 664.0, 506.0],
            &[794.0, 837.0, 585.0, 859.0],
            Confidence::NINETY_FIVE,
        );
        assert_eq!(
            found.interval,
            Interval {
                lower: 585.0 / 664.0,
                upper: 859.0 / 362.0
            }
        );
        assert!((found.ratio.unwrap() - 1.5926).abs() < 1e-4, "{found:?}");
        let none = shift_ratio(&[0.0; 4], &[0.0; 4], Confidence::NINETY_FIVE);
        assert_eq!(
            (none.ratio, none.interval),
            (
                None,
                Interval {
                    lower: 0.0,
                    upper: f64::INFINITY
                }
            )
        );
        let new = shift_ratio(&[0.0; 4], &[1.0, 2.0, 3.0, 4.0], Confidence::NINETY_FIVE);
        assert_eq!(
            new.interval,
            Interval {
                lower: f64::INFINITY,
                upper: f64::INFINITY
            }
        );
        let one = shift_ratio(&[0.0; 4], &[0.0, 0.0, 0.0, 5.0], Confidence::NINETY_FIVE);
        assert_eq!(
            one.interval,
            Interval {
                lower: 0.0,
                upper: f64::INFINITY
            }
        );
        let few = shift_ratio(&[1.0; 3], &[5.0; 3], Confidence::NINETY_FIVE);
        assert_eq!((few.ratio, few.interval.lower), (Some(5.0), 0.0));
    }

    #[test]
    fn the_normal_law_takes_over_where_the_exact_one_ends() {
        // The exact distribution is used for 49 * 51 pairs, and the normal distribution for 51 * 51
        // pairs. The number of omitted pairs is larger by about 44 in the second case.
        let (exact, normal) = (
            pairs_left_out(49, 51, Confidence::NINETY_FIVE),
            pairs_left_out(51, 51, Confidence::NINETY_FIVE),
        );
        assert!(
            (35..55).contains(&(normal.unwrap() - exact.unwrap())),
            "{exact:?} {normal:?}"
        );
    }

    proptest! {
        #[test]
        fn a_shifted_copy_has_that_shift(values in proptest::collection::vec(-1e3_f64..1e3, 4..12), by in -1e3_f64..1e3) {
            let moved: Vec<f64> = values.iter().map(|value| value + by).collect();
            let found = shift(&values, &moved, Confidence::NINETY_FIVE).unwrap();
            prop_assert!((found.shift - by).abs() < 1e-9);
            prop_assert!(found.interval.lower <= found.shift && found.shift <= found.interval.upper);
        }
    }
}
