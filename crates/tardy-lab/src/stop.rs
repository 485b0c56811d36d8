//! Boots the guest of an earlier run again, and stops its machine at a moment of that run.
//!
//! The guest has the same inputs and its clock counts instructions, so it executes the same
//! instructions as in the run. A timer on QEMU's virtual clock stops the machine (`outside/`), so
//! it stops at the same instruction every time. Only after that does QEMU listen for gdb.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;
use tardy_core::units::Nanos;

use super::boot::Guest;
use super::diagnosis::{self, Failure};
use super::digest::Digest;
use super::guest_job::GuestReport;
use super::machine::{Accelerator, Machine};
use super::provenance::Inputs;
use super::qemu::{Boot, ControlError, Plugin, QEMU_LOG_NAME, Qemu, QemuProcess, Start};
use super::snapshot::SnapshotError;
use super::watch::{self, WatchError, WatchSetup};

/// Name of the socket on which QEMU waits for gdb, in the guest's folder.
const SOCKET_NAME: &str = "gdb.socket";

/// How long the guest may take to reach the moment, in wall-clock time of the host.
pub const WALL_LIMIT: Duration = Duration::from_secs(3600);

/// Why a guest cannot be stopped at a moment of an earlier run.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    #[error(
        "the guest used KVM and the host's clock, so it does not repeat: run it without --accel kvm"
    )]
    Kvm,
    #[error("{0} of the run differs here: measure again with this tardy")]
    Differs(&'static str),
    #[error(
        "an older version of tardy made the run, without what is needed to boot the guest again: measure again"
    )]
    Old,
    #[error("the moment lies before the start of the guest's program: choose a shorter --before")]
    BeforeStart,
    #[error("the snapshot from which the run started is not in tardy's cache: measure again")]
    NoSnapshot,
    #[error("the guest ended before the moment{0}")]
    NotReached(String),
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("{0}")]
    Boot(Box<Failure>),
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// A guest whose machine is stopped; QEMU ends when the value is dropped.
#[derive(Debug)]
pub struct StoppedGuest {
    _machine: QemuProcess,
    /// The socket on which QEMU waits for gdb.
    pub socket: PathBuf,
}

/// Refuses a machine whose runs do not repeat exactly, or that the plugin does not support.
///
/// # Errors
/// Returns [`StopError`].
pub fn check(machine: &Machine) -> Result<(), StopError> {
    if machine.accelerator == Accelerator::Kvm {
        return Err(StopError::Kvm);
    }
    Ok(watch::check(machine)?)
}

/// Converts a moment on the guest's clock to the virtual time that has passed since the start of
/// the guest's program, exact to about 20 ns. The two clocks have slightly different rates, because
/// the guest's kernel measured the rate of the cycle counter when it booted.
///
/// # Errors
/// Returns [`StopError::Old`] if the guest's report does not contain the rate, and
/// [`StopError::BeforeStart`] if the moment is before the start of the program.
pub fn virtual_time_until(moment: Nanos, report: &GuestReport) -> Result<Nanos, StopError> {
    let (start, end) = report.cycle_counts.ok_or(StopError::Old)?;
    let counted = i128::from(end) - i128::from(start);
    let lasted = i128::from((report.ended_at - report.started_at).get());
    let until = i128::from((moment - report.started_at).get());
    if lasted <= 0 || counted <= 0 {
        return Err(StopError::Old);
    }
    i64::try_from(until * counted / lasted)
        .ok()
        .filter(|&time| time > 0)
        .map(Nanos)
        .ok_or(StopError::BeforeStart)
}

