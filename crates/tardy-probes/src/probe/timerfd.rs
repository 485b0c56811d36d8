//! `timerfd`: a periodic timer as a file descriptor, read by a thread that blocks on it.

use std::io;

use tardy_core::units::Nanos;
use tardy_machine::surroundings::Surroundings;
use tardy_run::plan::{PolicyName, ProbePlan};
use tardy_sys::timer_fd::PeriodicTimerFd;

use super::grid_loop::by_expiries;
use super::info::{Placement, ProbeInfo, Refusal, no_dither};
use super::member::{Member, Run};
use super::series_info::SeriesInfo;
use super::timer_clock::TimerClock;
use super::{Opened, Opening};

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "timerfd",
    times: "read(2) of a periodic timerfd: from the due time of the first expiry read to the thread's first clock read after it",
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

fn resolve(probe: &ProbePlan, _: &Surroundings) -> Result<(), Refusal> {
    no_dither(probe)
}

fn open(mut opening: Opening<'_>) -> io::Result<Opened> {
    let timer = PeriodicTimerFd::new(TimerClock::of(opening.thread).clock())?;
    let producer = opening.producers.remove(0);
    let thread = opening.thread.clone();
    let run: Run = Box::new(move |ready| {
        let start = ready.wait();
        by_expiries(&thread.at(start.at), producer, start.control, |first, period| timer.start(first, period), || timer.wait())
    });
    Ok(Opened { members: vec![Member::new(opening.probe, opening.thread.cpu, run)], ..Opened::default() })
}
