//! Runs QEMU as a child process: finds it, asks for its version, starts it for one guest, and ends
//! it at the guest's time limit.

mod control;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tardy_core::units::Nanos;
use tardy_sys::child::{self, kill_with_parent};

pub use control::ControlError;
pub(super) use control::QemuProcess;

use super::architecture::Architecture;
use super::machine::{Machine, MainThread};

/// Options that let a guest stop its own machine: a device to which the guest reports a panic, and
/// the order to pause the machine when a panic is reported.
pub const STOP_OPTIONS: [&str; 4] = ["-device", "pvpanic-pci", "-action", "panic=pause"];

/// Why QEMU cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum QemuError {
    /// QEMU is not installed.
    #[error("{program} is not installed: install the package {} (Debian, Ubuntu) or {} (Fedora)", packages.0, packages.1)]
    Missing {
        /// QEMU's program.
        program: &'static str,
        /// Name of the package that contains the program: first in Debian, then in Fedora.
        packages: (&'static str, &'static str),
    },
    /// QEMU is installed, but does not work.
    #[error("{program}: {message}: check the installation of QEMU")]
    Broken {
        program: String,
        /// What failed.
        message: String,
    },
    /// One of the guest's files cannot be made or read.
    #[error("{path}: {error}: check free space and the folder given with --out")]
    File {
        path: PathBuf,
        /// The error that the system reported.
        error: io::Error,
    },
}

/// An installed QEMU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qemu {
    pub(super) program: &'static str,
    /// QEMU's version text, such as `QEMU emulator version 7.2.22 (Debian
    /// 1:7.2+dfsg-7+deb12u18+b3)`. The version is one of a run's inputs.
    pub version: String,
}

impl Qemu {
    /// Finds QEMU for an architecture on the PATH.
    ///
    /// # Errors
    /// Returns [`QemuError::Missing`], [`QemuError::Broken`].
    pub fn find(architecture: Architecture) -> Result<Self, QemuError> {
        let program = architecture.qemu_program();
        let broken = |message: String| QemuError::Broken {
            program: program.to_owned(),
            message,
        };
        let output = child::output(Command::new(program).arg("--version")).map_err(|error| {
            match error.kind() {
                io::ErrorKind::NotFound => QemuError::Missing {
                    program,
                    packages: architecture.qemu_packages(),
                },
                _ => broken(error.to_string()),
            }
        })?;
        let text = String::from_utf8_lossy(&output.stdout);
        match text.lines().next() {
            Some(line) if output.status.success() && line.contains("version") => Ok(Self {
                program,
                version: line.trim().to_owned(),
            }),
            _ => Err(broken(
                String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            )),
        }
    }
}

/// One start of QEMU with one guest. QEMU starts in the folder and its options name files relative
/// to the folder, so the options do not depend on the folder's path.
#[derive(Debug, Clone)]
pub struct Boot<'a> {
    pub machine: &'a Machine,
    /// The kernel's image.
    pub kernel: &'a Path,
    /// The kernel's command line.
    pub command_line: &'a str,
    /// The folder that contains the guest's input and output files.
    pub folder: &'a Path,
    pub plugin: Plugin,
}

/// What QEMU's plugin does. The plugin is a file in the guest's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// The guest runs without the plugin.
    None,
    /// The plugin watches the guest. The plugin's input is in the guest's folder.
    Watch,
    /// The plugin stops the machine when this virtual time has passed since the start of the
    /// guest's program.
    StopAfter(Nanos),
}

/// How a guest starts if the host controls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start<'a> {
    /// The guest boots as in [`Boot::run`].
    Boots,
    /// The guest boots on a machine that can save its state.
    BootsForSnapshot,
    /// The guest continues from the machine's state in this file of its folder.
    Resumes(&'a str),
}

/// Name of the initial file system in the guest's folder.
pub const INITRAMFS_NAME: &str = "initramfs.cpio";
/// Name of the file with the console's output.
pub const CONSOLE_NAME: &str = "console.log";
/// Name of the file with the memory shared with the guest.
pub const SHARED_NAME: &str = "shared.memory";
/// Name of the file with the machine's state, in the folder of a snapshot.
pub const STATE_NAME: &str = "machine.state";
/// Name of the plugin that watches a guest.
pub const LIBRARY_NAME: &str = "watch.so";
/// Name of the plugin's input file.
pub const KNOWN_NAME: &str = "watch.known";
/// Name of the plugin's output file.
pub const SEEN_NAME: &str = "watch.seen";
/// Name of the file with QEMU's messages.
pub const QEMU_LOG_NAME: &str = "qemu.log";

/// How the virtual machine of a guest ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootEnd {
    /// QEMU ended by itself.
    Exited(ExitStatus),
    /// The host ended QEMU at the time limit.
    WallLimit,
    /// The guest's kernel panicked and the guest stopped, so the host ended QEMU.
    Stopped,
}

