//! What is counted of the samples that belong to the same phases.

use crate::histogram::{Budget, Histogram};
use crate::sample::Sample;
use crate::summary::top::Top;
use crate::units::Nanos;

/// Counts of some samples of a series.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Latencies as measured.
    pub latency: Histogram,
    /// Latencies that the skipped due times would have had: late sample minus one period, minus two, and so on.
    pub skipped: Histogram,
    /// The largest latency; the first one where several are equal.
    pub worst: Option<Sample>,
    /// The largest latencies, with their places.
    pub top: Top,
    /// Samples and skipped due times outside of the window asked for.
    pub misses: u64,
    /// Due times skipped.
    pub missed: u64,
    /// Sum of the latencies in ns.
    pub sum: i128,
}

impl Default for Cell {
    fn default() -> Self {
        Self {
            latency: Histogram::new(Budget::ANALYSIS),
            skipped: Histogram::new(Budget::ANALYSIS),
            worst: None,
            top: Top::default(),
            misses: 0,
            missed: 0,
            sum: 0,
        }
    }
}

impl Cell {
    /// Adds the counts of other samples of the same series.
    pub fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.skipped.merge(&other.skipped);
        self.note_worst(other.worst);
        self.top.merge(&other.top);
        self.misses += other.misses;
        self.missed += other.missed;
        self.sum += other.sum;
    }

    /// How strongly the late samples of one series cluster, 1 for not at all; `None` where there are too few to tell.
    #[must_use]
    pub fn extremal_index(&self) -> Option<f64> {
        self.top.extremal_index(self.latency.count())
    }

    /// Keeps `sample` if it is the worst.
    pub fn note_worst(&mut self, sample: Option<Sample>) {
        let Some(sample) = sample else { return };
        let is_worse = |worst: Sample| sample.latency > worst.latency || (sample.latency == worst.latency && sample.due < worst.due);
        if self.worst.is_none_or(is_worse) {
            self.worst = Some(sample);
        }
    }

    /// Counts the due times that `sample` skipped, each with the latency that it would have had. Where its own latency does not cover them, because what came
    /// after the wake-up took so long, theirs are not known, and the histogram stays uncorrected.
    pub fn note_skipped(&mut self, sample: Sample, period: Nanos, expand: bool) {
        self.missed += u64::from(sample.missed);
        let last = i128::from(sample.latency.get()) - i128::from(period.get()) * i128::from(sample.missed);
        // Dither moves due times by up to half a period.
        if expand && last >= -i128::from(period.get() / 2) {
            let mut latency = sample.latency.get();
            for _ in 0..sample.missed {
                latency = latency.saturating_sub(period.get());
                self.skipped.record(latency);
            }
        }
    }

    /// The histogram with the skipped due times expanded; `None` where there were none, or too many to expand.
    #[must_use]
    pub fn corrected(&self) -> Option<Histogram> {
        let skipped = self.skipped.count();
        (skipped > 0 && skipped == self.missed).then(|| {
            let mut corrected = self.latency.clone();
            corrected.merge(&self.skipped);
            corrected
        })
    }
}
