//! Checks of machine settings that are known to cause latency. Each check has a description, the
//! expected value, the reason, and the remedy. Checks change nothing.
//!
//! A check reads the facts that are stored with a run, if they suffice, so it can also judge old
//! runs and runs from other machines. If they do not suffice, the check reads files of this
//! machine, but only if the run was made in the current boot of this machine. An unreadable setting
//! is reported as unknown, never as good. Sources: Documentation/core-api/real-time of the kernel
//! (kernel-configuration.rst and hardware.rst), Documentation/admin-guide (kernel-parameters.txt,
//! kernel-per-CPU-kthreads.rst, sysctl/), TuneD's real-time profiles, the real-time guides of Red
//! Hat and Ubuntu.
//!
//! `doctor` and `advise` use the same table of checks. Each row names the files that its check
//! needs. The tests start from a machine on which a row is good and derive two more: one that lacks
//! the row's files, and one on which these files cannot be read. On the first, the result must not
//! be a fault; on the second, it must be unknown. For each row, the tests also require a machine on
//! which it is good and, except for a few listed rows, a machine on which it is a fault.

mod background;
mod cache;
mod clock_source;
mod clocks;
mod configuration;
mod console;
mod cpu_quota;
mod examined;
mod fair_server;
mod firmware;
mod governor;
mod heat;
mod high_resolution_timers;
mod idle_states;
mod interrupt_affinity;
mod interrupts;
mod irqbalance;
mod isolation;
mod kernel_debug;
mod kernel_real_time;
mod kernel_threads;
mod memory;
mod network;
mod numa_balancing;
mod observers;
mod other_tasks;
mod own_rights;
mod page_merging;
mod partition;
mod power;
mod preemption_mode;
mod profile;
mod program;
mod rcu_callbacks;
mod real_time_throttling;
mod rights;
mod smt;
mod start_parameters;
mod statistics_interval;
mod stored;
mod swap;
mod timer_migration;
mod tracing;
mod transparent_hugepages;
mod virtual_machine;
mod virtualization;
mod watchdog;
mod workqueues;

use serde::{Deserialize, Serialize};

pub use self::examined::CheckInput;
pub use self::profile::{Profile, Weight};
pub use self::stored::{StoredFinding, StoredState, stored};

