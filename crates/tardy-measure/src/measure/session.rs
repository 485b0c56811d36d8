//! One run from the plan to the closed folder: prepare, arm, follow the timeline, disarm, put everything back.

mod arming;
pub(super) mod closing;
mod follow;
mod loads;
mod threshold;
mod tracing;

use std::path::Path;

use tardy_core::series::ClockKind;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_loads::guardian::{Guardian, GuardianError, GuardianOptions};
use tardy_machine::clock::clock_kind;
use tardy_machine::facts::MachineFacts;
use tardy_machine::root::Root;
use tardy_run::folder::{FolderError, RunFolder};
use tardy_run::plan::Plan;
use tardy_run::record::{FORMAT, RunKind, RunRecord, StartTime, State, Tool};
use tardy_sys::clock;
use tardy_sys::signal::{self, SignalFd};

use crate::descriptors::remedy;
use crate::measure::live::Shown;
use tardy_machine::journal::JournalError;

/// Why a run could not be made or finished.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The guardian of the loads.
    #[error(transparent)]
    Guardian(#[from] GuardianError),
    /// The journal of changed settings.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A probe that cannot be opened or started.
    #[error("--probe {probe}: {error}{}: `tardy list probes` says what it needs, for a loop of yours include/tardy.h", remedy(error))]
    Probe {
        probe: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// A system call without which nothing can be measured.
    #[error("{what}: {error}{}", remedy(error))]
    System {
        /// What was to be done, and the remedy.
        what: &'static str,
        /// What the system said.
        error: std::io::Error,
    },
}

pub(super) fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> SessionError {
    move |error| SessionError::System { what, error }
}

/// Carries out `plan`; the run is in the folder `out` then.
///
/// Call it before the process has threads: the guardian is a child of it.
///
/// # Errors
/// [`SessionError`]. What was measured until then is in the folder; where nothing was, there is none.
pub fn run(plan: Plan, out: &Path, shown: Shown, root: &Root) -> Result<RunRecord, SessionError> {
    let has_loads = plan.phases.iter().any(|phase| !phase.loads.is_empty());
    let guardian = has_loads
        .then(|| {
            Guardian::start(GuardianOptions { cpus: plan.tool_cpus.clone(), group: plan.load_cgroup.clone(), ..GuardianOptions::default() })
        })
        .transpose()?;
    let signals =
        SignalFd::block(&[signal::INTERRUPT, signal::TERMINATE, signal::HANG_UP, signal::CPU_LIMIT, signal::FILE_LIMIT, signal::PIPE])
            .map_err(system("cannot wait for signals"))?;
    let folder = RunFolder::create(out)?;
    let record = first_record(plan, root);
    folder.update(&record)?;
    let armed = arming::arm(record, folder, guardian, signals, shown.look(), root).inspect_err(|_| {
        // Made just above, and nothing was measured: a run that could not begin is no run.
        let _ = std::fs::remove_dir_all(out);
    })?;
    let ran = follow::follow(armed, shown, root)?;
    closing::close(ran, root)
}

/// Those of the plan, and what virtual time means before any number.
fn first_warnings(plan: &Plan, root: &Root) -> Vec<Warning> {
    let virtual_time = (clock_kind(root) == ClockKind::Virtual).then_some(Warning::VirtualTime);
    plan.warnings.iter().cloned().chain(virtual_time).collect()
}

pub(super) fn first_record(plan: Plan, root: &Root) -> RunRecord {
    RunRecord {
        format: FORMAT,
        kind: RunKind::Latency,
        tool: Tool { name: "tardy".into(), version: env!("CARGO_PKG_VERSION").into(), process: std::process::id() },
        state: State::Running,
        clock: clock_kind(root),
        started: StartTime { realtime_ns: Nanos(clock::realtime()), monotonic_ns: Nanos(clock::monotonic()) },
        ended_ns: None,
        warnings: first_warnings(&plan, root),
        measured_cpus: plan.measured_cpus.clone(),
        plan,
        cost: None,
        imported: None,
        phases: Vec::new(),
        load_work: Vec::new(),
        marks_ns: Vec::new(),
        samples_folder: None,
        series: Vec::new(),
        scheduling_changes: Vec::new(),
        interference: None,
        tracing: None,
        overhead: None,
        machine: MachineFacts::read(root),
    }
}
