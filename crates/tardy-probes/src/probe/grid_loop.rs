//! The measuring loops that several probes share to wait for the due times of a grid. Only `cyclic`
//! on the run's clock has a separate loop. The compiler makes a specialised copy for each probe.

use std::io;

use tardy_core::sample::Sample;
use tardy_core::units::Nanos;
use tardy_run::plan::ThreadPlan;
use tardy_sys::clock;

use super::schedule::grid_of;
use super::timer_clock::TimerClock;
use crate::recording::control::{Control, Departure};
use crate::recording::ring::Producer;

/// Waits for each due time with `sleep_until`, which must return the first clock read after the
/// wake-up.
pub(super) fn by_due_times(
    plan: &ThreadPlan,
    mut producer: Producer,
    control: &Control,
    mut sleep_until: impl FnMut(i64) -> io::Result<i64>,
) -> io::Result<Departure> {
    let (mut walk, end) = grid_of(plan)?;
    let stop_above = plan.stop_above.unwrap_or(Nanos::MAX);
    while walk.base() < end && !control.is_past_end(walk.base()) {
        let due = Nanos(walk.due().to_nanos());
        let now = sleep_until(due.get())?;
        let sample = Sample {
            due,
            latency: Nanos(now) - due,
            skipped: walk.advance_past(now, || end.min(control.end())),
        };
        producer.push(sample);
        if sample.latency > stop_above {
            control.stop_because_of(plan.cpu, sample);
            break;
        }
    }
    producer.close(walk.base());
    Ok(control.leave())
}

/// Waits for a periodic timer on the grid. `start` sets the timer to its first due time, given on
/// the timer's clock. `wait` returns the number of expiries since the last call, at least 1. The
/// kernel counts the expiries, so the number is exact. After a step of the clock the timer is set
/// again.
pub(super) fn by_expiries(
    plan: &ThreadPlan,
    mut producer: Producer,
    control: &Control,
    start: impl Fn(i64, i64) -> io::Result<()>,
    mut wait: impl FnMut() -> io::Result<u64>,
) -> io::Result<Departure> {
    let (mut walk, end) = grid_of(plan)?;
    let stop_above = plan.stop_above.unwrap_or(Nanos::MAX);
    let mut timer = TimerClock::of(plan);
    let period = plan.schedule.period().get();
    start(timer.at(walk.base().get()), period)?;
    while walk.base() < end && !control.is_past_end(walk.base()) {
        let expiries = match wait() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            other => other?,
        };
        let now = clock::monotonic();
        let due = walk.base();
        if expiries == 0 || Nanos(now) < due {
            if timer.was_stepped() {
                start(timer.at(due.get()), period)?;
                continue;
            }
            if expiries == 0 {
                continue;
            }
        }
        let sample = Sample {
            due,
            latency: Nanos(now) - due,
            skipped: walk.advance_by(expiries, || end.min(control.end())),
        };
        producer.push(sample);
        if sample.latency > stop_above {
            control.stop_because_of(plan.cpu, sample);
            break;
        }
    }
    producer.close(walk.base());
    Ok(control.leave())
}
