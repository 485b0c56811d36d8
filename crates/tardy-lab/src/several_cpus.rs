//! A guest with several CPUs, which the lab's own guests have not. Its clock is the host's, and its CPUs take turns on those of the host: no time that is
//! measured in it means anything. It shows that a machine of many CPUs is measured, and that every due time is accounted for.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tardy_core::units::Nanos;
use tardy_machine::journal::Scratch;
use tardy_sys::child::kill_with_parent;

use crate::guest_job::{GuestJob, GuestReport, MARK, Program, Task, VERSION};
use crate::{cpio, exchange, initramfs};

/// Memory through which the result comes out.
const SHARED_MIB: u32 = 16;

/// What is booted.
#[derive(Debug, Clone, Copy)]
pub struct Guest<'a> {
    /// How many CPUs it has.
    pub cpus: u32,
    /// Its memory, in MiB.
    pub memory_mib: u32,
    /// The kernel's image.
    pub kernel: &'a Path,
    /// Words for the kernel's command line, besides those that every guest has.
    pub words: &'a str,
    /// The tool, a static binary for x86_64.
    pub tardy: &'a Path,
    /// How long the tool may take in the guest; the guest may take twice that with its boot.
    pub time_limit: Nanos,
}

/// What came out of it.
#[derive(Debug)]
pub struct GuestResult {
    /// How the tool ended.
    pub report: GuestReport,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl GuestResult {
    /// A file that the tool left below the guest's folder for results, as text; empty where there is none. `stdout.log` and `stderr.log` are what it said.
    #[must_use]
    pub fn text(&self, path: &str) -> String {
        let found = self.files.iter().find(|(name, _)| name == Path::new(path));
        found.map(|(_, content)| String::from_utf8_lossy(content).into_owned()).unwrap_or_default()
    }
}

/// Why nothing came out.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// A file of the guest cannot be made or read, or QEMU cannot be started.
    #[error("the guest's files: {0}")]
    Files(#[from] io::Error),
    /// It ended without a result, or was ended at the limit; with its console.
    #[error("the guest left nothing ({problem}); its console: {console}")]
    Nothing {
        /// What is wrong with the result.
        problem: String,
        /// What the kernel printed.
        console: String,
    },
}

/// Boots the guest and runs the tool there with `arguments`; results belong below `/run`.
///
/// # Errors
/// [`GuestError`].
pub fn run(guest: Guest<'_>, arguments: &[&str]) -> Result<GuestResult, GuestError> {
    let folder = Scratch::make(&std::env::temp_dir(), "guest")?;
    let path = |name: &str| folder.path().join(name);
    let program = Program { path: None, arguments: arguments.iter().map(|&argument| argument.to_owned()).collect() };
    let job = GuestJob {
        version: VERSION,
        task: Task::Run(program),
        settle: Nanos::ZERO,
        time_limit: guest.time_limit,
        modules: Vec::new(),
        loads: Vec::new(),
        injection: None,
        hand_out_symbols: false,
    };
    initramfs::write(BufWriter::new(File::create(path("initramfs"))?), guest.tardy, &job, &[])?;
    File::create(path("shared"))?.set_len(u64::from(SHARED_MIB) << 20)?;
    let mut child = kill_with_parent(&mut command(guest, folder.path())).spawn()?;
    let deadline = Instant::now() + Duration::from_nanos(2 * guest.time_limit.get().unsigned_abs());
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let memory = std::fs::read(path("shared"))?;
    let nothing = |problem: String| GuestError::Nothing { problem, console: std::fs::read_to_string(path("console")).unwrap_or_default() };
    let archive = exchange::receive(&memory).map_err(|error| nothing(error.to_string()))?;
    let entries = cpio::read(archive).map_err(|error| nothing(error.to_string()))?;
    let files: Vec<(PathBuf, Vec<u8>)> = entries.into_iter().filter_map(|entry| Some((entry.path, entry.content?.to_vec()))).collect();
    let report = files.iter().find(|(name, _)| name == Path::new("guest.json")).map(|(_, content)| content.as_slice()).unwrap_or_default();
    Ok(GuestResult { report: serde_json::from_slice(report).map_err(|error| nothing(format!("guest.json: {error}")))?, files })
}

fn command(guest: Guest<'_>, folder: &Path) -> Command {
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-accel", "tcg", "-m", &guest.memory_mib.to_string(), "-smp", &guest.cpus.to_string()]);
    qemu.args(["-nodefaults", "-nic", "none", "-display", "none", "-monitor", "none", "-no-reboot", "-serial", "file:console"]);
    qemu.arg("-object").arg(format!("memory-backend-file,id=shared,share=on,mem-path=shared,size={SHARED_MIB}M"));
    qemu.args(["-device", "ivshmem-plain,memdev=shared", "-initrd", "initramfs"]).arg("-kernel").arg(guest.kernel);
    qemu.arg("-append").arg(format!("console=ttyS0 quiet panic=-1 oops=panic cryptomgr.notests {MARK} {}", guest.words));
    qemu.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    qemu
}
