//! Finds the order statistics that enclose a quantile, for any distribution.
//!
//! With `X(1) <= ... <= X(n)`, the number of samples below the quantile `x_p` is binomial. Let `F`
//! be the cumulative distribution of this number. For continuous data, `P(X(l) <= x_p <= X(u))`
//! then equals `F(u-1) - F(l-1)`; for rounded data, it is at least as large. The functions return
//! only ranks; the caller looks up the values in its histogram. Source: David and Nagaraja, Order
//! Statistics, 3rd ed., section 7.1.

use serde::{Deserialize, Serialize};

use super::binomial::cumulative_with_complement;
use super::confidence::Confidence;
use super::tolerance::samples_needed;

/// The ranks (1 = smallest) that enclose a quantile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct QuantileRanks {
    /// Rank of the lower end; `None` if even the minimum may exceed the quantile.
    pub lower: Option<u64>,
    /// Rank of the upper end; `None` if even the maximum may be below the quantile.
    pub upper: Option<u64>,
    /// Probability that the interval contains the quantile. This probability is at least the
    /// requested confidence. An end that is `None` counts as infinite.
    pub coverage: f64,
    /// Minimum number of samples for which both ends exist; `None` if there is no such number.
    pub samples_needed: Option<u64>,
}

/// Returns the ranks that enclose the quantile `probability` of `samples` independent samples.
#[must_use]
pub fn quantile_ranks(samples: u64, probability: f64, confidence: Confidence) -> QuantileRanks {
    quantile_ranks_of_clustered(samples, probability, 1.0, confidence)
}

/// Returns the ranks for samples whose exceedances occur in clusters of `1 / extremal_index`
/// exceedances on average. An extremal index of 1 means independent samples.
///
/// The samples count as `extremal_index * samples` independent samples. How many of these lie below
/// a given rank is known only within limits. Each end uses the limit that widens the interval, so
/// the interval is never narrower than for independent samples. If the index is 0 or NaN, both ends
/// are `None`.
#[must_use]
pub fn quantile_ranks_of_clustered(
    samples: u64,
    probability: f64,
    extremal_index: f64,
    confidence: Confidence,
) -> QuantileRanks {
    let usable = (0.0..=1.0).contains(&probability) && extremal_index > 0.0;
    if !usable {
        return QuantileRanks {
            lower: None,
            upper: None,
            coverage: 1.0,
            samples_needed: None,
        };
    }
    let index = extremal_index.min(1.0);
    let effective = index * samples as f64;
    let tail = 1.0 - probability;
    let below = |events: f64| cumulative_with_complement(events, effective, probability, tail);
    let side = confidence.of_each_side().get();
    // Between index * r - 1 and index * (r - 1) effective samples lie below a sample of rank r.
    let below_lower = |rank: u64| below(index * (rank - 1) as f64);
    let below_upper = |rank: u64| below(index * rank as f64 - 1.0);
    let lower = first_rank(samples, |rank| below_lower(rank) > 1.0 - side) - 1;
    let upper = first_rank(samples, |rank| below_upper(rank) >= side);
    let lower = Some(lower).filter(|&rank| rank >= 1);
    let upper = Some(upper).filter(|&rank| rank <= samples);
    let coverage = upper.map_or(1.0, below_upper) - lower.map_or(0.0, below_lower);
    QuantileRanks {
        lower,
        upper,
        coverage,
        samples_needed: samples_for_both_ends(probability, index, confidence),
    }
}

