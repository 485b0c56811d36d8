//! One run from the plan to the closed folder: prepares, arms, follows the timeline, disarms, and
//! restores everything.

mod arming;
pub(super) mod closing;
mod follow;
mod loads;
mod tracing;

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use tardy_core::series::ClockKind;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_loads::guardian::{Guardian, GuardianError, GuardianOptions};
use tardy_machine::checks::{self, StoredFinding, StoredState};
use tardy_machine::clock::clock_kind;
use tardy_machine::facts::MachineFacts;
use tardy_machine::root::Root;
use tardy_probes::app::program::AppError;
use tardy_run::folder::{FolderError, RunFolder};
use tardy_run::plan::Plan;
use tardy_run::record::{RunKind, RunRecord, StartTime};
use tardy_run::resume::{self, ResumeError};
use tardy_sys::signal::{self, SignalFd};
use tardy_sys::{clock, sched};

use crate::descriptors::remedy;
use crate::measure::live::ProgressDisplay;
use tardy_machine::journal::JournalError;

/// Why a run could not be made or finished.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Folder(FolderError),
    /// The run cannot be resumed.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// The guardian of the loads failed.
    #[error(transparent)]
    Guardian(#[from] GuardianError),
    /// The journal of changed settings failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A probe cannot be opened or started.
    #[error(
        "--probe {probe}: {error}{}: `tardy list probes` lists its requirements; for your own loop \
         see include/tardy.h",
        remedy(error)
    )]
    Probe {
        probe: String,
        /// The error that the system reported.
        error: std::io::Error,
    },
    /// The program whose loop is measured failed.
    #[error(transparent)]
    Program(AppError),
    /// Another process removed, moved or replaced the run's folder.
    #[error(
        "{0} was removed or moved during the run. A moved folder can still be opened, and holds \
         the samples up to the move; do not move the folder of a run in progress"
    )]
    FolderGone(PathBuf),
    /// A system call that every measurement needs failed.
    #[error("{what}: {error}{}", remedy(error))]
    System {
        /// The failed operation.
        what: &'static str,
        /// The error that the system reported.
        error: std::io::Error,
    },
}

impl From<FolderError> for SessionError {
    fn from(error: FolderError) -> Self {
        match error {
            // The process has reached its limit of open descriptors, so another folder would not
            // help.
            FolderError::Unwritable { error, .. } if !remedy(&error).is_empty() => Self::System {
                what: "cannot write the run's folder",
                error,
            },
            error => Self::Folder(error),
        }
    }
}

impl SessionError {
    /// Converts the error of opening or starting a probe.
    fn of_probe(probe: &str, error: std::io::Error) -> Self {
        match error.downcast::<AppError>() {
            Ok(error) => Self::Program(error),
            Err(error) => Self::Probe {
                probe: probe.to_owned(),
                error,
            },
        }
    }

    /// Returns true if the request is wrong, and false if this machine cannot make the run.
    #[must_use]
    pub fn is_wrong_use(&self) -> bool {
        match self {
            Self::Folder(error) => !error.is_unwritable(),
            Self::Resume(_) => true,
            Self::Program(AppError::NotStarted { error, .. }) => {
                matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied
                )
            }
            _ => false,
        }
    }
}

pub(super) fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> SessionError {
    move |error| SessionError::System { what, error }
}

/// Runs `plan` and stores the run in the folder `out`. While it runs, clients of `metrics` get the
/// current numbers.
///
/// Must be called before the process has threads, because the guardian is started as a child.
///
/// # Errors
/// Returns a [`SessionError`] if the run cannot be made or finished. After an error, the folder
/// contains the data that were measured before. If nothing was measured, there is no folder.
pub fn run(
    plan: Plan,
    out: &Path,
    shown: ProgressDisplay,
    metrics: Option<TcpListener>,
    root: &Root,
) -> Result<RunRecord, SessionError> {
    measure(plan, out, false, shown, metrics, root)
}

/// Works like [`run`], but resumes a run that exists in the folder `out`.
///
/// # Errors
/// Fails as [`run`] does. After an error, the existing run is intact.
pub fn resume(
    plan: Plan,
    out: &Path,
    shown: ProgressDisplay,
    metrics: Option<TcpListener>,
    root: &Root,
) -> Result<RunRecord, SessionError> {
    measure(plan, out, true, shown, metrics, root)
}

