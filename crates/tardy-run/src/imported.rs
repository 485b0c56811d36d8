//! What `run.json` keeps of an import: where the numbers come from, and what the other tool stated about them.

use serde::{Deserialize, Serialize};
use tardy_core::units::Nanos;

/// Key `imported` of `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportRecord {
    /// Name of the format, as `--as` takes it.
    pub format: String,
    /// The file, as on the command line.
    pub file: String,
    /// Command line of the other tool, where its output has it.
    pub command_line: Option<String>,
    /// One for each series, in the order of the record's series.
    pub series: Vec<StatedTotals>,
    /// Whether only the order of the samples is known: the n-th one then stands at n ns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_no_times: bool,
}

/// What the other tool says of a series; absent what it does not say.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StatedTotals {
    /// How many samples it took.
    pub samples: Option<u64>,
    /// The smallest value.
    pub min_ns: Option<Nanos>,
    /// The largest value.
    pub max_ns: Option<Nanos>,
    /// The mean, which knows what a histogram's last bucket does not.
    pub mean_ns: Option<f64>,
    /// Values are multiples of this.
    pub resolution_ns: Nanos,
    /// Samples whose limits alone are known; they are counted at the maximum.
    pub overflow: Option<Overflow>,
    /// Samples about which nothing is known.
    #[serde(default)]
    pub lost: u64,
    /// Periods that passed while the wake-up before them was still late; absent where the tool does not count them.
    #[serde(default, alias = "missed", skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
}

/// Samples whose buckets are not in the file, as a rule because they lie beyond the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overflow {
    /// How many.
    pub samples: u64,
    /// They are at or above this.
    pub from_ns: Nanos,
}
