//! Runs one guest: prepares its files, boots it, reads its result and, if there is none, diagnoses
//! why.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tardy_core::units::Nanos;
use tardy_outside::kernel_symbols::KernelSymbols;
use tardy_run::folder::{self, FolderError};
use tardy_sys::clock;

use super::cpio::{self, Entry};
use super::diagnosis::{self, Cause, Failure};
use super::digest::Digest;
use super::exchange::{self, ReceiveError};
use super::guest_job::{Ending, GuestJob, GuestReport};
use super::initramfs::{self, AddedFile};
use super::machine::{Machine, MainThread, kernel_command_line};
use super::provenance::{self, GuestInput, Inputs, PROVENANCE_NAME, Provenance};
use super::qemu::{
    Boot, BootEnd, CONSOLE_NAME, ControlError, INITRAMFS_NAME, KNOWN_NAME, LIBRARY_NAME, Plugin,
    QEMU_LOG_NAME, Qemu, SEEN_NAME, SHARED_NAME, STATE_NAME, STOP_OPTIONS,
};
use super::snapshot::{SnapshotError, Snapshots};
use super::variant::Variant;
use super::watch::{self, WatchError, WatchSetup};

/// Name of the report in the archive that the guest exports.
pub(super) const REPORT_NAME: &str = "guest.json";
/// Name of the folder with the files that the guest's program left.
pub(super) const OUTPUT_NAME: &str = "out";
/// Standard output of the guest's program, in the archive and in the run folder.
pub const STDOUT_NAME: &str = "stdout.log";
/// Standard error of the guest's program, in the archive and in the run folder.
pub const STDERR_NAME: &str = "stderr.log";

/// Exit codes of the guest's program after which its run is stored: 0 (done), 1 (a verdict failed)
/// and 4 (inconclusive).
const CODES_WITH_A_RUN: [i32; 3] = [0, 1, 4];

#[derive(Debug, Clone)]
pub struct Guest<'a> {
    /// The variant to measure.
    pub variant: &'a Variant,
    /// The virtual machine.
    pub machine: &'a Machine,
    /// The value by which replicas differ. The value determines the length of a word on the
    /// kernel's command line.
    pub pad: u32,
    /// The guest's job.
    pub job: &'a GuestJob,
    /// The static program that becomes the guest's /init.
    pub binary: &'a Path,
    /// Further files for the guest.
    pub added: &'a [AddedFile],
    /// Time limit for the guest in wall-clock time of the host.
    pub wall_limit: Duration,
    /// The snapshots; `None` if the guest boots.
    pub snapshots: Option<&'a Snapshots>,
    /// The plugin and its settings; `None` if no plugin watches the guest.
    pub watching: Option<&'a WatchSetup>,
}

