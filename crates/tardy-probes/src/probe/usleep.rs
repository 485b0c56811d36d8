//! `usleep`: sleeps for relative times, and reads the CPU's cycle counter before and after each
//! sleep, as in test B of abeni2002.
//!
//! The counter is calibrated against CLOCK_MONOTONIC before the run. A wake-up is judged as early
//! only if it is early by more than the error of the two clocks. This error is 500 parts per
//! million of the requested time, plus the uncertainty of the calibration. The kernel may slew its
//! own clock by 500 parts per million (adjtimex(2)).

use std::io;

use tardy_core::sample::Sample;
use tardy_core::units::Nanos;
use tardy_run::plan::ThreadPlan;
use tardy_sys::clock;
use tardy_sys::cycle_counter::{self, Calibration};

use super::info::ProbeInfo;
use super::member::{Member, Run, one_thread};
use super::schedule::request_of;
use super::series_info::SeriesInfo;
use super::{OpenContext, ProbeInstance, nanosleep};
use crate::recording::control::{Control, Departure};
use crate::recording::ring::Producer;

/// Maximum slew of the kernel's clock: MAXFREQ of include/linux/timex.h.
const SLEW_PARTS_PER_MILLION: i64 = 500;

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "usleep",
    about: "short relative sleeps, timed by the cycle counter",
    times: "clock_nanosleep(CLOCK_MONOTONIC, relative) between two reads of the cycle counter: \
            time slept minus the requested time",
    context: "stock kernel: hard interrupt; PREEMPT_RT: hard interrupt for real-time threads, \
              softirq thread for others",
    source: "abeni2002, test B",
    series: &[SeriesInfo::EVENT_LATENCY],
    open,
    ..ProbeInfo::USUAL
};

fn open(mut opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    if let Err(reason) = cycle_counter::invariant() {
        let note = format!(
            "usleep reads CLOCK_MONOTONIC on both sides of its sleep, not a cycle counter: \
             {reason}"
        );
        return Ok(ProbeInstance {
            notes: vec![note],
            ..one_thread(opening, nanosleep::measure)?
        });
    }
    let calibration = Calibration::of_this_machine();
    let request = request_of(opening.thread)?;
    let clock_error = Nanos(
        request.get() / 1_000_000 * SLEW_PARTS_PER_MILLION
            + request.get() % 1_000_000 * SLEW_PARTS_PER_MILLION / 1_000_000,
    ) + Nanos(calibration.error_of(request.get()));
    let producer = opening.producers.remove(0);
    let thread = opening.thread.clone();
    let run: Run = Box::new(move |ready| {
        let start = ready.wait();
        start.sleep()?;
        measure(&thread, calibration, producer, start.control)
    });
    Ok(ProbeInstance {
        members: vec![Member::new(opening.probe, opening.thread.cpu, run)],
        clock_error,
        ..ProbeInstance::default()
    })
}

fn measure(
    plan: &ThreadPlan,
    calibration: Calibration,
    mut producer: Producer,
    control: &Control,
) -> io::Result<Departure> {
    let request = request_of(plan)?;
    let duration = clock::Instant::from_nanos(request.get());
    let stop_above = plan.stop_above.unwrap_or(Nanos::MAX);
    let mut due = Nanos(clock::monotonic()) + request;
    for _ in 0..plan.cycles.unwrap_or(u64::MAX) {
        if control.is_past_end(due) {
            break;
        }
        producer.begin_cycle();
        let before = cycle_counter::read();
        clock::sleep_for(clock::Clock::Monotonic, &duration)?;
        let after = cycle_counter::read();
        let slept = Nanos(calibration.nanos(after.wrapping_sub(before)));
        let sample = Sample {
            due,
            latency: slept - request,
            skipped: 0,
        };
        producer.push(sample);
        if sample.latency > stop_above {
            control.stop_because_of(plan.cpu, sample);
            break;
        }
        // Each sample starts at a time read from the run's clock, so an old calibration does not
        // shift samples.
        due = Nanos(clock::monotonic()) + request;
    }
    producer.close(due);
    Ok(control.leave())
}
