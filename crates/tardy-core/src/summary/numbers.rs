//! The numbers of a summary, for text and JSON. Every key whose value is a time ends in `_ns`.

use serde::{Deserialize, Serialize};
use tardy_statistics::clustering::Clustering;
use tardy_statistics::confidence::Confidence;

use crate::histogram::Histogram;
use crate::summary::cell::Cell;
use crate::summary::dependence::Dependence;

/// The percentiles that summaries print, as probabilities.
pub const PERCENTILES: [f64; 5] = [0.5, 0.99, 0.999, 0.9999, 0.999_99];

/// A percentile with its 95 % confidence interval, valid for any distribution. The interval is
/// two-sided, so each end alone has a confidence of 97.5 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// The fraction of samples at or below the percentile.
    pub probability: f64,
    /// Value of the percentile: the smallest sample that has at least the fraction `probability` of
    /// all samples at or below it.
    pub value_ns: i64,
    /// Lower end of the interval; absent if there are too few samples.
    pub lower_ns: Option<i64>,
    /// Upper end of the interval; absent if there are too few samples, see `samples_needed`.
    pub upper_ns: Option<i64>,
    /// Minimum number of samples for an interval with both ends.
    pub samples_needed: Option<u64>,
    /// Number of independent samples that would give an interval of the same width for this
    /// percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_samples: Option<f64>,
}

impl Percentile {
    /// Returns whether there are enough samples for an upper end of the interval.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.upper_ns.is_some()
    }
}

/// Key figures of a set of samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    pub samples: u64,
    /// The smallest latency.
    pub min_ns: i64,
    /// The arithmetic mean.
    pub mean_ns: f64,
    /// The largest latency.
    pub max_ns: i64,
    /// Due time of the sample with the largest latency, relative to the start of the run.
    pub max_at_ns: i64,
    /// Percentiles of the measured latencies.
    pub percentiles: Vec<Percentile>,
    /// Percentiles that also count the latencies of skipped due times; absent if none was skipped.
    pub percentiles_corrected: Option<Vec<Percentile>>,
    /// Extremal index of late samples: 1 if they do not cluster, less if they do. Absent if there
    /// are too few late samples; independence is then assumed.
    pub extremal_index: Option<f64>,
    /// Number of due times that were skipped.
    pub skipped: u64,
    /// Number of samples whose values lie outside the window, plus skipped due times that miss it;
    /// absent if there is no window.
    pub misses: Option<u64>,
    /// The smallest and the largest possible number of misses, if an import does not show which
    /// samples missed the window; `misses` is then absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses_between: Option<(u64, u64)>,
    /// Number of skipped due times among the misses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses_skipped: Option<u64>,
    /// How much the misses cluster; absent if there is no window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses_clustering: Option<Clustering>,
    /// Number of samples whose values are known only to within 1/64, because the memory for exact
    /// values was limited.
    pub coarse: u64,
}

impl Numbers {
    /// Returns the number of misses as text, or its lower and upper bound; `None` if neither is
    /// known.
    #[must_use]
    pub fn misses_text(&self) -> Option<String> {
        let between = || {
            let (fewest, most) = self.misses_between?;
            Some(format!("{fewest} to {most}"))
        };
        self.misses
            .map(|misses| misses.to_string())
            .or_else(between)
    }
}

/// Computes the numbers of `cell`, given the `dependence` of its samples. `start_ns` is the start
/// of the run on the series' clock. Returns `None` if the cell has no samples.
#[must_use]
pub fn numbers(
    cell: &Cell,
    dependence: &Dependence,
    start_ns: i64,
    has_window: bool,
) -> Option<Numbers> {
    let samples = cell.latency.count();
    let corrected = cell.corrected();
    Some(Numbers {
        samples,
        min_ns: cell.latency.min()?,
        mean_ns: cell.sum as f64 / samples as f64,
        max_ns: cell.latency.max()?,
        max_at_ns: cell
            .worst
            .map_or(0, |worst| worst.due.get().saturating_sub(start_ns)),
        percentiles: percentiles(&cell.latency, dependence),
        percentiles_corrected: corrected
            .as_ref()
            .map(|corrected| percentiles(corrected, dependence)),
        extremal_index: dependence.extremal_index(),
        skipped: cell.skipped,
        misses: has_window.then_some(cell.misses),
        misses_between: None,
        misses_skipped: has_window.then_some(cell.misses_skipped),
        misses_clustering: has_window.then(|| dependence.misses()),
        coarse: cell.latency.coarse(),
    })
}

