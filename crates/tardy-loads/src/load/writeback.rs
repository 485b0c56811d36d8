//! `writeback`: writes dirty pages of the page cache to the device.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_run::parameter::Parameter;
use tardy_sys::file_pages;

use super::Unsupported;
use super::allowance::{self, Allowance};
use super::backing::Backing;
use super::device;
use super::info::{ErrorContext, Job, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::{Resolution, Resource};
use super::scratch;
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "writeback",
    does: "writes to pages all over a file, then flushes the file to the device with fsync, \
           fdatasync and sync_file_range in turn",
    effect: "the file system commits its journal, the block layer merges requests and completes \
             them in softirqs, and other writers wait meanwhile",
    source: "today",
    parameters: &[
        Parameter::bytes(
            "size",
            "bytes of each worker's file",
            "32MiB",
            64 << 10,
            1 << 40,
        ),
        Parameter::bytes("block", "bytes of one write", "16KiB", 512, 1 << 20),
        Parameter::count(
            "blocks",
            "number of writes between two flushes to the device",
            "8",
            1,
            10_000,
        ),
        allowance::RATE,
        device::FOLDER,
    ],
    can_do_harm: false,
    placement: Placement::EachCpu,
    uses_disk: true,
    rights: Rights::Nobody {
        keeps: &[],
        opens: "an unnamed file on the file system that the load uses",
    },
    resolve,
    run: Run::Prepared(prepare),
};

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let (folder, backing) = device::folder(resolution)?;
    if let Backing::Memory(kind) = &backing {
        return Err(Unsupported::new(
            format!(
                "a file system on a device ({} is on {kind})",
                folder.display()
            ),
            "put the run on a disk with --out, or give writeback:folder=...",
        ));
    }
    let size = resolution.fit("size", 1, Resource::Disk)?;
    let size = size.min(resolution.fit("size", 1, Resource::Memory)?);
    device::put_files(resolution, folder, &backing, size);
    let workers = resolution.workers();
    // The file's pages use memory.
    resolution.plan.budget.memory = size * workers;
    resolution.plan.budget.processes = workers;
    Ok(())
}

fn prepare(worker: &mut Worker) -> Result<Job, WorkError> {
    let folder = worker
        .plan
        .load
        .scratch
        .clone()
        .unwrap_or_else(std::env::temp_dir);
    let file = scratch::file(&folder).doing("create the scratch file")?;
    Ok(Box::new(move |worker| run(worker, &file, &folder)))
}

fn run(worker: &mut Worker, file: &File, folder: &Path) -> Result<(), WorkError> {
    let size = worker.number("size");
    let block = vec![0x5a; worker.number("block").min(size) as usize];
    file.set_len(size).doing("extend the scratch file")?;
    let mut places = Pcg64Mcg::seed_from_u64(worker.plan.index as u64);
    let mut allowance = Allowance::new(worker);
    for turn in 0_u64.. {
        if !worker.go_on() {
            break;
        }
        scratch::check_floor(file, folder, size)?;
        for _ in 0..worker.number("blocks") {
            if !allowance.take(block.len() as u64) {
                worker.rest(device::REST);
                continue;
            }
            let place = places.random_range(0..=size - block.len() as u64);
            match file.write_all_at(&block, place) {
                Ok(()) => worker.did(1, block.len() as u64),
                Err(_) => worker.failed(),
            }
        }
        match flush(file, turn) {
            Ok(()) => worker.did(1, 0),
            Err(_) => worker.failed(),
        }
    }
    Ok(())
}

/// Writes the file's pages to the device in one of three ways, which alternate: it syncs the file
/// with its metadata, syncs it without them, or only starts the writing and does not wait.
fn flush(file: &File, turn: u64) -> std::io::Result<()> {
    match turn % 3 {
        0 => file.sync_all(),
        1 => file.sync_data(),
        _ => file_pages::start_writing(file, 0, 0),
    }
}
