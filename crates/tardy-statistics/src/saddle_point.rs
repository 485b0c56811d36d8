//! Computes the parts of binomial, beta, Poisson and gamma densities without loss of digits.
//!
//! For a hundred million samples, `ln_gamma(n)` is about 1.7e9, and a difference of three such
//! numbers leaves a relative error of 1e-6 in the density. Loader's decomposition needs no such
//! differences. Source: Loader, "Fast and Accurate Computation of Binomial Probabilities", 2000.

use std::f64::consts::PI;

use statrs::function::gamma::ln_gamma;

/// Returns `ln(n!)` minus Stirling's formula, for real `n > 0`.
pub(super) fn stirling_error(n: f64) -> f64 {
    if n <= 15.0 {
        return ln_gamma(n + 1.0) - (n + 0.5) * n.ln() + n - 0.5 * (2.0 * PI).ln();
    }
    let square = n * n;
    (1.0 / 12.0
        - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0 - 1.0 / 1188.0 / square) / square) / square)
            / square)
        / n
}

/// Returns `x ln(x / mean) + mean - x`, the deviance of `x` from `mean`, for `x > 0` and `mean >
/// 0`.
pub(super) fn deviance(x: f64, mean: f64) -> f64 {
    if (x - mean).abs() >= 0.1 * (x + mean) {
        return x * (x / mean).ln() + mean - x;
    }
    // If x is close to its mean, the direct formula loses digits by cancellation. The series of
    // ln((1+v)/(1-v)) does not lose them.
    let ratio = (x - mean) / (x + mean);
    let mut sum = (x - mean) * ratio;
    let mut term = 2.0 * x * ratio;
    for odd in (3_u32..).step_by(2) {
        term *= ratio * ratio;
        let next = sum + term / f64::from(odd);
        if next == sum || odd > 1000 {
            break;
        }
        sum = next;
    }
    sum
}
