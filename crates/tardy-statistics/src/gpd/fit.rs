//! Fits the generalised Pareto distribution by maximum likelihood.
//!
//! For a fixed `rate = shape / scale`, the best shape is a mean of logarithms, so only one
//! parameter remains (Grimshaw, Technometrics 35, 1993). Because there is only one parameter, the
//! search cannot diverge along a ridge of the likelihood. For counts in buckets, no such formula
//! exists, so both parameters are searched.

use serde::{Deserialize, Serialize};

use super::Gpd;
use super::excesses::{Excesses, sum_of_logarithms};
use crate::numeric::curvature::inverse_hessian;
use crate::numeric::minimum::{minimum_between, minimum_near};

/// Minimum number of excesses for a fit. The gate requires more excesses than this before a model
/// is shown.
pub const EXCESSES_MIN: u64 = 10;
/// Maximum number of excesses that are used to find roughly where the likelihood has its maximum.
/// The exact maximum is then found with all excesses.
const COARSE_MAX: usize = 2000;

/// The fitted model and its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GpdFit {
    /// The most likely distribution of the excesses.
    pub model: Gpd,
    /// Negative log-likelihood of the excesses under the model.
    pub negative_log_likelihood: f64,
    /// Covariance of scale and shape, in this order, from the curvature of the likelihood. `None`
    /// if the shape is -1/2 or less, because the covariance then does not describe the error;
    /// profile intervals are still valid.
    pub covariance: Option<[[f64; 2]; 2]>,
    /// Number of fitted excesses.
    pub excesses: u64,
}

impl GpdFit {
    /// Returns the standard errors of scale and shape.
    #[must_use]
    pub fn standard_errors(&self) -> Option<[f64; 2]> {
        self.covariance
            .map(|covariance| [covariance[0][0].sqrt(), covariance[1][1].sqrt()])
    }
}

/// Why a fit is impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// There are too few values.
    #[error("{0} values are too few for a fit: measure longer or lower the threshold")]
    TooFew(u64),
    /// All values are equal.
    #[error("all values are equal, so there is no tail to fit: use a finer clock")]
    AllEqual,
    /// The likelihood grows without limit as the shape falls below -1.
    #[error(
        "the likelihood has no maximum, because the values pile up at the largest one: choose \
         another threshold"
    )]
    NoMaximum,
}

/// Returns the most likely model of `excesses`.
///
/// # Errors
/// Fails with a [`FitError`] if the excesses cannot be fitted.
pub fn fit(excesses: &Excesses) -> Result<GpdFit, FitError> {
    if excesses.count() < EXCESSES_MIN {
        return Err(FitError::TooFew(excesses.count()));
    }
    if excesses
        .moments()
        .variance()
        .is_none_or(|variance| variance <= 0.0)
    {
        return Err(FitError::AllEqual);
    }
    let model = match excesses.values() {
        Some(values) => most_likely_of_values(values)?,
        None => most_likely_of_buckets(excesses)?,
    };
    let likelihood =
        |[scale, shape]: [f64; 2]| excesses.negative_log_likelihood(Gpd { scale, shape });
    Ok(GpdFit {
        model,
        negative_log_likelihood: excesses.negative_log_likelihood(model),
        covariance: (model.shape > -0.5)
            .then(|| inverse_hessian(likelihood, [model.scale, model.shape]))
            .flatten(),
        excesses: excesses.count(),
    })
}

/// Returns the most likely shape at a fixed rate, and the negative log-likelihood per excess.
fn at_rate(values: &[f64], rate: f64) -> (f64, f64) {
    let shape = sum_of_logarithms(values, rate) / values.len() as f64;
    (shape, (shape / rate).ln() + shape + 1.0)
}

fn most_likely_of_values(values: &[f64]) -> Result<Gpd, FitError> {
    let largest = values.last().copied().unwrap_or(0.0);
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let rates = rate_grid(largest, mean);
    let stride = values.len().div_ceil(COARSE_MAX);
    // Uses every `stride`-th of the ordered values, which preserves the form of the distribution.
    // The largest value is always included, because it limits the rate.
    let coarse: Vec<f64> = values.iter().copied().rev().step_by(stride).rev().collect();
    let rate = [coarse.as_slice(), values].into_iter().find_map(|sample| {
        let (low, high) = bracket(sample, &rates)?;
        let profile = |rate: f64| at_rate(values, rate).1;
        let (rate, _) = minimum_between(profile, low, high, 1e-10);
        let margin = 1e-6 * (high - low);
        (rate > low + margin && rate < high - margin).then_some(rate)
    });
    let rate = rate.ok_or(FitError::NoMaximum)?;
    let (shape, _) = at_rate(values, rate);
    Ok(Gpd {
        scale: shape / rate,
        shape,
    })
}