impl Guest<'_> {
    /// Boots the guest. Makes `folder`, and leaves the run, `lab.json` and the logs there. If QEMU
    /// cannot resume the guest from its snapshot because the boot was too long, boots the guest for
    /// the job instead.
    ///
    /// # Errors
    /// Returns [`Failure`] if there is no result; the console's output stays in the folder.
    pub fn run(&self, qemu: &Qemu, folder: &Path) -> Result<Provenance, Failure> {
        let host = |path: &Path, error: std::io::Error| {
            alone(Cause::Host(format!("{}: {error}", path.display())))
        };
        std::fs::create_dir_all(folder).map_err(|error| host(folder, error))?;
        let result = self.run_in(qemu, folder);
        for name in [
            INITRAMFS_NAME,
            SHARED_NAME,
            QEMU_LOG_NAME,
            STATE_NAME,
            LIBRARY_NAME,
            KNOWN_NAME,
            SEEN_NAME,
        ] {
            let path = folder.join(name);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(host(&path, error));
                }
                _ => {}
            }
        }
        match result {
            Err(failure) if self.snapshots.is_some() && failure.cause.is_long_boot() => {
                let booting = Guest {
                    snapshots: None,
                    ..self.clone()
                };
                booting.run(qemu, folder)
            }
            result => result,
        }
    }

    fn run_in(&self, qemu: &Qemu, folder: &Path) -> Result<Provenance, Failure> {
        let mut inputs = self.prepare(qemu, folder)?;
        let command_line = inputs.command_line.clone();
        let host = |error: &dyn std::fmt::Display| alone(Cause::Host(error.to_string()));
        let symbols = self
            .watching
            .map(|watching| self.watch(watching, qemu, folder))
            .transpose()
            .map_err(|error| host(&error))?;
        let boot = Boot {
            machine: self.machine,
            kernel: &self.variant.kernel.image,
            command_line: &command_line,
            folder,
            plugin: symbols.as_ref().map_or(Plugin::None, |_| Plugin::Watch),
        };
        let (end, restored) = match self.snapshots {
            None => (
                boot.run(qemu, self.wall_limit)
                    .map_err(|error| alone(Cause::Host(error.to_string())))?,
                None,
            ),
            Some(snapshots) => {
                let run = self.run_from_snapshot(snapshots, qemu, &boot, &mut inputs);
                let (end, restored) = run.map_err(|error| {
                    self.failure_of_snapshot(&error, folder, inputs.snapshot.is_some())
                })?;
                (end, Some(restored))
            }
        };
        let console = diagnosis::read_console(&folder.join(CONSOLE_NAME));
        // If the guest started from a snapshot, its console lacks the output of the boot.
        let has_booted = restored.is_some() || console.contains(diagnosis::BOOTED);
        let fail = |cause| Failure {
            cause,
            console_tail: diagnosis::tail(&console),
            has_booted,
        };
        let shared = folder.join(SHARED_NAME);
        let memory = std::fs::read(&shared)
            .map_err(|error| alone(Cause::Host(format!("{}: {error}", shared.display()))))?;
        let archive = exchange::receive(&memory).map_err(|error| {
            let log = diagnosis::read_console(&folder.join(QEMU_LOG_NAME));
            fail(cause_of_silence(
                &error,
                end,
                self.wall_limit,
                &console,
                &log,
            ))
        })?;
        let provenance = self.keep(inputs, archive, folder, restored).map_err(fail)?;
        if let Some(symbols) = &symbols {
            watch::keep(folder, symbols, self.machine).map_err(|error| host(&error))?;
        }
        Ok(provenance)
    }

    /// Puts the plugin's input into the folder.
    fn watch(
        &self,
        watching: &WatchSetup,
        qemu: &Qemu,
        folder: &Path,
    ) -> Result<KernelSymbols, WatchError> {
        let symbols = self.symbols(watching, qemu)?;
        watching.prepare(&symbols, self.machine, folder)?;
        Ok(symbols)
    }

    /// Returns the kernel's symbols. If the cache lacks the symbols, boots the kernel once to get
    /// them.
    ///
    /// # Errors
    /// Returns [`WatchError`].
    pub fn symbols(&self, watching: &WatchSetup, qemu: &Qemu) -> Result<KernelSymbols, WatchError> {
        let boot = |job: &GuestJob, folder: &Path| {
            let guest = Guest {
                job,
                snapshots: None,
                watching: None,
                ..self.clone()
            };
            guest
                .run(qemu, folder)
                .map(drop)
                .map_err(|failure| failure.cause.to_string())
        };
        watching.symbols((self.variant, self.job, self.added), boot)
    }

    /// Runs the guest from a snapshot and passes the job through the shared memory. Adds the job
    /// and the snapshot to the inputs.
    fn run_from_snapshot(
        &self,
        snapshots: &Snapshots,
        qemu: &Qemu,
        boot: &Boot<'_>,
        inputs: &mut Inputs,
    ) -> Result<(BootEnd, Duration), SnapshotError> {
        let job = serde_json::to_vec(self.job).expect("a job can always be written as JSON");
        let snapshot = snapshots.of(
            &inputs.digest(),
            qemu,
            boot,
            self.wall_limit,
            &boot.folder.join(CONSOLE_NAME),
        )?;
        inputs.snapshot = Some(snapshot.digest.clone());
        inputs.job = Some(Digest::of_bytes(&job));
        snapshot.run(qemu, boot, &job, self.wall_limit)
    }

    fn failure_of_snapshot(
        &self,
        error: &SnapshotError,
        folder: &Path,
        is_restored: bool,
    ) -> Failure {
        let console = diagnosis::read_console(&folder.join(CONSOLE_NAME));
        let cause = match (diagnosis::from_console(&console), error) {
            (Cause::NoResult, SnapshotError::Control(ControlError::WallLimit)) => {
                Cause::WallLimit {
                    limit_s: self.wall_limit.as_secs(),
                }
            }
            (Cause::NoResult, SnapshotError::NotReached) => Cause::NoResult,
            (Cause::NoResult, SnapshotError::Control(ControlError::Ended)) => Cause::Qemu(
                diagnosis::tail(&diagnosis::read_console(&folder.join(QEMU_LOG_NAME))).join("; "),
            ),
            (Cause::NoResult, error) => Cause::Host(error.to_string()),
            (cause, _) => cause,
        };
        let has_booted = is_restored || console.contains(diagnosis::BOOTED);
        Failure {
            cause,
            console_tail: diagnosis::tail(&console),
            has_booted,
        }
    }

    /// Writes the initial file system and returns all inputs of the run.
    pub(super) fn prepare(&self, qemu: &Qemu, folder: &Path) -> Result<Inputs, Failure> {
        let path = folder.join(INITRAMFS_NAME);
        let before = self.snapshots.map(|_| self.job.until_pause());
        let job = before.as_ref().unwrap_or(self.job);
        let written = File::create(&path)
            .and_then(|file| initramfs::write(BufWriter::new(file), self.binary, job, self.added));
        let digest = written.and_then(|_| Digest::of_file(&path));
        Ok(self.inputs(
            qemu,
            digest.map_err(|error| alone(Cause::Host(format!("{}: {error}", path.display()))))?,
        ))
    }

    /// Returns a digest of everything that determines the guest's state at its snapshot.
    ///
    /// # Errors
    /// Returns an error if a file for the guest cannot be read.
    pub fn digest(&self, qemu: &Qemu) -> std::io::Result<Digest> {
        let initramfs = initramfs::digest(self.binary, &self.job.until_pause(), self.added)?;
        Ok(self.inputs(qemu, initramfs).digest())
    }

    /// Returns the inputs of a run with this initial file system, before its snapshot and job are
    /// known.
    pub(super) fn inputs(&self, qemu: &Qemu, initramfs: Digest) -> Inputs {
        let mut options = self.machine.options(MainThread::TakesTurns);
        options.extend(
            self.snapshots
                .iter()
                .flat_map(|_| STOP_OPTIONS.map(str::to_owned)),
        );
        Inputs {
            variant: self.variant.clone(),
            machine: self.machine.clone(),
            command_line: kernel_command_line(
                self.machine,
                &self.variant.command_line_words(),
                self.pad,
            ),
            pad: self.pad,
            initramfs,
            qemu: qemu.version.clone(),
            options,
            snapshot: None,
            job: None,
        }
    }

    /// Unpacks the exported files, checks them and writes their provenance.
    fn keep(
        &self,
        inputs: Inputs,
        archive: &[u8],
        folder: &Path,
        restored: Option<Duration>,
    ) -> Result<Provenance, Cause> {
        let mut entries = cpio::read(archive).map_err(|error| Cause::Torn(error.to_string()))?;
        let report = take(&mut entries, REPORT_NAME)
            .ok_or_else(|| Cause::Torn("the guest's report is missing".into()))?;
        let guest: GuestReport = serde_json::from_slice(report)
            .map_err(|error| Cause::Torn(format!("the guest's report cannot be read: {error}")))?;
        let logs = [STDOUT_NAME, STDERR_NAME]
            .map(|name| (name, take(&mut entries, name).unwrap_or_default()));
        let run: Vec<Entry<'_>> = entries.into_iter().filter_map(below_output).collect();
        cpio::unpack(&run, folder).map_err(|error| Cause::Host(error.to_string()))?;
        let write = |name: &str, content: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, content)
                .map_err(|error| Cause::Host(format!("{}: {error}", path.display())))
        };
        for (name, content) in logs {
            write(name, content)?;
        }
        self.judge(&guest, logs[1].1)?;
        date(folder).map_err(|error| Cause::Host(error.to_string()))?;
        let provenance = Provenance {
            version: provenance::VERSION,
            input_digest: inputs.digest(),
            inputs,
            sample_digest: provenance::sample_digest(&run),
            output_digest: Digest::of_bytes(archive),
            guest_input: Some(self.input()),
            guest,
            meaning: provenance::meaning(self.machine).to_owned(),
            restore_ms: restored.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        };
        write(
            PROVENANCE_NAME,
            &serde_json::to_vec_pretty(&provenance)
                .expect("provenance can always be written as JSON"),
        )?;
        Ok(provenance)
    }

    fn input(&self) -> GuestInput {
        let added = |file: &AddedFile| AddedFile {
            source: std::path::absolute(&file.source).unwrap_or_else(|_| file.source.clone()),
            ..file.clone()
        };
        GuestInput {
            job: self.job.clone(),
            added: self.added.iter().map(added).collect(),
        }
    }

    fn judge(&self, guest: &GuestReport, stderr: &[u8]) -> Result<(), Cause> {
        if let Some(wanted) = &self.variant.preemption
            && guest.current_preemption() != Some(wanted)
        {
            return Err(Cause::Preemption {
                wanted: wanted.clone(),
                offered: guest.preemption.clone(),
            });
        }
        if guest.killed_for_memory > 0 {
            return Err(Cause::OutOfMemory);
        }
        match &guest.ending {
            Ending::Exited(code) if CODES_WITH_A_RUN.contains(code) => Ok(()),
            Ending::TimeLimit => Err(Cause::TimeLimit),
            ending => {
                let stderr = diagnosis::tail(&String::from_utf8_lossy(stderr)).join("; ");
                Err(Cause::Program {
                    ending: ending.clone(),
                    stderr,
                })
            }
        }
    }
}

