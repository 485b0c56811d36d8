//! A guest that has several CPUs and, if requested, a disk. The lab's ordinary guests have one CPU
//! and no disk.
//!
//! The guest uses the host's clock, and the guest's CPUs share the CPUs of the host, so times
//! measured in the guest are meaningless. Tests use this guest to check that tardy can measure a
//! machine with several CPUs, and that it accounts for every due time. They also check what happens
//! to a run if the machine fails.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tardy_core::units::Nanos;
use tardy_machine::journal::Scratch;
use tardy_sys::child::kill_with_parent;

use crate::guest_job::{GuestJob, GuestReport, MARK, Program, Task, VERSION};
use crate::initramfs::AddedFile;
use crate::{cpio, diagnosis, exchange, initramfs};

/// Size in MiB of the memory through which the guest exports its result to the host.
const SHARED_MIB: u32 = 16;

/// The guest to boot.
#[derive(Debug, Clone, Copy)]
pub struct Guest<'a> {
    /// Number of CPUs.
    pub cpus: u32,
    /// The guest's memory, in MiB.
    pub memory_mib: u32,
    /// The kernel's image.
    pub kernel: &'a Path,
    /// Words for the kernel's command line, in addition to those of every guest.
    pub words: &'a str,
    /// The tool, a static binary for x86_64.
    pub tardy: &'a Path,
    /// Time limit of the program that runs in the guest. The whole guest may take twice as long,
    /// including its boot.
    pub time_limit: Nanos,
    /// What the guest gets besides the tool.
    pub equipment: Equipment<'a>,
}

/// What a guest gets besides the tool. [`Equipment::default`] is empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Equipment<'a> {
    /// The program that runs instead of the tool.
    pub program: Option<&'a str>,
    /// Files of the host that are added to the guest.
    pub files: &'a [AddedFile],
    /// Files of modules that are loaded, in this order, before the program starts.
    pub modules: &'a [PathBuf],
    /// The file of the guest's disk, which is /dev/vda if the modules include a driver for it. What
    /// the guest writes to the disk stays in the file after the guest's end.
    pub disk: Option<&'a Path>,
}

/// The result of the guest.
#[derive(Debug)]
pub struct GuestResult {
    /// The guest's report.
    pub report: GuestReport,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl GuestResult {
    /// Returns a file that the tool left below the guest's folder for results, as text; empty if
    /// there is no such file. `stdout.log` and `stderr.log` contain what the tool printed.
    #[must_use]
    pub fn text(&self, path: &str) -> String {
        let found = self.files.iter().find(|(name, _)| name == Path::new(path));
        found
            .map(|(_, content)| String::from_utf8_lossy(content).into_owned())
            .unwrap_or_default()
    }

    /// Returns all files below a folder of the results, by their paths in that folder.
    pub fn files_below<'a>(
        &'a self,
        folder: &'a str,
    ) -> impl Iterator<Item = (&'a Path, &'a [u8])> {
        self.files.iter().filter_map(move |(path, content)| {
            Some((path.strip_prefix(folder).ok()?, content.as_slice()))
        })
    }
}

/// Why the guest gave no result.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// A file of the guest cannot be made or read, or QEMU cannot be started.
    #[error("the guest's files: {0}")]
    Files(#[from] io::Error),
    /// The guest ended without a result, or the host ended it at the time limit.
    #[error("the guest left no result ({problem}); its console output: {console}")]
    Nothing {
        /// Why no result can be read from the shared memory.
        problem: String,
        /// The output of the guest's console.
        console: String,
    },
}

/// Boots the guest, in which the tool runs with `arguments`, and waits for the result. The tool
/// must write its results below `/run`.
///
/// # Errors
/// Returns [`GuestError`].
pub fn run(guest: Guest<'_>, arguments: &[&str]) -> Result<GuestResult, GuestError> {
    start(guest, arguments)?.finish()
}

