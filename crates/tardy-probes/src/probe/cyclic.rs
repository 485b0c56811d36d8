//! `cyclic`: absolute sleeps on a grid of due times, as cyclictest does by default.

use std::io;

use tardy_core::sample::Sample;
use tardy_core::units::Nanos;
use tardy_run::plan::ThreadPlan;
use tardy_sys::clock;

use super::grid_loop::by_due_times;
use super::info::ProbeInfo;
use super::member::{Start, one_thread};
use super::schedule::grid_of;
use super::timer_clock::TimerClock;
use super::{OpenContext, ProbeInstance};
use crate::recording::control::Departure;
use crate::recording::ring::Producer;

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "cyclic",
    about: "a sleep until each due time (clock_nanosleep, absolute)",
    times: "clock_nanosleep(2) with TIMER_ABSTIME: from the due time to the thread's first clock \
            read after the sleep",
    context: "stock kernel: hard interrupt; PREEMPT_RT: hard interrupt for real-time threads, \
              softirq thread for others",
    source: "koolwal2009 (cyclictest)",
    sets_any_clock: true,
    open,
    ..ProbeInfo::USUAL
};

fn open(opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    let is_on_the_runs_clock = opening.probe.clocks.timer.is_of_the_run();
    one_thread(
        opening,
        if is_on_the_runs_clock {
            measure
        } else {
            measure_on_another_clock
        },
    )
}

fn measure_on_another_clock(
    plan: &ThreadPlan,
    producer: Producer,
    start: Start<'_>,
) -> io::Result<Departure> {
    let mut timer = TimerClock::of(plan);
    by_due_times(plan, producer, start.control, |due| timer.sleep_until(due))
}

fn measure(plan: &ThreadPlan, mut producer: Producer, start: Start<'_>) -> io::Result<Departure> {
    let control = start.control;
    let (mut walk, end) = grid_of(plan)?;
    // The limit is a plain number, because an `Option` would need two words and another branch in
    // each iteration.
    let stop_above = std::hint::black_box(plan.stop_above.unwrap_or(Nanos::MAX));
    // From here to `close`, the thread makes no system call except the sleep and, if the vDSO
    // cannot read the clock, the clock read.
    while walk.base() < end && !control.is_past_end(walk.base()) {
        clock::sleep_until(walk.due())?;
        let now = clock::monotonic();
        let due = Nanos(walk.due().to_nanos());
        let latency = Nanos(now) - due;
        let skipped = walk.advance_past(now, || end.min(control.end()));
        producer.push(Sample {
            due,
            latency,
            skipped,
        });
        if latency > stop_above {
            // The sample is built here, because a sample passed by reference would have to be in
            // memory in every iteration.
            control.stop_because_of(
                plan.cpu,
                Sample {
                    due,
                    latency,
                    skipped,
                },
            );
            break;
        }
    }
    producer.close(walk.base());
    Ok(control.leave())
}
