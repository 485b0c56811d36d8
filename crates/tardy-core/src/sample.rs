//! The result of one wake-up.

use crate::units::Nanos;

/// One wake-up of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// The due time of the wake-up, on the monotonic clock.
    pub due: Nanos,
    /// How much later it happened; negative when it was early.
    pub latency: Nanos,
    /// Due times that passed unused because of this late wake-up; always 0 for probes without a
    /// schedule.
    pub skipped: u32,
}

impl Sample {
    /// When the probe did wake up, on the monotonic clock.
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
    /// Wake-ups that happened here and could not be passed on, because the ring was full.
    Gap(Gap),
}

/// Samples that were taken and lost before the recorder had them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gap {
    /// Samples lost.
    pub lost: u64,
    /// Due times that the lost samples had skipped.
    pub skipped: u64,
}

impl Gap {
    /// Returns whether nothing was lost.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lost == 0 && self.skipped == 0
    }
}