/// Returns a grid of rates, from just above `-1 / largest` to rates of very heavy tails, without
/// the rate 0. A rate below this range would exclude the largest excess.
fn rate_grid(largest: f64, mean: f64) -> Vec<f64> {
    let near_limit = (1..=40)
        .rev()
        .map(|step| -(1.0 - 10_f64.powf(-f64::from(step) / 8.0)) / largest);
    let negative = (1..=16).map(|step| -10_f64.powf(-f64::from(step) / 2.0) * 0.2 / largest);
    let positive = (-16..=16).map(|step| 10_f64.powf(f64::from(step) / 2.0) / mean);
    let mut rates: Vec<f64> = near_limit.chain(negative).chain(positive).collect();
    rates.sort_unstable_by(f64::total_cmp);
    rates
}

/// Finds the best local minimum of the negative log-likelihood on the grid, and returns the rates
/// two steps below and two steps above it. At the lower limit of the rates, the likelihood grows
/// without bound; this does not count as a minimum.
fn bracket(values: &[f64], rates: &[f64]) -> Option<(f64, f64)> {
    let at: Vec<(f64, f64)> = rates.iter().map(|&rate| at_rate(values, rate)).collect();
    let inner = (1..rates.len() - 1).filter(|&i| at[i].1 <= at[i - 1].1 && at[i].1 <= at[i + 1].1);
    let best = inner.min_by(|&i, &j| at[i].1.total_cmp(&at[j].1))?;
    Some((
        rates[best.saturating_sub(2)],
        rates[(best + 2).min(rates.len() - 1)],
    ))
}

