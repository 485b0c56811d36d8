//! Correlates a series with its earlier values.
//!
//! Bounds and fits assume independent samples. But with a million samples, every test rejects
//! independence. So callers pass the maxima of blocks of samples, and judge how large the
//! correlation between these maxima is. Source: Ljung and Box, Biometrika 65, 1978.

use serde::{Deserialize, Serialize};
use statrs::function::gamma::gamma_ur;

/// Correlations of a series with its earlier values, and a test of whether chance can explain them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Autocorrelation {
    /// The correlations at distances of 1, 2, ... values, each from -1 to 1.
    pub correlations: Vec<f64>,
    /// Ljung and Box's statistic, computed from all correlations.
    pub statistic: f64,
    /// Probability that the statistic of an independent series is at least as large as this one.
    pub probability: f64,
}

impl Autocorrelation {
    /// Returns the largest absolute value of the correlations.
    #[must_use]
    pub fn largest(&self) -> f64 {
        self.correlations
            .iter()
            .fold(0.0, |largest, correlation| correlation.abs().max(largest))
    }
}

/// Returns the autocorrelation of `values` in chronological order, up to the distance `lags`.
/// Returns `None` if `lags` is 0, if there are at most `lags` values, or if all values are equal.
///
/// Needs `lags * n` steps.
#[must_use]
pub fn autocorrelation(values: &[f64], lags: usize) -> Option<Autocorrelation> {
    if lags == 0 || values.len() <= lags {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let centred: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let square: f64 = centred.iter().map(|value| value * value).sum();
    if square.is_nan() || square <= 0.0 {
        return None;
    }
    let correlations: Vec<f64> = (1..=lags)
        .map(|lag| product_at(&centred, lag) / square)
        .collect();
    let sum: f64 = correlations
        .iter()
        .zip(1..)
        .map(|(correlation, lag)| correlation * correlation / (n - f64::from(lag)))
        .sum();
    let statistic = n * (n + 2.0) * sum;
    let probability = if statistic > 0.0 {
        gamma_ur(lags as f64 / 2.0, statistic / 2.0)
    } else {
        1.0
    };
    Some(Autocorrelation {
        correlations,
        statistic,
        probability,
    })
}

/// Returns the sum of the products of all pairs of values at distance `lag`.
pub(super) fn product_at(centred: &[f64], lag: usize) -> f64 {
    centred[lag..]
        .iter()
        .zip(centred)
        .map(|(later, earlier)| later * earlier)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{dow_jones_returns, port_pirie};

    #[test]
    fn the_statistics_of_the_reference_data_are_met() {
        let magnitudes: Vec<f64> = dow_jones_returns()
            .iter()
            .map(|change| change.abs())
            .collect();
        let cases = [
            (port_pirie(), 5, 1.797_490_7, 0.876_395_9),
            (port_pirie(), 10, 5.829_843_3, 0.829_350_7),
            (dow_jones_returns(), 10, 25.902_385_7, 0.003_873_71),
            (dow_jones_returns(), 20, 33.679_299_8, 0.028_377_7),
            (magnitudes, 10, 155.668_88, 2.5e-28),
        ];
        for (values, lags, statistic, probability) in cases {
            let result = autocorrelation(&values, lags).unwrap();
            assert!((result.statistic - statistic).abs() < 1e-5, "{result:?}");
            assert!(
                (result.probability - probability).abs() < 5e-8,
                "{result:?}"
            );
        }
    }

    #[test]
    fn an_alternating_series_is_its_own_opposite() {
        let values: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        let result = autocorrelation(&values, 2).unwrap();
        assert!(
            (result.correlations[0] + 0.99).abs() < 1e-9
                && (result.correlations[1] - 0.98).abs() < 1e-9
        );
        assert!((result.largest() - 0.99).abs() < 1e-9 && result.probability < 1e-20);
    }

    #[test]
    fn short_and_constant_series_have_none() {
        assert_eq!(autocorrelation(&[], 1), None);
        assert_eq!(autocorrelation(&[1.0, 2.0], 2), None);
        assert_eq!(autocorrelation(&[1.0, 2.0], 0), None);
        assert_eq!(autocorrelation(&[3.0; 9], 2), None);
        assert_eq!(autocorrelation(&[3.0, f64::NAN, 1.0], 1), None);
    }
}
