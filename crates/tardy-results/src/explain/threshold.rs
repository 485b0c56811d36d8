//! The threshold: samples or wake-ups with a larger latency are ranked.

use serde::Serialize;
use tardy_core::histogram::Histogram;
use tardy_core::units::Nanos;
use tardy_samples::delay_totals::DelayTotals;

use super::{ComponentRow, Lateness};

/// Selects the samples or wake-ups that are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// Samples above this latency.
    Above(Nanos),
    /// Samples above the run's deadline. If there is no deadline, or no sample exceeds it, the
    /// worst 0.1 % of the samples are ranked, but at least 20.
    Worst,
}

/// A threshold, and how it was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Threshold {
    /// Samples with a larger latency are ranked.
    pub above_ns: Nanos,
    /// How the threshold was chosen.
    pub from: ThresholdSource,
}

/// How a threshold was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ThresholdSource {
    /// The user gave the threshold.
    Asked,
    /// The threshold is the run's deadline.
    Deadline,
    /// The threshold selects the worst 0.1 % of the samples, but at least 20 samples.
    Worst,
    /// No sample exceeded the run's deadline, so the threshold is chosen as for `Worst`.
    WorstInTime,
    /// The run stored only its worst samples. All of these are ranked, so the threshold is 0.
    Kept,
}

/// Minimum number of samples that are ranked; if a run has fewer samples, all are ranked.
const WORST_LEAST: u64 = 20;
/// One sample in this many is ranked.
const WORST_ONE_OF: u64 = 1000;

impl Threshold {
    /// The threshold for runs that stored only their worst samples.
    pub(super) const KEPT: Self = Self {
        above_ns: Nanos::ZERO,
        from: ThresholdSource::Kept,
    };

    /// Returns a threshold that the user gave.
    pub(super) const fn asked(above_ns: Nanos) -> Self {
        Self {
            above_ns,
            from: ThresholdSource::Asked,
        }
    }

    /// Chooses the threshold of a run from its latencies and its deadline, if it has one.
    pub(super) fn of(latencies: &Histogram, deadline: Option<Nanos>) -> Self {
        let limit = deadline.filter(|deadline| latencies.above(deadline.get()) > 0);
        if let Some(above_ns) = limit {
            return Self {
                above_ns,
                from: ThresholdSource::Deadline,
            };
        }
        let count = latencies.count();
        let ranked = count.div_ceil(WORST_ONE_OF).max(WORST_LEAST).min(count);
        let least = latencies.values_at(&[count - ranked + 1]);
        Self {
            above_ns: Nanos(
                least
                    .into_iter()
                    .flatten()
                    .next()
                    .map_or(0, |least| (least - 1).max(0)),
            ),
            from: if deadline.is_some() {
                ThresholdSource::WorstInTime
            } else {
                ThresholdSource::Worst
            },
        }
    }
}

/// The samples or wake-ups that are not ranked, for comparison.
#[derive(Debug, Serialize)]
pub struct Ordinary {
    /// Number of the samples or wake-ups that are not ranked.
    pub count: u64,
    /// Latencies of these samples or wake-ups.
    pub lateness: Lateness,
    /// Latency by component, in chronological order.
    pub components: Vec<ComponentRow>,
}

impl Ordinary {
    /// Converts `totals`; `None` if all samples or wake-ups are ranked.
    pub(super) fn of(totals: &DelayTotals) -> Option<Self> {
        Some(Self {
            count: totals.count(),
            lateness: totals.lateness()?,
            components: totals.components(),
        })
    }
}

#[cfg(test)]
mod tests {
    use tardy_core::histogram::Budget;

    use super::*;

    fn threshold(
        values: impl Iterator<Item = i64>,
        deadline: Option<i64>,
    ) -> (i64, ThresholdSource) {
        let mut histogram = Histogram::new(Budget::ANALYSIS);
        values.for_each(|value| histogram.record(value));
        let found = Threshold::of(&histogram, deadline.map(Nanos));
        (found.above_ns.get(), found.from)
    }

    #[test]
    fn the_worst_of_each_thousand_are_ranked_and_twenty_at_least() {
        assert_eq!(
            threshold(1..=50_000, None),
            (49_950, ThresholdSource::Worst)
        );
        assert_eq!(threshold(1..=1_000, None), (980, ThresholdSource::Worst));
        assert_eq!(threshold(1..=7, None), (0, ThresholdSource::Worst));
        assert_eq!(
            threshold(std::iter::empty(), None),
            (0, ThresholdSource::Worst)
        );
        // If several samples have the same latency, either all of them are ranked or none.
        assert_eq!(
            threshold(std::iter::repeat_n(9, 5_000), None),
            (8, ThresholdSource::Worst)
        );
    }

    #[test]
    fn a_deadline_that_was_missed_is_the_threshold() {
        assert_eq!(
            threshold(1..=1_000, Some(990)),
            (990, ThresholdSource::Deadline)
        );
        assert_eq!(
            threshold(1..=1_000, Some(1_000)),
            (980, ThresholdSource::WorstInTime)
        );
    }
}
