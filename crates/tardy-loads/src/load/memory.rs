//! `memory`: touches a large area in order, then frees it at process exit (abeni2002, sections 3.2
//! and 4.2.1) or with munmap(2).

use tardy_run::parameter::Parameter;
use tardy_sys::mapping::Mapping;
use tardy_sys::process::{self, WaitResult};

use super::Unsupported;
use super::info::{ErrorContext, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::{Resolution, Resource};
use super::worker::{PASSES, Worker};

pub const INFO: LoadInfo = LoadInfo {
    name: "memory",
    does: "a process repeatedly touches a large memory area page by page, and frees the area",
    effect: "the load takes many page faults in a row; at exit or munmap, the kernel unmaps and \
             frees the whole area at once",
    source: "abeni2002",
    parameters: &[
        Parameter::bytes(
            "size",
            "bytes of each worker's area",
            "128MiB",
            64 << 10,
            1 << 40,
        ),
        Parameter::choice(
            "pages",
            "page size: only small pages, or the size that the system chooses",
            &["small", "system"],
        ),
        Parameter::choice("free", "how the area is freed", &["exit", "munmap"]),
        PASSES,
    ],
    can_do_harm: false,
    placement: Placement::EachCpu,
    uses_disk: false,
    rights: Rights::NONE,
    resolve,
    run: Run::Plain(run),
};

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let size = resolution.fit("size", 1, Resource::Memory)?;
    resolution.plan.budget.memory = size * resolution.workers();
    resolution.plan.budget.processes = 2 * resolution.workers();
    Ok(())
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let size = worker.number("size");
    let small = worker.plan.load.parameters.text("pages") == "small";
    if worker.plan.load.parameters.text("free") == "munmap" {
        return unmap(worker, size as usize, small);
    }
    while worker.begin_pass() {
        process::fork(|| child(size as usize, small)).doing("fork")?;
        match process::reap_any(true).doing("reap the process that touched the area")? {
            WaitResult::Ended(_, status) if status.success() => worker.did(1, size),
            _ => worker.failed(),
        }
    }
    Ok(())
}

/// Maps, touches and unmaps the area in one process. munmap(2) takes another path in the kernel
/// than the exit of a process.
fn unmap(worker: &mut Worker, size: usize, small: bool) -> Result<(), WorkError> {
    while worker.begin_pass() {
        drop(touched(size, small).doing("map the area")?);
        worker.did(1, size as u64);
    }
    Ok(())
}

/// Touches the area and leaves it mapped, so that the kernel frees it when the process exits.
fn child(size: usize, small: bool) -> i32 {
    let tied = process::set_parent_death_signal(process::KILL).is_ok();
    let Ok(area) = touched(size, small) else {
        return 1;
    };
    std::mem::forget(area);
    i32::from(!tied)
}

fn touched(size: usize, small: bool) -> std::io::Result<Mapping> {
    let mut area = Mapping::anonymous(size)?;
    if small {
        // Kernels without huge pages refuse this call and do not need it.
        let _ = area.forbid_huge_pages();
    }
    area.touch(0, size);
    Ok(area)
}
