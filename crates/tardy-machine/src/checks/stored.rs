//! What was found, as a run keeps it: how the machine was set up when the numbers were taken.

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuList;

use super::{CheckInput, Finding, Importance, State, look};
use crate::facts::MachineFacts;
use crate::root::Root;

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFinding {
    /// The check's name.
    pub check: String,
    /// How much it matters for the profile `periodic`.
    pub importance: Importance,
    pub state: StoredState,
    /// What it is; of what is unknown, what cannot be read.
    pub current: String,
}

/// How a row stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoredState {
    Good,
    Improvable,
    Noted,
    Unknown,
}

/// Every row that applies to this machine, for tasks on `cpus`. Nothing is watched for it, so what
/// only moves with time says nothing.
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

    /// Whether the row calls it bad, and says that it costs milliseconds or has no bound.
    #[must_use]
    pub fn is_grave(&self) -> bool {
        self.state == StoredState::Improvable && self.importance <= Importance::High
    }
}