fn most_likely_of_buckets(excesses: &Excesses) -> Result<Gpd, FitError> {
    let moments = excesses.moments();
    let (mean, variance) = (
        moments.mean().unwrap_or(1.0),
        moments.variance().unwrap_or(1.0),
    );
    // Starts from the method of moments (Hosking and Wallis 1987), with parameters limited so that
    // the largest excess stays possible.
    let shape = (0.5 * (1.0 - mean * mean / variance)).clamp(-0.4, 0.4);
    let scale = (mean * (1.0 - shape)).max(-1.01 * shape * excesses.largest());
    let likelihood = |[ln_scale, shape]: [f64; 2]| {
        if shape <= -1.0 {
            f64::INFINITY
        } else {
            excesses.negative_log_likelihood(Gpd {
                scale: ln_scale.exp(),
                shape,
            })
        }
    };
    let ([ln_scale, shape], _) = minimum_near(likelihood, [scale.ln(), shape], [0.2, 0.1]);
    if shape < -0.999 {
        Err(FitError::NoMaximum)
    } else {
        Ok(Gpd {
            scale: ln_scale.exp(),
            shape,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{dow_jones_returns, rain};
    use crate::tally::Tally;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};

    fn assert_close(value: f64, expected: f64, tolerance: f64) {
        assert!(
            (value - expected).abs() <= tolerance,
            "{value} is not {expected}"
        );
    }

    fn fit_above(values: &[f64], threshold: f64) -> GpdFit {
        fit(&Excesses::above(&Tally::from_samples(values), threshold)).unwrap()
    }

    /// Threshold, count, scale, shape, the standard errors of scale and shape, and the negative
    /// log-likelihood.
    type PublishedFit = (f64, u64, f64, f64, f64, f64, f64);

    fn assert_fit(
        values: &[f64],
        (threshold, count, scale, shape, scale_error, shape_error, likelihood): PublishedFit,
    ) {
        let fit = fit_above(values, threshold);
        assert_eq!(fit.excesses, count);
        assert_close(fit.model.scale, scale, 1e-6);
        assert_close(fit.model.shape, shape, 1e-6);
        assert_close(fit.negative_log_likelihood, likelihood, 1e-6);
        let errors = fit.standard_errors().unwrap();
        assert_close(errors[0], scale_error, 2e-5);
        assert_close(errors[1], shape_error, 2e-5);
    }

    #[test]
    fn the_published_fits_are_met() {
        assert_fit(
            &rain(),
            (
                30.0,
                152,
                7.440_269,
                0.184_499,
                0.958_532,
                0.101_204,
                485.093_721,
            ),
        );
        assert_fit(
            &rain(),
            (
                10.0,
                2003,
                7.438_211,
                0.050_516,
                0.236_127,
                0.022_578,
                6_123.464_776,
            ),
        );
        assert_fit(
            &dow_jones_returns(),
            (
                2.0, 37, 0.495_116, 0.287_832, 0.149_563, 0.257_804, 21.640_156,
            ),
        );
        let covariance = fit_above(&rain(), 30.0).covariance.unwrap();
        assert_close(covariance[0][0], 0.918_784, 1e-5);
        assert_close(covariance[0][1], -0.065_507_8, 1e-6);
        assert_close(covariance[1][1], 0.010_242_3, 1e-6);
    }

    #[test]
    fn rain_rounded_to_whole_millimetres_is_met_by_the_likelihood_of_buckets() {
        // The excesses are rounded down: 30.3 is in the bucket that starts at 30. Values of exactly
        // 30.0 are not excesses.
        let floored: Vec<f64> = rain()
            .iter()
            .filter(|&&value| value > 30.0)
            .map(|value| (value - 30.0).floor())
            .collect();
        let fit = fit(&Excesses::grouped_from(
            &Tally::from_samples(&floored),
            0.0,
            1.0,
        ))
        .unwrap();
        assert_close(fit.model.scale, 7.572_963, 2e-6);
        assert_close(fit.model.shape, 0.173_699, 2e-6);
        assert_close(fit.negative_log_likelihood, 486.251_902, 1e-6);
    }

    #[test]
    fn the_curvature_agrees_with_the_expected_information() {
        let mut random = rand_pcg::Pcg64::seed_from_u64(11);
        let truth = Gpd {
            scale: 3.0,
            shape: 0.15,
        };
        let values: Vec<f64> = (0..200_000)
            .map(|_| truth.excess_at(random.random::<f64>()))
            .collect();
        let fit = fit(&Excesses::from_values(&values)).unwrap();
        assert_close(fit.model.scale, truth.scale, 0.03);
        assert_close(fit.model.shape, truth.shape, 0.01);
        let Gpd { scale, shape } = fit.model;
        let expected = [
            [2.0 * scale * scale * (1.0 + shape), -scale * (1.0 + shape)],
            [-scale * (1.0 + shape), (1.0 + shape).powi(2)],
        ];
        let covariance = fit.covariance.unwrap();
        for (value, expected) in covariance
            .as_flattened()
            .iter()
            .zip(expected.as_flattened())
        {
            assert!(
                (value * values.len() as f64 / expected - 1.0).abs() < 0.03,
                "{covariance:?}"
            );
        }
    }

    #[test]
    fn the_curvature_is_not_given_where_it_says_nothing() {
        let mut random = rand_pcg::Pcg64::seed_from_u64(2);
        let truth = Gpd {
            scale: 1.0,
            shape: -0.7,
        };
        let values: Vec<f64> = (0..2000)
            .map(|_| truth.excess_at(random.random::<f64>()))
            .collect();
        let fit = fit(&Excesses::from_values(&values)).unwrap();
        assert!(
            (fit.model.shape + 0.7).abs() < 0.05 && fit.covariance.is_none(),
            "{fit:?}"
        );
    }

    #[test]
    fn what_cannot_be_fitted_is_refused_with_the_reason() {
        assert_eq!(
            fit(&Excesses::from_values(&[1.0, 2.0])),
            Err(FitError::TooFew(2))
        );
        assert_eq!(
            fit(&Excesses::from_values(&[3.0; 50])),
            Err(FitError::AllEqual)
        );
        let piled: Vec<f64> = (0..200)
            .map(|i| (f64::from(i) / 200.0).powf(0.2).max(0.01))
            .collect();
        assert_eq!(
            fit(&Excesses::from_values(&piled)),
            Err(FitError::NoMaximum)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn no_neighbour_is_more_likely(shape in -0.4_f64..0.9, scale in 0.001_f64..1e6, seed in any::<u64>(), count in 30_usize..4000) {
            let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
            let truth = Gpd { scale, shape };
            let values: Vec<f64> = (0..count).map(|_| truth.excess_at(random.random::<f64>())).collect();
            let excesses = Excesses::from_values(&values);
            if let Ok(fit) = fit(&excesses) {
                for (by_scale, by_shape) in [(1.001, 0.0), (0.999, 0.0), (1.0, 0.001), (1.0, -0.001), (1.01, -0.01), (0.99, 0.01)] {
                    let near = Gpd { scale: fit.model.scale * by_scale, shape: fit.model.shape + by_shape };
                    prop_assert!(excesses.negative_log_likelihood(near) >= fit.negative_log_likelihood - 1e-6);
                }
            } else {
                prop_assert!(shape < 0.0 && count < 300, "missing fit at {} from {}", shape, count);
            }
        }

        #[test]
        fn the_unit_of_the_data_does_not_matter(seed in any::<u64>(), unit in 1e-6_f64..1e6) {
            let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
            let values: Vec<f64> = (0..300).map(|_| Gpd { scale: 1.0, shape: 0.1 }.excess_at(random.random::<f64>())).collect();
            let scaled: Vec<f64> = values.iter().map(|value| value * unit).collect();
            let (one, other) = (fit(&Excesses::from_values(&values)).unwrap(), fit(&Excesses::from_values(&scaled)).unwrap());
            prop_assert!((one.model.shape - other.model.shape).abs() < 1e-6);
            prop_assert!((one.model.scale * unit / other.model.scale - 1.0).abs() < 1e-6);
        }
    }
}
