//! Bounds on the share of late samples. The bounds hold for every distribution (Clopper and
//! Pearson, Biometrika 26, 1934).
//!
//! Trials and events may be real numbers, because clustered exceedances count as
//! `extremal index * n` trials. If nothing is known (no trials, or NaN), the bounds are 0 to 1. If
//! there are more events than trials, every trial counts as an event.

use super::confidence::{Confidence, Interval};
use super::incomplete_beta::inverse_incomplete_beta;

/// Returns the two-sided interval of the probability of an event, if `events` events were seen in
/// `trials` trials.
#[must_use]
pub fn proportion_interval(events: f64, trials: f64, confidence: Confidence) -> Interval {
    let side = confidence.of_each_side();
    Interval {
        lower: proportion_lower(events, trials, side),
        upper: proportion_upper(events, trials, side),
    }
}

/// Returns an upper bound for the probability, one-sided with `confidence`. If no event was seen,
/// the bound is `1 - (1 - c)^(1/n)`, which is about 3/n at 95 %.
#[must_use]
pub fn proportion_upper(events: f64, trials: f64, confidence: Confidence) -> f64 {
    if trials.is_nan()
        || trials <= 0.0
        || trials == f64::INFINITY
        || events.is_nan()
        || events >= trials
    {
        return 1.0;
    }
    let events = events.max(0.0);
    inverse_incomplete_beta(events + 1.0, trials - events, confidence.get())
}

/// Returns a lower bound for the probability, one-sided with `confidence`; 0 if no event was seen.
#[must_use]
pub fn proportion_lower(events: f64, trials: f64, confidence: Confidence) -> f64 {
    if trials.is_nan()
        || trials <= 0.0
        || trials == f64::INFINITY
        || events.is_nan()
        || events <= 0.0
    {
        return 0.0;
    }
    let events = events.min(trials);
    inverse_incomplete_beta(events, trials - events + 1.0, confidence.miss())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binomial::cumulative;
    use proptest::prelude::*;

    fn assert_close(value: f64, expected: f64, relative: f64) {
        assert!(
            (value / expected - 1.0).abs() < relative,
            "{value} is not {expected}"
        );
    }

    #[test]
    fn no_event_in_a_million_gives_the_rule_of_three() {
        assert_close(
            proportion_upper(0.0, 1e6, Confidence::NINETY_FIVE),
            2.995_727_8e-6,
            1e-7,
        );
        let both = proportion_interval(0.0, 1e6, Confidence::NINETY_FIVE);
        assert_close(both.upper, 3.688_872_7e-6, 1e-7);
        assert_eq!(both.lower, 0.0);
        for trials in [1.0, 10.0, 3.6e6, 1e10] {
            let exact = -f64::exp_m1(0.05_f64.ln() / trials);
            assert_close(
                proportion_upper(0.0, trials, Confidence::NINETY_FIVE),
                exact,
                1e-12,
            );
        }
    }

    #[test]
    fn a_known_interval_is_met() {
        let interval = proportion_interval(152.0, 17_531.0, Confidence::NINETY_FIVE);
        assert_close(interval.lower, 0.007_351_45, 1e-6);
        assert_close(interval.upper, 0.010_155_90, 1e-6);
    }

    #[test]
    fn without_trials_nothing_is_claimed() {
        for (events, trials) in [
            (0.0, 0.0),
            (f64::NAN, 10.0),
            (1.0, f64::NAN),
            (3.0, -1.0),
            (0.0, f64::INFINITY),
        ] {
            assert_eq!(
                proportion_interval(events, trials, Confidence::NINETY_FIVE),
                Interval {
                    lower: 0.0,
                    upper: 1.0
                }
            );
        }
        let all = proportion_interval(12.0, 10.0, Confidence::NINETY_FIVE);
        assert_eq!(all.upper, 1.0);
        assert_close(all.lower, 0.025_f64.powf(0.1), 1e-12);
    }

    proptest! {
        #[test]
        fn the_true_value_is_covered_as_often_as_promised(trials in 1_u32..40, probability in 0.001_f64..0.999) {
            // The coverage is computed exactly, as the sum of the probabilities of all counts whose
            // interval contains the true value.
            let n = f64::from(trials);
            let covered: f64 = (0..=trials)
                .map(f64::from)
                .filter(|&events| proportion_interval(events, n, Confidence::NINETY_FIVE).contains(probability))
                .map(|events| cumulative(events, n, probability) - cumulative(events - 1.0, n, probability))
                .sum();
            prop_assert!(covered >= 0.95 - 1e-9, "{covered}");
        }

        #[test]
        fn fewer_effective_trials_never_tighten_the_bound(events in 0.0_f64..50.0, trials in 50.0_f64..1e8, index in 0.01_f64..1.0) {
            let all = proportion_upper(events, trials, Confidence::NINETY_FIVE);
            let effective = proportion_upper(index * events, index * trials, Confidence::NINETY_FIVE);
            prop_assert!(effective >= all * (1.0 - 1e-9), "{effective} {all}");
        }

        #[test]
        fn bounds_are_ordered_and_inside_zero_to_one(events in -1.0_f64..1e7, trials in -1.0_f64..1e7, level in 0.5_f64..0.999_999) {
            let confidence = Confidence::new(level).unwrap();
            let interval = proportion_interval(events, trials, confidence);
            prop_assert!(0.0 <= interval.lower && interval.lower <= interval.upper && interval.upper <= 1.0, "{interval:?}");
        }
    }
}
