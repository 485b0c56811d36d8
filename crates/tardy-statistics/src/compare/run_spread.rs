//! How much runs of one configuration differ from each other, and how much this widens the interval
//! of a difference.
//!
//! Every run has a level that depends on its memory layout, on the temperature of the machine, and
//! on other running programs. A single run cannot show its level, so the samples of two runs can
//! differ significantly although nothing was changed between them.
//!
//! If the spread was not measured, the levels of single runs are therefore assumed to have a
//! standard deviation of 8.5 %. With this value, fewer than 5 % of pairs get a wrong verdict if the
//! levels of their runs spread by 10 %. A true increase of 50 % is found in more than 95 % of pairs
//! if the levels spread by 5 %. If the assumed deviation were one percentage point larger or
//! smaller, one of these two statements would be false. Levels are factors, so the spread widens
//! the ratio of two runs, not their difference. As a consequence, two single runs are by default
//! never equivalent within a margin of 10 %.
//!
//! A few runs also give evidence about the spread: two or three runs per side can show that the
//! spread is larger than assumed, and four runs measure it. The same spread applies to the rate of
//! misses. If all latencies grow by a factor, the run has as many misses as with a deadline that is
//! shorter by this factor. Therefore, the interval of the rate covers the numbers of misses for
//! deadlines that are shorter or longer by the spread.

use crate::compare::equivalence::Equivalence;
use crate::confidence::{Confidence, Interval};
use crate::moments::Moments;
use crate::profile::normal_deviate;
use crate::student;

/// Assumed standard deviation between runs, as a fraction of the level, if it was not measured.
///
/// At a margin of 5 %, false alarms stay below 5 % for pairs of runs whose levels spread by 10 %. A
/// true increase of 50 % is found in about 95 % of the pairs if the levels spread by 5 %. With a
/// smaller value, the first statement is false; with a larger value, the second is false (`compare`
/// in docs/proof-archive.md).
pub const UNKNOWN_SPREAD: f64 = 0.085;
/// Largest factor by which users are advised to lengthen a measurement. A larger factor is too
/// uncertain to be useful, and measuring would take too long.
pub const FACTOR_MAX: f64 = 20.0;

/// How far the spread between runs extends an interval on each of its two sides. Both values are at
/// least zero.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Reach {
    /// How far the interval is extended towards smaller differences.
    pub below: f64,
    /// How far the interval is extended towards larger differences.
    pub above: f64,
}

impl Reach {
    fn longest(self) -> f64 {
        self.below.max(self.above)
    }

    /// Returns whether the spread does not widen the interval at all.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.longest() <= 0.0
    }
}

/// Returns by how much a spread of `share` between runs extends the interval of a difference. Each
/// side is given by its level and its number of runs.
///
/// The level of a run is treated as a factor, so the interval is computed for the ratio of the two
/// sides. If a level is not positive, the ratio does not exist, and the errors of both levels are
/// added as independent errors.
#[must_use]
pub fn reach(
    share: f64,
    baseline: (f64, usize),
    candidate: (f64, usize),
    confidence: Confidence,
) -> Reach {
    let deviate = normal_deviate(confidence);
    let inverse = |runs: usize| 1.0 / runs.max(1) as f64;
    if baseline.0 > 0.0 && candidate.0 > 0.0 {
        let ratio = deviate * share * (inverse(baseline.1) + inverse(candidate.1)).sqrt();
        return Reach {
            below: -candidate.0 * (-ratio).exp_m1(),
            above: candidate.0 * ratio.exp_m1(),
        };
    }
    let variance = |(level, runs): (f64, usize)| (share * level).powi(2) * inverse(runs);
    let half = deviate * (variance(baseline) + variance(candidate)).sqrt();
    Reach {
        below: half,
        above: half,
    }
}

/// Returns the standard deviation between runs of the same side, as a fraction of the level. The
/// deviation is estimated from both sides together. Returns `None` if no side has two runs, or if a
/// value is not positive.
#[must_use]
pub fn estimate(baseline: &[f64], candidate: &[f64]) -> Option<f64> {
    let (deviation, _) = pooled_deviation(&logarithms(baseline)?, &logarithms(candidate)?)?;
    Some(deviation)
}

