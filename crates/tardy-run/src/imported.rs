//! Where an imported run comes from, and the totals that the other tool stated, as stored in
//! `run.json`.

use serde::{Deserialize, Serialize};
use tardy_core::histogram::Histogram;
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;

/// Format name for runs of `tardy attach`, which import no file.
pub(crate) const FORMAT_OF_TIMERS: &str = "tardy-attach";

/// The key `imported` of `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportRecord {
    /// Name of the format, as `--as` takes it.
    pub format: String,
    /// Path of the file, as given on the command line.
    pub file: String,
    /// Command line of the other tool, if its output states it.
    pub command_line: Option<String>,
    /// The totals that the other tool stated for each series, in the order of the record's series.
    pub series: Vec<StatedTotals>,
    /// Whether only the order of the samples is known, not their times. The n-th sample is then due
    /// at n ns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_no_times: bool,
}

impl ImportRecord {
    /// Returns whether `tardy attach` saw each timer of the program. If so, every due time is
    /// known, but there is no period.
    #[must_use]
    pub fn is_of_timers(&self) -> bool {
        self.format == FORMAT_OF_TIMERS
    }
}

/// The totals that the other tool states for a series. A total that it does not state is absent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StatedTotals {
    /// Number of samples.
    pub samples: Option<u64>,
    /// The smallest value.
    pub min_ns: Option<Nanos>,
    /// The largest value.
    pub max_ns: Option<Nanos>,
    /// The mean value, including the samples beyond a histogram's last bucket.
    pub mean_ns: Option<f64>,
    /// Resolution of the values, which are rounded down to multiples of it.
    pub resolution_ns: Nanos,
    /// Maximum amount by which a sample may be below its stored value. It is above 0 if all samples
    /// of a bucket are stored as the upper end of the bucket.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub below_ns: Nanos,
    /// Samples for which only a lower limit is known. They are counted as samples with the maximum
    /// value.
    pub overflow: Option<Overflow>,
    /// Number of samples about which nothing is known.
    #[serde(default)]
    pub lost: u64,
    /// Number of periods that passed during a late wake-up; absent if the tool does not count them.
    #[serde(default, alias = "missed", skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
}

impl StatedTotals {
    /// Returns the value at and above which the file contains only the number of samples, not their
    /// values. These samples are counted as if they were the maximum; in truth, each is between
    /// this value and the maximum. Returns `None` if the value of every sample is known.
    #[must_use]
    pub fn open_from(&self) -> Option<Nanos> {
        let overflow = self.overflow?;
        let is_placed = self
            .max_ns
            .is_some_and(|max| overflow.samples <= 1 || overflow.from_ns >= max);
        (!is_placed).then_some(overflow.from_ns)
    }

    /// Returns the maximum amount by which a sample may be above its stored value. Stored values
    /// are rounded down.
    #[must_use]
    pub fn above(&self) -> Nanos {
        Nanos((self.resolution_ns.get() - 1).max(0))
    }

    /// Returns whether samples may differ from their stored values.
    #[must_use]
    pub fn is_rounded(&self) -> bool {
        self.above() > Nanos::ZERO || self.below_ns > Nanos::ZERO
    }

    /// Returns a window for finding possible misses: if the stored value of a sample is outside the
    /// returned window, the sample may have missed `window`.
    #[must_use]
    pub fn maybe_missed(&self, window: Window) -> Window {
        self.moved(window, (self.above(), self.below_ns))
    }

    /// Returns a window for finding certain misses: if the stored value of a sample is outside the
    /// returned window, the sample certainly missed `window`.
    #[must_use]
    pub fn surely_missed(&self, window: Window) -> Window {
        let outwards = |by: Nanos| Nanos(-by.get());
        self.moved(window, (outwards(self.below_ns), outwards(self.above())))
    }

    /// Returns `window` with its ends moved inwards, each by its own amount. A negative amount
    /// moves an end outwards.
    fn moved(&self, window: Window, (latest, earliest): (Nanos, Nanos)) -> Window {
        let by = |end: Nanos, by: i64| Nanos(end.get().saturating_add(by));
        Window {
            latest: by(window.latest, -latest.get()),
            earliest: window.earliest.map(|end| by(end, earliest.get())),
        }
    }

