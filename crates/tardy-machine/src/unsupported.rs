//! The missing requirement of a requested feature.

use serde::{Deserialize, Serialize};

/// Why something cannot be done here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsupported {
    /// What is missing: a device, a right, a program.
    pub missing: String,
    /// How to get it.
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