/// Returns why a guest left no complete result. If the console shows a reason, returns this reason;
/// otherwise, derives it from how the machine ended. `log` is the text of QEMU's messages.
fn cause_of_silence(
    error: &ReceiveError,
    end: BootEnd,
    wall_limit: Duration,
    console: &str,
    log: &str,
) -> Cause {
    let seen = diagnosis::from_console(console);
    if seen != Cause::NoResult {
        return seen;
    }
    match (error, end) {
        (ReceiveError::Version(_), _) => Cause::Torn(error.to_string()),
        (_, BootEnd::Stopped) => Cause::Stopped,
        (ReceiveError::Nothing, BootEnd::WallLimit) => Cause::WallLimit {
            limit_s: wall_limit.as_secs(),
        },
        (ReceiveError::Nothing, BootEnd::Exited(status)) if status.success() => Cause::NoResult,
        (ReceiveError::Nothing, BootEnd::Exited(_)) => Cause::Qemu(diagnosis::tail(log).join("; ")),
        (ReceiveError::Torn, _) => Cause::Torn(error.to_string()),
    }
}

fn alone(cause: Cause) -> Failure {
    Failure {
        cause,
        console_tail: Vec::new(),
        has_booted: false,
    }
}

/// Removes a file from the entries and returns its content.
fn take<'a>(entries: &mut Vec<Entry<'a>>, name: &str) -> Option<&'a [u8]> {
    let index = entries
        .iter()
        .position(|entry| entry.path == Path::new(name))?;
    entries.remove(index).content
}

