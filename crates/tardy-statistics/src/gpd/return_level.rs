//! Extrapolates the fitted tail: return levels, the endpoint, and the probability of exceeding a
//! limit. All results come from the model and are not observations.

use super::excesses::Excesses;
use super::fit::{FitError, GpdFit, fit};
use super::{Gpd, box_cox};
use crate::confidence::{Confidence, Interval};
use crate::numeric::minimum::minimum_between;
use crate::profile::{normal_deviate, profile_interval};

/// The range of shapes in which a profile is searched. Below -1, the likelihood has no maximum. A
/// shape of 10 is far above 1, at which the mean becomes infinite.
const SHAPE_RANGE: (f64, f64) = (-1.0, 10.0);

/// A threshold, how often samples exceed it, and the distribution of the excesses.
#[derive(Debug, Clone, PartialEq)]
pub struct Tail {
    /// The threshold, in the unit of the data.
    pub threshold: f64,
    /// Number of all samples, including those below the threshold.
    pub samples: u64,
    /// The extremal index. An index below 1 means that exceedances cluster. If `excesses` already
    /// contains only one excess per cluster, the index is 1.
    pub extremal_index: f64,
    /// The excesses that were fitted.
    pub excesses: Excesses,
    pub fit: GpdFit,
}

impl Tail {
    /// Fits `excesses` over `threshold`.
    ///
    /// # Errors
    /// Fails with a [`FitError`] if the excesses cannot be fitted.
    pub fn new(
        threshold: f64,
        samples: u64,
        extremal_index: f64,
        excesses: Excesses,
    ) -> Result<Self, FitError> {
        let fit = fit(&excesses)?;
        Ok(Self {
            threshold,
            samples,
            extremal_index,
            excesses,
            fit,
        })
    }

    /// Returns the fraction of samples above the threshold.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.excesses.count() as f64 / self.samples as f64
    }

    /// Returns the level that is exceeded once in `horizon` samples on average, if a cluster counts
    /// once; `None` if this level is not above the threshold.
    #[must_use]
    pub fn return_level(&self, horizon: f64) -> Option<f64> {
        let expected = horizon * self.rate() * self.extremal_index;
        (expected > 1.0).then(|| {
            self.threshold + self.fit.model.scale * box_cox(expected, self.fit.model.shape)
        })
    }

    /// Returns the probability that a sample exceeds `limit`; `None` for a limit below the
    /// threshold.
    #[must_use]
    pub fn exceedance_probability(&self, limit: f64) -> Option<f64> {
        (limit >= self.threshold)
            .then(|| self.rate() * self.fit.model.survival(limit - self.threshold))
    }

    /// Returns the variance of the return level by the delta method (Coles 2001, equation 4.15),
    /// for comparison with published numbers.
    #[must_use]
    pub fn return_level_variance(&self, horizon: f64) -> Option<f64> {
        let covariance = self.fit.covariance?;
        let Gpd { scale, shape } = self.fit.model;
        let rate = self.rate();
        let expected = horizon * rate * self.extremal_index;
        if expected <= 1.0 {
            return None;
        }
        let grown = expected.powf(shape);
        let step = 1e-6;
        // The derivative with respect to the shape is computed numerically, because the formula
        // divides by the square of the shape.
        let by_shape = scale * (box_cox(expected, shape + step) - box_cox(expected, shape - step))
            / (2.0 * step);
        let gradient = [scale * grown / rate, box_cox(expected, shape), by_shape];
        let of_fit = gradient[1] * gradient[1] * covariance[0][0]
            + 2.0 * gradient[1] * gradient[2] * covariance[0][1]
            + gradient[2] * gradient[2] * covariance[1][1];
        Some(gradient[0] * gradient[0] * rate * (1.0 - rate) / self.samples as f64 + of_fit)
    }

    /// Returns the symmetric interval by the delta method. The upper half of this interval is too
    /// short for a tail, so reports show [`Self::return_level_interval`] instead.
    #[must_use]
    pub fn return_level_interval_symmetric(
        &self,
        horizon: f64,
        confidence: Confidence,
    ) -> Option<Interval> {
        let level = self.return_level(horizon)?;
        let reach = normal_deviate(confidence) * self.return_level_variance(horizon)?.sqrt();
        Some(Interval {
            lower: level - reach,
            upper: level + reach,
        })
    }

    /// Returns the profile-likelihood interval of the return level. The error of the exceedance
    /// rate is ignored, because it is small compared with the error of the fit.
    #[must_use]
    pub fn return_level_interval(&self, horizon: f64, confidence: Confidence) -> Option<Interval> {
        let expected = horizon * self.rate() * self.extremal_index;
        let height = self.return_level(horizon)? - self.threshold;
        let largest = self.excesses.largest();
        let profile = |height: f64| {
            // The scale follows from the shape and from the height (the level above the threshold).
            // The endpoint grows with the shape, and must be above the largest excess.
            let scale = |shape: f64| height / box_cox(expected, shape);
            let possible = |shape: f64| shape >= 0.0 || -scale(shape) / shape > largest;
            let low = first_possible(possible, SHAPE_RANGE.0, 0.0);
            let likelihood = |shape: f64| {
                self.excesses.negative_log_likelihood(Gpd {
                    scale: scale(shape),
                    shape,
                })
            };
            minimum_between(likelihood, low, SHAPE_RANGE.1, 1e-8).1
        };
        let interval = profile_interval(
            profile,
            (height, self.fit.negative_log_likelihood),
            height * 0.05,
            (0.0, f64::INFINITY),
            confidence,
        );
        Some(Interval {
            lower: self.threshold + interval.lower,
            upper: self.threshold + interval.upper,
        })
    }

    /// Returns the largest possible value under the model, with its interval; `None` if the most
    /// likely shape is not negative.
    ///
    /// The upper end is infinite if the data do not rule out an unbounded tail.
    #[must_use]
    pub fn endpoint(&self, confidence: Confidence) -> Option<(f64, Interval)> {
        let endpoint = self.fit.model.endpoint()?;
        let largest = self.excesses.largest();
        let profile = |end: f64| {
            let likelihood = |shape: f64| {
                self.excesses.negative_log_likelihood(Gpd {
                    scale: -shape * end,
                    shape,
                })
            };
            minimum_between(likelihood, SHAPE_RANGE.0, -1e-9, 1e-8).1
        };
        let range = (largest, f64::INFINITY);
        let step = (endpoint - largest) * 0.5;
        let interval = profile_interval(
            profile,
            (endpoint, self.fit.negative_log_likelihood),
            step,
            range,
            confidence,
        );
        let raised = Interval {
            lower: self.threshold + interval.lower,
            upper: self.threshold + interval.upper,
        };
        Some((self.threshold + endpoint, raised))
    }
}

