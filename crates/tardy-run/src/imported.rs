//! What `run.json` keeps of an import: where the numbers come from, and what the other tool stated
//! about them.

use serde::{Deserialize, Serialize};
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;

/// Format of what `tardy attach` saw, which is no file.
pub(crate) const FORMAT_OF_TIMERS: &str = "tardy-attach";

/// Key `imported` of `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportRecord {
    /// Name of the format, as `--as` takes it.
    pub format: String,
    /// The file, as on the command line.
    pub file: String,
    /// Command line of the other tool, where its output has it.
    pub command_line: Option<String>,
    /// One for each series, in the order of the record's series.
    pub series: Vec<StatedTotals>,
    /// Whether only the order of the samples is known: the n-th one then stands at n ns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_no_times: bool,
}

impl ImportRecord {
    /// Whether `tardy attach` saw each timer of the program: every due time is known then, though
    /// no period is.
    #[must_use]
    pub fn is_of_timers(&self) -> bool {
        self.format == FORMAT_OF_TIMERS
    }
}

/// What the other tool says of a series; absent what it does not say.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StatedTotals {
    /// How many samples it took.
    pub samples: Option<u64>,
    /// The smallest value.
    pub min_ns: Option<Nanos>,
    /// The largest value.
    pub max_ns: Option<Nanos>,
    /// The mean, which knows what a histogram's last bucket does not.
    pub mean_ns: Option<f64>,
    /// Values are multiples of this.
    pub resolution_ns: Nanos,
    /// Samples whose limits alone are known; they are counted at the maximum.
    pub overflow: Option<Overflow>,
    /// Samples about which nothing is known.
    #[serde(default)]
    pub lost: u64,
    /// Periods that passed while the wake-up before them was still late; absent where the tool does
    /// not count them.
    #[serde(default, alias = "missed", skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
}

impl StatedTotals {
    /// From where on the file knows samples by their number alone: they are counted at the maximum,
    /// and may lie anywhere below it. Absent where every sample has its place.
    #[must_use]
    pub fn open_from(&self) -> Option<Nanos> {
        let overflow = self.overflow?;
        let is_placed = self
            .max_ns
            .is_some_and(|max| overflow.samples <= 1 || overflow.from_ns >= max);
        (!is_placed).then_some(overflow.from_ns)
    }

    /// The window that values rounded down are held to, so that each counts as the largest that it
    /// may have been.
    #[must_use]
    pub fn of_rounded(&self, window: Window) -> Window {
        let cut_off = (self.resolution_ns.get() - 1).max(0);
        Window {
            latest: Nanos(window.latest.get().saturating_sub(cut_off)),
            ..window
        }
    }

    /// How many samples without a bucket may miss `window` or not: those that lie on both sides of
    /// it, without the one that is the maximum.
    #[must_use]
    pub fn undecided(&self, window: &Window) -> u64 {
        let Some((from, overflow)) = self.open_from().zip(self.overflow) else {
            return 0;
        };
        match self.max_ns {
            _ if window.latest < from => 0,
            Some(max) if window.latest < max => overflow.samples - 1,
            Some(_) => 0,
            None => overflow.samples,
        }
    }
}

/// Samples whose buckets are not in the file, as a rule because they lie beyond the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overflow {
    /// How many.
    pub samples: u64,
    /// They are at or above this.
    pub from_ns: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_in_whole_microseconds_counts_as_the_end_of_its_microsecond() {
        let stated = StatedTotals {
            resolution_ns: Nanos(1_000),
            ..StatedTotals::default()
        };
        let misses = |deadline| {
            stated
                .of_rounded(Window::deadline(Nanos(deadline)))
                .misses(Nanos(12_000))
        };
        assert_eq!(
            [12_000, 12_998, 12_999, 13_000].map(misses),
            [true, true, false, false]
        );
        let exact = StatedTotals {
            resolution_ns: Nanos(1),
            ..stated
        };
        assert!(
            !exact
                .of_rounded(Window::deadline(Nanos(12_000)))
                .misses(Nanos(12_000))
        );
    }

    #[test]
    fn samples_without_a_bucket_are_decided_only_outside_of_where_they_may_lie() {
        let overflow = |samples| {
            Some(Overflow {
                samples,
                from_ns: Nanos(200),
            })
        };
        let of = |samples, max: Option<i64>| StatedTotals {
            overflow: overflow(samples),
            max_ns: max.map(Nanos),
            ..StatedTotals::default()
        };
        let undecided = |stated: StatedTotals| {
            [199, 200, 4_999, 5_000]
                .map(|latest| stated.undecided(&Window::deadline(Nanos(latest))))
        };
        assert_eq!(undecided(of(300, Some(5_000))), [0, 299, 299, 0]);
        assert_eq!(undecided(of(300, None)), [0, 300, 300, 300]);
        // A single one is the maximum.
        assert_eq!(
            (
                undecided(of(1, Some(5_000))),
                of(1, Some(5_000)).open_from()
            ),
            ([0; 4], None)
        );
        assert_eq!(of(300, Some(5_000)).open_from(), Some(Nanos(200)));
        assert_eq!(
            (
                undecided(StatedTotals::default()),
                StatedTotals::default().open_from()
            ),
            ([0; 4], None)
        );
    }
}
