//! Selects the samples to store.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tardy_core::sample::Sample;
use tardy_core::units::{Nanos, ParseNanosError};

/// Which samples are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum KeptSamples {
    /// All samples.
    #[default]
    All,
    /// Samples with at least this latency, and a histogram of all samples.
    Tail(Nanos),
    /// Only a histogram of all samples.
    Histogram,
}

impl KeptSamples {
    /// Returns whether `sample` is stored.
    #[must_use]
    pub fn stores(self, sample: &Sample) -> bool {
        match self {
            Self::All => true,
            Self::Tail(least) => sample.latency >= least || sample.skipped > 0,
            Self::Histogram => false,
        }
    }
}

impl fmt::Display for KeptSamples {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => formatter.write_str("all"),
            Self::Tail(least) => write!(formatter, "tail:{}", least.exact()),
            Self::Histogram => formatter.write_str("histogram"),
        }
    }
}

impl FromStr for KeptSamples {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "all" => Ok(Self::All),
            None if text == "histogram" => Ok(Self::Histogram),
            Some(("tail", least)) => least
                .parse()
                .map(Self::Tail)
                .map_err(|error: ParseNanosError| error.to_string()),
            _ => Err(format!(
                "`{text}` is not one of all, tail:TIME and histogram: write one of them, such as tail:100us"
            )),
        }
    }
}
