//! Bounds for events that occur in clusters: several in a row, or on several CPUs at the same time.
//!
//! The number of events is treated like a Poisson variable that has the same mean and variance. If
//! an event chosen at random belongs to a cluster of `dispersion` events on average, the variance
//! of the number of events is `dispersion` times as large as for independent events. Clusters
//! larger than those in the run may occur, so the upper bound adds one cluster of `unseen` events.
//! Fay and Feuer do this for weighted sums of Poisson variables (Statistics in Medicine 16, 1997,
//! equation 2: `unseen` is their largest weight). With `unseen = dispersion = 1`, the bounds equal
//! Clopper and Pearson's bounds.
//!
//! An event of a kind that did not occur in the run may hit all CPUs at the same time. Upper bounds
//! include one such event in the number of events. So if no event was observed, the upper bound
//! does not become smaller when there are more CPUs. If a run has no common stall, its CPUs look
//! independent. No method can give bounds that are narrow for such a run and still correct for a
//! run with a common stall.

use serde::{Deserialize, Deserializer, Serialize};

use super::binomial::cumulative_with_complement;
use super::confidence::Confidence;
use super::proportion::{proportion_lower, proportion_upper};
use super::quantile::{QuantileRanks, first_rank};

/// How strongly events cluster.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Clustering {
    /// Variance of the number of events, divided by the variance of the number of independent
    /// events; at least 1.
    #[serde(deserialize_with = "or_infinite")]
    pub dispersion: f64,
    /// Maximum number of events that a single cause can trigger, even a cause that did not occur in
    /// the run; at least `dispersion`.
    #[serde(deserialize_with = "or_infinite")]
    pub unseen: f64,
}

/// Reads `null` as infinity, because JSON has no infinity.
fn or_infinite<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

impl Default for Clustering {
    fn default() -> Self {
        Self::INDEPENDENT
    }
}

impl Clustering {
    /// No clustering: each event occurs alone.
    pub const INDEPENDENT: Self = Self {
        dispersion: 1.0,
        unseen: 1.0,
    };

    /// Creates a clustering, and limits its values to the allowed ranges. NaN becomes infinity,
    /// which gives no bound.
    #[must_use]
    pub fn new(dispersion: f64, unseen: f64) -> Self {
        let dispersion = if dispersion.is_nan() {
            f64::INFINITY
        } else {
            dispersion.max(1.0)
        };
        Self {
            dispersion,
            unseen: if unseen.is_nan() {
                f64::INFINITY
            } else {
                unseen.max(dispersion)
            },
        }
    }

    /// Returns the clustering of events whose clusters contain `1 / extremal_index` events on
    /// average.
    #[must_use]
    pub fn of_extremal_index(extremal_index: f64) -> Self {
        Self::new(1.0 / extremal_index, 1.0 / extremal_index)
    }

    /// Returns the number of independent samples that contain as much information as `samples`
    /// clustered samples.
    #[must_use]
    pub fn effective(&self, samples: u64) -> f64 {
        samples as f64 / self.dispersion
    }

    /// Returns two values: how many events together count as one independent event, and the number
    /// of such groups of events. Both values allow for one cluster that did not occur in the run.
    /// One is subtracted from the number, because the formula of an upper bound itself adds one
    /// event.
    fn scale_and_events(&self, events: f64) -> (f64, f64) {
        let with_unseen = events + self.unseen;
        let scale = (events * self.dispersion + self.unseen * self.unseen) / with_unseen;
        (scale, (with_unseen / scale - 1.0).max(0.0))
    }

    /// Returns an upper bound for the share of events, one-sided with `confidence`.
    #[must_use]
    pub fn share_upper(&self, events: f64, trials: f64, confidence: Confidence) -> f64 {
        if !self.unseen.is_finite() {
            return 1.0;
        }
        let (scale, events) = self.scale_and_events(events);
        proportion_upper(events, trials / scale, confidence)
    }

    /// Returns a lower bound for the share of events, one-sided with `confidence`.
    #[must_use]
    pub fn share_lower(&self, events: f64, trials: f64, confidence: Confidence) -> f64 {
        if !self.dispersion.is_finite() {
            return 0.0;
        }
        proportion_lower(
            events / self.dispersion,
            trials / self.dispersion,
            confidence,
        )
    }

    /// Returns the ranks that enclose the quantile `probability` of `samples` samples. For each
    /// end, the probability that it is wrong is at most half of the error probability.
    ///
    /// The upper end is the smallest rank above which the fraction of samples is at most `1 -
    /// probability`.
    #[must_use]
    pub fn quantile_ranks(
        &self,
        samples: u64,
        probability: f64,
        confidence: Confidence,
    ) -> QuantileRanks {
        if !(0.0..=1.0).contains(&probability) || !self.unseen.is_finite() {
            return QuantileRanks {
                lower: None,
                upper: None,
                coverage: 1.0,
                samples_needed: None,
            };
        }
        let tail = 1.0 - probability;
        let side = confidence.of_each_side();
        // Returns the probability that the true fraction of samples above the rank exceeds that of
        // the tail.
        let doubt_above = |rank: u64| {
            let (scale, events) = self.scale_and_events((samples - rank) as f64);
            cumulative_with_complement(events, samples as f64 / scale, tail, probability)
        };
        let effective = self.effective(samples);
        let below_lower = |rank: u64| {
            cumulative_with_complement(
                (rank - 1) as f64 / self.dispersion,
                effective,
                probability,
                tail,
            )
        };
        let lower = first_rank(samples, |rank| below_lower(rank) > side.miss()) - 1;
        let upper = first_rank(samples, |rank| doubt_above(rank) <= side.miss());
        let lower = Some(lower).filter(|&rank| rank >= 1);
        let upper = Some(upper).filter(|&rank| rank <= samples);
        let coverage = 1.0 - upper.map_or(0.0, doubt_above) - lower.map_or(0.0, below_lower);
        QuantileRanks {
            lower,
            upper,
            coverage,
            samples_needed: self.samples_for_both_ends(probability, side),
        }
    }

