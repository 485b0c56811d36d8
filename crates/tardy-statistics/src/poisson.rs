//! Bounds on how often an event occurs in a time, such as missed deadlines per hour. These bounds
//! are used if the number of trials is unknown.
//!
//! Source: Garwood, Biometrika 28, 1936. The chi-square quantile with `2k` degrees of freedom is
//! twice the gamma quantile at `k`.

use super::confidence::{Confidence, Interval};
use super::incomplete_gamma::inverse_incomplete_gamma;

/// Returns the two-sided interval of the rate if `events` events were seen during `exposure`. The
/// rate is per unit of `exposure`; for hours, it is per hour.
///
/// If the exposure is 0, returns 0 to infinity.
#[must_use]
pub fn rate_interval(events: f64, exposure: f64, confidence: Confidence) -> Interval {
    let side = confidence.of_each_side();
    Interval {
        lower: rate_lower(events, exposure, side),
        upper: rate_upper(events, exposure, side),
    }
}

/// Returns an upper bound for the rate, one-sided with `confidence`, per unit of `exposure`.
#[must_use]
pub fn rate_upper(events: f64, exposure: f64, confidence: Confidence) -> f64 {
    if !is_exposure(exposure) || events.is_nan() || events == f64::INFINITY {
        return f64::INFINITY;
    }
    inverse_incomplete_gamma(events.max(0.0) + 1.0, confidence.get()) / exposure
}

/// Returns a lower bound for the rate, one-sided with `confidence`, per unit of `exposure`; 0 if no
/// event was seen.
#[must_use]
pub fn rate_lower(events: f64, exposure: f64, confidence: Confidence) -> f64 {
    if !is_exposure(exposure) || events.is_nan() || events == f64::INFINITY || events <= 0.0 {
        return 0.0;
    }
    inverse_incomplete_gamma(events, confidence.miss()) / exposure
}

fn is_exposure(exposure: f64) -> bool {
    exposure.is_finite() && exposure > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incomplete_gamma::incomplete_gamma;
    use proptest::prelude::*;

    #[test]
    fn no_event_in_an_hour_leaves_three_an_hour_possible() {
        assert!((rate_upper(0.0, 1.0, Confidence::NINETY_FIVE) - -(0.05_f64.ln())).abs() < 1e-12);
        assert!(
            (rate_upper(0.0, 24.0, Confidence::NINETY_FIVE) - 2.995_732_273_553_991 / 24.0).abs()
                < 1e-12
        );
    }

    #[test]
    fn garwoods_table_is_met() {
        // Garwood 1936, 95 %: k = 1: 0.0253 to 5.572; k = 10: 4.795 to 18.39; k = 50: 37.11 to
        // 65.92. Further digits are from scipy 1.17.
        for (events, lower, upper) in [
            (1.0, 0.025_318, 5.571_643),
            (10.0, 4.795_389, 18.390_356),
            (50.0, 37.110_964, 65.918_767),
        ] {
            let interval = rate_interval(events, 1.0, Confidence::NINETY_FIVE);
            assert!((interval.lower - lower).abs() < 1e-6, "{interval:?}");
            assert!((interval.upper - upper).abs() < 1e-6, "{interval:?}");
        }
    }

    #[test]
    fn without_exposure_nothing_is_claimed() {
        for exposure in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(
                rate_interval(3.0, exposure, Confidence::NINETY_FIVE),
                Interval {
                    lower: 0.0,
                    upper: f64::INFINITY
                }
            );
        }
    }

    proptest! {
        #[test]
        fn at_each_bound_the_count_seen_is_just_as_unlikely_as_allowed(events in 1_u32..5000) {
            let events = f64::from(events);
            let interval = rate_interval(events, 1.0, Confidence::NINETY_FIVE);
            prop_assert!((incomplete_gamma(events, interval.lower) - 0.025).abs() < 1e-9); // P(count >= events)
            prop_assert!((1.0 - incomplete_gamma(events + 1.0, interval.upper) - 0.025).abs() < 1e-9); // P(count <= events)
        }
    }
}
