//! The generalised extreme-value distribution of block maxima, and Gumbel's distribution, which is
//! its special case with shape 0 (Coles 2001, chapter 3).

pub mod fit;
pub mod return_level;

use std::f64::consts::LN_2;

use serde::{Deserialize, Serialize};
use statrs::function::gamma::gamma;

use super::gpd::{SHAPE_ZERO, box_cox};
use super::l_moments::LMoments;

/// Location, scale and shape. A positive shape means a heavy tail, 0 is Gumbel's distribution, and
/// a negative shape means a bounded tail. scipy's `genextreme` has the opposite sign.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gev {
    /// Location, in the unit of the data.
    pub location: f64,
    /// Scale, in the unit of the data, positive.
    pub scale: f64,
    /// Shape, without a unit.
    pub shape: f64,
}

impl Gev {
    /// Returns the distribution with these L-moments, by Hosking's approximation. The error of the
    /// shape is below 9e-4.
    #[must_use]
    pub fn of_l_moments(moments: &LMoments) -> Self {
        let c = 2.0 / (3.0 + moments.skewness) - LN_2 / 3.0_f64.ln();
        let kappa = 7.8590 * c + 2.9554 * c * c;
        if kappa.abs() < 1e-9 {
            let scale = moments.scale / LN_2;
            return Self {
                location: moments.location - 0.577_215_664_901_532_9 * scale,
                scale,
                shape: 0.0,
            };
        }
        let factor = gamma(1.0 + kappa);
        let scale = moments.scale * kappa / ((1.0 - (-kappa * LN_2).exp()) * factor);
        Self {
            location: moments.location - scale * (1.0 - factor) / kappa,
            scale,
            shape: -kappa,
        }
    }

    /// Returns `-ln` of the probability that a maximum is at most `value`. This is infinity below
    /// the lower endpoint of the distribution, and 0 above the upper endpoint.
    #[must_use]
    pub fn negative_ln_cumulative(&self, value: f64) -> f64 {
        let reduced = (value - self.location) / self.scale;
        if self.shape.abs() < SHAPE_ZERO {
            return (-reduced).exp();
        }
        let grown = self.shape * reduced;
        if grown <= -1.0 {
            return if self.shape > 0.0 { f64::INFINITY } else { 0.0 };
        }
        (-grown.ln_1p() / self.shape).exp()
    }

    /// Returns the probability that a maximum is at most `value`.
    #[must_use]
    pub fn cumulative(&self, value: f64) -> f64 {
        (-self.negative_ln_cumulative(value)).exp()
    }

    /// Returns the return level: on average, the maximum of one block in `blocks` exceeds it.
    /// `blocks` must be above 1.
    #[must_use]
    pub fn return_level(&self, blocks: f64) -> f64 {
        self.location + self.scale * box_cox(1.0 / reduced_period(blocks), self.shape)
    }

    /// Returns the largest value that is possible under the model; `None` if there is no limit.
    #[must_use]
    pub fn endpoint(&self) -> Option<f64> {
        (self.shape < 0.0).then(|| self.location - self.scale / self.shape)
    }

    /// Returns the negative log-likelihood of `maxima`; infinity if the model excludes one of them.
    #[must_use]
    pub fn negative_log_likelihood(&self, maxima: &[f64]) -> f64 {
        if !(self.scale > 0.0 && self.scale.is_finite() && self.shape.is_finite()) {
            return f64::INFINITY;
        }
        let of_one = |value: f64| {
            let reduced = (value - self.location) / self.scale;
            if self.shape.abs() < SHAPE_ZERO {
                return reduced + (-reduced).exp();
            }
            let grown = self.shape * reduced;
            if grown <= -1.0 {
                return f64::INFINITY;
            }
            let exponent = grown.ln_1p() / self.shape;
            (1.0 + self.shape) * exponent + (-exponent).exp()
        };
        maxima.len() as f64 * self.scale.ln()
            + maxima.iter().map(|&value| of_one(value)).sum::<f64>()
    }
}

/// Returns `-ln(1 - 1 / blocks)`.
pub(super) fn reduced_period(blocks: f64) -> f64 {
    -(-1.0 / blocks).ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn beyond_the_endpoints_nothing_happens() {
        let bounded = Gev {
            location: 1.0,
            scale: 1.0,
            shape: -0.5,
        };
        assert_eq!(
            (
                bounded.endpoint(),
                bounded.cumulative(3.0),
                bounded.cumulative(9.0)
            ),
            (Some(3.0), 1.0, 1.0)
        );
        let heavy = Gev {
            location: 1.0,
            scale: 1.0,
            shape: 0.5,
        };
        assert_eq!(
            (
                heavy.endpoint(),
                heavy.cumulative(-1.0),
                heavy.cumulative(-9.0)
            ),
            (None, 0.0, 0.0)
        );
    }

    proptest! {
        #[test]
        fn the_return_level_is_passed_once_in_its_period(shape in -0.9_f64..1.5, blocks in 1.1_f64..1e6) {
            for shape in [shape, shape * 1e-9, 0.0] {
                let gev = Gev { location: 5.0, scale: 2.0, shape };
                let passed = -(-gev.negative_ln_cumulative(gev.return_level(blocks))).exp_m1();
                prop_assert!((passed * blocks - 1.0).abs() < 1e-5, "{passed}");
            }
        }
    }
}
