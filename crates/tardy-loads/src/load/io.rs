//! `io`: writes and reads large files (abeni2002, sections 3.2 and 4.2.1).

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use tardy_core::series::ClockKind;
use tardy_machine::clock::clock_kind;
use tardy_machine::root::Root;
use tardy_run::parameter::{Parameter, Value};
use tardy_sys::file_pages;

use super::Unsupported;
use super::allowance::{self, Allowance};
use super::backing::Backing;
use super::device;
use super::info::{ErrorContext, Job, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::{Resolution, Resource};
use super::scratch;
use super::worker::{PASSES, Worker};

pub const INFO: LoadInfo = LoadInfo {
    name: "io",
    does: "reads zeros in large blocks, writes the zeros to a file on the run's own file system \
           and through to the device, reads the file back from the device, and truncates the file",
    effect: "the kernel makes long copies between user space and device; the load spends nine \
             tenths of its time in the kernel, and truncation frees pages in bulk",
    source: "abeni2002",
    parameters: &[
        Parameter::bytes(
            "size",
            "bytes of each worker's file",
            "64MiB",
            64 << 10,
            1 << 40,
        ),
        Parameter::bytes(
            "block",
            "bytes of one read or write call",
            "4MiB",
            512,
            1 << 30,
        ),
        device::FOLDER,
        Parameter::choice(
            "target",
            "the device behind the file system, or memory alone (tmpfs)",
            &["device", "memory"],
        ),
        allowance::RATE,
        PASSES,
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
    let (folder, backing) = device::folder(resolution)?;
    let is_given = resolution.plan.parameters.path("folder").is_some();
    let mut in_memory = resolution.plan.parameters.text("target") == "memory";
    if !in_memory {
        resolution.plan.note = shortcoming(&folder, &backing);
        // A folder that the user gave is used on any kind of storage.
        in_memory = matches!(backing, Backing::Memory(_)) && !is_given;
    }
    let size = if in_memory {
        resolution
            .plan
            .parameters
            .insert("target".to_owned(), Value::Word("memory".to_owned()));
        // The load's share of memory must hold a file and a block. The block can be as large as the
        // file, so the file may take only half of the share.
        let size = resolution.fit("size", 2, Resource::Memory)?;
        resolution.plan.budget.memory = size * workers;
        size
    } else {
        let size = resolution.fit("size", 1, Resource::Disk)?;
        device::put_files(resolution, folder, &backing, size);
        size
    };
    if resolution.plan.parameters.number("block") > size {
        resolution
            .plan
            .parameters
            .insert("block".to_owned(), Value::Bytes(size));
    }
    resolution.plan.budget.memory += resolution.plan.parameters.number("block") * workers;
    resolution.plan.budget.processes = workers;
    Ok(())
}

/// Returns a note for the user if the folder is not on a known device: the load then does something
/// other than its description promises.
fn shortcoming(folder: &Path, backing: &Backing) -> Option<String> {
    let folder = folder.display();
    match backing {
        Backing::Device(_) => None,
        // Advice about disks would be useless in a lab guest.
        Backing::Memory(_) if clock_kind(&Root::system()) == ClockKind::Virtual => {
            Some("a lab guest has no disk, so this load writes and reads memory only".to_owned())
        }
        Backing::Memory(kind) => Some(format!(
            "{folder} is on {kind}, so this load writes and reads memory only: put the run on a \
             disk with --out, or give io:folder=..."
        )),
        Backing::Unknown(kind) => Some(format!(
            "{folder} is on {kind}, so the data of this load perhaps reaches no device: give \
             io:folder=... with a folder on a disk"
        )),
    }
}

fn prepare(worker: &mut Worker) -> Result<Job, WorkError> {
    let file = match &worker.plan.load.scratch {
        Some(folder) => scratch::file(folder),
        None => tardy_sys::memory_file::create("tardy-io"),
    }
    .doing("create the scratch file")?;
    Ok(Box::new(|worker| run(worker, file)))
}

fn run(worker: &mut Worker, mut file: File) -> Result<(), WorkError> {
    let size = worker.number("size");
    let folder = worker.plan.load.scratch.clone();
    let mut zero = File::open("/dev/zero").doing("open /dev/zero")?;
    let block = worker.block();
    if let (Some(folder), Some(_)) = (&folder, &worker.plan.load.device_writes) {
        let folder = folder.clone();
        return on_device(worker, &folder, &file, &mut zero, block, size);
    }
    while worker.begin_pass() {
        if let Some(folder) = &folder {
            scratch::check_floor(&file, folder, size)?;
        }
        cycle(worker, &mut file, &mut zero, block, size)?;
    }
    Ok(())
}

/// Writes as much to the device as the load may write, and reads from the device the rest of the
/// time. The file is synced before it is truncated, because dirty pages of a truncated file are
/// never written. The file is dropped from the page cache before it is read, because cached pages
/// are not read from the device.
fn on_device(
    worker: &mut Worker,
    folder: &Path,
    file: &File,
    zero: &mut File,
    block: &mut [u8],
    size: u64,
) -> Result<(), WorkError> {
    let mut allowance = Allowance::new(worker);
    let bytes = block.len() as u64;
    let mut length = 0;
    while worker.begin_pass() {
        scratch::check_floor(file, folder, size)?;
        let mut fresh = 0;
        while fresh < size && worker.go_on() && allowance.take(bytes) {
            if length + bytes > size {
                file.set_len(0).doing("truncate the scratch file")?;
                length = 0;
            }
            zero.read_exact(block).doing("read /dev/zero")?;
            if file.write_all_at(block, length).is_err() {
                worker.failed();
                break;
            }
            (length, fresh) = (length + bytes, fresh + bytes);
            worker.did(2, 2 * bytes);
        }
        if fresh > 0 && file.sync_data().is_err() {
            worker.failed();
        }
        if length == 0 {
            worker.rest(device::REST);
            continue;
        }
        file_pages::forget(file, 0, 0).doing("drop the file from memory")?;
        let mut read = 0;
        while read < length && worker.go_on() {
            file.read_exact_at(block, read)
                .doing("read the scratch file")?;
            read += bytes;
            worker.did(1, bytes);
        }
    }
    Ok(())
}

/// Fills the file, reads it back and empties it. Stops between two blocks when asked to.
fn cycle(
    worker: &mut Worker,
    file: &mut File,
    zero: &mut File,
    block: &mut [u8],
    size: u64,
) -> Result<(), WorkError> {
    let mut written = 0;
    while written < size && worker.go_on() {
        let bytes = block.len().min((size - written) as usize);
        zero.read_exact(&mut block[..bytes])
            .doing("read /dev/zero")?;
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
