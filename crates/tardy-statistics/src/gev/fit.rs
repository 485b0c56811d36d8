//! Fits the extreme-value distributions by maximum likelihood, starting from the L-moments.

use serde::{Deserialize, Serialize};
use statrs::function::gamma::gamma_ur;

use super::Gev;
use crate::gpd::fit::FitError;
use crate::l_moments::l_moments;
use crate::numeric::curvature::inverse_hessian;
use crate::numeric::minimum::minimum_near;

/// Minimum number of block maxima for a fit.
pub const MAXIMA_MIN: usize = 10;

/// The fitted model and its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GevFit {
    /// The most likely distribution of a block's maximum.
    pub model: Gev,
    /// Negative log-likelihood of the maxima under the model.
    pub negative_log_likelihood: f64,
    /// Covariance of location, scale and shape, in this order. `None` for a shape of -1/2 or below,
    /// because the covariance then does not describe the error.
    pub covariance: Option<[[f64; 3]; 3]>,
}

/// A fitted Gumbel distribution (shape 0), compared with the full model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GumbelFit {
    /// The most likely distribution of shape 0.
    pub model: Gev,
    /// Negative log-likelihood of the maxima under the model.
    pub negative_log_likelihood: f64,
    /// The likelihood ratio: twice the difference between the log-likelihoods of the full model and
    /// of this model.
    pub likelihood_ratio: f64,
    /// Probability that the ratio is at least as large if the shape is 0. A large probability does
    /// not prove that the shape is 0, so shape 0 is not assumed even then.
    pub probability: f64,
}

/// Returns the most likely model of block maxima, which may be in any order.
///
/// # Errors
/// Fails with a [`FitError`] if the maxima cannot be fitted.
pub fn fit(maxima: &[f64]) -> Result<GevFit, FitError> {
    let (start, step) = start(maxima)?;
    let likelihood = |[location, ln_scale, shape]: [f64; 3]| {
        if shape <= -1.0 {
            f64::INFINITY
        } else {
            Gev {
                location,
                scale: ln_scale.exp(),
                shape,
            }
            .negative_log_likelihood(maxima)
        }
    };
    // The distribution from the L-moments may exclude the largest maximum. A distribution of shape
    // 0 excludes no value.
    let shape = if start.negative_log_likelihood(maxima).is_finite() && start.shape > -0.9 {
        start.shape
    } else {
        0.0
    };
    let ([location, ln_scale, shape], _) = minimum_near(
        likelihood,
        [start.location, start.scale.ln(), shape],
        [step, 0.2, 0.1],
    );
    if shape < -0.999 || !location.is_finite() {
        return Err(FitError::NoMaximum);
    }
    let model = Gev {
        location,
        scale: ln_scale.exp(),
        shape,
    };
    let of_parameters = |[location, scale, shape]: [f64; 3]| {
        Gev {
            location,
            scale,
            shape,
        }
        .negative_log_likelihood(maxima)
    };
    Ok(GevFit {
        model,
        negative_log_likelihood: model.negative_log_likelihood(maxima),
        covariance: (shape > -0.5)
            .then(|| covariance(of_parameters, model))
            .flatten(),
    })
}

/// Returns the most likely Gumbel distribution of block maxima, compared with `full`, the fit of
/// all three parameters.
///
/// # Errors
/// Fails with a [`FitError`] if the maxima cannot be fitted.
pub fn fit_gumbel(maxima: &[f64], full: &GevFit) -> Result<GumbelFit, FitError> {
    let (start, step) = start(maxima)?;
    let likelihood = |[location, ln_scale]: [f64; 2]| {
        Gev {
            location,
            scale: ln_scale.exp(),
            shape: 0.0,
        }
        .negative_log_likelihood(maxima)
    };
    let ([location, ln_scale], least) =
        minimum_near(likelihood, [start.location, start.scale.ln()], [step, 0.2]);
    let likelihood_ratio = (2.0 * (least - full.negative_log_likelihood)).max(0.0);
    let probability = if likelihood_ratio > 0.0 {
        gamma_ur(0.5, likelihood_ratio / 2.0)
    } else {
        1.0
    };
    let model = Gev {
        location,
        scale: ln_scale.exp(),
        shape: 0.0,
    };
    Ok(GumbelFit {
        model,
        negative_log_likelihood: least,
        likelihood_ratio,
        probability,
    })
}

