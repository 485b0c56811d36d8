//! Counts the samples that overlap the same phases.

use crate::histogram::{Budget, Histogram};
use crate::sample::Sample;
use crate::series::Schedule;
use crate::summary::batches::Batches;
use crate::summary::serial::Serial;
use crate::summary::top::Top;
use crate::units::Nanos;
use crate::verdict::Window;
use crate::verdict::skipped::SkippedLateness;

/// Maximum number of skipped due times per series for which latencies are computed. The limit keeps
/// a damaged file from occupying a reader for hours.
pub const EXPANDED_MAX: u64 = 100_000_000;

/// How many due times miss a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misses {
    /// Number of samples and skipped due times that miss.
    pub all: u64,
    /// Number of skipped due times among these misses.
    pub skipped: u64,
    /// Number of skipped due times that may miss the window, because their latency is unknown; not
    /// included in `all`.
    pub undecided: u64,
}

/// Counts of a set of samples from one series.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Latencies of the samples, as they were measured.
    pub latency: Histogram,
    /// Latencies that the skipped due times would have had: the latency of the late sample minus
    /// one period, minus two periods, and so on.
    pub latency_skipped: Histogram,
    /// Upper bounds of the latencies of due times that were skipped although the wake-up was in
    /// time: see [`SkippedLateness::AtMost`].
    pub latency_skipped_at_most: Histogram,
    /// The sample with the largest latency; the earliest if several are equal.
    pub worst: Option<Sample>,
    /// The largest latencies, each with its index in the series.
    pub top: Top,
    /// Counts of the samples by interval of time.
    pub batches: Batches,
    /// How the samples depend on each other, computed after the last sample was added.
    serial: Option<Serial>,
    /// Number of samples outside the requested window, plus skipped due times that miss it.
    pub misses: u64,
    /// Number of skipped due times among the misses.
    pub misses_skipped: u64,
    /// Number of skipped due times of unknown latency, which may have missed the window.
    pub misses_undecided: u64,
    /// Number of skipped due times.
    pub skipped: u64,
    /// Sum of the latencies in ns.
    pub sum: i128,
}

impl Default for Cell {
    fn default() -> Self {
        Self {
            latency: Histogram::new(Budget::ANALYSIS),
            latency_skipped: Histogram::new(Budget::ANALYSIS),
            latency_skipped_at_most: Histogram::new(Budget::ANALYSIS),
            worst: None,
            top: Top::default(),
            batches: Batches::default(),
            serial: None,
            misses: 0,
            misses_skipped: 0,
            misses_undecided: 0,
            skipped: 0,
            sum: 0,
        }
    }
}

impl Cell {
    /// Compresses the counts of a series of `samples` samples; see [`Histogram::pack`].
    pub fn pack(&mut self, samples: u64) {
        self.latency.pack();
        self.latency_skipped.pack();
        self.top.trim(samples);
        self.batches.pack();
    }

    /// Returns an empty cell with at most `most` intervals of time.
    #[must_use]
    pub fn with_stretches(most: usize) -> Self {
        Self {
            batches: Batches::at_most(most),
            ..Self::default()
        }
    }

    /// Adds the counts of other samples of the same series.
    pub fn merge(&mut self, other: &Self) {
        self.top.merge(&other.top);
        self.batches.merge(&other.batches);
        self.serial = None;
        self.merge_counts(other);
    }

    /// Adds the counts of another series. The dependence between samples of several series is
    /// computed from these series (`dependence`), not from this sum.
    pub fn merge_counts(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.latency_skipped.merge(&other.latency_skipped);
        self.latency_skipped_at_most
            .merge(&other.latency_skipped_at_most);
        self.note_worst(other.worst);
        self.misses += other.misses;
        self.misses_skipped += other.misses_skipped;
        self.misses_undecided += other.misses_undecided;
        self.skipped += other.skipped;
        self.sum += other.sum;
    }

    /// Returns how the samples of one series depend on each other.
    #[must_use]
    pub fn serial(&self) -> Serial {
        self.serial.clone().unwrap_or_else(|| {
            Serial::of(self.latency.count(), self.extremal_index(), &self.batches)
        })
    }

    /// Computes how the cell's samples depend on each other, and stores the result. After this
    /// call, samples may be added only with [`Cell::merge`], which discards the result.
    pub fn keep_serial(&mut self) {
        self.serial = Some(self.serial());
    }

    /// Returns the extremal index of one series' late samples: 1 if they do not cluster, less if
    /// they do; `None` if there are too few.
    #[must_use]
    pub fn extremal_index(&self) -> Option<f64> {
        self.top.extremal_index(self.latency.count())
    }

    /// Stores `sample` if it is worse than the stored sample.
    pub fn note_worst(&mut self, sample: Option<Sample>) {
        let Some(sample) = sample else { return };
        let is_worse = |worst: Sample| {
            sample.latency > worst.latency
                || (sample.latency == worst.latency && sample.due < worst.due)
        };
        if self.worst.is_none_or(is_worse) {
            self.worst = Some(sample);
        }
    }