/// Returns the entry with its path in the run folder; `None` if the entry does not belong in that
/// folder.
fn below_output(entry: Entry<'_>) -> Option<Entry<'_>> {
    let path: PathBuf = entry.path.strip_prefix(OUTPUT_NAME).ok()?.to_owned();
    (!path.as_os_str().is_empty()).then_some(Entry {
        path,
        content: entry.content,
    })
}
/// Replaces the date of the runs in `folder` by the date on the host's clock. The guest's own clock
/// always starts at the same moment in 2020, so that runs are repeatable.
fn date(folder: &Path) -> Result<(), FolderError> {
    let now = Nanos(clock::realtime());
    for run in folder::folders(folder) {
        // If a guest failed, or only measured costs, there is no `run.json`.
        if !run.join("run.json").exists() {
            continue;
        }
        folder::rewrite(&run, |record| record.started.realtime_ns = now)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;
    use crate::diagnosis::Blame;

    #[test]
    fn a_guest_that_stops_without_a_message_blames_nobody() {
        let cause = |error, end, console| {
            cause_of_silence(&error, end, Duration::from_secs(9), console, "no memory\n")
        };
        let blame = |cause| {
            Failure {
                cause,
                console_tail: Vec::new(),
                has_booted: true,
            }
            .blame()
        };
        for error in [ReceiveError::Nothing, ReceiveError::Torn] {
            let stopped = cause(error, BootEnd::Stopped, "");
            assert_eq!(stopped, Cause::Stopped);
            assert_eq!(blame(stopped), Blame::CannotTell);
        }
        let panic = "Kernel panic - not syncing: VFS\n";
        let told = cause(ReceiveError::Nothing, BootEnd::Stopped, panic);
        assert_eq!(told, Cause::Panic("VFS".into()));
        let ended = |code| BootEnd::Exited(ExitStatus::from_raw(code << 8));
        let nothing = |end| cause(ReceiveError::Nothing, end, "");
        assert_eq!(nothing(ended(0)), Cause::NoResult);
        assert_eq!(nothing(ended(1)), Cause::Qemu("no memory".into()));
        assert_eq!(nothing(BootEnd::WallLimit), Cause::WallLimit { limit_s: 9 });
        let other_build = cause(ReceiveError::Version(9), BootEnd::Stopped, "");
        assert_eq!(blame(other_build), Blame::Host);
    }
}
