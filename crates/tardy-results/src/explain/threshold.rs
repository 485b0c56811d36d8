//! Which samples or wake-ups are late enough to be ranked.

use serde::Serialize;
use tardy_core::histogram::Histogram;
use tardy_core::units::Nanos;
use tardy_samples::delay_totals::DelayTotals;

use super::{ComponentRow, Lateness};

/// What is ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// Whatever is later than this.
    Above(Nanos),
    /// Whatever is later than the run's deadline. Without a deadline, or where nothing is: the
    /// worst of each thousand, and [`WORST_LEAST`] at least.
    Worst,
}

/// How late a sample or wake-up must be, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Threshold {
    /// What is later is ranked.
    pub above_ns: Nanos,
    /// Where that comes from.
    pub from: ThresholdSource,
}

/// Where a threshold comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ThresholdSource {
    /// It was asked for.
    Asked,
    /// It is the run's deadline.
    Deadline,
    /// The worst of each thousand are above it, and [`WORST_LEAST`] at least.
    Worst,
    /// The same, because nothing was later than the run's deadline.
    WorstInTime,
    /// Only the worst were kept, and all of them are ranked.
    Kept,
}

/// How many are ranked at least, where there are so many.
const WORST_LEAST: u64 = 20;
/// One of so many is ranked.
const WORST_ONE_OF: u64 = 1000;

impl Threshold {
    /// All that was kept.
    pub(super) const KEPT: Self = Self {
        above_ns: Nanos::ZERO,
        from: ThresholdSource::Kept,
    };

    /// That was asked for.
    pub(super) const fn asked(above_ns: Nanos) -> Self {
        Self {
            above_ns,
            from: ThresholdSource::Asked,
        }
    }

    /// For a run with these latencies, and perhaps a deadline.
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

/// The way of those that are not ranked.
#[derive(Debug, Serialize)]
pub struct Ordinary {
    /// How many.
    pub count: u64,
    /// How late.
    pub lateness: Lateness,
    /// Where on the way the time went, in the order of the way.
    pub components: Vec<ComponentRow>,
}

impl Ordinary {
    /// Nothing where all are ranked.
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
        // Equally late ones are ranked together.
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
