//! `cyclic`: absolute sleeps on a grid of due times, as cyclictest does by default.

use std::io;

use tardy_core::sample::Sample;
use tardy_core::series::Schedule;
use tardy_core::units::Nanos;
use tardy_sys::clock;

use super::control::Control;
use super::schedule::GridWalk;
use super::{ProbeInfo, ThreadPlan};
use crate::record::ring::Producer;

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "cyclic",
    times: "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME): from the due time to the thread's first clock read after it",
    quantity: "latency",
    context: "stock: hard interrupt; RT: hard interrupt for real-time threads, softirq thread for others",
    source: "koolwal2009 (cyclictest)",
    has_schedule: true,
    measure,
};

fn measure(plan: &ThreadPlan, mut producer: Producer, control: &Control) -> io::Result<()> {
    let Schedule::Grid { start, period, dither } = plan.schedule else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "cyclic needs a grid"));
    };
    let mut walk = GridWalk::new(start, period, dither, plan.seed);
    let stop_above = plan.stop_above.unwrap_or(Nanos::MAX);
    let end = plan.cycles.map_or(Nanos::MAX, |cycles| start.saturating_add(Nanos(period.get().saturating_mul(cycles as i64))));
    // From here to `close` the thread makes no system call but the sleep and, where the vDSO has none, the clock read.
    while walk.base() < end && !control.is_past_end(walk.base()) {
        clock::sleep_until(walk.due())?;
        let now = clock::monotonic();
        let due = Nanos(walk.due().to_nanos());
        let latency = Nanos(now) - due;
        let sample = Sample { due, latency, missed: walk.advance_past(now) };
        producer.push(sample);
        if latency > stop_above {
            control.stop_because_of(plan.cpu, sample);
            break;
        }
    }
    producer.close(walk.base());
    Ok(())
}
