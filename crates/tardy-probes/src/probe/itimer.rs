//! `itimer`: the periodic signal of setitimer(2), as in test A of abeni2002.
//!
//! A process has only one such timer, so the probe has one thread, on the first measured CPU. If a
//! signal is already pending, the kernel drops further ones, and nothing records that. So the
//! summary fits a grid to the times of the activations, and counts the due times of this grid at
//! which there was no activation.

use std::io;

use tardy_core::sample::Sample;
use tardy_core::units::Nanos;
use tardy_machine::host::Host;
use tardy_run::plan::{ProbePlan, ThreadPlan, WaitsFor};
use tardy_sys::clock;
use tardy_sys::interval_timer::IntervalTimer;

use super::info::{Placement, ProbeInfo, Refusal};
use super::member::{Member, Run};
use super::schedule::request_of;
use super::series_info::SeriesInfo;
use super::{OpenContext, ProbeInstance};
use crate::recording::control::{Control, Departure};
use crate::recording::ring::Producer;

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "itimer",
    about: "a periodic setitimer signal: time between two signals",
    times: "a periodic timer of setitimer(ITIMER_REAL), and sigwaitinfo(2) for its SIGALRM: time \
            between two signals minus the period",
    context: "stock kernel: hard interrupt; PREEMPT_RT: softirq thread, for any policy of the \
              probe",
    source: "abeni2002, test A",
    series: &[SeriesInfo::INTERVAL_ERROR],
    placement: Placement::FirstCpu,
    is_single: true,
    waits_for: WaitsFor::Event,
    system_calls: &["rt_sigtimedwait"],
    resolve,
    open,
    ..ProbeInfo::USUAL
};

fn resolve(probe: &ProbePlan, _: &Host) -> Result<(), Refusal> {
    if probe.period.get() % 1000 != 0 {
        let period = probe.period.exact();
        return Err(Refusal::Request(format!(
            "a period of {period} is not a whole number of microseconds, as setitimer(2) requires: \
             round it"
        )));
    }
    super::info::no_dither(probe)
}

fn open(mut opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    // The signal is blocked before other threads exist, because it would kill the process if a
    // thread did not block it.
    let timer = IntervalTimer::block()?;
    let producer = opening.producers.remove(0);
    let thread = opening.thread.clone();
    let run: Run = Box::new(move |ready| {
        let start = ready.wait();
        start.sleep()?;
        timer.start(request_of(&thread)?.get() / 1000)?;
        let result = measure(&timer, &thread, producer, start.control);
        timer.stop().and(result)
    });
    Ok(ProbeInstance {
        members: vec![Member::new(opening.probe, opening.thread.cpu, run)],
        ..ProbeInstance::default()
    })
}

fn measure(
    timer: &IntervalTimer,
    plan: &ThreadPlan,
    mut producer: Producer,
    control: &Control,
) -> io::Result<Departure> {
    let period = request_of(plan)?;
    let stop_above = plan.stop_above.unwrap_or(Nanos::MAX);
    // The first activation only marks the start of the first interval.
    timer.wait()?;
    let mut due = Nanos(clock::monotonic()) + period;
    for _ in 0..plan.cycles.unwrap_or(u64::MAX) {
        if control.is_past_end(due) {
            break;
        }
        producer.begin_cycle();
        timer.wait()?;
        let now = Nanos(clock::monotonic());
        let sample = Sample {
            due,
            latency: now - due,
            skipped: 0,
        };
        producer.push(sample);
        if sample.latency > stop_above {
            control.stop_because_of(plan.cpu, sample);
            break;
        }
        due = now + period;
    }
    producer.close(due);
    Ok(control.leave())
}
