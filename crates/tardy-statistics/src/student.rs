//! Student's t distribution, for real degrees of freedom.

use super::confidence::Confidence;
use super::incomplete_beta::{incomplete_beta, inverse_incomplete_beta};

/// Returns the probability that a random deviate is at least as far from 0 as `deviate`; NaN if
/// `deviate` is NaN.
#[must_use]
pub fn both_tails(deviate: f64, freedom: f64) -> f64 {
    let square = deviate * deviate;
    if square.is_nan() || freedom.is_nan() || freedom <= 0.0 {
        return f64::NAN;
    }
    if square == f64::INFINITY {
        return 0.0;
    }
    incomplete_beta(
        freedom / 2.0,
        0.5,
        freedom / (freedom + square),
        square / (freedom + square),
    )
}

/// Returns the deviate at the ends of a two-sided interval with `confidence`.
#[must_use]
pub fn deviate(confidence: Confidence, freedom: f64) -> f64 {
    let share = inverse_incomplete_beta(freedom / 2.0, 0.5, confidence.miss());
    (freedom * (1.0 - share) / share).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_table_is_met() {
        for (freedom, expected) in [
            (1.0, 12.706_205),
            (5.0, 2.570_582),
            (30.0, 2.042_272),
            (1e6, 1.959_966),
        ] {
            let found = deviate(Confidence::NINETY_FIVE, freedom);
            assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
            assert!((both_tails(found, freedom) - 0.05).abs() < 1e-9);
        }
        assert_eq!(both_tails(f64::INFINITY, 3.0), 0.0);
        assert_eq!(both_tails(0.0, 3.0), 1.0);
        assert!(both_tails(1.0, 0.0).is_nan());
    }
}
