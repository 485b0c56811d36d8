//! Stores values whose order is known, but whose times are unknown. If the period is known, due
//! times are derived from it.
//!
//! If the period is unknown, the n-th value gets the due time n ns, and the folder records that
//! times are unknown. Such a run has no length, no rate and no chart over time.

use std::io;

use tardy_core::sample::{Record, Sample};
use tardy_core::series::Schedule;
use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::sink::{ImportedRun, LATENCY, Sink, descriptor};
use super::{Settings, Unit};

/// Note for a file that contains only values.
const NO_TIMES_NOTE: &str = "only the order of the values is known, not when they were taken: \
                             give --period for rates and durations";

/// Upper limit of times, so that the sum of two times does not overflow.
pub(super) const TIME_MAX: i64 = i64::MAX / 4;

/// One series, filled value by value.
pub(super) struct InOrder<'a> {
    sink: &'a mut dyn Sink,
    series: usize,
    /// Time from one due time to the next; 1 ns if unknown.
    step: i64,
    due: i64,
    has_times: bool,
    /// The resolution of the values so far: the largest power of ten, in ns, that divides all of
    /// them. It is at most the file's unit.
    resolution: i64,
}

impl<'a> InOrder<'a> {
    /// Opens the series of `probe`.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub(super) fn open(
        sink: &'a mut dyn Sink,
        (probe, cpu): (&str, Option<u32>),
        settings: &Settings,
        unit: Unit,
    ) -> io::Result<Self> {
        let period = settings.period.map_or(0, Nanos::get);
        let schedule = match period {
            1.. => Schedule::Grid {
                period: Nanos(period),
                start: Nanos::ZERO,
                dither: Nanos::ZERO,
            },
            _ => Schedule::Event {
                request: Nanos::ZERO,
            },
        };
        let series = sink.open(descriptor(probe, LATENCY, cpu, schedule))?;
        Ok(Self {
            sink,
            series,
            step: period.max(1),
            due: 0,
            has_times: period > 0,
            resolution: unit.nanos(),
        })
    }

    /// Appends a value. Returns `None` if the next due time would be [`TIME_MAX`] or later.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub(super) fn push(&mut self, latency: i64) -> io::Result<Option<()>> {
        while latency % self.resolution != 0 {
            self.resolution /= 10;
        }
        let sample = Sample {
            due: Nanos(self.due),
            latency: Nanos(latency),
            skipped: 0,
        };
        let Some(next) = self
            .due
            .checked_add(self.step)
            .filter(|&next| next < TIME_MAX)
        else {
            return Ok(None);
        };
        self.due = next;
        self.sink
            .push(self.series, Record::Sample(sample))
            .map(Some)
    }

    /// Returns whether the series has no value yet.
    pub(super) fn is_empty(&self) -> bool {
        self.due == 0
    }

    /// Closes the series, and returns the run with notes on the information that the file lacks.
    pub(super) fn close(self, tool: &str) -> ImportedRun {
        self.sink.state(
            self.series,
            StatedTotals {
                resolution_ns: Nanos(self.resolution),
                ..StatedTotals::default()
            },
        );
        let mut notes = Vec::new();
        if !self.has_times {
            notes.push(NO_TIMES_NOTE.to_owned());
        }
        ImportedRun {
            tool: tool.to_owned(),
            notes,
            has_no_times: !self.has_times,
            ..ImportedRun::default()
        }
    }
}
