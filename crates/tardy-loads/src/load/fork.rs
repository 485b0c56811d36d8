//! `fork`: forks bursts of processes (abeni2002, sections 3.2 and 4.2.1).

use tardy_core::units::Nanos;
use tardy_run::parameter::Parameter;
use tardy_sys::mapping::{Mapping, PAGE_BYTES};
use tardy_sys::process::{self, WaitResult};

use super::Unsupported;
use super::gate::Gate;
use super::info::{ErrorContext, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::{Resolution, Resource};
use super::worker::{PASSES, Worker};

pub const INFO: LoadInfo = LoadInfo {
    name: "fork",
    does: "repeatedly forks a burst of processes, which all start at once, write to shared pages \
           and end",
    effect: "the kernel copies page tables and handles copy-on-write faults; the run queue is \
             long, and many processes end and are reaped together",
    source: "abeni2002",
    parameters: &[
        Parameter::count(
            "processes",
            "number of processes in one burst, divided among the load CPUs",
            "512",
            1,
            100_000,
        ),
        Parameter::bytes(
            "memory",
            "bytes of memory of the forking process; the kernel copies the page tables of this \
             memory",
            "4MiB",
            4 << 10,
            1 << 36,
        ),
        Parameter::bytes(
            "touch",
            "bytes of the forking process's memory that each process writes to",
            "64KiB",
            4 << 10,
            1 << 30,
        ),
        Parameter::duration(
            "pause",
            "rest between bursts",
            "0ns",
            Nanos::ZERO,
            Nanos::from_secs(3600),
        ),
        PASSES,
    ],
    can_do_harm: false,
    placement: Placement::EachCpu,
    uses_disk: false,
    rights: Rights::NONE,
    resolve,
    run: Run::Plain(run),
};

/// Kernel memory of a small process (stacks, page tables, task structure), in bytes: measured as
/// 180 KiB on Linux 6.18, rounded up.
const PROCESS_BYTES: u64 = 256 << 10;

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let workers = resolution.workers();
    // The area itself gets at most a quarter of the load's memory share; the processes get the
    // rest.
    let memory = resolution.fit("memory", 4, Resource::Memory)?;
    let touch = resolution.plan.parameters.number("touch").min(memory);
    resolution.plan.parameters.insert(
        "touch".to_owned(),
        tardy_run::parameter::Value::Bytes(touch),
    );
    // `processes` is the number of processes of all workers together.
    let share = resolution.share;
    let per_process = touch + PROCESS_BYTES;
    let room = share.memory.saturating_sub(memory * workers) / per_process;
    let processes = resolution.fit_within(
        "processes",
        share.processes.saturating_sub(workers).min(room),
        "processes and their memory",
    )?;
    resolution.plan.budget.memory = memory * workers + processes * per_process;
    resolution.plan.budget.processes = processes + workers;
    Ok(())
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let workers = worker.plan.load.worker_count().max(1) as u64;
    let index = worker.plan.index as u64;
    let processes = worker.number("processes");
    // The first workers take the remainder of the division.
    let own = processes / workers + u64::from(index < processes % workers);
    let touch = worker.number("touch") as usize;
    let pause = worker.plan.load.parameters.duration("pause");
    let mut area = Mapping::anonymous(worker.number("memory") as usize).doing("map the area")?;
    // Kernels without huge pages refuse this call and do not need it.
    let _ = area.forbid_huge_pages();
    let whole = area.len();
    area.touch(0, whole);
    let gate = Gate::new().doing("make the pipes that start a burst")?;
    while worker.begin_pass() {
        let made = burst(worker, own, &gate, &mut area, touch)?;
        let rest = if made == 0 {
            pause.max(Nanos::from_millis(100))
        } else {
            pause
        };
        if rest > Nanos::ZERO {
            worker.rest(rest);
        }
    }
    Ok(())
}

/// Forks up to `count` processes, opens the gate so that all run at once, and reaps them. Returns
/// the number of processes.
fn burst(
    worker: &mut Worker,
    count: u64,
    gate: &Gate,
    area: &mut Mapping,
    touch: usize,
) -> Result<u64, WorkError> {
    let mut made = 0;
    while made < count && worker.go_on() {
        match process::fork(|| child(gate, area, touch)) {
            Ok(_) => made += 1,
            Err(_) => {
                worker.failed();
                break;
            }
        }
    }
    gate.open(made).doing("start the burst")?;
    for _ in 0..made {
        match process::reap_any(true).doing("reap the burst")? {
            WaitResult::Ended(_, status) if status.success() => worker.did(1, touch as u64),
            WaitResult::Ended(..) => worker.failed(),
            WaitResult::NoneYet | WaitResult::NoChildren => break,
        }
        worker.go_on();
    }
    gate.close().doing("end the burst")?;
    Ok(made)
}

fn child(gate: &Gate, area: &mut Mapping, touch: usize) -> i32 {
    // If there is no PID namespace and only the worker is killed, only this signal ends the
    // process.
    let started = process::set_parent_death_signal(process::KILL).and_then(|()| gate.wait());
    area.touch(0, touch.max(PAGE_BYTES).min(area.len()));
    i32::from(started.is_err())
}
