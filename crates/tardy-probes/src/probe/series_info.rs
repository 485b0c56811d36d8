//! Describes a series of a probe.

use tardy_core::series::{Meaning, Schedule};
use tardy_core::units::Nanos;

/// One series of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesInfo {
    /// The part of the series' name after the probe's name and a dot; empty for the first series.
    pub part: &'static str,
    /// Name of the quantity in tables, such as `latency`.
    pub quantity: &'static str,
    /// When samples are due, and what their values mean.
    pub kind: SeriesKind,
    /// Whether verdicts ignore the values, because no deadline applies to them.
    pub is_outside_verdict: bool,
    /// Whether values below the probe's parameter `least` are only counted in bins, without their
    /// times, because they are too frequent to store each one.
    pub bins_below_least: bool,
}

/// When samples of a series are due, and what their values mean. All are in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesKind {
    /// Latency relative to due times on a grid. Some of the due times can be skipped.
    Grid,
    /// Latency relative to a time requested in each cycle, or to a clock read of another thread.
    /// There is no grid, so the number of started cycles is the number of expected samples.
    Event,
    /// Time from a due time on a grid to the end of the work. If work was due but skipped, it was
    /// never done, so it misses any deadline.
    Work,
    /// Time of the sound minus that of the picture, on a grid of frames; see [`Meaning::Skew`]. A
    /// skipped frame was never shown.
    Skew,
    /// Time between two events minus the period, for events whose due times are unknown; see
    /// [`Meaning::IntervalError`].
    Interval {
        /// Whether the events come from a device with its own clock.
        has_own_clock: bool,
    },
    /// Gaps that last at least as long as the probe's parameter `least`. A sample is the start and
    /// the length of a gap; see [`Meaning::Gap`].
    Gap,
}

impl SeriesInfo {
    /// Latency on a grid.
    pub const GRID_LATENCY: Self = Self {
        part: "",
        quantity: "latency",
        kind: SeriesKind::Grid,
        is_outside_verdict: false,
        bins_below_least: false,
    };
    /// Latency without a schedule.
    pub const EVENT_LATENCY: Self = Self {
        part: "",
        quantity: "latency",
        kind: SeriesKind::Event,
        is_outside_verdict: false,
        bins_below_least: false,
    };
    /// Interval errors. Interval errors are not latencies, and no verdict is based on them.
    pub const INTERVAL_ERROR: Self = Self {
        part: "",
        quantity: "interval error",
        kind: SeriesKind::Interval {
            has_own_clock: false,
        },
        is_outside_verdict: true,
        bins_below_least: false,
    };

    /// Gaps, to which a deadline does not apply.
    pub const GAPS: Self = Self {
        part: "",
        quantity: "gap",
        kind: SeriesKind::Gap,
        is_outside_verdict: true,
        bins_below_least: false,
    };

    /// Returns the full name of the series, for the probe called `probe`.
    #[must_use]
    pub fn name(&self, probe: &str) -> String {
        if self.part.is_empty() {
            probe.to_owned()
        } else {
            format!("{probe}.{}", self.part)
        }
    }
}

impl SeriesKind {
    /// Returns the schedule of the series. `period` is the period of the probe. If the due times
    /// are on a grid, `start` and `dither` shift them.
    #[must_use]
    pub fn schedule(self, period: Nanos, start: Nanos, dither: Nanos) -> Schedule {
        match self {
            Self::Grid | Self::Work | Self::Skew => Schedule::Grid {
                period,
                start,
                dither,
            },
            Self::Event | Self::Interval { .. } => Schedule::Event { request: period },
            // A gap can start at any time. The file format requires a requested time above zero,
            // and stores deviations from it.
            Self::Gap => Schedule::Event { request: Nanos(1) },
        }
    }

    /// Returns whether the samples include the time of some work, instead of only the time until a
    /// clock read; see [`tardy_core::series::Descriptor::is_work`].
    #[must_use]
    pub fn is_work(self) -> bool {
        matches!(self, Self::Work | Self::Skew)
    }

    /// Returns the meaning of the values. For latencies, it includes the error of the clock; for
    /// gaps, the length `least`, below which gaps are ignored.
    #[must_use]
    pub fn meaning(self, clock_error: Nanos, least: Nanos) -> Meaning {
        match self {
            Self::Grid | Self::Work | Self::Event => Meaning::Lateness { clock_error },
            Self::Skew => Meaning::Skew,
            Self::Interval { has_own_clock } => Meaning::IntervalError { has_own_clock },
            Self::Gap => Meaning::Gap { least },
        }
    }
}
