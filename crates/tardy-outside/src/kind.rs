//! Kinds of sections.

use serde::{Deserialize, Serialize};

/// Why nothing else could run, or no other interrupt come. The order is that of the plugin's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The CPU takes no interrupt.
    InterruptsOff,
    /// The kernel may not switch to another task: preemption or the bottom halves are off.
    PreemptionOff,
    /// A softirq is served outside of a thread. On a real-time kernel threads do it.
    Softirq,
    /// A hard interrupt, from the kernel's entry until it counts itself out of it.
    Interrupt,
    /// Any of these: no other task could have run, whatever its priority.
    Blocked,
}

impl Kind {
    /// All of them, in the order of the plugin's numbers.
    pub const ALL: [Self; 5] = [Self::InterruptsOff, Self::PreemptionOff, Self::Softirq, Self::Interrupt, Self::Blocked];

    /// The one with this number.
    #[must_use]
    pub fn of_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Its number.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// What tables call it.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::InterruptsOff => "interrupts off",
            Self::PreemptionOff => "preemption off",
            Self::Softirq => "softirq",
            Self::Interrupt => "hard interrupt",
            Self::Blocked => "no other task can run",
        }
    }
}
