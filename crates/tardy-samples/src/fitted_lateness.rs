//! Converts interval errors to latencies: compares the events of a series with a fitted grid of
//! expiries. The grid is fitted in a first pass, which the summary also uses. A second pass counts
//! the latencies.

use tardy_core::chunk::Chunk;
use tardy_core::sample::Sample;
use tardy_core::series::Schedule;
use tardy_core::summary::cell::Cell;
use tardy_core::summary::fitted_grid::{FittedGrid, GridFit};
use tardy_core::units::Nanos;

use crate::read_series::{SeriesError, SeriesFile};

/// The latencies of one series relative to its fitted grid.
pub struct FittedLateness {
    /// The grid, with the numbers of its events and expiries.
    pub grid: FittedGrid,
    /// Latencies relative to the grid.
    pub lateness: Cell,
}

/// Fits a grid to the events of one series, in their order.
#[derive(Debug)]
pub struct GridFitter {
    schedule: Schedule,
    fit: GridFit,
    is_first: bool,
}

impl GridFitter {
    /// Creates a fitter for the events of a series with this schedule.
    #[must_use]
    pub fn new(schedule: Schedule, has_own_clock: bool) -> Self {
        Self {
            schedule,
            fit: GridFit::new(schedule.period(), has_own_clock),
            is_first: true,
        }
    }

    /// Adds the next chunk of the series.
    pub fn add(&mut self, chunk: &Chunk) {
        for (_, sample) in chunk.samples(&self.schedule) {
            // Each sample is the interval that ends with an event. The event that started the first
            // interval has no sample, so it is added here.
            if std::mem::take(&mut self.is_first) {
                self.fit.add(sample.due - self.schedule.period());
            }
            self.fit.add(sample.wake());
        }
    }
}

/// Reads the latencies relative to the fitted grid; `None` if there were too few events to fit it.
///
/// # Errors
/// Fails with a [`SeriesError`] if the file cannot be read.
pub fn read(file: &SeriesFile, fitting: GridFitter) -> Result<Option<FittedLateness>, SeriesError> {
    let schedule = fitting.schedule;
    let Some(mut grid) = fitting.fit.line() else {
        return Ok(None);
    };
    let mut lateness = Cell::default();
    let mut place = 0;
    let mut note = |grid: &mut FittedGrid, at: Nanos| {
        let late = grid.lateness(at);
        place += 1;
        lateness.latency.record(late.get());
        lateness.sum += i128::from(late.get());
        lateness.top.add(late.get(), place);
        lateness.batches.add_all(0, at - late, &[late.get()], 0);
        lateness.note_worst(Some(Sample {
            due: at - late,
            latency: late,
            skipped: 0,
        }));
    };
    let mut is_first = true;
    file.read(&mut |chunk| {
        for (_, sample) in chunk.samples(&schedule) {
            if std::mem::take(&mut is_first) {
                note(&mut grid, sample.due - schedule.period());
            }
            note(&mut grid, sample.wake());
        }
    })?;
    Ok(Some(FittedLateness { grid, lateness }))
}