/// Boots the guest, in which the tool runs with `arguments`, and does not wait for the result.
///
/// # Errors
/// Returns [`GuestError::Files`].
pub fn start(guest: Guest<'_>, arguments: &[&str]) -> Result<GuestProcess, GuestError> {
    let folder = Scratch::make(&std::env::temp_dir(), "guest")?;
    let path = |name: &str| folder.path().join(name);
    let Equipment {
        program,
        files,
        modules,
        ..
    } = guest.equipment;
    let arguments = arguments
        .iter()
        .map(|&argument| argument.to_owned())
        .collect();
    let program = Program {
        path: program.map(str::to_owned),
        arguments,
    };
    let modules: Vec<AddedFile> = modules.iter().map(|module| module_file(module)).collect();
    let job = GuestJob {
        version: VERSION,
        task: Task::Run(program),
        settle: Nanos::ZERO,
        time_limit: guest.time_limit,
        late_modules: Vec::new(),
        modules: modules
            .iter()
            .map(|module| format!("/{}", module.path))
            .collect(),
        loads: Vec::new(),
        injection: None,
        hand_out_symbols: false,
        scenario: None,
    };
    let added = [files, &modules].concat();
    initramfs::write(
        BufWriter::new(File::create(path("initramfs"))?),
        guest.tardy,
        &job,
        &added,
    )?;
    File::create(path("shared"))?.set_len(u64::from(SHARED_MIB) << 20)?;
    let child = kill_with_parent(&mut command(guest, folder.path())).spawn()?;
    let deadline = Instant::now() + Duration::from_nanos(2 * guest.time_limit.get().unsigned_abs());
    Ok(GuestProcess {
        child,
        folder,
        deadline,
    })
}

/// Returns a module as a file that is added to the guest.
fn module_file(source: &Path) -> AddedFile {
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    AddedFile {
        source: source.to_owned(),
        path: format!("lib/modules/{name}"),
        executable: false,
    }
}

/// A running guest; dropping it ends the guest.
#[derive(Debug)]
pub struct GuestProcess {
    child: Child,
    folder: Scratch,
    deadline: Instant,
}

impl GuestProcess {
    /// Returns the text that the guest has written to its console so far.
    #[must_use]
    pub fn console(&self) -> String {
        diagnosis::read_console(&self.folder.path().join("console"))
    }

    /// Returns whether the guest still runs.
    ///
    /// # Errors
    /// Returns the errors of waitpid(2).
    pub fn is_running(&mut self) -> io::Result<bool> {
        self.child.try_wait().map(|status| status.is_none())
    }

    /// Ends the guest at once, as a power failure does. The file of the guest's disk keeps its
    /// content.
    ///
    /// # Errors
    /// Returns the errors of kill(2) and waitpid(2).
    pub fn cut_power(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Waits until the guest has switched its machine off. Ends the guest at its time limit.
    ///
    /// # Errors
    /// Returns [`GuestError`].
    pub fn finish(mut self) -> Result<GuestResult, GuestError> {
        while self.is_running()? {
            if Instant::now() > self.deadline {
                self.child.kill()?;
                self.child.wait()?;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let memory = std::fs::read(self.folder.path().join("shared"))?;
        let nothing = |problem: String| GuestError::Nothing {
            problem,
            console: self.console(),
        };
        let archive = exchange::receive(&memory).map_err(|error| nothing(error.to_string()))?;
        let entries = cpio::read(archive).map_err(|error| nothing(error.to_string()))?;
        let files: Vec<(PathBuf, Vec<u8>)> = entries
            .into_iter()
            .filter_map(|entry| Some((entry.path, entry.content?.to_vec())))
            .collect();
        let report = files
            .iter()
            .find(|(name, _)| name == Path::new("guest.json"))
            .map(|(_, content)| content.as_slice())
            .unwrap_or_default();
        Ok(GuestResult {
            report: serde_json::from_slice(report)
                .map_err(|error| nothing(format!("guest.json: {error}")))?,
            files,
        })
    }
}

impl Drop for GuestProcess {
    fn drop(&mut self) {
        // The guest may have ended already. Errors are ignored, because nobody could handle them.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(guest: Guest<'_>, folder: &Path) -> Command {
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args([
        "-accel",
        "tcg",
        "-m",
        &guest.memory_mib.to_string(),
        "-smp",
        &guest.cpus.to_string(),
    ]);
    qemu.args([
        "-nodefaults",
        "-nic",
        "none",
        "-display",
        "none",
        "-monitor",
        "none",
        "-no-reboot",
        "-serial",
        "file:console",
    ]);
    qemu.arg("-object").arg(format!(
        "memory-backend-file,id=shared,share=on,mem-path=shared,size={SHARED_MIB}M"
    ));
    qemu.args([
        "-device",
        "ivshmem-plain,memdev=shared",
        "-initrd",
        "initramfs",
    ])
    .arg("-kernel")
    .arg(guest.kernel);
    qemu.arg("-append").arg(format!(
        "console=ttyS0 quiet panic=-1 oops=panic cryptomgr.notests no_timer_check {MARK} {}",
        guest.words
    ));
    if let Some(disk) = guest.equipment.disk {
        // In QEMU's options, a comma starts the next option, and a doubled comma stands for a
        // comma.
        let file = disk.display().to_string().replace(',', ",,");
        qemu.arg("-drive")
            .arg(format!("if=virtio,format=raw,file={file}"));
    }
    qemu.current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    qemu
}
