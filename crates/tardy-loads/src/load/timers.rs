//! `timers`: lets thousands of timers fire at once.

use tardy_core::units::Nanos;
use tardy_run::parameter::Parameter;
use tardy_sys::clock::{self, Instant};
use tardy_sys::rlimit::{self, Resource as Limit};
use tardy_sys::timer_fd::TimerFd;

use super::Unsupported;
use super::info::{ErrorContext, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::Resolution;
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "timers",
    does: "repeatedly arms thousands of high-resolution timers for the same moment",
    effect: "all timers fire in one timer interrupt, whose length grows with the number of timers",
    source: "today",
    parameters: &[
        Parameter::count(
            "timers",
            "number of timers of each worker",
            "1000",
            1,
            1_000_000,
        ),
        Parameter::duration(
            "period",
            "time between two moments at which the timers fire",
            "3ms",
            Nanos::from_micros(100),
            Nanos::from_secs(10),
        ),
    ],
    can_do_harm: false,
    placement: Placement::EachCpu,
    uses_disk: false,
    rights: Rights::NONE,
    resolve,
    run: Run::Plain(run),
};

/// Kernel memory of a timer with its file and descriptor, in bytes, rounded up.
const TIMER_BYTES: u64 = 1 << 10;
/// Number of descriptors that the worker needs for itself.
const OTHER_FILES: u64 = 16;

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let workers = resolution.workers();
    let files = rlimit::get(Limit::OpenFiles)
        .map_or(1024, |(_, hard)| hard)
        .saturating_sub(OTHER_FILES);
    let room = resolution.share.memory / workers / TIMER_BYTES;
    let timers = resolution.fit_within(
        "timers",
        files.min(room),
        "open files (ulimit -Hn) or memory",
    )?;
    resolution.plan.budget.memory = workers * timers * TIMER_BYTES;
    resolution.plan.budget.processes = workers;
    Ok(())
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let (_, hard) = rlimit::get(Limit::OpenFiles).doing("read the limit on open files")?;
    rlimit::set(Limit::OpenFiles, hard, hard).doing("raise the limit on open files")?;
    let count = worker.number("timers") as usize;
    let mut timers = Vec::with_capacity(count);
    for _ in 0..count {
        timers.push(TimerFd::new().doing("make the timers")?);
    }
    let period = worker.plan.load.parameters.duration("period").get();
    while worker.go_on() {
        // One period leaves time to arm all timers before they fire.
        let due = clock::monotonic() + period;
        for timer in &timers {
            timer.arm_at(due).doing("arm a timer")?;
        }
        clock::sleep_until(&Instant::from_nanos(due)).doing("sleep")?;
        let last = timers
            .last_mut()
            .map_or(Ok(0), TimerFd::fired)
            .doing("read a timer")?;
        // Only the timer that was armed last is checked. If arming took too long and its due time
        // had passed, it fired at once. If it has not fired yet, the worker counts a failure,
        // although the timer fires a little later.
        if last == 0 {
            worker.failed();
        }
        worker.did(count as u64, 0);
    }
    Ok(())
}
