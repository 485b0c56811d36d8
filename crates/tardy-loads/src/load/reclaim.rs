//! `reclaim`: memory shortage inside a separate control group, so that only the load is affected.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek};
use std::path::Path;

use tardy_core::units::Nanos;
use tardy_machine::host::Host;
use tardy_machine::undo::Undo;
use tardy_run::parameter::Parameter;
use tardy_sys::clock;
use tardy_sys::mapping::Mapping;

use super::Unsupported;
use super::backing::Backing;
use super::info::{ErrorContext, Job, LoadInfo, Placement, Rights, Run, WorkError};
use super::memory_group::{self, MemoryGroup};
use super::resolution::{Resolution, Resource};
use super::scratch;
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "reclaim",
    does: "uses more memory than its control group may have, so the kernel reclaims pages all the \
           time; also compacts memory at intervals",
    effect: "the kernel scans lists of pages under their locks, then unmaps and frees the pages \
             while the allocating task waits; compaction moves pages around",
    source: "today",
    parameters: &[
        Parameter::bytes(
            "size",
            "bytes of memory that each worker may use; each worker tries to use more",
            "64MiB",
            8 << 20,
            1 << 40,
        ),
        Parameter::duration(
            "compact",
            "time between two compactions of all memory; with 0s, the load never compacts memory",
            "1s",
            Nanos::ZERO,
            Nanos::from_secs(3600),
        ),
    ],
    can_do_harm: false,
    placement: Placement::EachCpu,
    uses_disk: false,
    // The kernel checks on each write who asks for compaction, so the worker must stay root.
    rights: Rights::Confined {
        keeps: &[],
        writes: "to /proc/sys/vm/compact_memory, and to an unnamed file",
        paths: |_| {
            let switch = Path::new("/proc").join(COMPACT);
            switch.exists().then_some(switch).into_iter().collect()
        },
    },
    resolve,
    run: Run::Prepared(prepare),
};

/// Size of each of the two areas, in quarters of the worker's part of the group's limit. One area
/// fits into this part, but both together do not.
const AREA_QUARTERS: u64 = 3;
/// Size of the steps in which the area is touched, in bytes. The worker checks for the stop request
/// between two steps.
const STEP_BYTES: usize = 1 << 20;
const COMPACT: &str = "sys/vm/compact_memory";

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let size = resolution.fit("size", 1, Resource::Memory)?;
    let workers = resolution.workers();
    resolution.plan.budget.memory = size * workers;
    resolution.plan.budget.processes = workers;
    let (group, undo) = memory_group::place(resolution.host, "reclaim")?;
    resolution.plan.undo.extend(undo);
    resolution.plan.undo.push(Undo::RemoveCgroup(group.clone()));
    resolution.plan.scratch = Some(group);
    Ok(())
}

fn prepare(worker: &mut Worker) -> Result<Job, WorkError> {
    let size = worker.number("size");
    let path = worker
        .plan
        .load
        .scratch
        .clone()
        .ok_or_else(|| WorkError::Bound("the load's plan names no control group".to_owned()))?;
    let all = size * worker.plan.load.worker_count() as u64;
    let group = MemoryGroup::enter(&path, all, &worker.plan.load.undo)
        .doing("enter a control group with a memory limit")?;
    let (file, compaction) = (empty_file(size), Compaction::new(worker));
    Ok(Box::new(move |worker| {
        let result = work(worker, size, file, compaction);
        group.leave().doing("leave the control group")?;
        result
    }))
}

fn work(
    worker: &mut Worker,
    size: u64,
    mut file: Option<File>,
    mut compaction: Compaction,
) -> Result<(), WorkError> {
    let area_bytes = (size / 4 * AREA_QUARTERS) as usize;
    let area = || Mapping::anonymous(area_bytes).doing("map an area");
    let mut areas = [area()?, area()?];
    let mut block = vec![0; STEP_BYTES];
    for turn in 0_usize.. {
        if !worker.go_on() {
            break;
        }
        fill(worker, &mut areas[turn % 2])?;
        if let Some(file) = &mut file {
            read(worker, file, &mut block)?;
        }
        compaction.when_due(worker);
    }
    Ok(())
}

/// Fills the area, then marks its pages as free. The kernel reclaims them when the other area needs
/// memory.
fn fill(worker: &mut Worker, area: &mut Mapping) -> Result<(), WorkError> {
    // With small pages, the kernel must scan the area page by page.
    let _ = area.forbid_huge_pages();
    for from in (0..area.len()).step_by(STEP_BYTES) {
        if !worker.go_on() {
            break;
        }
        let to = (from + STEP_BYTES).min(area.len());
        let pages = area.touch(from, to);
        worker.did(pages as u64, (to - from) as u64);
    }
    area.free_lazily()
        .doing("free memory lazily (MADV_FREE, needs Linux 4.5)")
}

/// Makes a sparse file twice as large as the worker's part of the group's limit. Reading it fills
/// the page cache, and nothing is ever written. Returns `None` if the scratch folder is on a file
/// system in memory, or if the file cannot be made.
fn empty_file(size: u64) -> Option<File> {
    let host = Host::of_this_machine();
    if matches!(Backing::of(&host.scratch, &host), Backing::Memory(_)) {
        return None;
    }
    let file = scratch::file(&host.scratch).ok()?;
    file.set_len(2 * size).ok()?;
    Some(file)
}

fn read(worker: &mut Worker, file: &mut File, block: &mut [u8]) -> Result<(), WorkError> {
    file.rewind().doing("rewind the scratch file")?;
    while worker.go_on() {
        let bytes = file.read(block).doing("read the scratch file")?;
        if bytes == 0 {
            break;
        }
        worker.did(1, bytes as u64);
    }
    Ok(())
}

/// Asks the kernel to compact all memory at intervals. Only one worker does this, if it has the
/// right.
struct Compaction {
    file: Option<File>,
    interval: i64,
    due: i64,
}

impl Compaction {
    fn new(worker: &Worker) -> Self {
        let interval = worker.plan.load.parameters.duration("compact").get();
        let may = worker.plan.index == 0 && interval > 0;
        let file = may
            .then(|| {
                OpenOptions::new()
                    .write(true)
                    .open(Path::new("/proc").join(COMPACT))
                    .ok()
            })
            .flatten();
        Self {
            file,
            interval,
            due: clock::monotonic(),
        }
    }

    fn when_due(&mut self, worker: &mut Worker) {
        let Some(file) = &mut self.file else { return };
        if clock::monotonic() < self.due {
            return;
        }
        match std::io::Write::write(file, b"1") {
            Ok(_) => worker.did(1, 0),
            Err(_) => worker.failed(),
        }
        self.due = clock::monotonic() + self.interval;
    }
}
