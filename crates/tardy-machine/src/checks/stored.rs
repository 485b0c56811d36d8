//! The findings that a run stores: the settings of the machine when the run was made.

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuList;

use super::{CheckInput, Finding, Importance, State, look};
use crate::facts::MachineFacts;
use crate::root::Root;

/// A stored finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFinding {
    /// The check's name.
    pub check: String,
    /// Importance of the check for the profile `periodic`.
    pub importance: Importance,
    pub state: StoredState,
    /// The current value of the setting, or the reason why it is unknown.
    pub current: String,
}

/// The state of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoredState {
    Good,
    Improvable,
    Noted,
    Unknown,
}

/// Returns the finding of every check that applies to this machine, for tasks on `cpus`. Checks
/// that watch counters over an interval are left out.
#[must_use]
pub fn stored(facts: &MachineFacts, root: &Root, cpus: &CpuList) -> Vec<StoredFinding> {
    look(&CheckInput::new(facts, Some(root), cpus))
        .into_iter()
        .filter_map(StoredFinding::of)
        .collect()
}

impl StoredFinding {
    fn of(finding: Finding) -> Option<Self> {
        let (state, current) = match finding.state {
            State::Good { current } => (StoredState::Good, current),
            State::Improvable { current, .. } => (StoredState::Improvable, current),
            State::Noted { current } => (StoredState::Noted, current),
            State::Unknown { missing } => (StoredState::Unknown, missing),
            State::NotApplicable { .. } => return None,
        };
        Some(Self {
            check: finding.check.to_owned(),
            importance: finding.importance,
            state,
            current,
        })
    }

    /// Returns whether the finding is a fault whose importance is fatal or high.
    #[must_use]
    pub fn is_grave(&self) -> bool {
        self.state == StoredState::Improvable && self.importance <= Importance::High
    }
}
