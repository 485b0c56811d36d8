//! `nanosleep`: consecutive relative sleeps, as in mckenney2009's loop.

use std::io;

use tardy_core::sample::Sample;
use tardy_core::units::Nanos;
use tardy_run::plan::ThreadPlan;
use tardy_sys::clock;

use super::info::ProbeInfo;
use super::member::{Start, one_thread};
use super::schedule::request_of;
use super::series_info::SeriesInfo;
use super::{OpenContext, ProbeInstance};
use crate::recording::control::Departure;
use crate::recording::ring::Producer;

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "nanosleep",
    about: "consecutive sleeps of one period (clock_nanosleep, relative)",
    times: "clock_nanosleep(2), relative: time slept minus the requested time; includes the cost \
            of one clock read",
    context: "stock kernel: hard interrupt; PREEMPT_RT: hard interrupt for real-time threads, \
              softirq thread for others",
    source: "mckenney2009, section 2.1",
    series: &[SeriesInfo::EVENT_LATENCY],
    sets_any_clock: true,
    open,
    ..ProbeInfo::USUAL
};

fn open(opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    one_thread(opening, measure)
}

pub(super) fn measure(
    plan: &ThreadPlan,
    mut producer: Producer,
    start: Start<'_>,
) -> io::Result<Departure> {
    let control = start.control;
    let request = request_of(plan)?;
    let duration = clock::Instant::from_nanos(request.get());
    // On CLOCK_TAI, a relative sleep ends at a time of that clock, like an absolute sleep. For
    // CLOCK_REALTIME, the kernel uses CLOCK_MONOTONIC instead.
    let timer = plan.clocks.timer.clock.of_the_system();
    let stop_above = plan.stop_above.unwrap_or(Nanos::MAX);
    start.sleep()?;
    let mut before = clock::monotonic();
    let mut due = Nanos(before) + request;
    for _ in 0..plan.cycles.unwrap_or(u64::MAX) {
        if control.is_past_end(due) {
            break;
        }
        producer.begin_cycle();
        clock::sleep_for(timer, &duration)?;
        let after = clock::monotonic();
        let sample = Sample {
            due,
            latency: Nanos(after) - due,
            skipped: 0,
        };
        producer.push(sample);
        if sample.latency > stop_above {
            control.stop_because_of(plan.cpu, sample);
            break;
        }
        before = clock::monotonic();
        due = Nanos(before) + request;
    }
    producer.close(due);
    Ok(control.leave())
}
