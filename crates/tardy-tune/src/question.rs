//! What a search is asked, as it stands in its folder.

use crate::setting::Settings;
use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;

/// What was found useful, for `--settings` and `doctor --against`.
pub const BEST: &str = "best.toml";

/// What is searched, and how: enough to go on with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    pub settings: Settings,
    pub cpus: CpuList,
    /// `max`, or a percentile.
    pub goal: String,
    pub loads: Vec<String>,
    pub length: Nanos,
    pub runs: usize,
    pub seed: u64,
    /// The machine in a line, and its boot: another one gives other numbers.
    pub machine: String,
    pub boot_id: Option<String>,
}
