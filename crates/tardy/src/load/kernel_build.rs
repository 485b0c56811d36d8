//! `kernel-build`: make of a kernel tree (koolwal2009, mckenney2009), into a folder of its own: the tree is never written to.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::info::{Doing, LoadInfo, Placement, WorkError};
use super::parameter::{Kind, Parameter, Value};
use super::plan::{Absent, Resolution};
use super::program::{self, Outcome};
use super::worker::Worker;
use crate::guardian::children::tied_command;

/// The load.
pub const INFO: LoadInfo = LoadInfo {
    name: "kernel-build",
    does: "configures and builds a kernel with make -jN, cleans, and builds again",
    hurts: "many processes that start, map, compute, write files and end; the load of everyday development",
    source: "koolwal2009, mckenney2009",
    parameters: &[
        Parameter::path("tree", "a clean kernel tree, or an archive of one; unset, /usr/src/linux-source-*"),
        Parameter {
            name: "jobs",
            means: "make's -j; unset, twice the load CPUs",
            kind: Kind::Count { min: 1, max: 10_000 },
            default: None,
            needed: false,
        },
        Parameter::choice("config", "what to build", &["defconfig", "tinyconfig", "allnoconfig", "allmodconfig"]),
    ],
    by_name_only: false,
    placement: Placement::Once,
    uses_disk: true,
    resolve,
    run,
};

/// Memory of one compiler process, in bytes: gcc 12 has peaks of about 200 MiB on the kernel's largest files.
const JOB_BYTES: u64 = 256 << 20;
/// Room for the objects of x86-64's defconfig (1.5 GiB for 6.1, without debugging information), and for an unpacked tree (1.4 GiB), rounded up.
const OBJECTS_BYTES: u64 = 2 << 30;
const TREE_BYTES: u64 = 2 << 30;
/// What a build needs; the package names are Debian's.
const PROGRAMS: [(&str, &str); 6] =
    [("make", "make"), ("gcc", "gcc"), ("ld", "binutils"), ("flex", "flex"), ("bison", "bison"), ("bc", "bc")];

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Absent> {
    for (program, package) in PROGRAMS {
        resolution.needs_program(program, package)?;
    }
    let tree = match resolution.plan.path("tree") {
        Some(tree) => tree.to_owned(),
        None => packaged_source(Path::new("/usr/src")).ok_or_else(|| {
            let remedy = "install the package linux-source, or give a kernel tree with kernel-build:tree=...";
            Absent::new("a kernel's source in /usr/src", remedy)
        })?,
    };
    check_tree(&tree)?;
    let archive = tree.is_file();
    if archive {
        resolution.needs_program("tar", "tar")?;
        resolution.needs_program("xz", "xz-utils")?;
    }
    let disk = OBJECTS_BYTES + if archive { TREE_BYTES } else { 0 };
    if disk > resolution.share.disk {
        let missing = format!("disk: {} for objects", super::parameter::format_bytes(disk));
        return Err(Absent::new(missing, "set TMPDIR to a folder on a larger file system, or run fewer loads at a time"));
    }
    let cpus = resolution.plan.cpus.len() as u64;
    resolution.plan.parameters.entry("jobs".to_owned()).or_insert(Value::Count(2 * cpus));
    let limit = (resolution.share.memory / JOB_BYTES).min(resolution.share.processes / 4);
    let jobs = resolution.fit_within("jobs", limit, "memory")?;
    resolution.plan.parameters.insert("tree".to_owned(), Value::Path(tree));
    resolution.plan.budget.disk = disk;
    resolution.plan.budget.memory = jobs * JOB_BYTES;
    resolution.plan.budget.processes = 4 * jobs;
    resolution.take_scratch_folder();
    Ok(())
}

/// The newest source that the distribution's package put there, by name.
fn packaged_source(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let is_source = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("linux-source-") && (name.contains(".tar.") || path.join("Kbuild").is_file())
    };
    entries.filter(is_source).max()
}

