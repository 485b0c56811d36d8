//! `procfs`: reads large files in /proc (abeni2002, sections 3.2 and 4.2.1).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use tardy_run::parameter::Parameter;
use tardy_sys::capability;
use tardy_sys::mapping::{Mapping, PAGE_BYTES};

use super::Unsupported;
use super::info::{ErrorContext, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::{Resolution, Resource};
use super::worker::{PASSES, Worker};

pub const INFO: LoadInfo = LoadInfo {
    name: "procfs",
    does: "repeatedly reads long files in /proc: maps, smaps, status and stat of every process, \
           kallsyms, and others",
    effect: "the kernel traverses long lists and page tables under locks that every other process \
             needs too",
    source: "abeni2002",
    parameters: &[
        Parameter::count(
            "mappings",
            "number of mappings that each worker adds, to make its own maps long",
            "2000",
            0,
            60_000,
        ),
        Parameter::bytes("block", "bytes of one read call", "64KiB", 512, 1 << 24),
        PASSES,
    ],
    can_do_harm: false,
    placement: Placement::EachCpu,
    uses_disk: false,
    rights: Rights::Nobody {
        keeps: &[
            capability::DAC_READ_SEARCH,
            capability::SYS_PTRACE,
            capability::SYSLOG,
        ],
        opens: "",
    },
    resolve,
    run: Run::Plain(run),
};

/// Files of each process, and files of the whole system. The kernel makes their content when they
/// are read.
const PROCESS_FILES: [&str; 4] = ["smaps", "maps", "status", "stat"];
const SYSTEM_FILES: [&str; 8] = [
    "kallsyms",
    "slabinfo",
    "vmallocinfo",
    "zoneinfo",
    "interrupts",
    "sched_debug",
    "timer_list",
    "mounts",
];
/// Kernel memory of a mapping (a vm_area_struct with its tree nodes) and of the page that it maps,
/// in bytes, rounded up.
const MAPPING_BYTES: u64 = 8 << 10;

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let workers = resolution.workers();
    let block = resolution.fit("block", 2, Resource::Memory)?;
    let room = (resolution.share.memory / workers).saturating_sub(block) / MAPPING_BYTES;
    let mappings = resolution.fit_within("mappings", room, "memory")?;
    resolution.plan.budget.memory = workers * (block + mappings * MAPPING_BYTES);
    resolution.plan.budget.processes = workers;
    Ok(())
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let proc = Path::new("/proc");
    let _area = long_maps(worker.number("mappings") as usize).doing("make many mappings")?;
    let block = worker.block();
    while worker.begin_pass() {
        for name in SYSTEM_FILES {
            read_through(worker, &proc.join(name), block);
        }
        for process in processes(proc).doing("list /proc")? {
            for name in PROCESS_FILES {
                if !worker.go_on() {
                    return Ok(());
                }
                read_through(worker, &process.join(name), block);
            }
        }
    }
    Ok(())
}

/// Maps an area in which every second page has another protection, so that the kernel cannot merge
/// neighbours into one mapping. Each page is present, so that smaps counts it.
fn long_maps(mappings: usize) -> std::io::Result<Option<Mapping>> {
    if mappings == 0 {
        return Ok(None);
    }
    let mut area = Mapping::anonymous(mappings * PAGE_BYTES)?;
    area.touch(0, mappings * PAGE_BYTES);
    for index in (1..mappings).step_by(2) {
        area.set_writable(index * PAGE_BYTES, (index + 1) * PAGE_BYTES, false)?;
    }
    Ok(Some(area))
}

fn processes(proc: &Path) -> std::io::Result<Vec<PathBuf>> {
    let is_process = |entry: &std::fs::DirEntry| {
        entry
            .file_name()
            .as_encoded_bytes()
            .iter()
            .all(u8::is_ascii_digit)
    };
    Ok(std::fs::read_dir(proc)?
        .filter_map(Result::ok)
        .filter(is_process)
        .map(|entry| entry.path())
        .collect())
}

/// Reads a file to its end. Unreadable files, and files of ended processes, are not errors, because
/// the set of files differs between systems.
pub(super) fn read_through(worker: &mut Worker, path: &Path, block: &mut [u8]) {
    let Ok(mut file) = File::open(path) else {
        return;
    };
    let mut bytes = 0;
    while let Ok(count @ 1..) = file.read(block) {
        bytes += count as u64;
        if !worker.go_on() {
            break;
        }
    }
    worker.did(1, bytes);
}