/// Returns the first rank between 1 and `samples` at and above which `condition` is true;
/// `samples + 1` if it is never true.
pub(super) fn first_rank(samples: u64, condition: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (1, samples.saturating_add(1));
    while low < high {
        let middle = low.midpoint(high);
        if condition(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

fn samples_for_both_ends(probability: f64, index: f64, confidence: Confidence) -> Option<u64> {
    let side = confidence.of_each_side();
    let above = samples_needed(probability, 1, side)?;
    let below = samples_needed(1.0 - probability, 1, side)?;
    Some((above.max(below) as f64 / index).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binomial::cumulative;
    use proptest::prelude::*;

    #[test]
    fn the_known_ranks_and_coverages_are_met() {
        let cases = [
            (1_000, 0.99, (983, 997), 0.97609),
            (10_000, 0.999, (9_983, 9_997), 0.97546),
            (1_000_000, 1.0 - 1e-5, (999_983, 999_997), 0.97539),
        ];
        for (samples, probability, (lower, upper), coverage) in cases {
            let ranks = quantile_ranks(samples, probability, Confidence::NINETY_FIVE);
            assert_eq!(
                (ranks.lower, ranks.upper),
                (Some(lower), Some(upper)),
                "{samples}"
            );
            assert!((ranks.coverage - coverage).abs() < 5e-6, "{ranks:?}");
        }
    }

    #[test]
    fn a_quantile_beyond_the_data_has_no_upper_end_and_says_what_it_needs() {
        let ranks = quantile_ranks(1_000_000, 1.0 - 1e-6, Confidence::NINETY_FIVE);
        assert_eq!((ranks.lower, ranks.upper), (Some(999_997), None));
        // The expected number is ln(0.025) / ln(1 - 1e-6).
        assert_eq!(ranks.samples_needed, Some(3_688_878));
        let enough = quantile_ranks(3_688_878, 1.0 - 1e-6, Confidence::NINETY_FIVE);
        assert_eq!(enough.upper, Some(3_688_878));
        assert_eq!(
            quantile_ranks(3_688_877, 1.0 - 1e-6, Confidence::NINETY_FIVE).upper,
            None
        );
    }

    #[test]
    fn edges_give_ranks_inside_the_data_or_none() {
        let at = |samples, probability| {
            let ranks = quantile_ranks(samples, probability, Confidence::NINETY_FIVE);
            (ranks.lower, ranks.upper)
        };
        assert_eq!(at(0, 0.5), (None, None));
        assert_eq!(at(1, 0.5), (None, None));
        assert_eq!(at(10, 0.0), (None, Some(1)));
        assert_eq!(at(10, 1.0), (Some(10), None));
        assert_eq!(at(10, f64::NAN), (None, None));
        assert_eq!(at(10, 1.5), (None, None));
        assert_eq!(
            quantile_ranks_of_clustered(10, 0.5, 0.0, Confidence::NINETY_FIVE).upper,
            None
        );
        assert_eq!(
            quantile_ranks_of_clustered(10, 0.5, f64::NAN, Confidence::NINETY_FIVE).upper,
            None
        );
        let huge = quantile_ranks(1 << 40, 0.999, Confidence::NINETY_FIVE);
        assert!(huge.lower < huge.upper);
    }

    #[test]
    fn ten_in_a_cluster_need_ten_times_the_samples() {
        let alone = quantile_ranks(1, 0.999, Confidence::NINETY_FIVE)
            .samples_needed
            .unwrap();
        let clustered = quantile_ranks_of_clustered(1, 0.999, 0.1, Confidence::NINETY_FIVE)
            .samples_needed
            .unwrap();
        assert_eq!(clustered, alone * 10);
        assert_eq!(
            quantile_ranks_of_clustered(clustered, 0.999, 0.1, Confidence::NINETY_FIVE).upper,
            Some(clustered)
        );
    }

    proptest! {
        #[test]
        fn coverage_is_the_binomial_sum_and_no_less_than_promised(samples in 1_u64..3000, probability in 0.001_f64..0.999) {
            let ranks = quantile_ranks(samples, probability, Confidence::NINETY_FIVE);
            let n = samples as f64;
            let upper = ranks.upper.map_or(1.0, |u| cumulative(u as f64 - 1.0, n, probability));
            let lower = ranks.lower.map_or(0.0, |l| cumulative(l as f64 - 1.0, n, probability));
            prop_assert!((ranks.coverage - (upper - lower)).abs() < 1e-9);
            prop_assert!(ranks.coverage >= 0.95 - 1e-9);
            // If an end of the interval were one rank further inside, the probability of error
            // would be too large.
            if let Some(u) = ranks.upper {
                prop_assert!(cumulative(u as f64 - 2.0, n, probability) < 0.975 + 1e-9);
            }
            if let Some(l) = ranks.lower {
                prop_assert!(cumulative(l as f64, n, probability) > 0.025 - 1e-9);
            }
        }

        #[test]
        fn clustering_never_tightens_an_end(samples in 1_u64..1_000_000, probability in 0.0_f64..=1.0, index in 0.001_f64..1.0) {
            let alone = quantile_ranks(samples, probability, Confidence::NINETY_FIVE);
            let clustered = quantile_ranks_of_clustered(samples, probability, index, Confidence::NINETY_FIVE);
            let end = samples + 1;
            prop_assert!(clustered.lower.unwrap_or(0) <= alone.lower.unwrap_or(0), "{clustered:?} {alone:?}");
            prop_assert!(clustered.upper.unwrap_or(end) >= alone.upper.unwrap_or(end), "{clustered:?} {alone:?}");
            prop_assert!(clustered.coverage >= 0.95 - 1e-9);
            // The probability of error of each end is at most 2.5 %, even with the most
            // unfavourable number of effective samples below it.
            let effective = index * samples as f64;
            if let Some(l) = clustered.lower {
                prop_assert!(cumulative(index * (l - 1) as f64, effective, probability) <= 0.025 + 1e-9);
            }
            if let Some(u) = clustered.upper {
                prop_assert!(cumulative(index * u as f64 - 1.0, effective, probability) >= 0.975 - 1e-9);
            }
        }

        #[test]
        fn higher_quantiles_have_higher_ranks(samples in 1_u64..1_000_000, a in 0.0_f64..=1.0, b in 0.0_f64..=1.0) {
            let low = quantile_ranks(samples, a.min(b), Confidence::NINETY_FIVE);
            let high = quantile_ranks(samples, a.max(b), Confidence::NINETY_FIVE);
            prop_assert!(low.lower.unwrap_or(0) <= high.lower.unwrap_or(0));
            prop_assert!(low.upper.unwrap_or(u64::MAX) <= high.upper.unwrap_or(u64::MAX));
        }
    }
}
