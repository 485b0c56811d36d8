//! Calibrates the explanations before the measurement: a thread of the tool itself sleeps and is
//! woken. The events that this kernel traces for these wake-ups show how much can be explained.
//!
//! Threads announce themselves by writing to `trace_marker`. This is necessary because, in a
//! container, a thread does not know its ID in the trace.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};

use tardy_core::cpu::CpuId;
use tardy_run::tracing::Calibration;
use tardy_sys::clock::{self, Instant};
use tardy_sys::{affinity, sched, scoped};
use tardy_trace::event::{Decoder, Kind};
use tardy_trace::explain::{DueFrom, Explainer, Facts, Target};
use tardy_trace::live::Live;
use tardy_trace::merge::Item;

use crate::instance::Instance;
use crate::pages::PageReader;

const SLEEPS: u64 = 100;
const SLEEP_NS: i64 = 300_000;
/// Priority of the calibration: higher than that of ordinary tasks, so that their load does not
/// prolong its sleeps.
const PRIORITY: u32 = 1;
/// Text by which the calibration thread is recognised in the trace.
const MARK: &str = "tardy: calibration";

/// What the calibration has found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CalibrationResult {
    pub(crate) found: Calibration,
    /// Whether a thread has the same ID in the trace and in this process. In a PID namespace, it
    /// has not.
    pub(crate) are_numbers_shared: bool,
}

/// Sleeps on `cpu` in a separate thread, and checks what the trace contains of these sleeps. Binds
/// the calling thread to `housekeeping_cpus`.
pub(crate) fn calibrate(
    instance: &Instance,
    reader: &mut PageReader,
    facts: Facts,
    cpu: CpuId,
    housekeeping_cpus: &[u32],
) -> io::Result<CalibrationResult> {
    let slept = scoped::apart(|| sleep(instance, cpu));
    let _ = affinity::set(0, housekeeping_cpus);
    let own_number = slept??;
    let mut are_numbers_shared = false;
    let mut live = Live::new(
        Decoder::new(&instance.formats),
        instance.layout,
        reader.cpus().iter().copied(),
    );
    for place in 0..reader.cpus().len() {
        while let Some(page) = reader.next(place)? {
            let _ = live.page(place, &page);
        }
    }
    let mut explainer = Explainer::new(
        Target::Pids(Vec::new()),
        facts,
        &std::collections::HashMap::new(),
    );
    let mut found = Calibration {
        sleeps: SLEEPS,
        ..Calibration::default()
    };
    while let Some(item) = live.next_before(u64::MAX) {
        if let Item::Event(event) = item {
            match event.kind {
                Kind::Marker { text } if text.as_str().starts_with(MARK) => {
                    are_numbers_shared = event.head.pid == own_number;
                    explainer.follow(event.head.pid);
                }
                Kind::Switch { previous, next, .. } => {
                    found.into_idle += u64::from(next.pid == 0);
                    found.out_of_idle += u64::from(previous.pid == 0);
                }
                _ => {}
            }
        }
        explainer.take(&item);
        for wake_up in explainer.finished() {
            found.wake_ups += 1;
            found.timed += u64::from(wake_up.due_from == DueFrom::Timer);
            found.switches += u64::from(wake_up.first_sign.is_none());
        }
    }
    Ok(CalibrationResult {
        found,
        are_numbers_shared,
    })
}

/// Sleeps as often as the calibration requires. Returns the thread's ID.
fn sleep(instance: &Instance, cpu: CpuId) -> io::Result<i32> {
    let _ = affinity::set(0, &[cpu.0]);
    let _ = sched::set_policy(0, sched::Policy::Fifo { priority: PRIORITY });
    mark(instance, MARK)?;
    for _ in 0..SLEEPS {
        // Each due time is given relative to now. After a pause, due times on a grid would lie in
        // the past, and the thread would not sleep.
        let mut due = Instant::from_nanos(clock::monotonic());
        due.advance(SLEEP_NS);
        clock::sleep_until(&due)?;
    }
    // The mark is written again, because the first one may be lost while thousands of threads are
    // busy.
    mark(instance, MARK)?;
    Ok(sched::thread_id())
}

fn mark(instance: &Instance, text: &str) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .open(instance.path().join("trace_marker"))?
        .write_all(text.as_bytes())
}

/// Returns the text of /proc/kallsyms; an empty text if it cannot be read. The kernel shows
/// addresses only to privileged processes.
pub(crate) fn kernel_symbols() -> String {
    fs::read_to_string("/proc/kallsyms").unwrap_or_default()
}