    /// Returns the minimum and the maximum number of samples that can have missed `window`, given a
    /// histogram of the values. A sample with a bucket lies in the range of its bucket. A sample
    /// without a bucket can have any value from [`Overflow::from_ns`] to the maximum. At least one
    /// sample is the maximum itself.
    #[must_use]
    pub fn misses_in_buckets(&self, values: &Histogram, window: Window) -> (u64, u64) {
        let (surely, maybe) = (self.surely_missed(window), self.maybe_missed(window));
        let (mut fewest, mut most) = (0, 0);
        // The value at which `values` counts the samples without a bucket, and the number of these
        // samples.
        let mut beyond = self.overflow.map(|overflow| {
            let at = self.max_ns.unwrap_or(overflow.from_ns);
            (at, overflow.samples)
        });
        values.for_each(|value, count| {
            let value = Nanos(value);
            let placed = match &mut beyond {
                Some((at, samples)) if value >= *at => count - count.min(std::mem::take(samples)),
                _ => count,
            };
            fewest += if surely.misses(value) { placed } else { 0 };
            most += if maybe.misses(value) { placed } else { 0 };
        });
        if let Some(Overflow { samples, from_ns }) = self.overflow {
            let is_late_at_most = self.max_ns.is_none_or(|max| max > maybe.latest);
            let is_early_at_least = maybe.earliest.is_some_and(|earliest| from_ns < earliest);
            if from_ns > window.latest {
                fewest += samples;
            }
            if is_late_at_most || is_early_at_least {
                most += samples;
            }
        }
        // The maximum is one of the samples, and its exact value is known. So it can prove a miss
        // even if the bounds of its bucket do not.
        let is_late = self.max_ns.is_some_and(|max| max > window.latest);
        (fewest.max(u64::from(is_late && most > 0)), most)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_zero(time: &Nanos) -> bool {
    *time == Nanos::ZERO
}

/// Samples whose buckets are not in the file, usually because they lie beyond the last bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overflow {
    /// Number of such samples.
    pub samples: u64,
    /// Lower limit of these samples.
    pub from_ns: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: &[(i64, u64)]) -> Histogram {
        let mut histogram = Histogram::new(tardy_core::histogram::Budget::ANALYSIS);
        for &(value, count) in values {
            histogram.record_many(value, count);
        }
        histogram
    }

    fn misses(stated: StatedTotals, values: &[(i64, u64)], deadline: i64) -> (u64, u64) {
        let window = Window::deadline(Nanos(deadline));
        stated.misses_in_buckets(&histogram(values), window)
    }

    #[test]
    fn a_value_in_whole_microseconds_may_lie_anywhere_in_its_microsecond() {
        let stated = StatedTotals {
            resolution_ns: Nanos(1_000),
            ..StatedTotals::default()
        };
        let of = |deadline| misses(stated, &[(12_000, 3)], deadline);
        assert_eq!(
            [11_999, 12_000, 12_998, 12_999].map(of),
            [(3, 3), (0, 3), (0, 3), (0, 0)]
        );
        let exact = StatedTotals {
            resolution_ns: Nanos(1),
            ..stated
        };
        assert_eq!(misses(exact, &[(12_000, 3)], 12_000), (0, 0));
        let window = Window {
            earliest: Some(Nanos(12_500)),
            latest: Nanos(20_000),
        };
        assert_eq!(
            stated.misses_in_buckets(&histogram(&[(11_000, 1), (12_000, 3)]), window),
            (1, 4)
        );
    }

    #[test]
    fn a_wide_bucket_is_undecided_for_a_deadline_inside_it_but_for_the_maximum() {
        // The stored value 19 us stands for samples from 10 us to 19.999 us.
        let stated = StatedTotals {
            resolution_ns: Nanos(1_000),
            below_ns: Nanos(9_000),
            max_ns: Some(Nanos(17_000)),
            ..StatedTotals::default()
        };
        let of = |deadline| misses(stated, &[(9_000, 5), (17_000, 4)], deadline);
        assert_eq!(
            [7_999, 15_000, 17_000, 17_999].map(of),
            [(4, 9), (1, 4), (0, 4), (0, 0)]
        );
    }

    #[test]
    fn samples_without_a_bucket_are_decided_only_outside_of_where_they_may_lie() {
        let of = |samples, max: Option<i64>| StatedTotals {
            overflow: Some(Overflow {
                samples,
                from_ns: Nanos(200),
            }),
            max_ns: max.map(Nanos),
            ..StatedTotals::default()
        };
        let at = |stated: StatedTotals| {
            let (max, samples) = (stated.max_ns, stated.overflow.unwrap().samples);
            let counted = [(150, 7), (max.unwrap_or(Nanos(200)).get(), samples)];
            [199, 200, 4_999, 5_000].map(|latest| misses(stated, &counted, latest))
        };
        assert_eq!(
            at(of(300, Some(5_000))),
            [(300, 300), (1, 300), (1, 300), (0, 0)]
        );
        assert_eq!(
            at(of(300, None)),
            [(300, 300), (0, 300), (0, 300), (0, 300)]
        );
        // If only one sample has no bucket, it must be the maximum.
        let single = of(1, Some(5_000));
        assert_eq!(at(single), [(1, 1), (1, 1), (1, 1), (0, 0)]);
        assert_eq!(single.open_from(), None);
        assert_eq!(of(300, Some(5_000)).open_from(), Some(Nanos(200)));
        assert_eq!(StatedTotals::default().open_from(), None);
    }
}