/// Returns the point at which the search starts, computed from the L-moments, and the first step
/// for the location.
fn start(maxima: &[f64]) -> Result<(Gev, f64), FitError> {
    if maxima.len() < MAXIMA_MIN {
        return Err(FitError::TooFew(maxima.len() as u64));
    }
    let mut sorted = maxima.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let moments = l_moments(&sorted).ok_or(FitError::AllEqual)?;
    let gev = Gev::of_l_moments(&moments);
    let usable = gev.scale > 0.0 && gev.scale.is_finite() && gev.location.is_finite();
    let gev = if usable {
        gev
    } else {
        Gev {
            location: moments.location,
            scale: moments.scale,
            shape: 0.0,
        }
    };
    Ok((gev, gev.scale * 0.2))
}

/// Returns the covariance of the parameters. The derivatives are computed with steps that are
/// relative to the scale, not to the location, because the location may be much larger than the
/// scale, as in 1 ms +- 1 us.
fn covariance(likelihood: impl Fn([f64; 3]) -> f64, model: Gev) -> Option<[[f64; 3]; 3]> {
    let Gev {
        location,
        scale,
        shape,
    } = model;
    let reduced = |[away, factor, shape]: [f64; 3]| {
        likelihood([location + away * scale, factor * scale, shape])
    };
    let covariance = inverse_hessian(reduced, [0.0, 1.0, shape])?;
    let units = [scale, scale, 1.0];
    Some(std::array::from_fn(|i| {
        std::array::from_fn(|j| covariance[i][j] * units[i] * units[j])
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::port_pirie;

    fn assert_close(value: f64, expected: f64, tolerance: f64) {
        assert!(
            (value - expected).abs() <= tolerance,
            "{value} is not {expected}"
        );
    }

    #[test]
    fn port_pirie_is_met() {
        let fit = fit(&port_pirie()).unwrap();
        assert_close(fit.model.location, 3.874_750, 1e-6);
        assert_close(fit.model.scale, 0.198_044, 1e-6);
        assert_close(fit.model.shape, -0.050_110, 1e-6);
        assert_close(fit.negative_log_likelihood, -4.339_058, 1e-6);
        let covariance = fit.covariance.unwrap();
        let expected = [
            [0.000_780_21, 0.000_197_05, -0.001_074_09],
            [0.0, 0.000_410_03, -0.000_777_5],
            [0.0, 0.0, 0.009_654_16],
        ];
        for i in 0..3 {
            for j in i..3 {
                assert!(
                    (covariance[i][j] / expected[i][j] - 1.0).abs() < 3e-4,
                    "{covariance:?}"
                );
            }
        }
        for (i, error) in [0.027_932, 0.020_249, 0.098_256].into_iter().enumerate() {
            assert_close(covariance[i][i].sqrt(), error, 5e-6);
        }
    }

    #[test]
    fn the_gumbel_restriction_of_port_pirie_is_met() {
        let maxima = port_pirie();
        let gumbel = fit_gumbel(&maxima, &fit(&maxima).unwrap()).unwrap();
        assert_close(gumbel.model.location, 3.869_444, 1e-6);
        assert_close(gumbel.model.scale, 0.194_889, 1e-6);
        assert_close(gumbel.negative_log_likelihood, -4.217_682, 1e-6);
        assert_close(gumbel.likelihood_ratio, 0.242_75, 5e-6);
        assert_close(gumbel.probability, 0.622_2, 5e-5);
    }

    #[test]
    fn a_large_offset_and_another_unit_change_nothing() {
        let maxima: Vec<f64> = port_pirie()
            .iter()
            .map(|level| 1e9 + level * 1000.0)
            .collect();
        let fit = fit(&maxima).unwrap();
        assert_close(fit.model.shape, -0.050_110, 1e-4);
        assert_close(fit.model.location - 1e9, 3874.750, 0.1);
        assert_close(fit.covariance.unwrap()[2][2].sqrt(), 0.098_256, 1e-3);
    }

    #[test]
    fn what_cannot_be_fitted_is_refused() {
        assert_eq!(fit(&[1.0; 5]), Err(FitError::TooFew(5)));
        assert_eq!(fit(&[1.0; 50]), Err(FitError::AllEqual));
    }
}
