//! Computes the block length with which a bootstrap preserves the dependence between the values of
//! a series.
//!
//! Sources: Politis and White, Econometric Reviews 23, 2004; Patton, Politis and White, Econometric
//! Reviews 28, 2009 (correction).

use serde::{Deserialize, Serialize};

use crate::autocorrelation::product_at;

/// Recommended block lengths, in number of values. Callers round them up to a whole number, and use
/// at least the period of the load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BlockLength {
    /// Mean block length for a method whose blocks have random lengths.
    pub stationary: f64,
    /// Block length for a method whose blocks all have the same length.
    pub circular: f64,
}

/// Returns the block length for `values` in chronological order; `None` for fewer than nine values,
/// or if all are equal.
///
/// Needs `n` steps for each lag. The lags go up to twice the distance at which correlations vanish,
/// but at most to `sqrt(n)` plus the larger one of `log10(n)` and 5.
#[must_use]
pub fn block_length(values: &[f64]) -> Option<BlockLength> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let centred: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let square = product_at(&centred, 0);
    if values.len() < 9 || square.is_nan() || square <= 0.0 {
        return None;
    }
    let longest = (3.0 * n.sqrt()).min(n / 3.0).ceil();
    let quiet = (n.log10() as usize).max(5);
    let last_lag = (n.sqrt().ceil() as usize + quiet).min(values.len() - 2);
    let lags = (2 * first_quiet_lag(&centred, quiet, last_lag).unwrap_or(last_lag))
        .clamp(2, last_lag.max(2))
        .min(last_lag);
    let (mut slope, mut level) = (0.0, square / n);
    for lag in 1..=lags {
        let share = lag as f64 / lags as f64;
        // The weights form a trapezoid: they are 1 for the first half of the lags, and then fall
        // linearly to 0.
        let weight = if share <= 0.5 {
            1.0
        } else {
            2.0 * (1.0 - share)
        };
        let covariance = product_at(&centred, lag) / n;
        slope += 2.0 * weight * lag as f64 * covariance;
        level += 2.0 * weight * covariance;
    }
    let length = |divisor: f64| (2.0 * slope * slope / (divisor * level * level)).cbrt() * n.cbrt();
    let limited = |length: f64| {
        if length.is_finite() {
            length.min(longest)
        } else {
            longest
        }
    };
    Some(BlockLength {
        stationary: limited(length(2.0)),
        circular: limited(length(4.0 / 3.0)),
    })
}

/// Finds the first `quiet` consecutive lags whose correlations can all be due to chance, and
/// returns the smallest of these lags.
fn first_quiet_lag(centred: &[f64], quiet: usize, last_lag: usize) -> Option<usize> {
    let n = centred.len() as f64;
    let limit = 2.0 * (n.log10() / n).sqrt();
    let mut silent = 0;
    for lag in 0..last_lag {
        let (later, earlier) = (&centred[lag + 1..], &centred[..centred.len() - lag - 1]);
        let norm = |part: &[f64]| part.iter().map(|value| value * value).sum::<f64>();
        let correlation = product_at(centred, lag).abs() / (norm(later) * norm(earlier)).sqrt();
        silent = if correlation < limit { silent + 1 } else { 0 };
        if silent == quiet {
            return Some(lag + 1 - quiet);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{dow_jones_returns, rain};

    #[test]
    fn the_lengths_of_the_reference_data_are_met() {
        let magnitudes: Vec<f64> = dow_jones_returns()
            .iter()
            .map(|change| change.abs())
            .collect();
        let cases = [
            (dow_jones_returns(), 0.936_12, 1.071_59, 5e-6),
            (magnitudes, 41.095_1, 47.042_2, 5e-5),
            (rain(), 66.426_8, 76.039_8, 5e-5),
        ];
        for (values, stationary, circular, tolerance) in cases {
            let length = block_length(&values).unwrap();
            assert!(
                (length.stationary - stationary).abs() < tolerance,
                "{length:?}"
            );
            assert!((length.circular - circular).abs() < tolerance, "{length:?}");
        }
    }

    #[test]
    fn short_constant_and_strange_series_do_no_harm() {
        assert_eq!(block_length(&[]), None);
        assert_eq!(block_length(&[1.0; 100]), None);
        assert_eq!(block_length(&[f64::NAN; 100]), None);
        for n in 9..40 {
            let values: Vec<f64> = (0..n).map(f64::from).collect();
            let length = block_length(&values).unwrap();
            assert!(
                length.circular >= 0.0 && length.circular <= f64::from(n),
                "{length:?}"
            );
        }
    }
}
