//! Runs scripts in guests of the lab. The faults happen in the guest, so a failing clock or CPU
//! affects only the guest.
//!
//! The script is a file on the host. As a user would, this module calls
//! `tardy lab run --add FILE:/bin/script --program /bin/script`, which copies the script into the
//! guest and runs it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tardy_lab::architecture::Architecture;
use tardy_lab::cache::Cache;
use tardy_lab::initramfs::AddedFile;
use tardy_lab::kernel::{self, Kernel, KernelSource};
use tardy_lab::qemu::Qemu;
use xtask::failure::{Result, While};

use crate::fault::{Ground, Tally};
use crate::place::{Outcome, Place};

/// The kernel that guests boot.
pub(crate) const KERNEL: &str = "debian:6.1";
const BUSYBOX: &str = "/bin/busybox";
/// Time limit for a guest, longer than each `--wall-limit`.
const PATIENCE: Duration = Duration::from_secs(6 * 3600);

/// The first lines of every script.
const HEAD: &str = "#!/bin/busybox sh\n/bin/busybox --install -s /bin\nmkdir -p /run/out\n";

/// Runs the attempts of a fault that needs guests, or reports why no guest can boot on this
/// machine.
pub(crate) fn attempt(
    ground: &Ground,
    attempt: fn(&Ground, &mut Tally) -> Result<()>,
) -> Result<Tally> {
    let mut tally = Tally::default();
    match missing() {
        Some(missing) => tally.left_out.push(missing),
        None => attempt(ground, &mut tally)?,
    }
    Ok(tally)
}

fn missing() -> Option<String> {
    if !Path::new(BUSYBOX).exists() {
        return Some(format!("{BUSYBOX} is missing: install busybox-static"));
    }
    Qemu::find(Architecture::Amd64)
        .err()
        .map(|error| error.to_string())
        .or_else(|| kernel().err().map(|failure| failure.to_string()))
}

/// Returns the kernel for the guests; fetches it if it is not in the cache.
pub(crate) fn kernel() -> Result<Kernel> {
    let source: KernelSource = KERNEL.parse().while_doing(|| format!("reading {KERNEL}"))?;
    kernel::resolve(&source, Architecture::Amd64, &cache()?, false, &|_| ())
        .while_doing(|| format!("looking for {KERNEL}"))
}

/// Returns the cache that contains kernels and their modules.
pub(crate) fn cache() -> Result<Cache> {
    Cache::of_user().while_doing(|| "opening the lab's cache".to_owned())
}

/// The result of a script in a guest.
#[derive(Debug)]
pub(crate) struct ScriptResult {
    pub(crate) outcome: Outcome,
    /// The files that the script left below /run/out.
    pub(crate) folder: PathBuf,
}

impl ScriptResult {
    /// Returns a file that the script left, as text; empty if it does not exist.
    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.join(name))
            .unwrap_or_default()
            .trim()
            .to_owned()
    }

    /// Returns an error if the guest did not complete its script.
    pub(crate) fn failure(&self) -> Option<String> {
        (self.outcome.code != Some(0)).then(|| {
            format!(
                "the guest's lab: {}: {}",
                self.outcome.ending(),
                self.outcome.said.trim()
            )
        })
    }
}

/// Runs `script` in a guest of the lab. The guest's clock counts the executed instructions. `words`
/// are additional arguments of `tardy lab run`.
pub(crate) fn run_script(place: &Place, script: &str, words: &str) -> Result<ScriptResult> {
    write_script(&place.path("script"), script)?;
    let files = "--add /bin/busybox:/bin/busybox --add script:/bin/script --program /bin/script";
    let line = format!("lab run --kernel {KERNEL} --out guests {words} {files}");
    let outcome = place
        .start(place.tardy_command(&line))?
        .end(place, PATIENCE)?;
    Ok(ScriptResult {
        outcome,
        folder: place.path("guests/6.1/replica-000"),
    })
}

fn write_script(path: &Path, script: &str) -> Result<()> {
    let doing = || format!("writing {}", path.display());
    std::fs::write(path, format!("{HEAD}{script}")).while_doing(doing)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).while_doing(doing)
}

/// Returns `script` and the files that it needs, for a guest that is not booted by `tardy lab run`.
pub(crate) fn script_files(place: &Place, script: &str) -> Result<Vec<AddedFile>> {
    let source = place.path("script");
    write_script(&source, script)?;
    let file = |source: PathBuf, path: &str| AddedFile {
        source,
        path: path.to_owned(),
        executable: true,
    };
    Ok(vec![
        file(BUSYBOX.into(), "bin/busybox"),
        file(source, "bin/script"),
    ])
}