fn check_tree(tree: &Path) -> Result<(), Absent> {
    let shown = tree.display();
    if !tree.is_absolute() || !tree.exists() {
        return Err(Absent::new(format!("kernel tree {shown}"), "give the whole path of one with kernel-build:tree=..."));
    }
    if tree.is_file() {
        return Ok(());
    }
    if !tree.join("Makefile").is_file() || !tree.join("Kconfig").is_file() {
        return Err(Absent::new(
            format!("a kernel tree in {shown}: it has no Makefile or no Kconfig"),
            "give the top folder of a kernel's source",
        ));
    }
    // The kernel's own Makefile refuses to build elsewhere from such a tree, and to clean it would be to write to it.
    if tree.join(".config").exists() || tree.join("include/config").exists() {
        return Err(Absent::new(
            format!("a clean kernel tree: {shown} has been built in"),
            "give a fresh copy of it: git worktree add, or cp and make mrproper",
        ));
    }
    Ok(())
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let scratch = super::scratch::own_folder(worker)?;
    let given = worker.plan.load.path("tree").map(ToOwned::to_owned).unwrap_or_default();
    let result = (|| {
        let Some(tree) = unpack(worker, &given, &scratch)? else { return Ok(()) };
        build_on(worker, &tree, &scratch)
    })();
    std::fs::remove_dir_all(&scratch).doing("remove the scratch folder")?;
    result
}

fn build_on(worker: &mut Worker, tree: &Path, scratch: &Path) -> Result<(), WorkError> {
    let objects = scratch.join("objects");
    std::fs::create_dir_all(&objects).doing("make the folder of objects")?;
    let config = worker.plan.load.text("config").to_owned();
    let jobs = format!("-j{}", worker.number("jobs"));
    if !make(worker, tree, &objects, &[&config])? {
        return Ok(());
    }
    while worker.go_on() {
        super::scratch::check_floor(&objects, OBJECTS_BYTES / 2)?;
        if !make(worker, tree, &objects, &[&jobs])? || !make(worker, tree, &objects, &["clean"])? {
            break;
        }
    }
    Ok(())
}

/// Runs make; each line that it prints is a step of the build. False when the load was asked to end.
fn make(worker: &mut Worker, tree: &Path, objects: &Path, arguments: &[&str]) -> Result<bool, WorkError> {
    let mut output = OsString::from("O=");
    output.push(objects);
    let mut command = tied_command("make".as_ref());
    command.arg("-C").arg(tree).arg(output).args(arguments);
    // Flags of a make that tardy itself may have been started by.
    command.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("MAKELEVEL").env("LC_ALL", "C");
    match program::run(worker, &mut command, |worker, _| worker.did(1, 0))? {
        Outcome::Stopped => Ok(false),
        Outcome::Ended(status, _) if status.success() => Ok(true),
        Outcome::Ended(status, error) => {
            let packages = "a configuration may need more packages, as libelf-dev and libssl-dev";
            Err(WorkError::Bound(format!("make {} failed ({status}): {error}; {packages}", arguments.join(" "))))
        }
    }
}

/// The tree itself, or where the archive was unpacked; none when the load was asked to end meanwhile.
fn unpack(worker: &mut Worker, given: &Path, scratch: &Path) -> Result<Option<PathBuf>, WorkError> {
    if given.is_dir() {
        return Ok(Some(given.to_owned()));
    }
    super::scratch::check_floor(scratch, TREE_BYTES)?;
    let tree = scratch.join("tree");
    std::fs::create_dir_all(&tree).doing("make the folder of the tree")?;
    let mut command = tied_command("tar".as_ref());
    command.arg("-xf").arg(given).arg("-C").arg(&tree).arg("--strip-components=1");
    match program::run(worker, &mut command, |_, _| ())? {
        Outcome::Stopped => Ok(None),
        Outcome::Ended(status, _) if status.success() => Ok(Some(tree)),
        Outcome::Ended(status, error) => {
            Err(WorkError::Bound(format!("{} cannot be unpacked ({status}): {error}; give an archive that tar can read", given.display())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_that_was_built_in_is_refused() {
        let tree = tempfile::tempdir().unwrap();
        assert!(check_tree(tree.path()).unwrap_err().missing.contains("no Makefile"));
        std::fs::write(tree.path().join("Makefile"), "").unwrap();
        std::fs::write(tree.path().join("Kconfig"), "").unwrap();
        check_tree(tree.path()).unwrap();
        std::fs::write(tree.path().join(".config"), "").unwrap();
        assert!(check_tree(tree.path()).unwrap_err().missing.contains("a clean kernel tree"));
        assert!(check_tree(Path::new("relative")).unwrap_err().remedy.contains("whole path"));
    }

    #[test]
    fn the_newest_packaged_source_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(packaged_source(folder.path()), None);
        for name in ["linux-source-5.10.tar.xz", "linux-source-6.1.tar.xz", "linux-headers-7"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(packaged_source(folder.path()), Some(folder.path().join("linux-source-6.1.tar.xz")));
    }
}