/// All checks. A report lists findings of equal severity in this order.
pub const CHECKS: &[&Check] = &[
    // The kernel and its build options.
    &kernel_real_time::CHECK,
    &high_resolution_timers::CHECK,
    &preemption_mode::CHECK,
    &start_parameters::THREADED_INTERRUPTS,
    &kernel_debug::CHECK,
    &configuration::LOCKUP_DETECTOR,
    &configuration::FREQUENCY_SCALING,
    &configuration::DEFAULT_GOVERNOR,
    &configuration::OTHER_GOVERNORS,
    &configuration::TICK,
    &configuration::IDLE,
    &configuration::GRAPHICS,
    &configuration::TRACING,
    &configuration::REAL_TIME_GROUPS,
    &kernel_real_time::SOFTIRQ_LOCK,
    &observers::TAINT,
    // The user's program.
    &program::POLICY,
    &program::MEMORY,
    &program::FAULTS,
    &program::PRIORITY,
    &program::AFFINITY,
    &program::LIMIT,
    &program::TIMER_SLACK,
    &program::FUTEX_HASH,
    // The machine below the kernel: hypervisor, firmware and hardware.
    &virtual_machine::CHECK,
    &virtualization::STOLEN,
    &virtualization::GUEST_HALT_POLLING,
    &virtualization::STEAL_ACCOUNTING,
    &virtualization::HOST_THREADS,
    &firmware::SYSTEM_MANAGEMENT,
    &firmware::HARDWARE_LATENCY,
    &firmware::ACPI,
    &firmware::USB_LEGACY,
    &firmware::MACHINE_CHECKS,
    &firmware::MEMORY_ERRORS,
    &firmware::EFI_RUNTIME,
    &firmware::TIME_COORDINATED,
    &firmware::SECURE_WORLD,
    &firmware::VERSION,
    &firmware::MITIGATIONS,
    &console::CHECK,
    // Power.
    &idle_states::CHECK,
    &governor::CHECK,
    &power::FREQUENCY_RANGE,
    &power::UTILISATION_CLAMP,
    &power::ENERGY_PREFERENCE,
    &power::TURBO,
    &heat::CHECK,
    &power::SUPPLY,
    &power::PCI_EXPRESS,
    &power::UNCORE,
    &power::USB,
    // Clocks.
    &clock_source::CHECK,
    &clocks::STABILITY,
    &clocks::EVENT_DEVICE,
    &start_parameters::SKEWED_TICKS,
    &other_tasks::TIME_SYNCHRONISATION,
    &other_tasks::TIMESTAMPS,
    // Which tasks may take a CPU, and for how long.
    &cpu_quota::CHECK,
    &rights::CPU_SET,
    &real_time_throttling::CHECK,
    &fair_server::CHECK,
    &fair_server::EXT,
    &kernel_real_time::TIME_SLICE_EXTENSION,
    &other_tasks::REAL_TIME,
    &other_tasks::STARVATION_DAEMON,
    &observers::SCHEDULER_EXTENSION,
    &rights::DEADLINE_ADMISSION,
    // Interrupts and tasks that reach the CPUs of the user's work.
    &isolation::CHECK,
    &partition::SETS,
    &partition::HOUSEKEEPING,
    &partition::SIBLINGS,
    &partition::FULL_DYNTICKS,
    &partition::OFFLINE,
    &smt::CHECK,
    &cache::CHECK,
    &interrupt_affinity::CHECK,
    &interrupts::COUNTED,
    &interrupts::DEFAULT_AFFINITY,
    &interrupts::PENDING_MOVES,
    &interrupts::MANAGED,
    &irqbalance::CHECK,
    &network::STEERING,
    &network::QUEUES,
    &network::COALESCING,
    &network::BUSY_POLLING,
    &network::TIMESTAMPS,
    &kernel_threads::PLACE,
    &kernel_threads::PRIORITY,
    &kernel_threads::INTERRUPT_PRIORITY,
    &workqueues::CHECK,
    &rcu_callbacks::CHECK,
    &start_parameters::GRACE_PERIODS,
    &timer_migration::CHECK,
    // Background activity of the kernel.
    &watchdog::CHECK,
    &background::NMI_WATCHDOG,
    &background::HUNG_TASKS,
    &statistics_interval::CHECK,
    &background::PRESSURE,
    &background::SCHEDULED_JOBS,
    &tracing::CHECK,
    &observers::INSTANCES,
    &observers::MONITORS,
    &observers::KPROBES,
    &observers::BPF_STATISTICS,
    &observers::BPF_PROGRAMS,
    &observers::SAMPLING,
    // Memory.
    &swap::CHECK,
    &memory::COMPACTION,
    &memory::LOCKED_COMPACTION,
    &transparent_hugepages::CHECK,
    &memory::HUGEPAGE_DEFRAGMENTATION,
    &page_merging::CHECK,
    &numa_balancing::CHECK,
    &memory::WRITE_BACK,
    &memory::ACCESS_TIMES,
    &memory::PARTIAL_SLABS,
    // Rights.
    &own_rights::PRIORITY,
    &own_rights::MEMORY,
    &own_rights::IDLE,
    &own_rights::TRACING,
    &rights::GROUP,
    &rights::LOCKDOWN,
];

/// How important it is that a setting differs from the recommendation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Importance {
    /// With the wrong setting, delays have no bound.
    Fatal,
    /// With the wrong setting, delays reach milliseconds, or are frequent.
    High,
    /// With the wrong setting, delays reach tens or hundreds of microseconds, or are rare.
    Medium,
    /// The setting has little effect.
    Low,
}

