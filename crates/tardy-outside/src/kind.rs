//! Kinds of sections, and kinds of intervals. Of each kind of interval, only the longest is stored.

use serde::{Deserialize, Serialize};

/// Why no other task could run, or no other interrupt could come. The order is that of the plugin's
/// numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The CPU takes no interrupt.
    InterruptsOff,
    /// The kernel may not switch to another task: preemption or the bottom halves are off.
    PreemptionOff,
    /// A softirq is served outside of a thread. On a real-time kernel, threads serve softirqs.
    Softirq,
    /// A hard interrupt is served, from the kernel's entry until the kernel counts it as ended.
    Interrupt,
    /// Any of the kinds above. During such a section, no other task could have run, whatever its
    /// priority.
    Blocked,
}

impl Kind {
    /// All kinds, in the order of the plugin's numbers.
    pub const ALL: [Self; 5] = [
        Self::InterruptsOff,
        Self::PreemptionOff,
        Self::Softirq,
        Self::Interrupt,
        Self::Blocked,
    ];

    /// Returns the kind with this number.
    #[must_use]
    pub fn of_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Returns the kind's index in [`Self::ALL`], which is its number in the plugin's files.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns the kind's name in tables.
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

/// Kinds of intervals. For each kind, the plugin reports the longest interval of each phase. The
/// order is that of the plugin's numbers. These numbers start after the numbers of [`Kind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stretch {
    /// Interrupts or preemption are off for any purpose except calling the scheduler (`D_POID` of
    /// ECRTS 2020). The time of hard interrupts is left out of the length.
    BeforeScheduler,
    /// Interrupts and preemption are on although a switch is due (`D_PAIE`). The time of hard
    /// interrupts is left out of the length. For the idle task, the interval lasts from when the
    /// switch is due until the task calls the scheduler.
    SwitchDue,
    /// Preemption is off in order to call the scheduler. The interval ends when preemption is on
    /// again (`D_PSD`). The time of hard interrupts is left out of the length.
    ToSchedule,
    /// From when the scheduler switches interrupts off until preemption is on again (`D_ST`). The
    /// time of hard interrupts is left out of the length.
    SwitchTail,
    /// A task stays in the kernel without a chance to switch to another task. The interval starts
    /// with the task's entry into the kernel or with its previous chance to switch, and ends with
    /// the task's next chance or its return to the program.
    NoChance,
    /// From when a switch is due until the scheduler is done. The time of hard interrupts is
    /// included.
    SwitchDelay,
}

impl Stretch {
    /// All kinds, in the order of the plugin's numbers.
    pub const ALL: [Self; 6] = [
        Self::BeforeScheduler,
        Self::SwitchDue,
        Self::ToSchedule,
        Self::SwitchTail,
        Self::NoChance,
        Self::SwitchDelay,
    ];

    /// Returns the kind's index in [`Self::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// The kind of a phase's longest section or interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Longest {
    Section(Kind),
    Stretch(Stretch),
}

impl Longest {
    /// Returns the kind with the plugin's number.
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

    /// Returns the plugin's number of the kind.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::Section(kind) => kind.index() as u64,
            Self::Stretch(stretch) => (Kind::ALL.len() + stretch.index()) as u64,
        }
    }
}