/// Computes the numbers of several series that ran at the same time, taken together.
#[must_use]
pub fn numbers_together(cells: &[&Cell], start_ns: i64, has_window: bool) -> Option<Numbers> {
    let mut together = Cell::default();
    cells.iter().for_each(|cell| together.merge_counts(cell));
    numbers(&together, &Dependence::of(cells), start_ns, has_window)
}

/// Computes [`PERCENTILES`] of a histogram, with intervals from the effective number of samples.
#[must_use]
pub fn percentiles(histogram: &Histogram, dependence: &Dependence) -> Vec<Percentile> {
    percentiles_at(histogram, dependence, &PERCENTILES)
}

/// Computes the percentiles at `probabilities`, which must ascend, each with an interval from its
/// effective number of samples.
#[must_use]
pub fn percentiles_at(
    histogram: &Histogram,
    dependence: &Dependence,
    probabilities: &[f64],
) -> Vec<Percentile> {
    let samples = histogram.count();
    if samples == 0 {
        return Vec::new();
    }
    let wanted: Vec<_> = probabilities
        .iter()
        .map(|&probability| {
            let clustering = dependence.above(1.0 - probability);
            let ranks = clustering.quantile_ranks(samples, probability, Confidence::NINETY_FIVE);
            (
                probability,
                rank_of(probability, samples),
                ranks,
                clustering.effective(samples),
            )
        })
        .collect();
    let mut ranks: Vec<u64> = wanted
        .iter()
        .flat_map(|(_, rank, ranks, _)| [Some(*rank), ranks.lower, ranks.upper])
        .flatten()
        .collect();
    ranks.sort_unstable();
    ranks.dedup();
    let values = histogram.values_at(&ranks);
    let value = |rank: u64| {
        ranks
            .binary_search(&rank)
            .ok()
            .and_then(|index| values[index])
    };
    wanted
        .iter()
        .filter_map(|(probability, rank, ranks, effective)| {
            Some(Percentile {
                probability: *probability,
                value_ns: value(*rank)?,
                lower_ns: ranks.lower.and_then(value),
                upper_ns: ranks.upper.and_then(value),
                samples_needed: ranks.samples_needed,
                effective_samples: Some(*effective),
            })
        })
        .collect()
}

/// Returns the rank of the smallest sample such that at least `probability` (0 to 1) of all samples
/// are less than or equal to it (the inverse of the empirical distribution).
fn rank_of(probability: f64, samples: u64) -> u64 {
    // The rank is computed from 1 - p, because p is rounded. The rank of 0.99999 among 1e5 samples
    // must be 99999, not 100000.
    let above = ((1.0 - probability) * samples as f64 + 1e-9).floor() as u64;
    samples.saturating_sub(above).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Budget;

    fn one_to(n: i64) -> Histogram {
        let mut histogram = Histogram::new(Budget::ANALYSIS);
        (1..=n).for_each(|value| histogram.record(value));
        histogram
    }

    #[test]
    fn percentiles_are_samples_of_the_right_rank() {
        let values: Vec<i64> = percentiles(
            &one_to(100_000),
            &Dependence::of_extremal_index(100_000, 1.0),
        )
        .iter()
        .map(|p| p.value_ns)
        .collect();
        assert_eq!(values, [50_000, 99_000, 99_900, 99_990, 99_999]);
    }

    #[test]
    fn the_bounds_are_those_of_the_order_statistics() {
        // For n = 10^4, p = .999 and 95 %, the ranks are 9983 and 9997 (David and Nagaraja, 7.1).
        let list = percentiles(&one_to(10_000), &Dependence::of_extremal_index(10_000, 1.0));
        assert_eq!(
            (list[2].lower_ns, list[2].upper_ns),
            (Some(9_983), Some(9_997))
        );
        assert_eq!(
            list[3].upper_ns, None,
            "10^4 samples cannot bound the 99.99th percentile"
        );
        assert!(list[3].samples_needed.unwrap() > 10_000);
    }

    #[test]
    fn clustered_samples_have_wider_bounds() {
        let independent = percentiles(
            &one_to(1_000_000),
            &Dependence::of_extremal_index(1_000_000, 1.0),
        )[2];
        let clustered = percentiles(
            &one_to(1_000_000),
            &Dependence::of_extremal_index(1_000_000, 0.2),
        )[2];
        assert!(
            clustered.lower_ns < independent.lower_ns && clustered.upper_ns > independent.upper_ns
        );
    }
}
