//! `du`: walks a file system (koolwal2009: repeated du of /).

use std::fs::DirEntry;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tardy_run::parameter::{Kind, Parameter};
use tardy_sys::capability;

use super::Unsupported;
use super::info::{ErrorContext, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::Resolution;
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "du",
    does: "repeatedly reads the size of every file below a folder, without leaving the folder's \
           file system",
    effect: "searches the directory cache under its locks and reads from disk; the kernel reclaims \
             the cached memory",
    source: "koolwal2009",
    parameters: &[Parameter {
        name: "folder",
        means: "folder to start in",
        kind: Kind::Path,
        default: Some("/"),
        needed: false,
    }],
    can_do_harm: false,
    placement: Placement::EachCpu,
    uses_disk: false,
    rights: Rights::Nobody {
        keeps: &[capability::DAC_READ_SEARCH],
        opens: "",
    },
    resolve,
    run: Run::Plain(run),
};

/// Maximum number of folders that wait to be read. With names of 100 bytes, this many take 10 MB;
/// known trees have fewer folders.
const WAITING_MAX: usize = 100_000;
const NAME_BYTES: u64 = 100;

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let folder = resolution
        .plan
        .parameters
        .path("folder")
        .unwrap_or(Path::new("/"));
    if !folder.is_dir() {
        return Err(Unsupported::new(
            format!("folder {}", folder.display()),
            "with du:folder=..., give an existing folder",
        ));
    }
    let workers = resolution.workers();
    resolution.plan.budget.memory =
        (workers * WAITING_MAX as u64 * NAME_BYTES).min(resolution.share.memory);
    resolution.plan.budget.processes = workers;
    Ok(())
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let folder = worker
        .plan
        .load
        .parameters
        .path("folder")
        .unwrap_or(Path::new("/"))
        .to_owned();
    let device = folder.symlink_metadata().doing("examine the folder")?.dev();
    let waiting_max = (worker.plan.memory / NAME_BYTES).clamp(1000, WAITING_MAX as u64) as usize;
    while worker.go_on() {
        walk(worker, folder.clone(), device, waiting_max);
    }
    Ok(())
}

/// Walks the tree below `start`. Skips unreadable entries: files come and go, and some are hidden
/// from the user.
fn walk(worker: &mut Worker, start: PathBuf, device: u64, waiting_max: usize) {
    let mut waiting = vec![start];
    while let Some(folder) = waiting.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.filter_map(Result::ok) {
            if !worker.go_on() {
                return;
            }
            if let Some(folder) = look_at(worker, &entry, device)
                && waiting.len() < waiting_max
            {
                waiting.push(folder);
            }
        }
    }
}

/// Counts the entry. Returns the entry's path if the entry is a folder in the file system `device`.
fn look_at(worker: &mut Worker, entry: &DirEntry, device: u64) -> Option<PathBuf> {
    let metadata = entry.metadata().ok()?;
    worker.did(1, 0);
    (metadata.is_dir() && metadata.dev() == device).then(|| entry.path())
}
