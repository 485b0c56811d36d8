//! The part of `run.json` that only a folder of kind `cost` has.
//!
//! Each metric is an event series, and each sample is a trial. The sample's due time is the start
//! of the trial (ns on the run's clock). The sample's value is the time of *one operation* in the
//! unit of the descriptor (`ps`). A smaller value is therefore better for every metric, even for
//! bandwidths. Values of two runs can be compared as ratios, even if their loops have different
//! lengths. Trials come in rounds, which are the run's phases; each round prepares every metric
//! again.

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;

/// The key `cost` of `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostRecord {
    /// The set of operations that were measured.
    pub set: CostSet,
    /// The measured command, if the run measured a single command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// CPU that all threads and processes were bound to; absent if they were not bound.
    pub cpu: Option<CpuId>,
    /// CPU of the second thread; only for metrics with two threads.
    pub other_cpu: Option<CpuId>,
    /// How often each metric was prepared and measured.
    pub rounds: u32,
    /// Number of trials of each metric in a round.
    pub trials: u32,
    /// Length of a trial, from which the number of operations follows; 0 if a trial is one
    /// operation.
    pub trial_length_ns: Nanos,
    /// Cost of one read of the clock, subtracted from each trial.
    pub clock_read_ns: Nanos,
    /// The unit of the values.
    pub unit: CostUnit,
    /// The metrics that were measured, in the order in which tables list them.
    pub metrics: Vec<MetricRecord>,
    /// Metrics that were not measured, and why.
    pub left_out: Vec<LeftOut>,
}

/// The set of operations that were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CostSet {
    /// Services of the kernel.
    Metrics,
    /// A kernel build.
    Build,
    /// A command of the user.
    Command,
}

/// The unit of a run's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "counts", rename_all = "kebab-case")]
pub enum CostUnit {
    /// Time, in ps.
    Time,
    /// The number of executed instructions, in thousandths. The machine is emulated, and its clock
    /// advances by `instruction_ns` with each instruction.
    Instructions {
        /// Virtual time of one instruction.
        instruction_ns: Nanos,
    },
}

impl CostUnit {
    /// Returns the unit's name in the descriptor of a series.
    #[must_use]
    pub fn descriptor_unit(self) -> &'static str {
        match self {
            Self::Time => "ps",
            Self::Instructions { .. } => "instructions/1000",
        }
    }

    /// Converts the time of an operation on the run's clock, in ps, to a value of a series.
    #[must_use]
    pub fn value(self, picoseconds: i64) -> i64 {
        match self {
            Self::Time => picoseconds,
            Self::Instructions { instruction_ns } => picoseconds / instruction_ns.get().max(1),
        }
    }
}

/// One metric that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricRecord {
    /// Name of the metric.
    pub name: String,
    /// Group of the metric in tables.
    pub group: Group,
    /// Description of one operation.
    pub operation: String,
    /// Bytes that one operation moves, for bandwidths.
    pub bytes: Option<u64>,
    /// State of the caches when an operation starts.
    pub state: CacheState,
    /// The program of LMbench that makes the same measurement.
    pub lmbench: Option<String>,
    /// Number of operations of one trial.
    pub operations: u64,
    /// Idle time of the CPU during the trials; only if instructions are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<IdleTime>,
    /// File of the metric's series in `samples/`.
    pub file: String,
}

/// Idle time during a metric's trials. The clock of an emulated machine advances while its CPU is
/// idle, although no instruction is executed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleTime {
    /// Idle time of the CPU according to the kernel, exact to 10 ms per round.
    pub idle_ns: Nanos,
    /// Length of all trials.
    pub of_ns: Nanos,
}

impl IdleTime {
    /// Returns the idle part of the time, or 0 if there were no trials.
    #[must_use]
    pub fn share(self) -> f64 {
        if self.of_ns > Nanos::ZERO {
            self.idle_ns.get() as f64 / self.of_ns.get() as f64
        } else {
            0.0
        }
    }
}

/// Groups of metrics, in the order of LMbench's summary. tardy added the groups after `Bandwidth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// System calls, signals and processes.
    Processor,
    /// Switches from one process to the next.
    ContextSwitch,
    /// Round trips between two processes.
    Communication,
    /// Files and virtual memory.
    FileAndMemory,
    /// Bytes per second.
    Bandwidth,
    /// Services that today's programs use.
    Today,
    /// A whole program.
    Program,
}

impl Group {
    /// Returns the group's name in tables.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Processor => "system calls and processes",
            Self::ContextSwitch => "context switches",
            Self::Communication => "local communication, round trip",
            Self::FileAndMemory => "files and memory",
            Self::Bandwidth => "bandwidths",
            Self::Today => "today's services",
            Self::Program => "program",
        }
    }

    /// Returns the group's name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Processor => "processor",
            Self::ContextSwitch => "context-switch",
            Self::Communication => "communication",
            Self::FileAndMemory => "file-and-memory",
            Self::Bandwidth => "bandwidth",
            Self::Today => "today",
            Self::Program => "program",
        }
    }
}

/// State of the caches when an operation starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheState {
    /// The same operation was done just before. Code and data are in the caches if they fit, and
    /// files are in the page cache.
    Warm,
    /// Each operation works on memory or files that were not used before.
    Cold,
}

/// A metric that was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Name of the metric.
    pub name: String,
    /// Why the metric was not measured.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_waiting_is_of_all_trials_and_nothing_of_no_time() {
        assert_eq!(
            IdleTime {
                idle_ns: Nanos(30),
                of_ns: Nanos(120)
            }
            .share(),
            0.25
        );
        assert_eq!(IdleTime::default().share(), 0.0);
    }
}
