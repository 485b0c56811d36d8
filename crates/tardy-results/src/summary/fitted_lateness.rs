//! Interval errors as latenesses: the events of a series against the grid of expiries behind them,
//! one pass for the grid, which is that of the summary, and one for the latenesses.

use tardy_core::chunk::Chunk;
use tardy_core::sample::Sample;
use tardy_core::series::Schedule;
use tardy_core::summary::cell::Cell;
use tardy_core::summary::dependence::Dependence;
use tardy_core::summary::fitted_grid::{FittedGrid, GridFit};
use tardy_core::summary::numbers::numbers;
use tardy_core::units::Nanos;
use tardy_run::read_series::{SeriesError, SeriesFile};

use super::model::FittedSummary;

/// The latenesses of one series.
pub(super) struct FittedLateness {
    grid: FittedGrid,
    lateness: Cell,
}

/// The grid behind the events of one series, while they are read in their order.
pub(super) struct GridFitter {
    schedule: Schedule,
    fit: GridFit,
    is_first: bool,
}

impl GridFitter {
    pub(super) fn new(schedule: Schedule, has_own_clock: bool) -> Self {
        Self {
            schedule,
            fit: GridFit::new(schedule.period(), has_own_clock),
            is_first: true,
        }
    }

    pub(super) fn add(&mut self, chunk: &Chunk) {
        for (_, sample) in chunk.samples(&self.schedule) {
            // The first interval began with an event, too.
            if std::mem::take(&mut self.is_first) {
                self.fit.add(sample.due - self.schedule.period());
            }
            self.fit.add(sample.wake());
        }
    }
}

/// Reads the latenesses against the grid that was fitted; `None` where there were too few events
/// for one.
pub(super) fn read(
    file: &SeriesFile,
    fitting: GridFitter,
) -> Result<Option<FittedLateness>, SeriesError> {
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
    file.read(|chunk| {
        for (_, sample) in chunk.samples(&schedule) {
            if std::mem::take(&mut is_first) {
                note(&mut grid, sample.due - schedule.period());
            }
            note(&mut grid, sample.wake());
        }
    })?;
    Ok(Some(FittedLateness { grid, lateness }))
}

impl FittedLateness {
    /// The numbers; `start` is the start of the run on the series' clock.
    pub(super) fn summary(&self, start: Nanos) -> FittedSummary {
        FittedSummary {
            period_ns: self.grid.period_ns(),
            expiries: self.grid.expiries,
            without_event: self.grid.expiries.saturating_sub(self.grid.events),
            lateness: numbers(
                &self.lateness,
                &Dependence::of(&[&self.lateness]),
                start.get(),
                false,
            ),
        }
    }
}