/// The description of a check.
#[derive(Debug)]
pub struct Check {
    /// The check's permanent name.
    pub name: &'static str,
    /// The check's importance for each profile.
    pub weight: Weight,
    /// The files that the check needs, below the root. In a name, `*` matches any text. `a|b` means
    /// that one of the two files is enough. If a file exists but cannot be read, the check never
    /// reports a good setting.
    pub reads: &'static [&'static str],
    /// Why the setting matters, worded as the end of a sentence.
    pub why: &'static str,
    /// The source of the recommendation.
    pub source: &'static str,
    pub look: fn(&CheckInput<'_>) -> State,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum State {
    /// The recommended value is set.
    Good { current: String },
    /// A different value may reduce latency.
    Improvable {
        current: String,
        /// The recommended value.
        expected: String,
        /// The remedy.
        remedy: String,
        /// Whether the remedy needs a reboot.
        needs_restart: bool,
    },
    /// Informative: only the user can judge whether the setting is good.
    Noted { current: String },
    /// The check does not apply, because what it checks does not exist in this kernel, on this
    /// machine or for this profile.
    NotApplicable {
        /// The reason.
        because: String,
    },
    /// The setting cannot be read.
    Unknown { missing: String },
}

impl State {
    fn good(current: impl Into<String>) -> Self {
        Self::Good {
            current: current.into(),
        }
    }

    fn improvable(
        current: impl Into<String>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::Improvable {
            current: current.into(),
            expected: expected.into(),
            remedy: remedy.into(),
            needs_restart: false,
        }
    }

    fn improvable_at_start(
        current: impl Into<String>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::Improvable {
            current: current.into(),
            expected: expected.into(),
            remedy: remedy.into(),
            needs_restart: true,
        }
    }

    fn noted(current: impl Into<String>) -> Self {
        Self::Noted {
            current: current.into(),
        }
    }

    fn none(because: impl Into<String>) -> Self {
        Self::NotApplicable {
            because: because.into(),
        }
    }

    fn unknown(missing: impl Into<String>) -> Self {
        Self::Unknown {
            missing: missing.into(),
        }
    }
}

/// A check and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check's name.
    pub check: &'static str,
    /// Importance of the check for the profile.
    pub importance: Importance,
    /// The result.
    #[serde(flatten)]
    pub state: State,
    /// Why the setting matters.
    pub why: &'static str,
    /// The source of the recommendation.
    pub source: &'static str,
    pub reads: &'static [&'static str],
}

impl Finding {
    /// Returns whether a better setting is possible.
    #[must_use]
    pub fn is_improvable(&self) -> bool {
        matches!(self.state, State::Improvable { .. })
    }
}

/// Runs all checks. Sorts the findings so that the most important ones come first.
#[must_use]
pub fn look(examined: &CheckInput<'_>) -> Vec<Finding> {
    let finding = |check: &&Check| Finding {
        check: check.name,
        importance: check.weight.importance(examined.profile),
        state: check.state(examined),
        why: check.why,
        source: check.source,
        reads: check.reads,
    };
    let mut findings: Vec<Finding> = CHECKS.iter().map(finding).collect();
    findings.sort_by_key(|finding| finding.importance);
    findings
}

impl Check {
    /// Returns the result of the check. If one of its files exists but cannot be read, every result
    /// except a fault becomes unknown, because the readable files are not enough to judge the
    /// setting.
    #[must_use]
    pub fn state(&self, examined: &CheckInput<'_>) -> State {
        match (self.look)(examined) {
            found @ (State::Improvable { .. } | State::Unknown { .. }) => found,
            found => examined.refused(self.reads).map_or(found, State::unknown),
        }
    }
}

/// Returns the state that `state` holds. A check returns `Err` if it cannot continue, but this
/// error is a state, too.
fn either(state: Result<State, State>) -> State {
    state.unwrap_or_else(|state| state)
}

/// Checks that the number in the file at `path` is good. `expected` describes the good numbers, and
/// `remedy` is the command that sets one.
fn number_is(
    examined: &CheckInput<'_>,
    path: &str,
    is_good: fn(i64) -> bool,
    expected: &str,
    remedy: &str,
) -> State {
    match examined.number(path) {
        Ok(value) if is_good(value) => State::good(value.to_string()),
        Ok(value) => State::improvable(value.to_string(), expected, remedy),
        Err(state) => state,
    }
}

#[cfg(test)]
mod tests;
