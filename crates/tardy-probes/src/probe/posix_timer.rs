//! `posix-timer`: a periodic timer that sends its signal to the thread. The thread waits for the
//! signal.

use std::io;

use tardy_machine::host::Host;
use tardy_run::plan::ProbePlan;
use tardy_sys::posix_timer::PosixTimer;

use super::grid_loop::by_expiries;
use super::info::{ProbeInfo, Refusal, no_dither};
use super::member::{Member, Run};
use super::timer_clock::TimerClock;
use super::{OpenContext, ProbeInstance};

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "posix-timer",
    about: "a periodic POSIX timer that signals its thread",
    times: "a periodic timer of timer_create(2) with SIGEV_THREAD_ID, and sigwaitinfo(2) for its \
            signal: from the due time (the first, if one signal reports several expiries) to the \
            thread's first clock read after the signal; overruns are skipped periods",
    context: "stock kernel: hard interrupt; PREEMPT_RT: softirq thread, for any policy of the \
              probe",
    source: "today",
    sets_any_clock: true,
    resolve,
    open,
    system_calls: &["rt_sigtimedwait", "timer_getoverrun"],
    ..ProbeInfo::USUAL
};

fn resolve(probe: &ProbePlan, _: &Host) -> Result<(), Refusal> {
    no_dither(probe)
}

fn open(mut opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    let producer = opening.producers.remove(0);
    let thread = opening.thread.clone();
    let run: Run = Box::new(move |ready| {
        // The timer's signal must reach the measuring thread, and the timer belongs to the thread
        // that makes it, so the timer is made here.
        let timer = PosixTimer::new(TimerClock::of(&thread).clock())?;
        let start = ready.wait();
        by_expiries(
            &thread.at(start.at),
            producer,
            start.control,
            |first, period| timer.arm_at(first, period),
            || timer.wait().map(|overruns| 1 + u64::from(overruns)),
        )
    });
    Ok(ProbeInstance {
        members: vec![Member::new(opening.probe, opening.thread.cpu, run)],
        ..ProbeInstance::default()
    })
}