/// Returns the interval of the difference between two sides that have only a few runs, by Student's
/// t. It is computed from the logarithms of the runs' values, or from the values themselves if one
/// of them is not positive. Returns `None` if no side has two runs.
#[must_use]
pub fn interval_of_few(
    baseline: &[f64],
    candidate: &[f64],
    confidence: Confidence,
) -> Option<Interval> {
    let mean = |values: &[f64]| values.iter().copied().collect::<Moments>().mean();
    let around = |from: &[f64], to: &[f64]| -> Option<Interval> {
        let (deviation, freedom) = pooled_deviation(from, to)?;
        let difference = mean(to)? - mean(from)?;
        let reach = student::deviate(confidence, freedom)
            * deviation
            * (1.0 / from.len() as f64 + 1.0 / to.len() as f64).sqrt();
        Some(Interval {
            lower: difference - reach,
            upper: difference + reach,
        })
    };
    match (logarithms(baseline), logarithms(candidate)) {
        (Some(from), Some(to)) => {
            let (ratio, level) = (around(&from, &to)?, mean(&from)?.exp());
            Some(Interval {
                lower: level * ratio.lower.exp_m1(),
                upper: level * ratio.upper.exp_m1(),
            })
        }
        _ => around(baseline, candidate),
    }
}

/// Returns `interval`, widened on both sides of `difference`. First, the distance from the
/// difference to each end is multiplied by `factor`. Then `reach` is added as an independent error:
/// the result is the root of the sum of the squares.
#[must_use]
pub fn widened(difference: f64, interval: Interval, factor: f64, reach: Reach) -> Interval {
    let half = |half: f64, reach: f64| (factor * half).hypot(reach);
    Interval {
        lower: difference - half(difference - interval.lower, reach.below),
        upper: difference + half(interval.upper - difference, reach.above),
    }
}

/// Returns the factor by which the number of samples must grow to decide an inconclusive
/// comparison. Returns `None` if no factor up to [`FACTOR_MAX`] decides the comparison, because the
/// levels of the runs differ too much, or the difference is too close to the margin.
#[must_use]
pub fn samples_that_decide(
    found: Equivalence,
    difference: f64,
    interval: Interval,
    margin: f64,
    reach: Reach,
) -> Option<f64> {
    let Equivalence::Inconclusive { .. } = found else {
        return None;
    };
    let half = (interval.upper - difference).max(difference - interval.lower);
    let of_levels = reach.longest().powi(2);
    let (of_samples, way) = (
        half.powi(2) - of_levels,
        (difference.abs() - margin).powi(2) - of_levels,
    );
    let factor = of_samples / way;
    (way > 0.0 && factor.is_finite() && factor <= FACTOR_MAX).then(|| factor.max(1.0))
}

fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    values
        .iter()
        .map(|&value| (value > 0.0).then(|| value.ln()))
        .collect()
}

