//! `mmap-lock`: changes one address space from many threads.

use tardy_core::cpu::CpuId;
use tardy_run::parameter::Parameter;
use tardy_sys::mapping::{Mapping, PAGE_BYTES};

use super::Unsupported;
use super::info::{LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::Resolution;
use super::threads::{self, RoundWork};
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "mmap-lock",
    does: "on every load CPU, threads map, touch, protect and unmap areas of one address space",
    effect: "the threads wait for the address space's lock, and every unmapping interrupts the \
             other CPUs to flush their TLBs",
    source: "today",
    parameters: &[
        Parameter::count("threads", "number of threads on each CPU", "2", 1, 1000),
        Parameter::bytes("size", "bytes of each area", "1MiB", 16 << 10, 1 << 30),
    ],
    can_do_harm: false,
    placement: Placement::Once,
    uses_disk: false,
    rights: Rights::NONE,
    resolve,
    run: Run::Plain(run),
};

/// Stack and kernel memory of a thread, in bytes, rounded up.
const THREAD_BYTES: u64 = 64 << 10;

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let cpus = resolution.plan.cpus.len().max(1) as u64;
    let share = resolution.share;
    let threads = resolution.fit_within(
        "threads",
        share.processes.saturating_sub(1) / cpus,
        "processes",
    )? * cpus;
    let size = resolution.fit_within(
        "size",
        (share.memory / threads).saturating_sub(THREAD_BYTES),
        "memory",
    )?;
    resolution.plan.budget.memory = threads * (size + THREAD_BYTES);
    resolution.plan.budget.processes = threads + 1;
    Ok(())
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let size = worker.number("size") as usize / PAGE_BYTES * PAGE_BYTES;
    let threads = worker.number("threads") as usize;
    let cpus: Vec<CpuId> = worker
        .plan
        .cpus
        .iter()
        .flat_map(|cpu| std::iter::repeat_n(cpu, threads))
        .collect();
    // After the first round, errors are only counted: the threads share one address space, so one
    // thread's mappings can make another thread reach the limit on mappings.
    threads::repeat(worker, &cpus, "change the address space", |_| {
        Ok(move || {
            once(size).map(|()| RoundWork {
                operations: 6,
                bytes: size as u64,
            })
        })
    })
}

fn once(size: usize) -> std::io::Result<()> {
    let half = size / 2 / PAGE_BYTES * PAGE_BYTES;
    let mut area = Mapping::anonymous(size)?;
    area.touch(0, size);
    area.set_writable(0, half, false)?;
    area.set_writable(0, size, true)?;
    area.discard(half, size)?;
    area.touch(half, size);
    Ok(())
}
