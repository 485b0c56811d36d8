//! Measures how far data are from a distribution, or two samples from each other.
//!
//! With a million samples, every real difference is statistically significant, even if it is too
//! small to matter. The statistics of this file therefore only show whether a model describes its
//! few hundred excesses; they never decide whether a difference matters. If parameters were fitted
//! to the same data, the usual probabilities of these statistics are wrong; [`tail_fit`] gives
//! correct ones.

pub mod tail_fit;
pub mod two_sample;

/// Returns the Anderson-Darling statistic of `shares`, the model's cumulative probabilities of the
/// data in ascending order.
///
/// The statistic gives weight to both tails. It is infinite if a value is impossible under the
/// model, and NaN if there are no data.
#[must_use]
pub fn anderson_darling(shares: &[f64]) -> f64 {
    let n = shares.len() as f64;
    let sum: f64 = shares
        .iter()
        .zip(shares.iter().rev())
        .enumerate()
        .map(|(index, (share, mirrored))| {
            (2.0 * index as f64 + 1.0) * (share.ln() + (-mirrored).ln_1p())
        })
        .sum();
    -n - sum / n
}

/// Returns the Cramer-von Mises statistic of `shares`, the model's cumulative probabilities of the
/// data in ascending order.
#[must_use]
pub fn cramer_von_mises(shares: &[f64]) -> f64 {
    let n = shares.len() as f64;
    let sum: f64 = shares
        .iter()
        .enumerate()
        .map(|(index, share)| (share - (2.0 * index as f64 + 1.0) / (2.0 * n)).powi(2))
        .sum();
    1.0 / (12.0 * n) + sum
}

/// Returns the Kolmogorov-Smirnov distance: the largest difference between the cumulative
/// probabilities of the data and of the model. `shares` are the model's cumulative probabilities of
/// the data, in ascending order.
#[must_use]
pub fn kolmogorov_smirnov(shares: &[f64]) -> f64 {
    let n = shares.len() as f64;
    let distances = shares
        .iter()
        .enumerate()
        .map(|(index, share)| ((index as f64 + 1.0) / n - share).max(share - index as f64 / n));
    distances.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpd::excesses::Excesses;
    use crate::gpd::fit::fit;
    use crate::reference::{dow_jones_returns, rain};
    use crate::tally::Tally;

    #[test]
    fn the_statistics_of_the_published_fits_are_met() {
        let cases = [
            (rain(), 30.0, 0.391_369, 0.038_087_9),
            (dow_jones_returns(), 2.0, 0.614_565, 0.028_545_6),
        ];
        for (values, threshold, darling, mises) in cases {
            let excesses = Excesses::above(&Tally::from_samples(&values), threshold);
            let model = fit(&excesses).unwrap().model;
            let shares: Vec<f64> = excesses
                .values()
                .unwrap()
                .iter()
                .map(|&value| model.cumulative(value))
                .collect();
            assert!(
                (anderson_darling(&shares) - darling).abs() < 1e-5,
                "{}",
                anderson_darling(&shares)
            );
            assert!(
                (cramer_von_mises(&shares) - mises).abs() < 1e-6,
                "{}",
                cramer_von_mises(&shares)
            );
        }
    }

    #[test]
    fn even_spacing_is_the_best_there_is() {
        let even: Vec<f64> = (0..100).map(|i| (f64::from(i) + 0.5) / 100.0).collect();
        assert!((kolmogorov_smirnov(&even) - 0.005).abs() < 1e-12);
        assert!((cramer_von_mises(&even) - 1.0 / 1200.0).abs() < 1e-12);
        assert!(anderson_darling(&even) < 0.02);
        let half: Vec<f64> = even.iter().map(|share| share / 2.0).collect();
        assert!((kolmogorov_smirnov(&half) - 0.5025).abs() < 1e-12);
        assert_eq!(anderson_darling(&[0.5, 1.0]), f64::INFINITY);
    }
}
