//! Computes the relative slowdown of one side, from the times of builds or operations. Such times
//! are positive, and vary in proportion to their level.

use crate::confidence::{Confidence, Interval};
use crate::estimate::Estimate;
use crate::moments::Moments;

use super::welch::welch;

/// Returns the ratio of the arithmetic means of `candidate` and `baseline`, minus one
/// (mckenney2009's "throughput advantage"). The interval is Welch's interval for the means of the
/// logarithms. It is absent unless both sides have two values that differ. Returns `None` if a side
/// has no value or a value that is not positive.
#[must_use]
pub fn slowdown(baseline: &[f64], candidate: &[f64], confidence: Confidence) -> Option<Estimate> {
    let mean = |values: &[f64]| -> Option<f64> {
        let all_positive = values.iter().all(|value| value.is_finite() && *value > 0.0);
        values
            .iter()
            .copied()
            .collect::<Moments>()
            .mean()
            .filter(|_| all_positive)
    };
    let value = mean(candidate)? / mean(baseline)? - 1.0;
    let logarithms = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Moments>();
    let interval =
        welch(&logarithms(baseline), &logarithms(candidate), confidence).map(|found| Interval {
            lower: found.interval.lower.exp_m1(),
            upper: found.interval.upper.exp_m1(),
        });
    Some(Estimate { value, interval })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_welchs_test_on_logarithms() {
        // Real times of the kernel builds of 2008 in mckenney2009, table 5. The interval was
        // computed independently by numerical integration of the t distribution, with 3.7321
        // degrees of freedom.
        let found = slowdown(
            &[1350.4, 1332.7, 1314.5],
            &[1524.6, 1574.2, 1569.8],
            Confidence::NINETY_FIVE,
        )
        .unwrap();
        assert!((found.value - 0.167_85).abs() < 1e-5, "{found:?}");
        let interval = found.interval.unwrap();
        assert!(
            (interval.lower - 0.125_683_1).abs() < 1e-6
                && (interval.upper - 0.211_491_4).abs() < 1e-6,
            "{interval:?}"
        );
    }

    #[test]
    fn proportional_sides_have_the_same_interval_in_any_unit() {
        let (base, slow) = ([10.0, 11.0, 12.0], [20.0, 21.0, 23.0]);
        let scaled = |values: [f64; 3]| values.map(|value| value * 1e6);
        let (a, b) = (
            slowdown(&base, &slow, Confidence::NINETY_FIVE).unwrap(),
            slowdown(&scaled(base), &scaled(slow), Confidence::NINETY_FIVE).unwrap(),
        );
        assert!((a.value - b.value).abs() < 1e-12);
        assert!((a.interval.unwrap().upper - b.interval.unwrap().upper).abs() < 1e-9);
    }

    #[test]
    fn without_spread_or_values_nothing_is_claimed() {
        assert_eq!(
            slowdown(&[1.0], &[2.0], Confidence::NINETY_FIVE),
            Some(Estimate::exact(1.0))
        );
        assert_eq!(slowdown(&[], &[2.0], Confidence::NINETY_FIVE), None);
        assert_eq!(
            slowdown(&[0.0, 1.0], &[2.0, 2.0], Confidence::NINETY_FIVE),
            None
        );
    }
}
