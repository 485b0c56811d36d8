//! `mmap-lock`: many threads that change one address space.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_run::parameter::Parameter;
use tardy_sys::affinity;
use tardy_sys::mapping::{Mapping, PAGE_BYTES};

use super::info::{Doing, LoadInfo, Placement, WorkError};
use super::plan::{Absent, Resolution};
use super::worker::Worker;

/// The load.
pub const INFO: LoadInfo = LoadInfo {
    name: "mmap-lock",
    does: "threads on every load CPU map, touch, protect and unmap areas of one address space",
    hurts: "they wait for the address space's lock, and every unmapping interrupts the other CPUs to flush their translations",
    source: "today",
    parameters: &[
        Parameter::count("threads", "threads on each CPU", "2", 1, 1000),
        Parameter::bytes("size", "bytes of each area", "1MiB", 16 << 10, 1 << 30),
    ],
    by_name_only: false,
    placement: Placement::Once,
    uses_disk: false,
    resolve,
    run,
};

/// Stack and kernel memory of a thread, in bytes, rounded up.
const THREAD_BYTES: u64 = 64 << 10;

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Absent> {
    let cpus = resolution.plan.cpus.len().max(1) as u64;
    let share = resolution.share;
    let threads = resolution.fit_within("threads", share.processes.saturating_sub(1) / cpus, "processes")? * cpus;
    let size = resolution.fit_within("size", (share.memory / threads).saturating_sub(THREAD_BYTES), "memory")?;
    resolution.plan.budget.memory = threads * (size + THREAD_BYTES);
    resolution.plan.budget.processes = threads + 1;
    Ok(())
}

/// What the threads share.
struct Shared {
    stop: AtomicBool,
    operations: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    first_error: Mutex<Option<std::io::Error>>,
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let size = worker.number("size") as usize / PAGE_BYTES * PAGE_BYTES;
    let threads = worker.number("threads") as usize;
    let cpus: Vec<CpuId> = worker.plan.cpus.iter().collect();
    let shared = Shared {
        stop: AtomicBool::new(false),
        operations: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        errors: AtomicU64::new(0),
        first_error: Mutex::new(None),
    };
    std::thread::scope(|scope| {
        let mut result = Ok(());
        for cpu in cpus.iter().flat_map(|cpu| std::iter::repeat_n(*cpu, threads)) {
            let shared = &shared;
            let started = std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, move || change(shared, cpu, size));
            if let Err(source) = started {
                result = Err(WorkError::System { doing: "start a thread", source });
                break;
            }
        }
        while result.is_ok() && worker.rest(Nanos::from_millis(100)) {
            take_over(worker, &shared);
        }
        shared.stop.store(true, Ordering::Relaxed);
        result
    })?;
    take_over(worker, &shared);
    let first = shared.first_error.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    first.map_or(Ok(()), Err).doing("change the address space")
}

fn take_over(worker: &mut Worker, shared: &Shared) {
    worker.did(shared.operations.swap(0, Ordering::Relaxed), shared.bytes.swap(0, Ordering::Relaxed));
    for _ in 0..shared.errors.swap(0, Ordering::Relaxed) {
        worker.failed();
    }
}

/// One thread. An error of the first round is one of the load; later ones (the limit of mappings, reached by the others' doing) are counted.
fn change(shared: &Shared, cpu: CpuId, size: usize) {
    let mut result = affinity::set(0, &[cpu.0]).and_then(|()| once(size));
    if let Err(error) = result {
        if let Ok(mut first) = shared.first_error.lock() {
            first.get_or_insert(error);
        }
        return;
    }
    while !shared.stop.load(Ordering::Relaxed) {
        result = once(size);
        match result {
            Ok(()) => {
                shared.operations.fetch_add(6, Ordering::Relaxed);
                shared.bytes.fetch_add(size as u64, Ordering::Relaxed);
            }
            Err(_) => {
                shared.errors.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
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
