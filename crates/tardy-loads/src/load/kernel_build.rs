//! `kernel-build`: runs make for a kernel tree (koolwal2009, mckenney2009). The objects go into a
//! separate folder, and nothing is written into the tree.

use std::path::{Path, PathBuf};

use tardy_machine::kernel_tree::{
    self, ARCHIVE_PROGRAMS, JOB_BYTES, MORE_PACKAGES, OBJECTS_BYTES, PROGRAMS, TREE_BYTES, find,
};
use tardy_run::parameter::{Kind, Parameter, Value};
use tardy_sys::capability;

use super::Unsupported;
use super::allowance::{self, COMPILER_WRITES_A_CPU};
use super::info::{ErrorContext, Job, LoadInfo, Placement, Rights, Run, WorkError};
use super::program::{self, Outcome};
use super::resolution::Resolution;
use super::worker::{Worker, WorkerPlan};
use crate::children::tied_command;

pub const INFO: LoadInfo = LoadInfo {
    name: "kernel-build",
    does: "configures and builds a kernel with make -jN, cleans the tree, and builds the kernel \
           again",
    effect: "many processes start, map, compute, write files and end, as in everyday development",
    source: "koolwal2009, mckenney2009",
    parameters: &[
        Parameter::path(
            "tree",
            "a clean kernel tree, or an archive of such a tree; if unset, /usr/src/linux-source-*",
        ),
        Parameter {
            name: "jobs",
            means: "number of parallel jobs (make -j); if unset, twice the number of load CPUs",
            kind: Kind::Count {
                min: 1,
                max: 10_000,
            },
            default: None,
            needed: false,
        },
        Parameter::choice(
            "config",
            "target of make",
            &[
                "defconfig",
                "tinyconfig",
                "allnoconfig",
                "allmodconfig",
                "allyesconfig",
            ],
        ),
    ],
    can_do_harm: false,
    placement: Placement::Once,
    uses_disk: true,
    rights: Rights::Confined {
        keeps: &[
            capability::CHOWN,
            capability::DAC_OVERRIDE,
            capability::FOWNER,
        ],
        writes: "in its scratch folder, and to /dev/null",
        paths,
    },
    resolve,
    run: Run::Prepared(prepare),
};

/// The file that gets the output of make and its shell commands.
const NULL: &str = "/dev/null";

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    for (program, package) in PROGRAMS {
        resolution.needs_program(program, package)?;
    }
    let tree = find(
        resolution.plan.parameters.path("tree"),
        "kernel-build:tree=...",
    )?;
    let archive = tree.is_file();
    if archive {
        for (program, package) in ARCHIVE_PROGRAMS {
            resolution.needs_program(program, package)?;
        }
    }
    let disk = OBJECTS_BYTES + if archive { TREE_BYTES } else { 0 };
    if disk > resolution.share.disk {
        let missing = format!(
            "{} of disk space for objects",
            tardy_core::bytes::format_bytes(disk)
        );
        return Err(Unsupported::new(
            missing,
            "set TMPDIR to a folder on a larger file system, or run fewer loads at a time",
        ));
    }
    let cpus = resolution.plan.cpus.len() as u64;
    resolution
        .plan
        .parameters
        .entry("jobs".to_owned())
        .or_insert(Value::Count(2 * cpus));
    let limit = (resolution.share.memory / JOB_BYTES).min(resolution.share.processes / 4);
    let jobs = resolution.fit_within("jobs", limit, "memory")?;
    resolution
        .plan
        .parameters
        .insert("tree".to_owned(), Value::Path(tree));
    resolution.plan.budget.disk = disk;
    resolution.plan.budget.memory = jobs * JOB_BYTES;
    resolution.plan.budget.processes = 4 * jobs;
    allowance::estimate(resolution, COMPILER_WRITES_A_CPU);
    resolution.take_scratch_folder();
    Ok(())
}

fn paths(plan: &WorkerPlan) -> Vec<PathBuf> {
    let scratch = plan.load.scratch.clone();
    scratch.into_iter().chain([NULL.into()]).collect()
}

fn prepare(worker: &mut Worker) -> Result<Job, WorkError> {
    let scratch = super::scratch::own_folder(worker)?;
    Ok(Box::new(move |worker| run(worker, &scratch)))
}

fn run(worker: &mut Worker, scratch: &Path) -> Result<(), WorkError> {
    let given = worker
        .plan
        .load
        .parameters
        .path("tree")
        .map(ToOwned::to_owned)
        .unwrap_or_default();
    let result = (|| {
        let Some(tree) = unpack(worker, &given, scratch)? else {
            return Ok(());
        };
        build_on(worker, &tree, scratch)
    })();
    std::fs::remove_dir_all(scratch).doing("remove the scratch folder")?;
    result
}

fn build_on(worker: &mut Worker, tree: &Path, scratch: &Path) -> Result<(), WorkError> {
    let objects = scratch.join("objects");
    std::fs::create_dir_all(&objects).doing("make the folder for objects")?;
    let config = worker.plan.load.parameters.text("config").to_owned();
    let jobs = format!("-j{}", worker.number("jobs"));
    if !make(worker, tree, &objects, &[&config])? {
        return Ok(());
    }
    while worker.go_on() {
        super::scratch::check_floor_of(&objects, OBJECTS_BYTES / 2)?;
        if !make(worker, tree, &objects, &[&jobs])? || !make(worker, tree, &objects, &["clean"])? {
            break;
        }
    }
    Ok(())
}

/// Runs make. Counts each line that make prints as one step of the build. Returns false when the
/// load was asked to stop.
fn make(
    worker: &mut Worker,
    tree: &Path,
    objects: &Path,
    arguments: &[&str],
) -> Result<bool, WorkError> {
    let mut command = kernel_tree::make(tied_command("make".as_ref()), tree, objects, arguments);
    // Compilers write their temporary files into this folder.
    command.env("TMPDIR", objects);
    match program::run(worker, &mut command, |worker, _| worker.did(1, 0))? {
        Outcome::Stopped => Ok(false),
        Outcome::Ended(status, _) if status.success() => Ok(true),
        Outcome::Ended(status, error) => Err(WorkError::Bound(format!(
            "make {} failed ({status}): {error}; {MORE_PACKAGES}",
            arguments.join(" ")
        ))),
    }
}

/// Returns the folder of the kernel tree: the given folder, or the one into which the given archive
/// is unpacked. Returns `None` if the load was asked to stop meanwhile.
fn unpack(worker: &mut Worker, given: &Path, scratch: &Path) -> Result<Option<PathBuf>, WorkError> {
    if given.is_dir() {
        return Ok(Some(given.to_owned()));
    }
    super::scratch::check_floor_of(scratch, TREE_BYTES)?;
    let tree = scratch.join("tree");
    std::fs::create_dir_all(&tree).doing("make the folder for the tree")?;
    let mut command = kernel_tree::unpack(tied_command("tar".as_ref()), given, &tree);
    match program::run(worker, &mut command, |_, _| ())? {
        Outcome::Stopped => Ok(None),
        Outcome::Ended(status, _) if status.success() => Ok(Some(tree)),
        Outcome::Ended(status, error) => Err(WorkError::Bound(format!(
            "{} cannot be unpacked ({status}): {error}; give an archive that tar can read",
            given.display()
        ))),
    }
}
