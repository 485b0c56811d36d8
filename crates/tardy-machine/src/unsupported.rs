//! Describes a requirement of a requested feature that this machine does not meet.

use serde::{Deserialize, Serialize};

/// Why something cannot be done on this machine, with a remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsupported {
    /// What is missing: a device, a right, a program.
    pub missing: String,
    /// How the user can provide it.
    pub remedy: String,
}

impl Unsupported {
    pub fn new(missing: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            missing: missing.into(),
            remedy: remedy.into(),
        }
    }
}