    /// Returns the minimum number of samples for which both ends exist, provided that the
    /// clustering stays the same.
    fn samples_for_both_ends(&self, probability: f64, side: Confidence) -> Option<u64> {
        let above = super::tolerance::samples_needed(probability, 1, side)? as f64 * self.unseen;
        let below =
            super::tolerance::samples_needed(1.0 - probability, 1, side)? as f64 * self.dispersion;
        Some(above.max(below).ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantile::quantile_ranks;
    use proptest::prelude::*;

    #[test]
    fn what_was_never_seen_counts_as_a_whole_cluster() {
        let alone = Clustering::INDEPENDENT.share_upper(0.0, 1e6, Confidence::NINETY_FIVE);
        assert!(
            (alone - 2.995_727_8e-6).abs() < 1e-12,
            "rule of three: {alone}"
        );
        // For eight CPUs that always stall together, the bound equals the rule of three for a
        // single CPU.
        let at_once = Clustering::new(1.0, 8.0).share_upper(0.0, 8e6, Confidence::NINETY_FIVE);
        assert!((at_once / alone - 1.0).abs() < 1e-5, "{at_once}");
    }

    #[test]
    fn one_cluster_is_one_event() {
        // A stall with 500 misses is one event of size 500, so the bounds are 500 times the exact
        // bounds for one event.
        let clustering = Clustering::new(500.0, 500.0);
        let (upper, lower) = (
            clustering.share_upper(500.0, 1e7, Confidence::NINETY_FIVE),
            clustering.share_lower(500.0, 1e7, Confidence::NINETY_FIVE),
        );
        assert!(
            (upper * 10_000_000.0 / 500.0 - 4.743).abs() < 0.01
                && (lower * 10_000_000.0 / 500.0 - 0.0513).abs() < 0.001,
            "{upper} {lower}"
        );
    }

    #[test]
    fn what_is_not_bounded_is_read_back_as_such() {
        let unknown = Clustering::new(f64::INFINITY, 1.0);
        let text = serde_json::to_string(&unknown).unwrap();
        assert_eq!(serde_json::from_str::<Clustering>(&text).unwrap(), unknown);
    }

    #[test]
    fn what_is_no_number_bounds_nothing() {
        let unknown = Clustering::new(f64::NAN, f64::NAN);
        assert_eq!(
            unknown.share_upper(3.0, 100.0, Confidence::NINETY_FIVE),
            1.0
        );
        assert_eq!(
            unknown.share_lower(3.0, 100.0, Confidence::NINETY_FIVE),
            0.0
        );
        let ranks = unknown.quantile_ranks(100, 0.5, Confidence::NINETY_FIVE);
        assert_eq!((ranks.lower, ranks.upper), (None, None));
        assert_eq!(
            Clustering::INDEPENDENT
                .quantile_ranks(0, 0.5, Confidence::NINETY_FIVE)
                .upper,
            None
        );
    }

    proptest! {
        #[test]
        fn independent_samples_have_the_exact_ranks(samples in 1_u64..1_000_000, probability in 0.0_f64..=1.0) {
            let (exact, found) = (quantile_ranks(samples, probability, Confidence::NINETY_FIVE), Clustering::INDEPENDENT.quantile_ranks(samples, probability, Confidence::NINETY_FIVE));
            // Close to the boundary between two ranks, the two formulas for the same sum may round
            // differently.
            let near = |a: Option<u64>, b: Option<u64>| a.zip(b).map_or(a == b, |(a, b)| a.abs_diff(b) <= 1);
            prop_assert!(near(exact.lower, found.lower) && near(exact.upper, found.upper), "{exact:?} {found:?}");
        }

        #[test]
        fn clustering_never_tightens_a_bound(events in 0.0_f64..500.0, trials in 500_u64..10_000_000, dispersion in 1.0_f64..50.0, more in 1.0_f64..50.0) {
            let alone = Clustering::INDEPENDENT;
            let some = Clustering::new(dispersion, dispersion);
            let all = Clustering::new(dispersion, dispersion * more);
            let level = Confidence::NINETY_FIVE;
            let upper = |clustering: &Clustering| clustering.share_upper(events, trials as f64, level);
            prop_assert!(upper(&some) >= upper(&alone) * (1.0 - 1e-9) && upper(&all) >= upper(&some) * (1.0 - 1e-9));
            prop_assert!(some.share_lower(events, trials as f64, level) <= alone.share_lower(events, trials as f64, level) * (1.0 + 1e-9));
            let end = |clustering: &Clustering| clustering.quantile_ranks(trials, 0.99, level).upper.unwrap_or(trials + 1);
            prop_assert!(end(&alone) <= end(&some) + 1 && end(&some) <= end(&all) + 1);
        }
    }
}
