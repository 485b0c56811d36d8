//! What a search is asked, as it stands in its folder.

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;
use tardy_tune::setting::Settings;

/// What was found useful, for `--settings` and `doctor --against`.
pub(super) const BEST: &str = "best.toml";

/// What is searched, and how: enough to go on with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Question {
    pub(super) settings: Settings,
    pub(super) cpus: CpuList,
    /// `max`, or a percentile.
    pub(super) goal: String,
    pub(super) loads: Vec<String>,
    pub(super) length: Nanos,
    pub(super) runs: usize,
    pub(super) seed: u64,
    /// The machine in a line, and its boot: another one gives other numbers.
    pub(super) machine: String,
    pub(super) boot_id: Option<String>,
}
