//! The question of a search, as stored in its folder.

use crate::setting::Settings;
use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;

/// The settings that were found useful, for `--settings` and `doctor --against`.
pub const BEST: &str = "best.toml";

/// The parameters of a search: enough to resume it.
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
