//! Return levels of block maxima, with symmetric and with profile-likelihood intervals.

use super::fit::GevFit;
use super::{Gev, reduced_period};
use crate::confidence::{Confidence, Interval};
use crate::gpd::box_cox;
use crate::numeric::minimum::minimum_near;
use crate::profile::{normal_deviate, profile_interval};

impl GevFit {
    /// Returns the symmetric interval of the level that one block in `blocks` exceeds, by the delta
    /// method. This interval is only for comparison with published numbers.
    #[must_use]
    pub fn return_level_interval_symmetric(
        &self,
        blocks: f64,
        confidence: Confidence,
    ) -> Option<Interval> {
        let covariance = self.covariance?;
        let Gev { scale, shape, .. } = self.model;
        let period = 1.0 / reduced_period(blocks);
        let step = 1e-6;
        let by_shape =
            scale * (box_cox(period, shape + step) - box_cox(period, shape - step)) / (2.0 * step);
        let gradient = [1.0, box_cox(period, shape), by_shape];
        let variance: f64 = (0..3)
            .flat_map(|i| (0..3).map(move |j| (i, j)))
            .map(|(i, j)| gradient[i] * covariance[i][j] * gradient[j])
            .sum();
        let level = self.model.return_level(blocks);
        let reach = normal_deviate(confidence) * variance.sqrt();
        Some(Interval {
            lower: level - reach,
            upper: level + reach,
        })
    }

    /// Returns the profile-likelihood interval of the level that one block in `blocks` exceeds.
    /// `blocks` must be above 1, and `maxima` must be those to which the model was fitted.
    #[must_use]
    pub fn return_level_interval(
        &self,
        maxima: &[f64],
        blocks: f64,
        confidence: Confidence,
    ) -> Interval {
        let period = 1.0 / reduced_period(blocks);
        let level = self.model.return_level(blocks);
        let profile_from = |level: f64, start: [f64; 2]| {
            let likelihood = |[ln_scale, shape]: [f64; 2]| {
                let scale = ln_scale.exp();
                if shape <= -1.0 {
                    return f64::INFINITY;
                }
                Gev {
                    location: level - scale * box_cox(period, shape),
                    scale,
                    shape,
                }
                .negative_log_likelihood(maxima)
            };
            minimum_near(likelihood, start, [0.1, 0.05])
        };
        let fitted = [self.model.scale.ln(), self.model.shape];
        // Each search starts at the result of the previous search, because the best parameters for
        // neighbouring levels are similar. If these parameters exclude a maximum, the search
        // restarts from a wide Gumbel distribution, which excludes no value.
        let mut last = fitted;
        let profile = |level: f64| {
            let mut found = profile_from(level, last);
            if found.1 == f64::INFINITY {
                found = profile_from(level, [fitted[0] + 1.0, 0.0]);
            }
            if found.1.is_finite() {
                last = found.0;
            }
            found.1
        };
        let least = self.negative_log_likelihood;
        profile_interval(
            profile,
            (level, least),
            self.model.scale * 0.2,
            (f64::NEG_INFINITY, f64::INFINITY),
            confidence,
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::confidence::Confidence;
    use crate::gev::fit::fit;
    use crate::reference::port_pirie;

    fn assert_close(value: f64, expected: f64, tolerance: f64) {
        assert!(
            (value - expected).abs() <= tolerance,
            "{value} is not {expected}"
        );
    }

    #[test]
    fn the_return_levels_of_port_pirie_are_met() {
        let maxima = port_pirie();
        let fit = fit(&maxima).unwrap();
        let cases = [
            (10.0, 4.296_21, (4.188_4, 4.404_0), (4.204_6, 4.445_1)),
            (100.0, 4.688_40, (4.377_1, 4.999_7), (4.490_4, 5.260_7)),
        ];
        for (blocks, level, symmetric, profile) in cases {
            assert_close(fit.model.return_level(blocks), level, 6e-6);
            let interval = fit
                .return_level_interval_symmetric(blocks, Confidence::NINETY_FIVE)
                .unwrap();
            assert_close(interval.lower, symmetric.0, 1e-4);
            assert_close(interval.upper, symmetric.1, 1e-4);
            let interval = fit.return_level_interval(&maxima, blocks, Confidence::NINETY_FIVE);
            assert_close(interval.lower, profile.0, 1e-4);
            assert_close(interval.upper, profile.1, 1e-4);
        }
    }
}
