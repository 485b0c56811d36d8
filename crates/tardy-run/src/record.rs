//! `run.json`: the plan, the facts of the machine, the events of the run, and how it ended.
//!
//! Every time is in ns, on the run's monotonic clock unless the key says otherwise. Readers skip
//! unknown keys, so a later minor addition does not break an older tool; `format` rises when that
//! is not enough.
//!
//! History of `format`: 1 (2026-11): first.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tardy_core::accounting::Counts;
use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::series::ClockKind;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_machine::checks::StoredFinding;
use tardy_machine::facts::MachineFacts;

use crate::cost::CostRecord;
use crate::imported::ImportRecord;
use crate::interference::Interference;
use crate::overhead::Overhead;
use crate::plan::Plan;
use crate::tracing::TracingRecord;

/// The version that this tool writes.
pub const FORMAT: u32 = 1;

/// The kind of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunKind {
    /// Latencies of task starts.
    Latency,
    /// The cost of operations.
    Cost,
    /// Made from another tool's output.
    Imported,
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is in progress, or was interrupted.
    Running,
    /// It reached its planned end.
    Finished,
    /// A signal ended it before its time.
    Interrupted,
    /// A latency above `--stop-above` ended it.
    Stopped,
    /// The watchdog ended it.
    EndedByWatchdog,
}

/// The tool that wrote the folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// `tardy`.
    pub name: String,
    /// As printed by `tardy --version`.
    pub version: String,
    /// The process that makes the run; with the boot ID, it shows whether the run is still in
    /// progress.
    pub process: u32,
}

/// A phase as it happened, which may differ from the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// Name of the planned phase.
    pub name: String,
    /// Loads that ran in it.
    pub loads: Vec<String>,
    /// When it started.
    pub begin_ns: Nanos,
    /// Its end; absent while it lasts. Its loads work during a part of it:
    /// [`RunRecord::under_load`].
    pub end_ns: Option<Nanos>,
    /// Planned start and end.
    pub planned_ns: (Nanos, Nanos),
    /// Time that each CPU was not idle, over all tasks; absent if /proc/stat lacks it.
    #[serde(default)]
    pub cpu_busy_ns: BTreeMap<CpuId, Nanos>,
}

/// The work of one load in one phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadWork {
    /// Index of the phase in the list of phases.
    pub phase: usize,
    /// The load's label in the plan.
    pub load: String,
    /// CPU that this part of it ran on.
    pub cpu: Option<CpuId>,
    /// The number of operations.
    pub operations: u64,
    /// Bytes that it moved.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// CPU time that it used.
    pub cpu_time_ns: Nanos,
    /// The part of it in the kernel; absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_time_ns: Option<Nanos>,
    /// When this part of it was at work for the first time; absent in runs of older tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin_ns: Option<Nanos>,
    /// When it stopped working, or when its last process was gone; absent while it works, and in runs of older tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ns: Option<Nanos>,
    /// Total time between its deaths and restarts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub away_ns: Nanos,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(time: &Nanos) -> bool {
    *time == Nanos::ZERO
}

impl LoadWork {
    /// Makes the record of a part of a load that has not reported anything yet.
    #[must_use]
    pub fn new(phase: usize, load: &str, cpu: Option<CpuId>) -> Self {
        Self {
            phase,
            load: load.to_owned(),
            cpu,
            operations: 0,
            bytes: 0,
            errors: 0,
            cpu_time_ns: Nanos::ZERO,
            kernel_time_ns: None,
            begin_ns: None,
            end_ns: None,
            away_ns: Nanos::ZERO,
        }
    }
}

/// Why some samples could not be stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreFailure {
    /// Due time of the first sample that was not stored.
    #[serde(rename = "since_ns")]
    pub since: Nanos,
    /// The error of the system.
    pub error: String,
    /// Number of affected samples.
    pub samples: u64,
}

/// One series of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesRecord {
    /// File in `samples/`.
    pub file: String,
    /// Probe that took it.
    pub probe: String,
    /// CPU that the probe was bound to.
    pub cpu: Option<CpuId>,
    /// The counts at the end; absent while it lasts.
    pub counts: Option<Counts>,
    /// For how long the probe looked for gaps, in series of gaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_ns: Option<Nanos>,
    /// Why samples could not be stored.
    pub failure: Option<StoreFailure>,
    /// The samples that another CPU took, as a list of intervals, if the kernel reports the CPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<MovedStretch>,
}

