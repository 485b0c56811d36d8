//! `io`: large writes and reads (abeni2002, section 4.2).

use std::fs::File;
use std::io::{Read, Seek, Write};

use tardy_run::parameter::Parameter;

use super::info::{Doing, LoadInfo, Placement, WorkError};
use super::plan::{Absent, Resolution, Resource};
use super::scratch;
use super::worker::Worker;

/// The load.
pub const INFO: LoadInfo = LoadInfo {
    name: "io",
    does: "reads zeros, writes them to a file, reads them back, truncates it; in large blocks, over and over",
    hurts: "long copies between user space, kernel and device; nine tenths of its time is in the kernel, and truncation frees pages in bulk",
    source: "abeni2002",
    parameters: &[
        Parameter::bytes("size", "bytes of each worker's file", "64MiB", 64 << 10, 1 << 40),
        Parameter::bytes("block", "bytes of one read or write call", "4MiB", 512, 1 << 30),
        Parameter::path("folder", "folder whose file system the file is on; without it, memory (tmpfs)"),
    ],
    by_name_only: false,
    placement: Placement::EachCpu,
    uses_disk: true,
    resolve,
    run,
};

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Absent> {
    let workers = resolution.workers();
    let size = if let Some(folder) = resolution.plan.parameters.path("folder").map(ToOwned::to_owned) {
        if !folder.is_dir() {
            return Err(Absent::new(format!("folder {}", folder.display()), "give a folder that exists with io:folder=..."));
        }
        let room = resolution.surroundings.room(&folder).map_or(0, |room| room.free.saturating_sub(super::bounds::disk_floor(room.total)));
        resolution.share.disk = resolution.share.disk.min(room);
        let size = resolution.fit("size", 1, Resource::Disk)?;
        resolution.plan.budget.disk = size * workers;
        size
    } else {
        // The block counts twice in the worst case: the file may be one block long.
        let size = resolution.fit("size", 2, Resource::Memory)?;
        resolution.plan.budget.memory = size * workers;
        size
    };
    if resolution.plan.parameters.number("block") > size {
        resolution.plan.parameters.insert("block".to_owned(), tardy_run::parameter::Value::Bytes(size));
    }
    resolution.plan.budget.memory += resolution.plan.parameters.number("block") * workers;
    resolution.plan.budget.processes = workers;
    Ok(())
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let size = worker.number("size");
    let folder = worker.plan.load.parameters.path("folder").map(ToOwned::to_owned);
    let mut file = match &folder {
        Some(folder) => scratch::file(folder),
        None => tardy_sys::memory_file::create("tardy-io"),
    }
    .doing("create the scratch file")?;
    let mut zero = File::open("/dev/zero").doing("open /dev/zero")?;
    let mut block = vec![0; worker.number("block") as usize];
    while worker.go_on() {
        if let Some(folder) = &folder {
            scratch::check_floor(folder, size)?;
        }
        cycle(worker, &mut file, &mut zero, &mut block, size)?;
    }
    Ok(())
}

/// Fills the file, reads it back and empties it; stops between blocks when asked to.
fn cycle(worker: &mut Worker, file: &mut File, zero: &mut File, block: &mut [u8], size: u64) -> Result<(), WorkError> {
    let mut written = 0;
    while written < size && worker.go_on() {
        let bytes = block.len().min((size - written) as usize);
        zero.read_exact(&mut block[..bytes]).doing("read /dev/zero")?;
        if file.write_all(&block[..bytes]).is_err() {
            worker.failed();
            break;
        }
        written += bytes as u64;
        worker.did(2, 2 * bytes as u64);
    }
    file.rewind().doing("rewind the scratch file")?;
    let mut read = 0;
    while read < written && worker.go_on() {
        let bytes = file.read(block).doing("read the scratch file")?;
        if bytes == 0 {
            break;
        }
        read += bytes as u64;
        worker.did(1, bytes as u64);
    }
    file.rewind().doing("rewind the scratch file")?;
    file.set_len(0).doing("truncate the scratch file")
}
