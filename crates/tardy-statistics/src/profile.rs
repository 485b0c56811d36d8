//! Computes confidence intervals from a profile likelihood. An interval contains all values of a
//! quantity for which the data are almost as likely as for the best value.
//!
//! The interval of a return level is long on its upper side. `estimate +- 2 standard errors` would
//! hide this asymmetry. Source: Coles, An Introduction to Statistical Modeling of Extreme Values,
//! 2001, section 2.6.6.

use statrs::function::erf::erf_inv;

use super::confidence::{Confidence, Interval};
use super::numeric::root::root;

/// Returns the standard normal deviate at the ends of a two-sided interval with `confidence`; 1.96
/// at 95 %.
#[must_use]
pub fn normal_deviate(confidence: Confidence) -> f64 {
    std::f64::consts::SQRT_2 * erf_inv(confidence.get())
}

/// Returns the interval around `best`, where `profile` has its minimum `least`. `profile` is the
/// negative log-likelihood, minimised over all other parameters.
///
/// `step` is the first distance from `best` that is tried. The ends are searched for between `low`
/// and `high`; the quantity never reaches these limits. If the profile does not rise enough before
/// one of these limits, the limit is the end of the interval.
pub(super) fn profile_interval(
    mut profile: impl FnMut(f64) -> f64,
    (best, least): (f64, f64),
    step: f64,
    (low, high): (f64, f64),
    confidence: Confidence,
) -> Interval {
    let rise = normal_deviate(confidence).powi(2) / 2.0;
    let mut excess = |value: f64| profile(value) - least - rise;
    Interval {
        lower: end(&mut excess, best, -step, low),
        upper: end(&mut excess, best, step, high),
    }
}

fn end(excess: &mut impl FnMut(f64) -> f64, best: f64, step: f64, limit: f64) -> f64 {
    let mut inside = best;
    let mut step = step;
    // Even if the first step is only 1e-12 of the distance to the end, a hundred doublings are
    // enough to pass any finite end.
    for _ in 0..100 {
        let beyond = if step > 0.0 {
            inside + step >= limit
        } else {
            inside + step <= limit
        };
        // The limit itself is excluded, so the search approaches it by halving the distance.
        let outside = if beyond {
            inside.midpoint(limit)
        } else {
            inside + step
        };
        if excess(outside) > 0.0 {
            return root(excess, inside, outside);
        }
        if beyond && (limit - outside).abs() <= 1e-9 * limit.abs().max(outside.abs()) {
            return limit;
        }
        inside = outside;
        step *= 2.0;
    }
    if step > 0.0 {
        f64::INFINITY
    } else {
        f64::NEG_INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parabola_gives_the_normal_interval() {
        let interval = profile_interval(
            |x| (x - 3.0_f64).powi(2) / 2.0,
            (3.0, 0.0),
            0.1,
            (-1e9, 1e9),
            Confidence::NINETY_FIVE,
        );
        assert!(
            (interval.lower - (3.0 - 1.959_964)).abs() < 1e-6
                && (interval.upper - (3.0 + 1.959_964)).abs() < 1e-6
        );
    }

    #[test]
    fn a_profile_that_stays_flat_gives_its_limit_or_infinity() {
        let flat_above = |x: f64| if x < 0.0 { x * x * 100.0 } else { 0.1 };
        let interval = profile_interval(
            flat_above,
            (0.0, 0.0),
            0.1,
            (f64::NEG_INFINITY, f64::INFINITY),
            Confidence::NINETY_FIVE,
        );
        assert!(
            interval.lower.is_finite() && interval.upper == f64::INFINITY,
            "{interval:?}"
        );
        let interval = profile_interval(
            flat_above,
            (0.0, 0.0),
            0.1,
            (-0.01, 5.0),
            Confidence::NINETY_FIVE,
        );
        assert_eq!((interval.lower, interval.upper), (-0.01, 5.0));
    }
}
