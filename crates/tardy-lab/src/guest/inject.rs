//! Triggers known delays in the guest while the guest's program runs, and stores the module's log
//! with the run.
//!
//! If the guest's program is a measurement, the delays start only when the measurement has made its
//! files. With `--explain`, the measurement makes its files seconds after its program starts.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use tardy_sys::sched::{self, Policy};

use crate::guest_job::{GuestJob, JOB_PATH, OUTPUT_FOLDER, Program, Task};
use crate::injection::LOG_PATH;

/// Folder of the module in debugfs.
const MODULE_FOLDER: &str = "/sys/kernel/debug/tardy_inject";

/// Real-time priority of the process that triggers the injected delays.
const PRIORITY: u32 = 10;

/// Maximum wait for a measurement to start.
const START_MAX: Duration = Duration::from_secs(30);
const START_STEP: Duration = Duration::from_millis(10);

/// Triggers all delays of the job one after the other, then ends the process.
pub(super) fn run() -> ! {
    match fire_all() {
        Ok(()) => std::process::exit(0),
        Err(error) => {
            tardy_sys::say!("tardy: not all delays were made: {error}");
            std::process::exit(1)
        }
    }
}

fn fire_all() -> std::io::Result<()> {
    let job: GuestJob = serde_json::from_slice(&fs::read(JOB_PATH)?)?;
    let Some(injection) = job.injection else {
        return Ok(());
    };
    // The process has a higher priority than the loads, so that every delay is on time, and a lower
    // one than every probe. As a real-time task, it also wakes up exactly when its sleep ends. If
    // it were not one, the kernel could extend its sleep until the next timer expires, and the
    // delays would follow the phase of the probes.
    sched::set_policy(0, Policy::Fifo { priority: PRIORITY })?;
    let request = format!("{} {}", injection.context.name(), injection.length.0);
    if matches!(
        job.task,
        Task::Measure(_) | Task::Run(Program { path: None, .. })
    ) {
        wait_for_series();
    }
    let mut fire = fs::File::options()
        .write(true)
        .open(Path::new(MODULE_FOLDER).join("fire"))?;
    let started = Instant::now();
    for index in 0..injection.count {
        std::thread::sleep(
            injection
                .due(index)
                .to_std()
                .saturating_sub(started.elapsed()),
        );
        // Each write makes one delay, and returns only when the delay is over.
        fire.write_all(request.as_bytes())?;
    }
    Ok(())
}

/// Waits until the measurement has made its files; right after that, its probes start. If the
/// measurement records the kernel's trace, this takes seconds.
fn wait_for_series() {
    let begun = Instant::now();
    let is_there = || {
        let entries = fs::read_dir(Path::new(OUTPUT_FOLDER).join("samples"))
            .into_iter()
            .flatten()
            .flatten();
        entries.into_iter().any(|entry| {
            entry
                .path()
                .extension()
                .is_some_and(|extension| extension == "series")
        })
    };
    while !is_there() && begun.elapsed() < START_MAX {
        std::thread::sleep(START_STEP);
    }
}

/// Stores the module's log in the folder that the guest exports.
pub(super) fn keep_log() -> Result<(), String> {
    let failed = |error: std::io::Error| format!("the log of the delays is missing: {error}");
    let log = fs::read(Path::new(MODULE_FOLDER).join("log")).map_err(failed)?;
    let path = Path::new(OUTPUT_FOLDER).join(LOG_PATH);
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(&path, log))
        .map_err(failed)
}
