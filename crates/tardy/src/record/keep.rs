//! Which samples go to the disk.

use serde::{Deserialize, Serialize};
use tardy_core::sample::Sample;
use tardy_core::units::Nanos;

/// Which samples go to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// Every one.
    #[default]
    All,
    /// Those at least this late, and a histogram of all.
    Tail(Nanos),
    /// None, but a histogram of all.
    Histogram,
}

impl Keep {
    /// Whether `sample` goes to the disk.
    #[must_use]
    pub fn stores(self, sample: &Sample) -> bool {
        match self {
            Self::All => true,
            Self::Tail(least) => sample.latency >= least || sample.missed > 0,
            Self::Histogram => false,
        }
    }
}
