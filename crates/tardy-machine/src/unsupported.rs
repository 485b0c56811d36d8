//! A missing requirement of a requested feature.

use serde::{Deserialize, Serialize};

/// The reason why something cannot be done on this machine, with a remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsupported {
    /// The missing requirement: a device, a right, a program.
    pub missing: String,
    /// How to provide the missing requirement.
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
