//! `timerfd`: a periodic timer as a file descriptor, read by a thread that blocks on it.

use std::io;

use tardy_core::sample::Sample;
use tardy_core::units::Nanos;
use tardy_sys::clock;
use tardy_sys::timer_fd::PeriodicTimerFd;

use super::info::{Placement, ProbeInfo, SeriesInfo, always};
use super::member::{Member, Run};
use super::schedule::grid_of;
use super::{Opened, Opening};
use crate::cli::run::PolicyName;
use crate::load::Surroundings;
use crate::plan::ProbePlan;

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "timerfd",
    times: "read(2) of a periodic timerfd (CLOCK_MONOTONIC): from the due time of the first expiry read to the thread's first clock read after it",
    context: "stock: hard interrupt; RT: softirq thread, whatever the thread's policy",
    source: "today (event loops)",
    parameters: &[],
    series: &[SeriesInfo::GRID_LATENCY],
    placement: Placement::EachCpu,
    policy: PolicyName::Fifo,
    period: Nanos::from_millis(1),
    resolve,
    open,
};

fn resolve(probe: &ProbePlan, surroundings: &Surroundings) -> Result<(), super::Refusal> {
    super::info::no_dither(probe)?;
    always(probe, surroundings)
}

fn open(mut opening: Opening<'_>) -> io::Result<Opened> {
    let timer = PeriodicTimerFd::new()?;
    let mut producer = opening.producers.remove(0);
    let thread = opening.thread.clone();
    let run: Run = Box::new(move |ready| {
        let start = ready.wait();
        let plan = thread.at(start.at);
        let (mut walk, end) = grid_of(&plan)?;
        let stop_above = plan.stop_above.unwrap_or(Nanos::MAX);
        timer.start(walk.base().get(), plan.schedule.period().get())?;
        while walk.base() < end && !start.control.is_past_end(walk.base()) {
            // The kernel counts the expiries, so that none is guessed.
            let expiries = timer.wait()?;
            let now = clock::monotonic();
            let due = walk.base();
            let sample = Sample { due, latency: Nanos(now) - due, missed: u32::try_from(expiries - 1).unwrap_or(u32::MAX) };
            walk.advance_by(expiries);
            producer.push(sample);
            if sample.latency > stop_above {
                start.control.stop_because_of(plan.cpu, sample);
                break;
            }
        }
        producer.close(walk.base());
        Ok(())
    });
    Ok(Opened { members: vec![Member::new(opening.probe, opening.thread.cpu, run)], ..Opened::default() })
}
