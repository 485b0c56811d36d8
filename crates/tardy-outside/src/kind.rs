//! Kinds of sections, and of intervals of which only the longest is stored.

use serde::{Deserialize, Serialize};

/// Why no other task could run, or no other interrupt come. The order is that of the plugin's
/// numbers.
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
    /// Any of these: no other task could have run, at any priority.
    Blocked,
}

impl Kind {
    /// All of them, in the order of the plugin's numbers.
    pub const ALL: [Self; 5] = [
        Self::InterruptsOff,
        Self::PreemptionOff,
        Self::Softirq,
        Self::Interrupt,
        Self::Blocked,
    ];

    /// Returns the one with this number.
    #[must_use]
    pub fn of_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Its place in [`Self::ALL`], which is its number in the plugin's files.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns its name in tables.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::InterruptsOff => "interrupts off",
            Self::PreemptionOff => "preemption off",
            Self::Softirq => "softirq",
            Self::Interrupt => "hard interrupt",
            Self::Blocked => "non-preemptible",
        }
    }
}

/// Intervals of which the plugin reports the longest of each phase. The order is that of its
/// numbers, which follow those of [`Kind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stretch {
    /// Interrupts or preemption are off, but not to call the scheduler (`D_POID` of ECRTS 2020),
    /// without hard interrupts.
    BeforeScheduler,
    /// Both are on although a switch is due (`D_PAIE`), without hard interrupts; for the idle task
    /// everything from due until it calls the scheduler.
    SwitchDue,
    /// Preemption is off to call the scheduler, until it is on again (`D_PSD`), without hard
    /// interrupts.
    ToSchedule,
    /// From interrupts off in the scheduler until preemption is on again (`D_ST`), without hard
    /// interrupts.
    SwitchTail,
    /// A task keeps the kernel without a chance to switch to another: from entry or chance to the
    /// next or to the return to its program.
    NoChance,
    /// From the time that a switch is due until the scheduler is done, including interrupts.
    SwitchDelay,
}

impl Stretch {
    /// All of them, in the order of the plugin's numbers.
    pub const ALL: [Self; 6] = [
        Self::BeforeScheduler,
        Self::SwitchDue,
        Self::ToSchedule,
        Self::SwitchTail,
        Self::NoChance,
        Self::SwitchDelay,
    ];

    /// Its place in [`Self::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// The kind of a phase's longest interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Longest {
    Section(Kind),
    Stretch(Stretch),
}

impl Longest {
    /// Returns the one with the plugin's number.
    #[must_use]
    pub fn of_number(number: u64) -> Option<Self> {
        let index = usize::try_from(number).ok()?;
        match Kind::ALL.get(index) {
            Some(kind) => Some(Self::Section(*kind)),
            None => Stretch::ALL
                .get(index - Kind::ALL.len())
                .map(|stretch| Self::Stretch(*stretch)),
        }
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::Section(kind) => kind.index() as u64,
            Self::Stretch(stretch) => (Kind::ALL.len() + stretch.index()) as u64,
        }
    }
}
