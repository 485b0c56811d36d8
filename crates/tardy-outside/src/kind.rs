//! The kinds of sections and of intervals. Of each kind of interval, the plugin stores only the
//! longest.

use serde::{Deserialize, Serialize};

/// The reason why no other task could run, or why no interrupt could come. The order is that of the
/// plugin's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The CPU takes no interrupt.
    InterruptsOff,
    /// The kernel may not switch to another task: preemption or the bottom halves are off.
    PreemptionOff,
    /// A softirq is served outside of threads. On a real-time kernel, threads serve softirqs
    /// instead.
    Softirq,
    /// A hard interrupt is served, from the kernel's entry until the kernel counts it as ended.
    Interrupt,
    /// A section of any of the kinds above. During such a section, no other task could have run,
    /// whatever the task's priority.
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

    /// Returns the kind's index in [`Self::ALL`], which is also its number in the plugin's files.
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
/// order is that of the plugin's numbers. These numbers continue those of [`Kind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stretch {
    /// Interrupts or preemption are off for a reason other than a call of the scheduler (`D_POID`
    /// of ECRTS 2020). The time of hard interrupts is left out of the length.
    BeforeScheduler,
    /// Interrupts and preemption are on although a switch is due (`D_PAIE`). The time of hard
    /// interrupts is left out of the length. For the idle task, the interval starts when the switch
    /// is due, and ends when the task calls the scheduler.
    SwitchDue,
    /// Preemption is off in order to call the scheduler. The interval ends when preemption is
    /// switched on again (`D_PSD`). The time of hard interrupts is left out of the length.
    ToSchedule,
    /// The interval starts when the scheduler switches interrupts off, and ends when preemption is
    /// switched on again (`D_ST`). The time of hard interrupts is left out of the length.
    SwitchTail,
    /// A task executes kernel code without a chance to switch to another task. The interval starts
    /// when the task enters the kernel, or at its previous chance to switch. It ends at the next
    /// chance, or when the task returns to the program.
    NoChance,
    /// The interval starts when a switch is due, and ends when the scheduler is done. The time of
    /// hard interrupts is included.
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

/// Identifies a phase's longest section or interval by its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Longest {
    Section(Kind),
    Stretch(Stretch),
}

impl Longest {
    /// Returns the kind that has this number in the plugin's files.
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

    /// Returns the number of the kind in the plugin's files.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::Section(kind) => kind.index() as u64,
            Self::Stretch(stretch) => (Kind::ALL.len() + stretch.index()) as u64,
        }
    }
}
