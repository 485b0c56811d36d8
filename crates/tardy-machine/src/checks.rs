//! Settings of a machine that are known to make tasks late, each with what it is, what it should be, why, and how to change it. Nothing is changed here.
//!
//! A check reads the facts of a run where they tell, so that old runs and other machines can be checked, and files of the machine itself where only those do.
//! What cannot be read is unknown, never good. Sources: Documentation/core-api/real-time of the kernel (kernel-configuration.rst and hardware.rst),
//! Documentation/admin-guide (kernel-parameters.txt, kernel-per-CPU-kthreads.rst, sysctl/), TuneD's real-time profiles, the real-time guides of Red Hat and Ubuntu.

mod clock_source;
mod cpu_quota;
mod fair_server;
mod governor;
mod heat;
mod high_resolution_timers;
mod idle_states;
mod interrupt_affinity;
mod irqbalance;
mod isolation;
mod kernel_debug;
mod kernel_real_time;
mod numa_balancing;
mod page_merging;
mod preemption_mode;
mod rcu_callbacks;
mod real_time_throttling;
mod smt;
mod statistics_interval;
mod swap;
mod timer_migration;
mod tracing;
mod transparent_hugepages;
mod virtual_machine;
mod watchdog;
mod workqueues;

use serde::Serialize;
use tardy_core::cpu::CpuList;

use super::facts::MachineFacts;
use super::root::Root;

/// Every check, in the order of a report within a severity.
pub const CHECKS: &[&Check] = &[
    &kernel_real_time::CHECK,
    &high_resolution_timers::CHECK,
    &virtual_machine::CHECK,
    &preemption_mode::CHECK,
    &idle_states::CHECK,
    &governor::CHECK,
    &kernel_debug::CHECK,
    &heat::CHECK,
    &cpu_quota::CHECK,
    &real_time_throttling::CHECK,
    &fair_server::CHECK,
    &isolation::CHECK,
    &interrupt_affinity::CHECK,
    &irqbalance::CHECK,
    &smt::CHECK,
    &rcu_callbacks::CHECK,
    &timer_migration::CHECK,
    &watchdog::CHECK,
    &tracing::CHECK,
    &swap::CHECK,
    &transparent_hugepages::CHECK,
    &page_merging::CHECK,
    &numa_balancing::CHECK,
    &clock_source::CHECK,
    &statistics_interval::CHECK,
    &workqueues::CHECK,
];

/// How much a setting that is not as it should be matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Importance {
    /// Without it there is no bound on latency.
    Fatal,
    /// Milliseconds, or often.
    High,
    /// Tens or hundreds of microseconds, or seldom.
    Medium,
    /// Worth knowing.
    Low,
}

/// What a check says of itself.
#[derive(Debug)]
pub struct Check {
    /// Its name, for good.
    pub name: &'static str,
    /// How much it matters.
    pub importance: Importance,
    /// Why, in a sentence's end.
    pub why: &'static str,
    /// Who says so.
    pub source: &'static str,
    /// Looks.
    pub look: fn(&Examined<'_>) -> State,
}

/// What is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Examined<'a> {
    /// The facts of a run, or of this machine.
    pub facts: &'a MachineFacts,
    /// The machine's files; absent where the facts are those of another machine or of an earlier start of the system.
    pub root: Option<&'a Root>,
    /// Processors whose tasks must not be late.
    pub cpus: &'a CpuList,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum State {
    /// It is as it should be.
    Good {
        /// What it is.
        current: String,
    },
    /// Changing it may make tasks less late.
    Improvable {
        /// What it is.
        current: String,
        /// What it should be.
        expected: String,
        /// What to do.
        remedy: String,
        /// Whether the system must be started again for it.
        needs_restart: bool,
    },
    /// It does not apply to this machine.
    NotApplicable,
    /// It cannot be read.
    Unknown {
        /// What is missing.
        missing: String,
    },
}

impl State {
    fn good(current: impl Into<String>) -> Self {
        Self::Good { current: current.into() }
    }

    fn improvable(current: impl Into<String>, expected: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Improvable { current: current.into(), expected: expected.into(), remedy: remedy.into(), needs_restart: false }
    }

    fn improvable_at_start(current: impl Into<String>, expected: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Improvable { current: current.into(), expected: expected.into(), remedy: remedy.into(), needs_restart: true }
    }

    fn unknown(missing: impl Into<String>) -> Self {
        Self::Unknown { missing: missing.into() }
    }
}

/// One check and what it found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check's name.
    pub check: &'static str,
    /// How much it matters.
    pub importance: Importance,
    /// What was found.
    #[serde(flatten)]
    pub state: State,
    /// Why it matters.
    pub why: &'static str,
    /// Who says so.
    pub source: &'static str,
}

impl Finding {
    /// Whether something can be improved.
    #[must_use]
    pub fn is_improvable(&self) -> bool {
        matches!(self.state, State::Improvable { .. })
    }
}

/// Looks at everything; what matters most first.
#[must_use]
pub fn look(examined: &Examined<'_>) -> Vec<Finding> {
    let finding = |check: &&Check| Finding {
        check: check.name,
        importance: check.importance,
        state: (check.look)(examined),
        why: check.why,
        source: check.source,
    };
    let mut findings: Vec<Finding> = CHECKS.iter().map(finding).collect();
    findings.sort_by_key(|finding| finding.importance);
    findings
}

impl Examined<'_> {
    /// The words of the kernel's command line; absent where it is not known.
    fn command_line(&self) -> Option<Vec<&str>> {
        Some(self.facts.kernel.command_line.as_deref()?.split_whitespace().collect())
    }

    /// Content of a file of the machine.
    fn text(&self, path: &str) -> Result<String, State> {
        let root = self.root.ok_or_else(|| State::unknown(NOT_HERE))?;
        root.text(path).ok_or_else(|| State::unknown(format!("/{path} cannot be read")))
    }

    /// Content of a file of the machine as a number.
    fn number(&self, path: &str) -> Result<i64, State> {
        let text = self.text(path)?;
        text.parse().map_err(|_| State::unknown(format!("/{path} has no number")))
    }
}

/// Why a file is not read.
const NOT_HERE: &str = "the run is of another machine, or of an earlier start of this one: run tardy advise there";

/// A number that should be one of few, with the command that makes it so.
fn number_is(examined: &Examined<'_>, path: &str, is_good: fn(i64) -> bool, expected: &str, remedy: &str) -> State {
    match examined.number(path) {
        Ok(value) if is_good(value) => State::good(value.to_string()),
        Ok(value) => State::improvable(value.to_string(), expected, remedy),
        Err(state) => state,
    }
}

#[cfg(test)]
mod tests;
