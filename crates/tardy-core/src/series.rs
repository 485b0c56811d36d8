//! What a series is: the samples of one probe thread, and the descriptor that stands at the head of its file.

use serde::{Deserialize, Serialize};

use crate::cpu::CpuId;
use crate::units::Nanos;

/// When the next sample of a series is due; the chunk format stores only what departs from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Schedule {
    /// Due times are `start + k * period`. A late wake-up skips due times; they are counted as missed.
    Grid {
        /// Time between two due times.
        #[serde(rename = "period_ns")]
        period: Nanos,
        /// The first due time, on the series' clock.
        #[serde(rename = "start_ns")]
        start: Nanos,
        /// Each due time is moved by a random time from 0 up to this; 0 for none.
        #[serde(rename = "dither_ns", default)]
        dither: Nanos,
    },
    /// Each sample is due a fixed time after the probe asked for it: there is no schedule, so that nothing can be missed.
    Event {
        /// Time asked for in each cycle.
        #[serde(rename = "request_ns")]
        request: Nanos,
    },
}

impl Schedule {
    /// The time between two due times, or the time asked for.
    #[must_use]
    pub fn period(&self) -> Nanos {
        match *self {
            Self::Grid { period, .. } => period,
            Self::Event { request } => request,
        }
    }

    /// Whether due times form a grid, so that some can be missed.
    #[must_use]
    pub fn is_grid(&self) -> bool {
        matches!(self, Self::Grid { .. })
    }

    /// How many due times of the grid lie at or before the sample due at `due`; `None` for events.
    ///
    /// A dithered due time lies less than one period after its grid point, so that rounding down finds the point.
    #[must_use]
    pub fn expected_at(&self, due: Nanos) -> Option<u64> {
        match *self {
            Self::Grid { period, start, .. } => u64::try_from((due - start).get().div_euclid(period.get()) + 1).ok(),
            Self::Event { .. } => None,
        }
    }
}

/// Which clock a run's times are of; two clocks are never compared silently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockKind {
    /// The machine's own monotonic clock.
    #[default]
    Hardware,
    /// Instruction-counted time of an emulated machine.
    Virtual,
}

/// The head of a series file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// Probe that took the samples.
    pub probe: String,
    /// Processor that the probe was bound to; `None` when it was not bound.
    pub cpu: Option<CpuId>,
    /// What a latency of this series is: `latency`, `interval error` where no due time is known, or `time of an operation`.
    pub quantity: String,
    /// Unit of every latency in the file: `ns`; in series of kind `cost` also `ps` or `instructions/1000`. Due times are ns whatever it is.
    pub unit: String,
    /// Clock of every time in the file.
    pub clock: ClockKind,
    /// When samples are due.
    pub schedule: Schedule,
}

impl Descriptor {
    /// The file's name in the run folder: `PROBE.cpuN.series`.
    #[must_use]
    pub fn file_name(&self) -> String {
        match self.cpu {
            Some(cpu) => format!("{}.cpu{cpu}.series", self.probe),
            None => format!("{}.series", self.probe),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_are_counted_from_the_grid_alone() {
        let grid = Schedule::Grid { period: Nanos(1000), start: Nanos(5000), dither: Nanos(400) };
        assert_eq!(grid.expected_at(Nanos(5000)), Some(1));
        assert_eq!(grid.expected_at(Nanos(5399)), Some(1));
        assert_eq!(grid.expected_at(Nanos(8000)), Some(4));
        assert_eq!(Schedule::Event { request: Nanos(1000) }.expected_at(Nanos(8000)), None);
    }
}
