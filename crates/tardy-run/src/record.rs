//! `run.json`: the plan, the facts of the machine, the events of the run, and how it ended.
//!
//! Every time is in ns, on the run's monotonic clock unless the key states another one. Readers
//! ignore unknown keys, so older tools can read records with new keys. `format` increases when
//! older tools would misread new records.
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

/// The format version that this tool writes.
pub const FORMAT: u32 = 1;

/// The kind of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunKind {
    /// Latencies that probes measured.
    Latency,
    /// How long operations take.
    Cost,
    /// Values from another tool's output, or wake-ups that `tardy attach` followed.
    Imported,
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The run is in progress, or its tool was killed.
    Running,
    /// The run reached its planned end.
    Finished,
    /// A signal ended the run before its planned end.
    Interrupted,
    /// A latency above `--stop-above` ended the run.
    Stopped,
    /// The watchdog ended the run.
    EndedByWatchdog,
}

/// The tool that wrote the folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Name of the tool: `tardy`.
    pub name: String,
    /// Version of the tool, as printed by `tardy --version`.
    pub version: String,
    /// ID of the process that makes the run. Together with the boot ID, it shows whether the run is
    /// still in progress.
    pub process: u32,
}

/// A phase as it was actually run, which may differ from the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// Name of the planned phase.
    pub name: String,
    /// Loads that ran in the phase.
    pub loads: Vec<String>,
    /// When the phase started.
    pub begin_ns: Nanos,
    /// When the phase ended; absent while it lasts. The loads work only during a part of this time,
    /// which [`RunRecord::under_load`] returns.
    pub end_ns: Option<Nanos>,
    /// Planned start and end of the phase.
    pub planned_ns: (Nanos, Nanos),
    /// Time during which each CPU was not idle; absent if /proc/stat lacks it.
    #[serde(default)]
    pub cpu_busy_ns: BTreeMap<CpuId, Nanos>,
}

/// What one load did in one phase, on one CPU if the load has a worker for each CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadWork {
    /// Index of the phase in the list of phases.
    pub phase: usize,
    /// The load's label in the plan.
    pub load: String,
    /// CPU of the worker; absent if the worker used several CPUs.
    pub cpu: Option<CpuId>,
    /// Number of operations.
    pub operations: u64,
    /// Number of bytes moved.
    pub bytes: u64,
    /// Number of operations that failed.
    pub errors: u64,
    /// CPU time used.
    pub cpu_time_ns: Nanos,
    /// How much of the CPU time was spent in the kernel; absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_time_ns: Option<Nanos>,
    /// When the worker first worked; absent in runs of older tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin_ns: Option<Nanos>,
    /// When the worker stopped working, or its last process was gone; absent while it works, and in
    /// runs of older tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ns: Option<Nanos>,
    /// Total time between the worker's deaths and restarts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub away_ns: Nanos,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(time: &Nanos) -> bool {
    *time == Nanos::ZERO
}

impl LoadWork {
    /// Makes the record of a worker that has not reported anything yet.
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
    /// The error that the system reported.
    pub error: String,
    /// Number of samples that were not stored.
    pub samples: u64,
}

/// One series of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesRecord {
    /// Name of the file in `samples/`.
    pub file: String,
    /// Name of the probe that took the samples.
    pub probe: String,
    /// CPU that the probe was bound to.
    pub cpu: Option<CpuId>,
    /// The final counts; absent while the series grows.
    pub counts: Option<Counts>,
    /// How long the probe looked for gaps; only for series of gaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_ns: Option<Nanos>,
    /// Why samples could not be stored.
    pub failure: Option<StoreFailure>,
    /// The samples that were taken on a CPU other than the planned one, as a list of intervals;
    /// empty if the kernel does not report on which CPU a thread runs.
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

/// An interval of consecutive samples that a probe took on a CPU other than the one it was bound
/// to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedStretch {
    /// The wrong CPU. If a list is full, its last interval also covers all later samples that were
    /// taken on wrong CPUs.
    pub cpu: CpuId,
    /// Due time of the first of these samples.
    pub first_due_ns: Nanos,
    /// Due time of the last of these samples.
    pub last_due_ns: Nanos,
    /// Number of these samples.
    pub samples: u64,
}

/// A change in the scheduling of a measuring thread during the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulingChange {
    /// Name of the thread, as in `overhead`.
    pub thread: String,
    /// CPU of the thread, if it is bound.
    pub cpu: Option<CpuId>,
    /// When the tool noticed the change, at most a second late.
    pub seen_ns: Nanos,
    /// Scheduling of the thread before the change.
    pub before: String,
    /// Scheduling of the thread after the change.
    pub after: String,
}

/// An interval without measurement, because the tool had ended or the machine was off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interruption {
    /// End of the part before the interruption: when the tool ended that part or, if the tool was
    /// killed, the last stored sample.
    pub from_ns: Nanos,
    /// When the run resumed.
    pub to_ns: Nanos,
    /// Whether the machine was rebooted during the interruption.
    pub is_reboot: bool,
}

/// When the run started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartTime {
    /// Wall-clock time in ns since 1970. This time is for people, and is never used for data.
    pub realtime_ns: Nanos,
    /// The same moment as a time on the run's clock.
    pub monotonic_ns: Nanos,
}

/// The content of `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Version of the format.
    pub format: u32,
    /// The kind of measurement.
    pub kind: RunKind,
    /// The tool that wrote the record.
    pub tool: Tool,
    /// State of the run.
    pub state: State,
    /// The clock on which all times of the record are based.
    pub clock: ClockKind,
    /// When the run started.
    pub started: StartTime,
    /// When the run's last probe ended; absent while the run lasts.
    pub ended_ns: Option<Nanos>,
    /// Warnings that the reader should see before the numbers.
    pub warnings: Vec<Warning>,
    /// The plan of the run.
    pub plan: Plan,
    /// The operations that were timed, in folders of kind `cost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostRecord>,
    /// Where the numbers come from, in folders of kind `imported`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<ImportRecord>,
    /// CPUs that were measured.
    pub measured_cpus: CpuList,
    /// Intervals without measurement, from runs with `--resume`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interruptions: Vec<Interruption>,
    /// Phases as they were actually run.
    pub phases: Vec<PhaseRecord>,
    /// What the loads did.
    pub load_work: Vec<LoadWork>,
    /// Times that the user marked during the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks_ns: Vec<Nanos>,
    /// Path of the folder in which the series are stored until they are moved to `samples/`: see
    /// `--spool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_folder: Option<PathBuf>,
    /// A record for each file of samples.
    pub series: Vec<SeriesRecord>,
    /// Changes that another process made to the policy, priority or CPUs of measuring threads.
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
    /// Returns the record of a run that is about to start, on the machine's own clock.
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