impl SeriesRecord {
    /// Returns the number of samples that could not be stored.
    #[must_use]
    pub fn not_stored(&self) -> u64 {
        self.failure.as_ref().map_or(0, |failure| failure.samples)
    }
}

/// Consecutive samples that a bound probe took on the wrong CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedStretch {
    /// The CPU; the last interval covers all later ones, and has the CPU of the first.
    pub cpu: CpuId,
    /// When the first of them was due.
    pub first_due_ns: Nanos,
    /// When the last of them was due.
    pub last_due_ns: Nanos,
    /// Their number.
    pub samples: u64,
}

/// A measuring thread that was scheduled in another way than it started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulingChange {
    /// Its name, as in `overhead`.
    pub thread: String,
    /// Its CPU, if bound.
    pub cpu: Option<CpuId>,
    /// When it was seen, at most a second late.
    pub seen_ns: Nanos,
    /// Its initial scheduling.
    pub before: String,
    /// Its new scheduling.
    pub after: String,
}

/// An interval without measurement: the tool had ended, or the machine was off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interruption {
    /// Time of the last sample before it.
    pub from_ns: Nanos,
    /// When the run resumed.
    pub to_ns: Nanos,
    /// Whether the machine rebooted in between.
    pub is_reboot: bool,
}

/// When the run started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartTime {
    /// Wall-clock time, ns since 1970; for people, never for data.
    pub realtime_ns: Nanos,
    /// The same time on the run's clock.
    pub monotonic_ns: Nanos,
}

/// The whole of `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Version of the format.
    pub format: u32,
    /// The kind of measurement.
    pub kind: RunKind,
    /// The tool that wrote it.
    pub tool: Tool,
    /// The state.
    pub state: State,
    /// Clock of all times.
    pub clock: ClockKind,
    /// When it started.
    pub started: StartTime,
    /// When its last probe ended; absent while it lasts.
    pub ended_ns: Option<Nanos>,
    /// Caveats to read before the numbers.
    pub warnings: Vec<Warning>,
    /// The plan of the run.
    pub plan: Plan,
    /// The operations that were timed, in folders of kind `cost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostRecord>,
    /// The source of the numbers, in folders of kind `imported`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<ImportRecord>,
    /// CPUs that were measured.
    pub measured_cpus: CpuList,
    /// Intervals without measurement: see `--resume`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interruptions: Vec<Interruption>,
    /// Phases as they happened.
    pub phases: Vec<PhaseRecord>,
    /// The work that the loads did.
    pub load_work: Vec<LoadWork>,
    /// Times that were marked during the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks_ns: Vec<Nanos>,
    /// Path of the series while they are not yet in `samples/`: see `--spool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_folder: Option<PathBuf>,
    /// One for each file of samples.
    pub series: Vec<SeriesRecord>,
    /// Measuring threads whose policy, priority or CPUs another process changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scheduling_changes: Vec<SchedulingChange>,
    /// Other activity on the measured CPUs.
    pub interference: Option<Interference>,
    /// The recording of the kernel's trace, in runs with `--explain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracing: Option<TracingRecord>,
    /// The cost of the tool itself.
    pub overhead: Option<Overhead>,
    /// The machine at the start.
    pub machine: MachineFacts,
    /// Findings of `tardy doctor` for the measured CPUs at the start; empty in older folders and
    /// imported ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doctor: Vec<StoredFinding>,
}

impl RunRecord {
    /// Returns the record of a run that is about to start, in the machine's real time.
    #[must_use]
    pub fn begun(kind: RunKind, plan: Plan, machine: MachineFacts, started: StartTime) -> Self {
        Self {
            format: FORMAT,
            kind,
            tool: Tool {
                name: "tardy".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                process: std::process::id(),
            },
            state: State::Running,
            clock: ClockKind::Hardware,
            started,
            ended_ns: None,
            warnings: Vec::new(),
            measured_cpus: plan.measured_cpus.clone(),
            plan,
            cost: None,
            imported: None,
            interruptions: Vec::new(),
            phases: Vec::new(),
            load_work: Vec::new(),
            marks_ns: Vec::new(),
            samples_folder: None,
            series: Vec::new(),
            scheduling_changes: Vec::new(),
            interference: None,
            tracing: None,
            overhead: None,
            machine,
            doctor: Vec::new(),
        }
    }
}
