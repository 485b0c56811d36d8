//! Collects the largest samples of a series and of each load, in chronological order. These are the
//! input of tail models.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tardy_core::chunk::Chunk;
use tardy_core::sample::Sample;
use tardy_core::series::Schedule;
use tardy_core::summary::cell::Cell;
use tardy_core::units::Nanos;
use tardy_statistics::threshold::EXCEEDANCES_MAX;

/// Maximum number of blocks; short runs have fewer.
const BLOCKS: u64 = 500;
/// Minimum number of samples in a block.
const BLOCK_SAMPLES_MIN: u64 = 100;

/// The times when a load ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadSpans {
    /// Name of the load.
    pub load: String,
    /// Start and end of each phase with the load.
    pub spans: Vec<(Nanos, Nanos)>,
}

/// The largest samples of a series, and the maximum of each block of samples, from one pass.
#[derive(Debug)]
pub struct Extremes {
    largest: BinaryHeap<Reverse<(i64, u64)>>,
    /// Largest sample of each block, in chronological order.
    pub maxima: Vec<f64>,
    /// Number of samples in a block.
    pub block: u64,
    in_block: u64,
    block_max: i64,
    /// Number of samples so far.
    pub place: u64,
}

impl Extremes {
    fn new(samples: u64) -> Self {
        let block = samples.div_ceil(BLOCKS).max(BLOCK_SAMPLES_MIN);
        Self {
            largest: BinaryHeap::new(),
            maxima: Vec::new(),
            block,
            in_block: 0,
            block_max: i64::MIN,
            place: 0,
        }
    }

    fn add(&mut self, latencies: &[i64]) {
        let mut least = self.least();
        for &latency in latencies {
            if latency > least {
                self.keep(latency);
                least = self.least();
            }
            self.place += 1;
            self.block_max = self.block_max.max(latency);
            self.in_block += 1;
            if self.in_block == self.block {
                self.maxima.push(self.block_max as f64);
                (self.in_block, self.block_max) = (0, i64::MIN);
            }
        }
    }

    /// Returns the value that a sample must exceed to be stored.
    fn least(&self) -> i64 {
        match self.largest.peek() {
            Some(&Reverse((latency, _))) if self.largest.len() as u64 >= EXCEEDANCES_MAX => latency,
            _ => i64::MIN,
        }
    }

    fn keep(&mut self, latency: i64) {
        if self.largest.len() as u64 >= EXCEEDANCES_MAX {
            self.largest.pop();
        }
        self.largest.push(Reverse((latency, self.place)));
    }

    /// Returns the index and the value of each sample above the threshold, in chronological order.
    /// If values are rounded, samples at the threshold are included. Returns an empty list unless
    /// all of these samples are certainly stored.
    #[must_use]
    pub fn exceedances(&self, threshold: f64, width: f64) -> Vec<(u64, f64)> {
        if self.least() as f64 > threshold {
            return Vec::new();
        }
        let is_above = |value: f64| value > threshold || (width > 1.0 && value >= threshold);
        let mut found: Vec<(u64, f64)> = self
            .largest
            .iter()
            .map(|&Reverse((latency, place))| (place, latency as f64))
            .filter(|&(_, value)| is_above(value))
            .collect();
        found.sort_unstable_by_key(|&(place, _)| place);
        found
    }
}

/// The samples that were taken under one load, in chronological order.
#[derive(Debug)]
pub struct Population {
    /// The times when the load ran.
    pub spans: LoadSpans,
    /// Counts of the samples.
    pub cell: Cell,
    /// The largest samples.
    pub extremes: Extremes,
}

impl Population {
    /// `samples` is only an estimate, because a sample at the edge of a phase may belong to two
    /// loads.
    fn new(spans: LoadSpans, samples: u64) -> Self {
        Self {
            spans,
            cell: Cell::default(),
            extremes: Extremes::new(samples),
        }
    }

    fn add(&mut self, sample: Sample) {
        if self
            .spans
            .spans
            .iter()
            .any(|&(begin, end)| begin <= sample.due && sample.due < end)
        {
            let latency = sample.latency.get();
            self.cell.top.add(latency, self.cell.latency.count());
            self.cell.latency.record(latency);
            self.extremes.add(&[latency]);
        }
    }
}

/// Collects the samples that the tail models of one series need. If another function reads the
/// series anyway, it can add the chunks here, in their order.
#[derive(Debug)]
pub struct TailReader {
    schedule: Schedule,
    /// The largest samples of the whole series.
    pub extremes: Extremes,
    /// The samples of each load, if there are several.
    pub populations: Vec<Population>,
}

impl TailReader {
    /// Creates a reader for `samples` samples of a series with this schedule, and for the samples
    /// of each load. Returns `None` if the period is unknown, because the number of samples in a
    /// time horizon is then unknown as well.
    #[must_use]
    pub fn new(schedule: Schedule, samples: u64, loads: Vec<LoadSpans>) -> Option<Self> {
        if schedule.period().get() <= 0 || samples == 0 {
            return None;
        }
        // The fraction of samples under a load is estimated as the fraction of time in the load's
        // phases.
        let length = |spans: &LoadSpans| {
            spans
                .spans
                .iter()
                .map(|&(begin, end)| (end - begin).as_secs_f64())
                .sum::<f64>()
        };
        let all: f64 = loads.iter().map(length).sum();
        let expected = |spans: &LoadSpans| {
            (samples as f64 * length(spans) / all.max(f64::MIN_POSITIVE)) as u64
        };
        let population = |spans: LoadSpans| {
            let expected = expected(&spans);
            Population::new(spans, expected)
        };
        Some(Self {
            schedule,
            extremes: Extremes::new(samples),
            populations: loads.into_iter().map(population).collect(),
        })
    }

    /// Adds the next chunk of the series.
    pub fn add(&mut self, chunk: &Chunk) {
        self.extremes.add(&chunk.latency);
        if !self.populations.is_empty() {
            for (_, sample) in chunk.samples(&self.schedule) {
                self.populations
                    .iter_mut()
                    .for_each(|population| population.add(sample));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_values_keep_their_places_and_blocks_their_maxima() {
        let mut extremes = Extremes::new(50_000);
        let values: Vec<i64> = (0..50_000).map(|index| index * 7_919 % 50_021).collect();
        values.chunks(777).for_each(|chunk| extremes.add(chunk));
        let found = extremes.exceedances(45_000.0, 1.0);
        let expected: Vec<(u64, f64)> = values
            .iter()
            .enumerate()
            .filter(|(_, value)| **value > 45_000)
            .map(|(place, &value)| (place as u64, value as f64))
            .collect();
        assert_eq!(found, expected);
        let maxima: Vec<f64> = values
            .chunks(100)
            .map(|block| *block.iter().max().unwrap() as f64)
            .collect();
        assert_eq!(extremes.maxima, maxima);
        // The order of the samples that are smaller than every stored value is unknown.
        assert!(extremes.exceedances(10.0, 1.0).is_empty());
    }
}