fn measure(
    plan: Plan,
    out: &Path,
    goes_on: bool,
    shown: ProgressDisplay,
    metrics: Option<TcpListener>,
    root: &Root,
) -> Result<RunRecord, SessionError> {
    let has_loads = plan.phases.iter().any(|phase| !phase.loads.is_empty());
    let guardian = has_loads
        .then(|| {
            let mut guardian = Guardian::start(GuardianOptions {
                cpus: plan.housekeeping_cpus.clone(),
                group: plan.load_cgroup.clone(),
                ..GuardianOptions::default()
            })?;
            guardian.prepare(plan.phases.iter().flat_map(|phase| &phase.loads))?;
            Ok::<_, GuardianError>(guardian)
        })
        .transpose()?;
    let signals = SignalFd::block(&[
        signal::INTERRUPT,
        signal::TERMINATE,
        signal::HANG_UP,
        signal::CPU_LIMIT,
        signal::FILE_LIMIT,
        signal::PIPE,
        signal::USER_1,
        signal::USER_2,
    ])
    .map_err(system("cannot wait for signals"))?;
    let mut record = first_record(plan, root);
    let earlier = if goes_on {
        resume::resume(out, &record.plan, record.started, root)?
    } else {
        None
    };
    let (folder, earlier) = match earlier {
        Some((folder, earlier)) => (folder, Some(earlier)),
        None => (RunFolder::create(out)?, None),
    };
    if let Some(earlier) = &earlier {
        record.go_on(earlier);
    }
    folder.update(&record)?;
    let (identity, is_new) = (folder.identity().clone(), earlier.is_none());
    let armed = arming::arm(
        record,
        (folder, earlier),
        guardian,
        signals,
        shown.look(),
        metrics,
        root,
    )
    .map_err(|error| {
        if !identity.is_there() {
            return SessionError::FolderGone(out.to_owned());
        }
        if !is_new {
            return error;
        }
        // The folder was made just above, and nothing was measured, so it is removed.
        let _ = std::fs::remove_dir_all(out);
        error
    })?;
    let ahead = sched::AheadGuard::of_ordinary();
    let ran = follow::follow(armed, shown, root)?;
    drop(ahead);
    closing::close(ran, root)
}

/// Returns the warnings of the plan, of virtual time, and of the changes that only this run makes.
fn first_warnings(plan: &Plan, doctor: &[StoredFinding], root: &Root) -> Vec<Warning> {
    let virtual_time = (clock_kind(root) == ClockKind::Virtual).then_some(Warning::VirtualTime);
    let is_held = plan.cpu_dma_latency_us.is_some() || plan.resume_latency_us.is_some();
    let idle = doctor
        .iter()
        .find(|finding| finding.check == "idle-states" && finding.state == StoredState::Improvable);
    let held = idle
        .filter(|_| is_held)
        .map(|idle| Warning::IdleStatesHeld {
            states: idle.current.clone(),
        });
    plan.warnings
        .iter()
        .cloned()
        .chain(virtual_time)
        .chain(held)
        .collect()
}

pub(super) fn first_record(plan: Plan, root: &Root) -> RunRecord {
    let machine = MachineFacts::read(root);
    let doctor = checks::stored(&machine, root, &plan.measured_cpus);
    let started = StartTime {
        realtime_ns: Nanos(clock::realtime()),
        monotonic_ns: Nanos(clock::monotonic()),
    };
    RunRecord {
        clock: clock_kind(root),
        warnings: first_warnings(&plan, &doctor, root),
        doctor,
        ..RunRecord::begun(RunKind::Latency, plan, machine, started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_core::cpu::CpuList;
    use tardy_machine::checks::Importance;

    #[test]
    fn a_run_that_keeps_idle_cpus_awake_says_so_where_they_would_sleep() {
        let row = |state| StoredFinding {
            check: "idle-states".to_owned(),
            importance: Importance::High,
            state,
            current: "down to C6 (133 us)".to_owned(),
        };
        let warnings = |held, state| {
            let plan = Plan {
                cpu_dma_latency_us: held,
                ..Plan::without_probes("made", &CpuList::default(), &CpuList::default())
            };
            let warnings = first_warnings(&plan, &[row(state)], &Root::system());
            warnings
                .into_iter()
                .filter(|warning| matches!(warning, Warning::IdleStatesHeld { .. }))
                .map(|warning| warning.to_string())
                .collect::<Vec<_>>()
        };
        let told = warnings(Some(0), StoredState::Improvable);
        assert!(
            told.len() == 1
                && told[0].contains("down to C6 (133 us)")
                && told[0].contains("--cpu-dma-latency leave"),
            "{told:?}"
        );
        assert_eq!(
            warnings(None, StoredState::Improvable),
            [""; 0],
            "without a request"
        );
        assert_eq!(
            warnings(Some(0), StoredState::Good),
            [""; 0],
            "they sleep no deeper without it"
        );
    }
}
