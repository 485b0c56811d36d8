//! A request, resolved against the machine: everything that will be done and changed, before anything is.

pub mod error;
mod phases;
pub mod resolve;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;
use tardy_core::warning::Warning;

use crate::cli::run::PolicyName;
use crate::load::LoadPlan;
use crate::machine::irq_affinity::IrqMove;
use crate::parameter::Values;
use crate::probe::ThreadPlan;
use crate::record::keep::Keep;

/// What will be done. Serialisable: a guest, a board over SSH and this machine take the same plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the scenario.
    pub scenario: String,
    /// Whether phases come in a drawn order, so that loads can be ranked.
    pub is_shuffled: bool,
    /// How long probes run before the first phase.
    #[serde(rename = "warm_up_ns")]
    pub warm_up: Nanos,
    /// The probes, each on every measured processor.
    pub probes: Vec<ProbePlan>,
    /// The measuring threads; start times of grids are offsets from the start of the run.
    pub threads: Vec<ThreadEntry>,
    /// Processors to measure.
    pub measured_cpus: CpuList,
    /// Processors for the tool's own threads; the measured ones where none is left.
    pub tool_cpus: CpuList,
    /// Phases in their order.
    pub phases: Vec<PhasePlan>,
    /// Cycles of each thread, where they and not the phases' lengths are given.
    pub cycles: Option<u64>,
    /// Latencies that are in time.
    pub window: Option<Window>,
    /// Share of samples that may miss.
    pub misses_allowed: Option<f64>,
    /// Samples to store.
    pub keep: Keep,
    /// Folder in memory to write to while measuring.
    pub spool: Option<PathBuf>,
    /// Wake-up latency in us to ask the power management for; absent to leave it.
    pub cpu_dma_latency_us: Option<i32>,
    /// Seed of everything random.
    pub seed: u64,
    /// Whether due times of all processors coincide.
    pub aligned: bool,
    /// Latency that stops the run.
    #[serde(rename = "stop_above_ns")]
    pub stop_above: Option<Nanos>,
    /// Whether that also switches off the kernel's tracing.
    pub tracing_off: bool,
    /// Settings of the machine that are changed for the run, with their old values.
    pub changes: Vec<Change>,
    /// What one wake-up costs here; absent where the period is long enough on any machine.
    #[serde(rename = "wake_up_cost_ns")]
    pub wake_up_cost: Option<Nanos>,
    /// Bytes that the run will take, at most about this.
    pub bytes_estimated: u64,
    /// What is known to fall short before the start.
    pub warnings: Vec<Warning>,
}

impl Plan {
    /// Whether the run ends when each thread has made its cycles. Loops of others and players do not count any: for them it is the length of so many periods.
    #[must_use]
    pub fn ends_by_cycles(&self) -> bool {
        self.cycles.is_some() && self.probes.iter().all(|probe| !["app", "media"].contains(&&*probe.name))
    }

    /// A plan of a run that probes nothing: of costs, or of another tool's results.
    #[must_use]
    pub fn without_probes(scenario: &str, measured: &CpuList, tool: &CpuList) -> Self {
        Self {
            scenario: scenario.to_owned(),
            is_shuffled: false,
            warm_up: Nanos::ZERO,
            probes: Vec::new(),
            threads: Vec::new(),
            measured_cpus: measured.clone(),
            tool_cpus: tool.clone(),
            phases: Vec::new(),
            cycles: None,
            window: None,
            misses_allowed: None,
            keep: Keep::All,
            spool: None,
            cpu_dma_latency_us: None,
            seed: 0,
            aligned: false,
            stop_above: None,
            tracing_off: false,
            changes: Vec::new(),
            wake_up_cost: None,
            bytes_estimated: 0,
            warnings: Vec::new(),
        }
    }
}

/// One probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbePlan {
    /// Its name.
    pub name: String,
    /// Time between two wake-ups, or time asked for.
    #[serde(rename = "period_ns")]
    pub period: Nanos,
    /// Widest random move of a due time.
    #[serde(rename = "dither_ns")]
    pub dither: Nanos,
    /// Scheduling policy.
    pub policy: PolicyName,
    /// Real-time priority; absent for ordinary tasks.
    pub priority: Option<u32>,
    /// Its own parameters, by name.
    #[serde(default, skip_serializing_if = "Values::is_empty")]
    pub parameters: Values,
}

impl std::fmt::Display for ProbePlan {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.name)?;
        for (name, value) in self.parameters.iter() {
            write!(formatter, ":{name}={value}")?;
        }
        if crate::probe::find(&self.name).is_none_or(crate::probe::ProbeInfo::has_period) {
            write!(formatter, " every {}", self.period.exact())?;
        }
        Ok(())
    }
}

/// One place of a probe: a measuring thread, or the threads that measure together there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadEntry {
    /// Its probe.
    pub probe: String,
    /// What it will do.
    #[serde(flatten)]
    pub plan: ThreadPlan,
}

/// One phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhasePlan {
    /// Its name.
    pub name: String,
    /// How long its loads run.
    #[serde(rename = "length_ns")]
    pub length: Nanos,
    /// Loads of the phase.
    pub loads: Vec<LoadPlan>,
}

/// A setting that is changed for the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Change {
    /// /dev/cpu_dma_latency is held open with this value; the kernel takes it back when the tool ends, however it ends.
    CpuDmaLatency {
        /// In us.
        value_us: i32,
    },
    /// An interrupt is moved; put back at the end, or by `tardy restore`.
    Interrupt {
        /// From where to where.
        #[serde(flatten)]
        to: IrqMove,
    },
}

impl Plan {
    /// Length of the warm-up and all phases.
    #[must_use]
    pub fn length(&self) -> Nanos {
        self.phases.iter().fold(self.warm_up, |sum, phase| sum.saturating_add(phase.length))
    }

    /// The probe of that name.
    #[must_use]
    pub fn probe(&self, name: &str) -> Option<&ProbePlan> {
        self.probes.iter().find(|probe| probe.name == name)
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CpuDmaLatency { value_us } => write!(formatter, "/dev/cpu_dma_latency: {value_us} us while the run lasts"),
            Self::Interrupt { to } => write!(formatter, "{}: {} -> {} while the run lasts", to.path.display(), to.old, to.new),
        }
    }
}