impl Guest<'_> {
    /// Boots the guest of an earlier run again, in `folder`; `recorded` are the inputs of that run.
    /// Stops the guest's machine when the virtual time `time` has passed since the start of the
    /// guest's program.
    ///
    /// # Errors
    /// Returns [`StopError`].
    pub fn stop_after(
        &self,
        time: Nanos,
        recorded: &Inputs,
        (qemu, plugin): (&Qemu, &WatchSetup),
        folder: &Path,
    ) -> Result<StoppedGuest, StopError> {
        let image = &self.variant.kernel.image;
        let kernel = Digest::of_file(image).map_err(|error| StopError::File {
            path: image.clone(),
            error,
        })?;
        let failed = |failure| StopError::Boot(Box::new(failure));
        let inputs = self.prepare(qemu, folder).map_err(failed)?;
        let comparisons = [
            (
                kernel == recorded.variant.kernel.digest,
                "the kernel's image",
            ),
            (inputs.qemu == recorded.qemu, "the version of QEMU"),
            (inputs.options == recorded.options, "an option of QEMU"),
            (
                inputs.command_line == recorded.command_line,
                "the kernel's command line",
            ),
            (
                inputs.initramfs == recorded.initramfs,
                "tardy's binary or a file of the guest",
            ),
        ];
        if let Some((_, what)) = comparisons.into_iter().find(|(is_same, _)| !is_same) {
            return Err(StopError::Differs(what));
        }
        plugin.link(folder)?;
        let boot = Boot {
            machine: self.machine,
            kernel: image,
            command_line: &inputs.command_line,
            folder,
            plugin: Plugin::StopAfter(time),
        };
        let mut machine = self.start(&boot, &inputs, recorded, qemu)?;
        machine
            .wait_for_event(&["STOP"])
            .map_err(|error| match error {
                ControlError::Ended => StopError::NotReached(last_words(folder)),
                error => error.into(),
            })?;
        let listen = format!("gdbserver unix:{SOCKET_NAME},server=on,wait=off");
        machine.execute("human-monitor-command", json!({"command-line": listen}))?;
        Ok(StoppedGuest {
            _machine: machine,
            socket: folder.join(SOCKET_NAME),
        })
    }

    fn start(
        &self,
        boot: &Boot<'_>,
        inputs: &Inputs,
        recorded: &Inputs,
        qemu: &Qemu,
    ) -> Result<QemuProcess, StopError> {
        let deadline = Instant::now() + self.wall_limit;
        let Some(snapshots) = self.snapshots else {
            return Ok(boot.start_controlled(qemu, Start::Boots, deadline)?);
        };
        let snapshot = snapshots
            .stored(&inputs.digest())
            .filter(|snapshot| Some(&snapshot.digest) == recorded.snapshot.as_ref())
            .ok_or(StopError::NoSnapshot)?;
        let job = serde_json::to_vec(self.job).expect("a job can always be written as JSON");
        Ok(snapshot.resume(qemu, boot, &job, deadline)?)
    }
}

fn last_words(folder: &Path) -> String {
    let log = diagnosis::read_console(&folder.join(QEMU_LOG_NAME));
    match diagnosis::tail(&log).join("; ") {
        text if text.is_empty() => text,
        text => format!(": {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest_job::{Ending, VERSION};

    #[test]
    fn the_guests_clock_is_converted_by_its_rate_in_the_run() {
        let report = GuestReport {
            version: VERSION,
            ending: Ending::Exited(0),
            booted_at: Nanos::ZERO,
            started_at: Nanos::from_secs(2),
            ended_at: Nanos::from_secs(12),
            cycle_counts: Some((5_000_000_000, 15_000_100_000)),
            idle: None,
            kernel_release: String::new(),
            kernel_version: String::new(),
            command_line: String::new(),
            preemption: None,
            killed_for_memory: 0,
            remarks: Vec::new(),
        };
        // The cycle counter ran 10 ppm faster than the guest's clock.
        assert_eq!(
            virtual_time_until(Nanos::from_secs(3), &report).unwrap(),
            Nanos(1_000_010_000)
        );
        assert!(matches!(
            virtual_time_until(Nanos::from_secs(2), &report),
            Err(StopError::BeforeStart)
        ));
        let old = GuestReport {
            cycle_counts: None,
            ..report
        };
        assert!(matches!(
            virtual_time_until(Nanos::from_secs(3), &old),
            Err(StopError::Old)
        ));
    }
}
