//! The result of one wake-up.

use crate::units::Nanos;

/// One wake-up of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// The due time of the wake-up, on the monotonic clock.
    pub due: Nanos,
    /// Time from the due time to the wake-up; negative for an early wake-up.
    pub latency: Nanos,
    /// Due times that passed because of this late wake-up; always 0 for probes without a schedule.
    pub skipped: u32,
}

impl Sample {
    /// Returns the time of the wake-up, on the monotonic clock.
    #[must_use]
    pub fn wake(&self) -> Nanos {
        self.due.saturating_add(self.latency)
    }
}

/// A message from a probe to the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// A wake-up.
    Sample(Sample),
    /// Samples are missing at this position because the ring was full.
    Gap(Gap),
}

/// Samples that were taken, but lost before they reached the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gap {
    pub lost: u64,
    /// Due times that the lost samples skipped.
    pub skipped: u64,
}

impl Gap {
    /// Returns whether neither samples nor due times are missing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lost == 0 && self.skipped == 0
    }
}
