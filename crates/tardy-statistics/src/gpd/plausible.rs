//! Finds all models that the data do not rule out. Together, these give a band around the whole
//! tail.
//!
//! A pair of scale and shape is plausible if its likelihood is not much smaller than the maximum.
//! The plausible pairs form a region around the fit. The smallest and the largest value of a
//! quantity in this region are the ends of its profile-likelihood interval, so the band at a level
//! agrees with [`Tail::return_level_interval`]. The region has no holes, so its edge describes it
//! completely. The edge is found once, and is then used for all levels. A chart draws the band from
//! the threshold to the level of `--horizon`. Source: Coles, An Introduction to Statistical
//! Modeling of Extreme Values, 2001, sections 2.6.5 and 2.6.6.

use super::Gpd;
use super::return_level::Tail;
use crate::confidence::{Confidence, Interval};
use crate::profile::normal_deviate;

/// Number of directions in which the edge is searched for. With this number, the error of each end
/// of an interval is about 1/500 of the interval's length.
const DIRECTIONS: usize = 48;
/// For shapes below this, the likelihood has no maximum.
const SHAPE_MIN: f64 = -1.0;
/// How often the distance to the edge is halved. The remaining error is a thousandth of a standard
/// error.
const HALVINGS: usize = 12;

/// The edge of the region of models that the data do not rule out.
#[derive(Debug, Clone, PartialEq)]
pub struct Plausible {
    models: Vec<Gpd>,
}

impl Plausible {
    /// Returns the region around the fit of `tail`. The models in the region give a range of values
    /// for each quantity of the tail, and this range contains the true value with `confidence`.
    #[must_use]
    pub fn around(tail: &Tail, confidence: Confidence) -> Self {
        let best = tail.fit.model;
        let limit = tail.fit.negative_log_likelihood + normal_deviate(confidence).powi(2) / 2.0;
        // Scale (as a logarithm) and shape are measured in units of their expected errors, so the
        // region is almost circular.
        let root = (tail.excesses.count() as f64).sqrt();
        let at = |angle: f64, distance: f64| Gpd {
            scale: best.scale * (distance * angle.cos() * std::f64::consts::SQRT_2 / root).exp(),
            shape: best.shape + distance * angle.sin() * (1.0 + best.shape.abs()) / root,
        };
        let is_within = |model: Gpd| {
            model.shape > SHAPE_MIN && tail.excesses.negative_log_likelihood(model) <= limit
        };
        let edge = |direction: usize| {
            let angle = direction as f64 / DIRECTIONS as f64 * std::f64::consts::TAU;
            let (mut inside, mut outside) = (0.0, 4.0);
            // After twelve doublings, scale and shape are so extreme that any data rule them out.
            for _ in 0..12 {
                if !is_within(at(angle, outside)) {
                    break;
                }
                (inside, outside) = (outside, outside * 2.0);
            }
            for _ in 0..HALVINGS {
                let middle = f64::midpoint(inside, outside);
                if is_within(at(angle, middle)) {
                    inside = middle
                } else {
                    outside = middle
                }
            }
            at(angle, inside)
        };
        Self {
            models: (0..DIRECTIONS).map(edge).collect(),
        }
    }

    /// Returns the smallest and the largest probability that an excess is above `excess`.
    #[must_use]
    pub fn survival(&self, excess: f64) -> Interval {
        self.extent(|model| model.survival(excess))
    }

    /// Returns the smallest and the largest excess that is exceeded with probability `survival` (0
    /// to 1).
    #[must_use]
    pub fn excess_at(&self, survival: f64) -> Interval {
        self.extent(|model| model.excess_at(survival))
    }

    fn extent(&self, quantity: impl Fn(&Gpd) -> f64) -> Interval {
        let nothing = Interval {
            lower: f64::INFINITY,
            upper: f64::NEG_INFINITY,
        };
        self.models
            .iter()
            .map(quantity)
            .fold(nothing, |Interval { lower, upper }, value| Interval {
                lower: lower.min(value),
                upper: upper.max(value),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpd::excesses::Excesses;
    use crate::reference::rain;
    use crate::tally::Tally;

    fn tail_of(values: &[f64], threshold: f64) -> Tail {
        let tally = Tally::from_samples(values);
        Tail::new(
            threshold,
            tally.total(),
            1.0,
            Excesses::above(&tally, threshold),
        )
        .unwrap()
    }

    /// Checks that the band at a level agrees with the profile-likelihood interval of that level.
    fn assert_agrees(tail: &Tail, horizon: f64) {
        let expected = tail
            .return_level_interval(horizon, Confidence::NINETY_FIVE)
            .unwrap();
        let plausible = Plausible::around(tail, Confidence::NINETY_FIVE);
        let found = plausible.excess_at(1.0 / (horizon * tail.rate()));
        let reach = expected.upper - expected.lower;
        for (found, expected) in [(found.lower, expected.lower), (found.upper, expected.upper)] {
            let off = (tail.threshold + found - expected).abs();
            assert!(
                off < 0.01 * reach,
                "{found} and {expected} of {reach} at {horizon}"
            );
        }
        // The opposite conversion must also agree: it converts a level to an interval of
        // probabilities. From the upper end of the level's interval, it must give an interval whose
        // upper end is the probability for which the level was computed. The same must be true for
        // the two lower ends.
        let share = 1.0 / (horizon * tail.rate());
        assert!((plausible.survival(found.upper).upper / share - 1.0).abs() < 0.02);
        assert!((plausible.survival(found.lower).lower / share - 1.0).abs() < 0.02);
    }

    #[test]
    fn it_agrees_with_the_profile_of_every_level_of_the_book() {
        for threshold in [10.0, 30.0] {
            let tail = tail_of(&rain(), threshold);
            [3_650.0, 36_500.0, 365_000.0]
                .iter()
                .for_each(|&horizon| assert_agrees(&tail, horizon));
        }
    }

    #[test]
    fn it_agrees_for_bounded_and_for_rounded_tails() {
        let truth = Gpd {
            scale: 10.0,
            shape: -0.3,
        };
        let values: Vec<f64> = (0..500)
            .map(|i| 100.0 + truth.excess_at((f64::from(i) + 0.5) / 500.0))
            .collect();
        assert_agrees(&tail_of(&values, 100.0), 1e4);
        let rounded: Vec<f64> = values.iter().map(|value| value.floor()).collect();
        let tally = Tally::from_samples(&rounded);
        let tail = Tail::new(100.0, 50_000, 1.0, Excesses::over(&tally, 100.0, 1.0)).unwrap();
        assert_agrees(&tail, 1e6);
    }

    #[test]
    fn the_fit_itself_lies_within() {
        let tail = tail_of(&rain(), 30.0);
        let plausible = Plausible::around(&tail, Confidence::NINETY_FIVE);
        for excess in [0.0, 5.0, 50.0, 500.0] {
            let band = plausible.survival(excess);
            let own = tail.fit.model.survival(excess);
            assert!(band.lower <= own && own <= band.upper, "{band:?} {own}");
        }
    }
}
