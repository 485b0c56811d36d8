//! `fs`: stresses a file system with short-lived sparse files (williams2002: FS).

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use tardy_run::parameter::Parameter;
use tardy_sys::private_folder;

use super::Unsupported;
use super::allowance::{self, Allowance};
use super::backing::Backing;
use super::info::{ErrorContext, Job, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::{Resolution, Resource};
use super::scratch;
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "fs",
    does: "makes files with holes, truncates and extends them, renames them over each other and \
           unlinks them",
    effect: "the file system runs long code paths: block maps, journals, directory locks, pages \
             freed in bulk",
    source: "williams2002",
    parameters: &[
        Parameter::bytes(
            "size",
            "bytes of each file, most of which are holes",
            "4MiB",
            64 << 10,
            1 << 40,
        ),
        Parameter::bytes(
            "block",
            "bytes of one write; the load writes one in sixteen blocks",
            "4KiB",
            512,
            1 << 20,
        ),
        Parameter::count("files", "number of files at a time", "8", 1, 1000),
        Parameter::path("folder", "folder to work in, instead of the scratch folder"),
        allowance::RATE,
    ],
    can_do_harm: false,
    placement: Placement::EachCpu,
    uses_disk: true,
    rights: Rights::Nobody {
        keeps: &[],
        opens: "its scratch folder",
    },
    resolve,
    run: Run::Prepared(prepare),
};

/// One block out of this many is written; the others are holes.
const HOLE_RATIO: u64 = 16;

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let workers = resolution.workers();
    let mut host = resolution.host.clone();
    if let Some(folder) = resolution.plan.parameters.path("folder") {
        if !folder.is_dir() || !folder.is_absolute() {
            return Err(Unsupported::new(
                format!("folder {}", folder.display()),
                "with fs:folder=..., give the absolute path of an existing folder",
            ));
        }
        host.scratch = folder.to_owned();
        resolution.share.disk = super::bounds::Bounds::of(&host).disk;
    }
    let files = resolution.plan.parameters.number("files");
    // A sixteenth of each file is written. Another sixteenth is reserved for the overhead of the
    // file system.
    resolution.share.disk = resolution.share.disk.saturating_mul(HOLE_RATIO / 2);
    let size = resolution.fit("size", files, Resource::Disk)?;
    resolution.plan.budget.disk = size / (HOLE_RATIO / 2) * files * workers;
    resolution.plan.budget.memory = resolution.plan.parameters.number("block") * workers;
    resolution.plan.budget.processes = workers;
    let backing = Backing::of(&host.scratch, &host);
    allowance::declare(resolution, &backing);
    resolution.take_scratch_folder_in(&host.scratch);
    Ok(())
}

fn prepare(worker: &mut Worker) -> Result<Job, WorkError> {
    scratch::enter_own_folder(worker)?;
    Ok(Box::new(run))
}

/// Works in the current folder, because the user `nobody` may lack access to the path that leads to
/// it.
fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let folder = Path::new(".");
    let block = vec![0x5a; worker.number("block") as usize];
    let (size, files) = (worker.number("size"), worker.number("files"));
    let mut allowance = Allowance::new(worker);
    let mut round = 0_u64;
    while worker.go_on() {
        scratch::check_floor_of(folder, size / HOLE_RATIO * 2)?;
        for index in 0..files {
            if !worker.go_on() {
                break;
            }
            if file_life(worker, &mut allowance, folder, (index, size, round), &block).is_err() {
                worker.failed();
            }
        }
        round += 1;
    }
    empty(folder).doing("empty the scratch folder")
}

/// Removes the files in `folder`. The folder itself belongs to root, and the guardian removes it.
fn empty(folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        std::fs::remove_file(entry?.path())?;
    }
    Ok(())
}

/// Runs through the life of one file: writes it with holes, truncates and extends it, and renames
/// it over the file of the previous round. One file in three is then unlinked while open.
fn file_life(
    worker: &mut Worker,
    allowance: &mut Allowance,
    folder: &Path,
    (index, size, round): (u64, u64, u64),
    block: &[u8],
) -> std::io::Result<()> {
    let (fresh, kept) = (
        folder.join(format!("fresh-{index}")),
        folder.join(format!("kept-{index}")),
    );
    let mut file = private_folder::create_file(&fresh)?;
    worker.did(1, 0);
    write_with_holes(worker, allowance, &mut file, size, block)?;
    file.set_len(size / 2)?;
    file.set_len(size)?;
    worker.did(2, 0);
    if allowance.take(block.len() as u64) {
        file.seek(SeekFrom::Start(size / 3))?;
        file.write_all(block)?;
        worker.did(1, block.len() as u64);
    }
    std::fs::rename(&fresh, &kept)?;
    worker.did(1, 0);
    if (index + round).is_multiple_of(3) {
        std::fs::remove_file(&kept)?;
        file.set_len(0)?;
        worker.did(2, 0);
    }
    Ok(())
}

/// Writes every 16th block ([`HOLE_RATIO`]) until the file ends, the allowance is used up or the
/// load must stop.
fn write_with_holes(
    worker: &mut Worker,
    allowance: &mut Allowance,
    file: &mut File,
    size: u64,
    block: &[u8],
) -> std::io::Result<()> {
    let step = block.len() as u64 * HOLE_RATIO;
    let mut offset = 0;
    while offset + block.len() as u64 <= size
        && worker.go_on()
        && allowance.take(block.len() as u64)
    {
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(block)?;
        worker.did(1, block.len() as u64);
        offset += step;
    }
    Ok(())
}