/// Returns the smallest argument between `low` and `high` at and above which `condition` holds. The
/// condition must hold at `high`.
fn first_possible(condition: impl Fn(f64) -> bool, low: f64, high: f64) -> f64 {
    if condition(low) {
        return low;
    }
    let (mut low, mut high) = (low, high);
    for _ in 0..60 {
        let middle = low.midpoint(high);
        if condition(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::rain;
    use crate::tally::Tally;

    /// A hundred years of 365 days, as in Coles's book.
    const HUNDRED_YEARS: f64 = 36_500.0;

    fn tail_of_rain(threshold: f64) -> Tail {
        let tally = Tally::from_samples(&rain());
        Tail::new(
            threshold,
            tally.total(),
            1.0,
            Excesses::above(&tally, threshold),
        )
        .unwrap()
    }

    fn assert_close(value: f64, expected: f64, tolerance: f64) {
        assert!(
            (value - expected).abs() <= tolerance,
            "{value} is not {expected}"
        );
    }

    #[test]
    fn the_hundred_year_rain_of_the_book_is_met() {
        let tail = tail_of_rain(30.0);
        assert_eq!(tail.samples, 17_531);
        assert_close(tail.return_level(HUNDRED_YEARS).unwrap(), 106.328_0, 1e-4);
        assert_close(
            tail.return_level_variance(HUNDRED_YEARS).unwrap(),
            434.336,
            5e-3,
        );
        let symmetric = tail
            .return_level_interval_symmetric(HUNDRED_YEARS, Confidence::NINETY_FIVE)
            .unwrap();
        assert_close(symmetric.lower, 65.481, 1e-3);
        assert_close(symmetric.upper, 147.175, 1e-3);
        let interval = tail
            .return_level_interval(HUNDRED_YEARS, Confidence::NINETY_FIVE)
            .unwrap();
        assert_close(interval.lower, 80.86, 6e-3);
        assert_close(interval.upper, 184.99, 6e-3);
    }

    #[test]
    fn a_low_threshold_gives_the_known_other_answer() {
        let tail = tail_of_rain(10.0);
        assert_close(tail.return_level(HUNDRED_YEARS).unwrap(), 87.100_2, 2e-4);
        let interval = tail
            .return_level_interval(HUNDRED_YEARS, Confidence::NINETY_FIVE)
            .unwrap();
        assert_close(interval.lower, 76.613, 1e-3);
        assert_close(interval.upper, 102.255, 1e-3);
    }

    #[test]
    fn the_level_and_its_probability_belong_together() {
        let tail = tail_of_rain(30.0);
        let level = tail.return_level(HUNDRED_YEARS).unwrap();
        assert_close(
            tail.exceedance_probability(level).unwrap() * HUNDRED_YEARS,
            1.0,
            1e-9,
        );
        assert_eq!(tail.exceedance_probability(29.0), None);
        assert_eq!(tail.return_level(10.0), None);
        assert_eq!(
            tail.return_level_interval(10.0, Confidence::NINETY_FIVE),
            None
        );
        assert_eq!(tail.endpoint(Confidence::NINETY_FIVE), None);
    }

    #[test]
    fn a_bounded_tail_has_an_endpoint_above_all_data_and_a_level_below_it() {
        let truth = Gpd {
            scale: 10.0,
            shape: -0.4,
        };
        let values: Vec<f64> = (0..500)
            .map(|i| 100.0 + truth.excess_at((f64::from(i) + 0.5) / 500.0))
            .collect();
        let tally = Tally::from_samples(&values);
        let tail = Tail::new(100.0, 50_000, 1.0, Excesses::above(&tally, 100.0)).unwrap();
        let (endpoint, interval) = tail.endpoint(Confidence::NINETY_FIVE).unwrap();
        assert_close(endpoint, 125.0, 0.5);
        assert!(
            interval.contains(125.0)
                && interval.lower > tally.at_rank(500).unwrap()
                && interval.upper < 135.0,
            "{interval:?}"
        );
        let level = tail
            .return_level_interval(1e9, Confidence::NINETY_FIVE)
            .unwrap();
        assert!(
            level.upper <= interval.upper + 0.1 && level.lower > 120.0,
            "{level:?} {interval:?}"
        );
    }

    #[test]
    fn clusters_push_a_level_further_out() {
        let mut tail = tail_of_rain(30.0);
        let alone = tail.return_level(HUNDRED_YEARS).unwrap();
        tail.extremal_index = 0.5;
        let clustered = tail.return_level(HUNDRED_YEARS).unwrap();
        assert!(clustered < alone);
        assert_close(tail.return_level(2.0 * HUNDRED_YEARS).unwrap(), alone, 1e-9);
    }
}
