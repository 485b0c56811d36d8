//! The generalised Pareto distribution, the limit distribution of excesses over a high threshold
//! (Coles 2001, chapter 4).
//!
//! Return levels have profile-likelihood intervals; symmetric intervals exist only for comparison
//! with textbooks. Rounded data, such as a histogram in microseconds, contain many equal values,
//! which make the methods for exact values invalid. Such data are fitted by the likelihood of their
//! buckets, and tested by chi-square.

pub mod excesses;
pub mod fit;
pub mod plausible;
pub mod return_level;

use serde::{Deserialize, Serialize};

/// A shape with a smaller absolute value is treated as 0, because the formulas divide by the shape.
pub(super) const SHAPE_ZERO: f64 = 1e-9;

/// Scale and shape. A positive shape means a heavy tail, 0 is the exponential distribution, and a
/// negative shape means a bounded tail.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gpd {
    /// Scale, in the unit of the data, positive.
    pub scale: f64,
    /// Shape, without a unit, with the sign convention of Coles and of scipy's `genpareto`.
    pub shape: f64,
}

impl Gpd {
    /// Returns the logarithm of the probability that an excess is above `excess`.
    #[must_use]
    pub fn ln_survival(&self, excess: f64) -> f64 {
        if excess <= 0.0 {
            return 0.0;
        }
        if self.shape.abs() < SHAPE_ZERO {
            return -excess / self.scale;
        }
        let grown = self.shape * excess / self.scale;
        if grown <= -1.0 {
            f64::NEG_INFINITY
        } else {
            -grown.ln_1p() / self.shape
        }
    }

    /// Returns the probability that an excess is above `excess`.
    #[must_use]
    pub fn survival(&self, excess: f64) -> f64 {
        self.ln_survival(excess).exp()
    }

    /// Returns the probability that an excess is at most `excess`.
    #[must_use]
    pub fn cumulative(&self, excess: f64) -> f64 {
        -self.ln_survival(excess).exp_m1()
    }

    /// Returns the excess that is exceeded with probability `survival` (0 to 1).
    #[must_use]
    pub fn excess_at(&self, survival: f64) -> f64 {
        self.scale * box_cox(1.0 / survival, self.shape)
    }

    /// Returns the largest possible excess; `None` if there is no limit.
    #[must_use]
    pub fn endpoint(&self) -> Option<f64> {
        (self.shape < 0.0).then(|| -self.scale / self.shape)
    }
}

/// Returns `(x^shape - 1) / shape`, or `ln(x)` for shape 0, for `x > 0`. This is the distance of a
/// return level from the threshold, in units of the scale.
pub(super) fn box_cox(x: f64, shape: f64) -> f64 {
    let logarithm = x.ln();
    if (shape * logarithm).abs() < SHAPE_ZERO {
        logarithm
    } else {
        (shape * logarithm).exp_m1() / shape
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_negative_shape_ends_at_the_endpoint() {
        let bounded = Gpd {
            scale: 2.0,
            shape: -0.5,
        };
        assert_eq!(bounded.endpoint(), Some(4.0));
        assert_eq!(
            (
                bounded.survival(4.0),
                bounded.survival(9.0),
                bounded.survival(-1.0)
            ),
            (0.0, 0.0, 1.0)
        );
        assert_eq!(bounded.excess_at(0.0), 4.0);
        assert_eq!(
            Gpd {
                scale: 2.0,
                shape: 0.1
            }
            .endpoint(),
            None
        );
    }

    proptest! {
        #[test]
        fn the_excess_at_a_probability_has_that_probability(scale in 0.01_f64..1e6, shape in -0.9_f64..2.0, survival in 1e-9_f64..1.0) {
            for shape in [shape, shape * 1e-9, 0.0] {
                let gpd = Gpd { scale, shape };
                let back = gpd.survival(gpd.excess_at(survival));
                prop_assert!((back / survival - 1.0).abs() < 1e-5, "{back} {survival}");
                prop_assert!((gpd.cumulative(gpd.excess_at(survival)) + back - 1.0).abs() < 1e-12);
            }
        }
    }
}
