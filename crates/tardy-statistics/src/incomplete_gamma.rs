//! The regularised incomplete gamma function and its inverse.
//!
//! The library statrs computes `a ln(x) - x - ln_gamma(a)`, which loses digits, and its loop has no
//! maximum number of steps. This implementation is accurate for millions of events, and always
//! terminates.

use std::f64::consts::PI;

use super::numeric::inversion::{TERMS_MAX, away_from_zero, continued_fraction, inverse};
use super::saddle_point::{deviance, stirling_error};

/// Returns `P(a, x)` for `a > 0`. This is the probability that a Gamma(a, 1) variable is at most
/// `x`, and also the probability that a Poisson variable with mean `x` is at least `a`.
#[must_use]
pub fn incomplete_gamma(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x == f64::INFINITY {
        return 1.0;
    }
    let value = if x < a + 1.0 {
        density_weight(a, x) * series(a, x) / a
    } else {
        1.0 - density_weight(a, x) * upper_tail(a, x)
    };
    value.clamp(0.0, 1.0)
}

/// Returns the `x` at which `P(a, x)` is `probability`, for `a > 0`. Returns 0 if `probability` is
/// at most 0, and infinity if it is at least 1.
#[must_use]
pub fn inverse_incomplete_gamma(a: f64, probability: f64) -> f64 {
    if probability <= 0.0 {
        return 0.0;
    }
    if probability >= 1.0 {
        return f64::INFINITY;
    }
    // The equation is solved for ln(x), so small rates keep their relative precision.
    let t = inverse(a.ln(), (-740.0, 700.0), 1e-15, |t| {
        let x = t.exp();
        (incomplete_gamma(a, x) - probability, density_weight(a, x))
    });
    t.exp()
}

/// Returns `x^a e^-x / Gamma(a)`, which is also the derivative of `P(a, x)` by `ln(x)`.
fn density_weight(a: f64, x: f64) -> f64 {
    (a / (2.0 * PI)).sqrt() * (-stirling_error(a) - deviance(a, x)).exp()
}

/// Returns `sum x^i / ((a+1)...(a+i))` (Abramowitz and Stegun 6.5.29).
fn series(a: f64, x: f64) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for index in 1..=TERMS_MAX {
        term *= x / (a + f64::from(index));
        sum += term;
        if term <= sum * 1e-16 {
            break;
        }
    }
    sum
}

/// Returns the continued fraction of the upper tail (Abramowitz and Stegun 6.5.31, even part).
fn upper_tail(a: f64, x: f64) -> f64 {
    let mut divisor = away_from_zero(x + 1.0 - a);
    continued_fraction((1.0 / divisor, 1e300, 1.0 / divisor), |i| {
        divisor += 2.0;
        (-i * (i - a), divisor)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn closed_forms_are_met() {
        for x in [1e-9, 0.1, 1.0, 5.0, 40.0] {
            assert!((incomplete_gamma(1.0, x) - -f64::exp_m1(-x)).abs() < 1e-15);
            let two = -f64::exp_m1(-x) - x * (-x).exp();
            assert!((incomplete_gamma(2.0, x) - two).abs() < 1e-14);
        }
    }

    #[test]
    fn statrs_agrees_where_it_is_exact() {
        for (a, x) in [(0.3, 0.2), (5.0, 7.5), (50.0, 40.0), (500.0, 520.0)] {
            assert!(
                (incomplete_gamma(a, x) - statrs::function::gamma::gamma_lr(a, x)).abs() < 1e-11,
                "{a} {x}"
            );
        }
    }

    proptest! {
        #[test]
        fn the_inverse_undoes_the_function(a in 0.05_f64..1e7, probability in 1e-6_f64..0.999_999) {
            prop_assert!((incomplete_gamma(a, inverse_incomplete_gamma(a, probability)) - probability).abs() < 1e-8);
        }
    }
}
