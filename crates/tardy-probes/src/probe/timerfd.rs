//! `timerfd`: a periodic timer with a file descriptor, from which a thread reads expiries.

use std::io;

use tardy_machine::host::Host;
use tardy_run::plan::ProbePlan;
use tardy_run::system_clock::SystemClock;
use tardy_sys::timer_fd::PeriodicTimerFd;

use super::grid_loop::by_expiries;
use super::info::{ProbeInfo, Refusal, no_dither};
use super::member::{Member, Run};
use super::timer_clock::TimerClock;
use super::{OpenContext, ProbeInstance};

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "timerfd",
    about: "a periodic timerfd",
    times: "read(2) of a periodic timerfd: from the due time (the first, if one read reports \
            several expiries) to the thread's first clock read after the call",
    context: "stock kernel: hard interrupt; PREEMPT_RT: softirq thread, for any policy of the \
              probe",
    source: "today (event loops)",
    sets_any_clock: true,
    resolve,
    open,
    system_calls: &["read"],
    ..ProbeInfo::USUAL
};

fn resolve(probe: &ProbePlan, _: &Host) -> Result<(), Refusal> {
    if probe.clocks.timer == SystemClock::Tai {
        let reason = "timerfd_create(2) has no CLOCK_TAI: use cyclic or posix-timer, or \
                      clock=realtime with align=tai";
        return Err(Refusal::Request(reason.to_owned()));
    }
    no_dither(probe)
}

fn open(mut opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    let timer = PeriodicTimerFd::new(TimerClock::of(opening.thread).clock())?;
    let producer = opening.producers.remove(0);
    let thread = opening.thread.clone();
    let run: Run = Box::new(move |ready| {
        let start = ready.wait();
        by_expiries(
            &thread.at(start.at),
            producer,
            start.control,
            |first, period| timer.start(first, period),
            || timer.wait(),
        )
    });
    Ok(ProbeInstance {
        members: vec![Member::new(opening.probe, opening.thread.cpu, run)],
        ..ProbeInstance::default()
    })
}
