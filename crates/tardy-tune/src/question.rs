//! The parameters of a search, as stored in its folder.

use crate::setting::Settings;
use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;

/// Name of the file to which a search writes the settings that it found useful; `--settings` and
/// `doctor --against` read such a file.
pub const BEST: &str = "best.toml";

/// The parameters of a search, from which it can be resumed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    pub settings: Settings,
    pub cpus: CpuList,
    /// The metric to minimise: `max`, or a percentile.
    pub goal: String,
    pub loads: Vec<String>,
    pub length: Nanos,
    pub runs: usize,
    pub seed: u64,
    /// The machine in one line. Results from another machine or another boot cannot be combined.
    pub machine: String,
    pub boot_id: Option<String>,
}
