//! `fifos-mmap`: sends data alternately through pipes and through a mapped file (williams2002:
//! FIFOS_MMAP).

use std::fs::File;
use std::io::{PipeReader, Read, Write};
use std::path::Path;

use tardy_core::units::Nanos;
use tardy_run::parameter::Parameter;
use tardy_sys::mapping::Mapping;
use tardy_sys::process::{self, WaitResult};

use super::Unsupported;
use super::allowance::{self, Allowance};
use super::backing::Backing;
use super::info::{ErrorContext, Job, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::{Resolution, Resource};
use super::scratch;
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "fifos-mmap",
    does: "repeatedly sends data through a pipe between two processes; one process then maps a \
           file, changes the file and syncs it",
    effect: "processes wake each other in quick succession; the load takes page faults on a shared \
             file, and the kernel writes back dirty pages",
    source: "williams2002",
    parameters: &[
        Parameter::bytes(
            "size",
            "bytes sent in each turn; also the size of the file",
            "8MiB",
            4 << 10,
            1 << 34,
        ),
        Parameter::bytes(
            "block",
            "bytes of each write call and each read call",
            "4KiB",
            1,
            1 << 20,
        ),
        allowance::RATE,
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
    let workers = resolution.workers();
    resolution.fit("size", 1, Resource::Disk)?;
    // The load's share of memory must be enough for the file's mapped pages and a block. The block
    // may be as large as the file.
    let size = resolution.fit("size", 2, Resource::Memory)?;
    let block = resolution.plan.parameters.number("block").min(size);
    resolution.plan.parameters.insert(
        "block".to_owned(),
        tardy_run::parameter::Value::Bytes(block),
    );
    resolution.plan.budget.disk = size * workers;
    resolution.plan.budget.memory = (size + block) * workers;
    resolution.plan.budget.processes = 2 * workers;
    let folder = resolution.host.scratch.clone();
    let backing = Backing::of(&folder, resolution.host);
    allowance::declare(resolution, &backing);
    resolution.plan.scratch = Some(folder);
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
    let (size, block) = (worker.number("size"), worker.number("block") as usize);
    scratch::check_floor(file, folder, size)?;
    file.set_len(size).doing("extend the scratch file")?;
    let mut allowance = Allowance::new(worker);
    while worker.go_on() {
        send(worker, size, block)?;
        scratch::check_floor(file, folder, size)?;
        let mut mapping = Mapping::shared(file, size as usize).doing("map the scratch file")?;
        for from in (0..size as usize).step_by(1 << 20) {
            let to = (from + (1 << 20)).min(size as usize);
            // The kernel writes a touched page to the device as a whole.
            if !worker.go_on() || !allowance.take((to - from) as u64) {
                break;
            }
            mapping.touch(from, to);
            worker.did(1, 0);
        }
        if mapping.sync().is_err() {
            worker.failed();
        }
    }
    Ok(())
}

/// Sends `size` bytes to a reading process. The reader is not a thread, because the load is meant
/// to make the kernel switch memory maps.
fn send(worker: &mut Worker, size: u64, block: usize) -> Result<(), WorkError> {
    let (reader, mut writer) = std::io::pipe().doing("make a pipe")?;
    // The child counts bytes instead of waiting for the end of the pipe, because the child itself
    // holds a copy of the writing end.
    let blocks = size / block as u64;
    process::fork(|| receive(&reader, blocks, block)).doing("fork the reader")?;
    drop(reader);
    let data = vec![0x5a; block];
    for _ in 0..blocks {
        writer.write_all(&data).doing("write to the pipe")?;
        worker.did(1, block as u64);
        worker.go_on();
    }
    loop {
        match process::reap_any(false).doing("reap the reader")? {
            WaitResult::Ended(_, status) if status.success() => return Ok(()),
            WaitResult::NoneYet => worker.rest(Nanos::from_millis(1)),
            _ => {
                worker.failed();
                return Ok(());
            }
        };
    }
}

fn receive(mut reader: &PipeReader, blocks: u64, block: usize) -> i32 {
    if process::set_parent_death_signal(process::KILL).is_err() {
        return 1;
    }
    let mut data = vec![0; block];
    i32::from((0..blocks).any(|_| reader.read_exact(&mut data).is_err()))
}