/// Returns the common standard deviation of both sides, around the mean of each side, and its
/// degrees of freedom.
fn pooled_deviation(baseline: &[f64], candidate: &[f64]) -> Option<(f64, f64)> {
    let squares = |values: &[f64]| {
        let moments: Moments = values.iter().copied().collect();
        moments.variance().unwrap_or(0.0) * values.len().saturating_sub(1) as f64
    };
    let freedom = (baseline.len() + candidate.len())
        .checked_sub(2)
        .filter(|&freedom| freedom > 0)? as f64;
    Some(((squares(baseline) + squares(candidate)).max(0.0) / freedom).sqrt())
        .map(|deviation| (deviation, freedom))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::equivalence::equivalence;
    use proptest::prelude::*;

    #[test]
    fn levels_that_spread_by_ten_percent_reach_a_quarter_down_and_a_third_up() {
        // exp(1.959964 * sqrt(2) * 0.1) = 1.319405, and its reciprocal is 0.757917.
        let one = reach(0.1, (100.0, 1), (100.0, 1), Confidence::NINETY_FIVE);
        assert!(
            (one.above - 31.9405).abs() < 0.001 && (one.below - 24.2083).abs() < 0.001,
            "{one:?}"
        );
        // With four runs per side, the reach on the logarithmic scale is half as long.
        let four = reach(0.1, (100.0, 4), (100.0, 4), Confidence::NINETY_FIVE);
        assert!(
            ((1.0 + four.above / 100.0).powi(2) - 1.319405).abs() < 1e-5,
            "{four:?}"
        );
        // The expected reach is 1.959964 * 0.1 * sqrt(100^2 + 50^2).
        let around_zero = reach(0.1, (-100.0, 1), (50.0, 1), Confidence::NINETY_FIVE);
        assert!(
            (around_zero.above - 21.913).abs() < 0.001 && around_zero.above == around_zero.below,
            "{around_zero:?}"
        );
        assert!(
            reach(0.0, (100.0, 1), (100.0, 1), Confidence::NINETY_FIVE).is_none()
                && !four.is_none()
        );
    }

    #[test]
    fn the_spread_is_found_around_each_sides_own_level() {
        let base = [0.9_f64, 1.0, 1.1].map(f64::exp);
        let moved = base.map(|value| value * 7.0);
        assert!((estimate(&base, &moved).unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(
            (estimate(&[1.0], &[2.0]), estimate(&[1.0, 0.0], &[2.0])),
            (None, None)
        );
    }

    #[test]
    fn a_factor_of_hundreds_is_decided_by_two_runs_a_side() {
        let found = interval_of_few(
            &[15_900.0, 10_200.0],
            &[45.8, 45.1],
            Confidence::NINETY_FIVE,
        )
        .unwrap();
        assert!(
            found.upper < -9_000.0 && found.lower > -60_000.0,
            "{found:?}"
        );
        // The values are not all positive, so the interval is computed from them directly: t(0.975,
        // 2) = 4.302653, with a standard deviation of 1.
        let linear = interval_of_few(&[-1.0, 1.0, 0.0], &[9.0], Confidence::NINETY_FIVE).unwrap();
        let reach = 4.302_653 * (4.0_f64 / 3.0).sqrt();
        assert!(
            (linear.lower - (9.0 - reach)).abs() < 1e-4
                && (linear.upper - (9.0 + reach)).abs() < 1e-4,
            "{linear:?}"
        );
        assert_eq!(
            interval_of_few(&[1.0], &[2.0], Confidence::NINETY_FIVE),
            None
        );
        assert_eq!(
            interval_of_few(&[2.0, 2.0], &[2.0], Confidence::NINETY_FIVE),
            Some(Interval {
                lower: 0.0,
                upper: 0.0
            })
        );
    }

    #[test]
    fn more_samples_are_advised_only_where_they_can_decide() {
        let advice = |difference: f64, half: f64, reach: f64| {
            let reach = Reach {
                below: reach,
                above: reach,
            };
            let interval = Interval {
                lower: difference - half,
                upper: difference + half,
            };
            samples_that_decide(
                equivalence(difference, interval, 3.0),
                difference,
                interval,
                3.0,
                reach,
            )
        };
        // The difference is 5 +- 4 and the margin is 3. The interval must become half as wide,
        // which needs four times the samples.
        assert_eq!(advice(5.0, 4.0, 0.0), Some(4.0));
        assert_eq!(
            advice(5.0, 4.0, 2.5),
            None,
            "the levels alone reach the margin"
        );
        assert_eq!(advice(3.01, 4.0, 0.0), None, "160,000 times is no advice");
        assert_eq!(advice(9.0, 4.0, 0.0), None, "it is decided");
    }

    proptest! {
        #[test]
        fn widening_never_narrows(difference in -9.0_f64..9.0, low in 0.0_f64..9.0, high in 0.0_f64..9.0, factor in 1.0_f64..4.0, reach in 0.0_f64..9.0) {
            let reach = Reach { below: reach, above: reach };
            let interval = Interval { lower: difference - low, upper: difference + high };
            let wide = widened(difference, interval, factor, reach);
            prop_assert!(wide.lower <= interval.lower + 1e-9 && wide.upper >= interval.upper - 1e-9);
            let plain = widened(difference, interval, 1.0, Reach::default());
            prop_assert!((plain.lower - interval.lower).abs() < 1e-9 && (plain.upper - interval.upper).abs() < 1e-9);
        }
    }
}
