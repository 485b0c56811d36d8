//! The kinds of work that a unit of work can consist of.

use serde::{Deserialize, Serialize};

/// The kind of work in a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkKind {
    /// Arithmetic in registers, in user space only
    Compute,
    /// System calls that send a byte through a pipe, or get the attributes of a file by path
    Syscalls,
    /// Reads that wait for memory, each dependent on the previous read
    Memory,
}

impl WorkKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Compute, Self::Syscalls, Self::Memory];

    /// Returns the kind's name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Syscalls => "syscalls",
            Self::Memory => "memory",
        }
    }
}

impl std::fmt::Display for WorkKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}