impl Boot<'_> {
    /// Starts QEMU and waits until the guest has switched its machine off, for at most `wall_limit`
    /// of the host's time. If the guest fails, this is not an error of the function, but part of
    /// the result.
    ///
    /// # Errors
    /// Returns [`QemuError::File`] and [`QemuError::Broken`].
    pub fn run(&self, qemu: &Qemu, wall_limit: Duration) -> Result<BootEnd, QemuError> {
        let mut command = self.command(qemu, &self.arguments(MainThread::TakesTurns, ""))?;
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let broken = |error: io::Error| QemuError::Broken {
            program: qemu.program.to_owned(),
            message: error.to_string(),
        };
        let child = kill_with_parent(&mut command).spawn().map_err(broken)?;
        wait(child, wall_limit).map_err(broken)
    }

    /// Starts QEMU under the host's control.
    ///
    /// # Errors
    /// Returns [`ControlError`].
    pub(super) fn start_controlled(
        &self,
        qemu: &Qemu,
        start: Start<'_>,
        deadline: Instant,
    ) -> Result<QemuProcess, ControlError> {
        // `master=on`: this machine owns the shared memory. QEMU cannot save a machine whose shared
        // memory belongs to another machine. A machine with [`MainThread::TakesTurns`] can load a
        // saved state, but cannot save its own.
        let (main_thread, sharing, stop_options) = match start {
            Start::Boots => (MainThread::TakesTurns, "", &[][..]),
            Start::BootsForSnapshot => (MainThread::Free, ",master=on", &STOP_OPTIONS[..]),
            Start::Resumes(_) => (MainThread::TakesTurns, ",master=on", &STOP_OPTIONS[..]),
        };
        let mut arguments = self.arguments(main_thread, sharing);
        arguments.extend(stop_options.iter().chain(&control::OPTIONS).map(Into::into));
        if let Start::Resumes(state) = start {
            arguments.extend(["-incoming".into(), format!("exec:cat {state}").into()]);
        }
        let mut command = self
            .command(qemu, &arguments)
            .map_err(|error| ControlError::Io(io::Error::other(error)))?;
        QemuProcess::start(&mut command, deadline)
    }

    /// Starts QEMU with the guest's console on the terminal, and waits until QEMU ends. The user
    /// can end QEMU with Ctrl-A X.
    ///
    /// # Errors
    /// Fails as [`Boot::run`] does.
    pub fn run_interactively(&self, qemu: &Qemu) -> Result<ExitStatus, QemuError> {
        let mut command = Command::new(qemu.program);
        command
            .args(self.common_arguments(MainThread::Free))
            .args(["-serial", "mon:stdio"])
            .current_dir(self.folder);
        let status = kill_with_parent(&mut command).status();
        status.map_err(|error| QemuError::Broken {
            program: qemu.program.to_owned(),
            message: error.to_string(),
        })
    }

    /// Makes QEMU's log and the shared memory in the folder, and returns the command that starts
    /// QEMU there.
    fn command(&self, qemu: &Qemu, arguments: &[std::ffi::OsString]) -> Result<Command, QemuError> {
        let shared = self.folder.join(SHARED_NAME);
        let made = File::create(&shared)
            .and_then(|file| file.set_len(u64::from(self.machine.shared_mib) << 20));
        made.map_err(|error| QemuError::File {
            path: shared,
            error,
        })?;
        let log = self.folder.join(QEMU_LOG_NAME);
        let log = File::create(&log).map_err(|error| QemuError::File { path: log, error })?;
        let mut command = Command::new(qemu.program);
        command.args(arguments).current_dir(self.folder).stderr(log);
        Ok(command)
    }

    fn arguments(&self, main_thread: MainThread, sharing: &str) -> Vec<std::ffi::OsString> {
        let mut arguments = self.common_arguments(main_thread);
        arguments.extend(["-serial".into(), format!("file:{CONSOLE_NAME}").into()]);
        let size = self.machine.shared_mib;
        let memory =
            format!("memory-backend-file,id=shared,share=on,mem-path={SHARED_NAME},size={size}M");
        arguments.extend([
            "-object".into(),
            memory.into(),
            "-device".into(),
            format!("ivshmem-plain,memdev=shared{sharing}").into(),
        ]);
        arguments
    }

    fn common_arguments(&self, main_thread: MainThread) -> Vec<std::ffi::OsString> {
        let mut arguments: Vec<std::ffi::OsString> = self
            .machine
            .options(main_thread)
            .into_iter()
            .map(Into::into)
            .collect();
        arguments.extend([
            "-kernel".into(),
            self.kernel.into(),
            "-initrd".into(),
            INITRAMFS_NAME.into(),
        ]);
        arguments.extend(["-append".into(), self.command_line.into()]);
        let task = match self.plugin {
            Plugin::None => return arguments,
            Plugin::Watch => format!("known={KNOWN_NAME},out={SEEN_NAME}"),
            Plugin::StopAfter(time) => format!("stop={}", time.get()),
        };
        arguments.extend(["-plugin".into(), format!("./{LIBRARY_NAME},{task}").into()]);
        arguments
    }
}

/// Waits until the child has ended; at the time limit, kills the child, but no other process.
fn wait(mut child: Child, limit: Duration) -> io::Result<BootEnd> {
    // The interval is short compared with a boot of several seconds, and polling is cheap.
    const LOOK_EVERY: Duration = Duration::from_millis(20);
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(BootEnd::Exited(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(BootEnd::WallLimit);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_does_not_end_is_ended_at_the_limit() {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        assert_eq!(
            wait(child, Duration::from_millis(50)).unwrap(),
            BootEnd::WallLimit
        );
        let child = Command::new("true").spawn().unwrap();
        assert!(
            matches!(wait(child, Duration::from_secs(60)).unwrap(), BootEnd::Exited(status) if status.success())
        );
    }

    #[test]
    fn missing_qemu_is_named_with_its_package() {
        let error = QemuError::Missing {
            program: "qemu-system-aarch64",
            packages: Architecture::Arm64.qemu_packages(),
        };
        assert!(error.to_string().contains("qemu-system-arm"));
    }
}