    /// Counts the due times that `sample` skipped, each with the latency that it would have had. If
    /// `expand` is false, counts the due times without their latencies. If due times were skipped
    /// because the work after the wake-up took too long, the sample's latency does not explain
    /// them. Only upper bounds of their latencies are then known, and these are counted in a
    /// separate histogram.
    pub fn note_skipped(&mut self, sample: Sample, schedule: &Schedule, expand: bool) {
        self.skipped += u64::from(sample.skipped);
        if !expand {
            return;
        }
        let lateness = SkippedLateness::of(sample, schedule);
        let histogram = match lateness {
            SkippedLateness::Known { .. } => &mut self.latency_skipped,
            SkippedLateness::AtMost { .. } => &mut self.latency_skipped_at_most,
        };
        let period = schedule.period().get();
        histogram.record_descending(
            lateness.latency().get().saturating_sub(period),
            period,
            u64::from(sample.skipped),
            1,
        );
    }

    /// Derives the latencies of skipped due times from the latencies of all samples. This is for
    /// series of which not all samples are stored. A sample skipped n due times if its latency is n
    /// periods, rounded down. If the result differs from the counted number of skipped due times,
    /// it is discarded, and the latencies stay unknown.
    pub fn find_skipped(&mut self, period: Nanos) {
        let period = period.get();
        if period <= 0 || self.skipped == 0 || self.skipped > EXPANDED_MAX {
            return;
        }
        let of_stalls = |value: i64| u64::try_from(value.div_euclid(period)).unwrap_or(0);
        let mut stalls: Vec<(i64, u64)> = Vec::new();
        self.latency.for_each(|value, count| {
            if value >= period {
                stalls.push((value, count))
            }
        });
        let found = stalls.iter().fold(0_u64, |sum, &(value, count)| {
            sum.saturating_add(of_stalls(value).saturating_mul(count))
        });
        if found != self.skipped {
            return;
        }
        self.latency_skipped = Histogram::new(Budget::ANALYSIS);
        self.latency_skipped_at_most = Histogram::new(Budget::ANALYSIS);
        for (value, count) in stalls {
            self.latency_skipped
                .record_descending(value - period, period, of_stalls(value), count);
        }
    }

    /// Counts the misses of `window` again, from the histograms.
    pub fn count_misses(&mut self, window: &Window, is_work: bool) {
        let misses = self.misses_of(window, is_work);
        self.misses = misses.all;
        self.misses_skipped = misses.skipped;
        self.misses_undecided = misses.undecided;
    }

    /// Counts the samples and skipped due times that miss `window`, by means of the histograms. If
    /// `is_work`, all skipped due times count as misses.
    #[must_use]
    pub fn misses_of(&self, window: &Window, is_work: bool) -> Misses {
        let beyond = |histogram: &Histogram, is_miss: &dyn Fn(i64) -> bool| {
            let mut beyond = 0;
            histogram.for_each(|value, count| beyond += if is_miss(value) { count } else { 0 });
            beyond
        };
        let is_late = |value: i64| value > window.latest.get();
        let known = self.latency_skipped.count() + self.latency_skipped_at_most.count();
        let (skipped, undecided) = if is_work {
            (self.skipped, 0)
        } else {
            (
                beyond(&self.latency_skipped, &is_late)
                    + beyond(&self.latency_skipped_at_most, &is_late),
                self.skipped.saturating_sub(known),
            )
        };
        Misses {
            all: beyond(&self.latency, &|value| window.misses(Nanos(value))) + skipped,
            skipped,
            undecided,
        }
    }

    /// Returns the histogram, extended by the latencies of skipped due times. `None` if no due time
    /// was skipped, or if the latency of any skipped due time is unknown.
    #[must_use]
    pub fn corrected(&self) -> Option<Histogram> {
        let skipped = self.latency_skipped.count();
        (skipped > 0 && skipped == self.skipped).then(|| {
            let mut corrected = self.latency.clone();
            corrected.merge(&self.latency_skipped);
            corrected
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Nanos = Nanos(1_000);

    fn kept_as_histogram(latencies: &[i64], skipped: u64) -> Cell {
        let mut cell = Cell {
            skipped,
            ..Cell::default()
        };
        latencies
            .iter()
            .for_each(|&latency| cell.latency.record(latency));
        cell.find_skipped(PERIOD);
        cell
    }

    #[test]
    fn skipped_due_times_are_found_from_the_stalls_in_a_histogram() {
        let cell = kept_as_histogram(&[10, 3_400, 1_000, 20], 4);
        let mut found = Vec::new();
        cell.latency_skipped
            .for_each(|value, count| found.push((value, count)));
        assert_eq!(found, [(0, 1), (400, 1), (1_400, 1), (2_400, 1)]);
        let misses = |deadline| cell.misses_of(&Window::deadline(Nanos(deadline)), false);
        let of = |all, skipped| Misses {
            all,
            skipped,
            undecided: 0,
        };
        assert_eq!([2_000, 3_400].map(misses), [of(2, 1), of(0, 0)]);
        assert_eq!(cell.corrected().unwrap().count(), 8);
    }

    #[test]
    fn skipped_due_times_that_no_stall_accounts_for_may_have_missed_any_deadline() {
        let cell = kept_as_histogram(&[10, 3_400, 20], 5);
        let misses = |is_work| cell.misses_of(&Window::deadline(Nanos(10_000)), is_work);
        let undecided = Misses {
            all: 0,
            skipped: 0,
            undecided: 5,
        };
        assert_eq!(misses(false), undecided);
        let skipped_work = Misses {
            all: 5,
            skipped: 5,
            undecided: 0,
        };
        assert_eq!(misses(true), skipped_work);
    }
}
