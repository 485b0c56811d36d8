//! Tests whether a series stays at one level, by the test of Kwiatkowski, Phillips, Schmidt and
//! Shin (Journal of Econometrics 54, 1992).
//!
//! The null hypothesis is a constant level, so a large statistic is evidence against it.

use serde::{Deserialize, Serialize};

use super::autocorrelation::product_at;

/// The statistic, and the number of lags whose correlation it takes into account.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Kpss {
    /// The statistic, to compare with [`Kpss::CRITICAL_5_PERCENT`] or the other critical values.
    pub statistic: f64,
    /// Number of lags in the long-run variance.
    pub lags: usize,
}

impl Kpss {
    /// One in ten series with a constant level exceeds this critical value (table 1 of the paper).
    pub const CRITICAL_10_PERCENT: f64 = 0.347;
    /// One in twenty series with a constant level exceeds this critical value.
    pub const CRITICAL_5_PERCENT: f64 = 0.463;
    /// One in a hundred series with a constant level exceeds this critical value.
    pub const CRITICAL_1_PERCENT: f64 = 0.739;
}

/// Tests `values`, which are in chronological order. If `lags` is `None`, the number of lags is
/// chosen from the data, as in Hobijn, Franses and Ooms, Statistica Neerlandica 58, 2004.
///
/// Returns `None` for fewer than three values, or if all are equal.
#[must_use]
pub fn kpss(values: &[f64], lags: Option<usize>) -> Option<Kpss> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let centred: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let square = product_at(&centred, 0);
    if values.len() < 3 || square.is_nan() || square <= 0.0 {
        return None;
    }
    let lags = lags
        .unwrap_or_else(|| chosen_lags(&centred))
        .min(values.len() - 1);
    let mut cumulative = 0.0;
    let mut sums = 0.0;
    for value in &centred {
        cumulative += value;
        sums += cumulative * cumulative;
    }
    // Bartlett's weights are used because they keep the long-run variance above zero.
    let weighted =
        |lag: usize| 2.0 * (1.0 - lag as f64 / (lags as f64 + 1.0)) * product_at(&centred, lag);
    let long_run = (square + (1..=lags).map(weighted).sum::<f64>()) / n;
    (long_run > 0.0).then(|| Kpss {
        statistic: sums / (n * n * long_run),
        lags,
    })
}

fn chosen_lags(centred: &[f64]) -> usize {
    let n = centred.len() as f64;
    let looked_at = (n.powf(2.0 / 9.0) as usize).min(centred.len() - 1);
    let mut level = product_at(centred, 0) / n;
    let mut slope = 0.0;
    for lag in 1..=looked_at {
        let product = product_at(centred, lag) / (n / 2.0);
        level += product;
        slope += lag as f64 * product;
    }
    let ratio = slope / level;
    (1.1447 * (ratio * ratio).cbrt() * n.cbrt()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{dow_jones_returns, fremantle};

    #[test]
    fn the_statistics_of_the_reference_data_are_met() {
        let cases = [
            (dow_jones_returns(), None, 9, 0.102_941_3),
            (fremantle(), None, 2, 0.813_317_2),
            (fremantle(), Some(12), 12, 0.506_698_5),
        ];
        for (values, asked, lags, statistic) in cases {
            let kpss = kpss(&values, asked).unwrap();
            assert_eq!(kpss.lags, lags);
            assert!((kpss.statistic - statistic).abs() < 5e-8, "{kpss:?}");
        }
    }

    #[test]
    fn a_step_is_no_constant_level() {
        let step: Vec<f64> = (0..200)
            .map(|i| f64::from(u8::from(i >= 100)) + f64::from(i * 7 % 10) / 10.0)
            .collect();
        assert!(kpss(&step, None).unwrap().statistic > Kpss::CRITICAL_1_PERCENT);
    }

    #[test]
    fn short_and_constant_series_have_no_statistic() {
        assert_eq!(kpss(&[], None), None);
        assert_eq!(kpss(&[1.0, 2.0], None), None);
        assert_eq!(kpss(&[5.0; 30], None), None);
        assert!(kpss(&[1.0, 2.0, 4.0], Some(99)).is_none_or(|kpss| kpss.lags == 2));
    }
}
