//! Counts a series' samples by bucket in each time interval, and fills one exact histogram per
//! phase.
//!
//! The needed memory does not grow with the length of the run, because there are at most about a
//! thousand intervals of a few thousand buckets.

use std::collections::BTreeMap;
use std::path::Path;

use tardy_core::chunk::Chunk;
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::series::{Descriptor, Schedule};
use tardy_core::units::Nanos;
use tardy_statistics::log_buckets::{LogBuckets, Stretch};

use crate::histogram_file;
use crate::read_series::{SeriesError, SeriesFile};
use crate::sweep::last_due_at_most;

/// Index of a phase in the run's list; `None` for samples that belong to no phase.
pub type PhaseIndex = Option<usize>;

/// Where intervals and phases begin and end.
#[derive(Debug, Clone)]
pub struct BlockGrid {
    /// Start of the first interval.
    pub start: Nanos,
    /// Length of each interval.
    pub length: Nanos,
    /// For each phase, the start and the end of the time during which its loads worked.
    pub phases: Vec<(Nanos, Nanos)>,
}

impl BlockGrid {
    /// Returns the interval and the phase in which a due time lies.
    fn place(&self, due: Nanos) -> (u64, PhaseIndex) {
        let stretch = (due - self.start)
            .get()
            .div_euclid(self.length.get().max(1))
            .max(0) as u64;
        (
            stretch,
            self.phases
                .iter()
                .position(|&(begin, end)| begin <= due && due < end),
        )
    }
}

/// The counts of one series of a run.
#[derive(Debug, Clone)]
pub struct SeriesBlocks {
    /// Descriptor of the series.
    pub descriptor: Descriptor,
    /// Counts of each interval, separately for each phase that it overlaps, in chronological order.
    pub stretches: BTreeMap<(u64, PhaseIndex), Stretch>,
    /// Histogram of all samples of each phase.
    pub exact: BTreeMap<PhaseIndex, Histogram>,
    /// Histogram of all samples, if the series stores only some of them individually; `stretches`
    /// and `exact` are then empty.
    pub stored: Option<Histogram>,
}

impl SeriesBlocks {
    /// Reads the series in `path`, on as many threads as there are CPUs.
    ///
    /// # Errors
    /// Fails with a [`SeriesError`] if the series cannot be read.
    pub fn read(path: &Path, grid: &BlockGrid) -> Result<Self, SeriesError> {
        let file = SeriesFile::open(path)?;
        let new = || Reader::new(file.descriptor().schedule, grid.clone());
        let (reader, _) = file.fold(SeriesFile::threads(), new, Reader::add, Reader::merge)?;
        let mut whole = Self {
            descriptor: file.descriptor().clone(),
            stretches: reader.stretches,
            exact: reader.exact,
            stored: None,
        };
        // Histograms are packed, because up to a thousand series are in memory at the same time.
        whole.exact.values_mut().for_each(Histogram::pack);
        if let Some(stored) = histogram_file::of_all(path, &file, whole.exact.values()) {
            whole.stored = Some(stored);
            whole.stretches.clear();
            whole.exact.clear();
        }
        Ok(whole)
    }
}

/// Counts the samples of a part of a series, in one pass.
struct Reader {
    schedule: Schedule,
    grid: BlockGrid,
    open: Option<(u64, PhaseIndex)>,
    buckets: LogBuckets,
    stretches: BTreeMap<(u64, PhaseIndex), Stretch>,
    exact: BTreeMap<PhaseIndex, Histogram>,
}

impl Reader {
    fn new(schedule: Schedule, grid: BlockGrid) -> Self {
        Self {
            schedule,
            grid,
            open: None,
            buckets: LogBuckets::default(),
            stretches: BTreeMap::new(),
            exact: BTreeMap::new(),
        }
    }

    fn add(&mut self, chunk: &Chunk) {
        if chunk.latency.is_empty() {
            return;
        }
        let place = self.grid.place(chunk.first_due);
        // Nearly every chunk lies completely within one interval. A check of its first and last due
        // time shows this.
        if last_due_at_most(chunk, &self.schedule)
            .is_some_and(|last| self.grid.place(last) == place)
        {
            self.open(place);
            let exact = self
                .exact
                .entry(place.1)
                .or_insert_with(|| Histogram::new(Budget::ANALYSIS));
            for &latency in &chunk.latency {
                exact.record(latency);
                self.buckets.record(latency);
            }
            return;
        }
        let schedule = self.schedule;
        for (_, sample) in chunk.samples(&schedule) {
            let place = self.grid.place(sample.due);
            self.open(place);
            self.exact
                .entry(place.1)
                .or_insert_with(|| Histogram::new(Budget::ANALYSIS))
                .record(sample.latency.get());
            self.buckets.record(sample.latency.get());
        }
    }

    fn open(&mut self, place: (u64, PhaseIndex)) {
        if self.open != Some(place) {
            self.close();
            self.open = Some(place);
        }
    }

    /// Adds the next part of the series.
    fn merge(&mut self, mut part: Self) {
        part.close();
        for (place, stretch) in part.stretches {
            self.stretches.entry(place).or_default().merge(stretch);
        }
        for (phase, histogram) in part.exact {
            match self.exact.get_mut(&phase) {
                Some(known) => known.merge(&histogram),
                None => drop(self.exact.insert(phase, histogram)),
            }
        }
    }

    fn close(&mut self) {
        if let Some(place) = self.open.take() {
            self.stretches
                .entry(place)
                .or_default()
                .merge(self.buckets.take());
        }
    }
}
