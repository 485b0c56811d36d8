//! `sched-deadline`: the periodic loop under SCHED_DEADLINE, with a runtime in each period. The
//! probe can also do work that exceeds this runtime.
//!
//! The kernel does not allow such a thread to be bound to a CPU. When a thread has used up its
//! runtime, the kernel throttles it until the next period, and sends SIGXCPU
//! (SCHED_FLAG_DL_OVERRUN), which the run counts.

use std::io;

use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;
use tardy_machine::host::Host;
use tardy_machine::root::Root;
use tardy_machine::unsupported::Unsupported;
use tardy_run::parameter::Parameter;
use tardy_run::plan::ProbePlan;
use tardy_sys::sched::{self, Policy};
use tardy_sys::{affinity, clock, scoped};

use super::grid_loop::by_due_times;
use super::info::{Placement, ProbeInfo, Refusal};
use super::member::{Member, Run};
use super::{OpenContext, ProbeInstance};

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "sched-deadline",
    about: "a sleep until each due time, under SCHED_DEADLINE",
    times: "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME) under SCHED_DEADLINE, whose period is \
            that of the probe: from the due time to the first clock read after the sleep",
    context: "stock kernel: hard interrupt; PREEMPT_RT: hard interrupt",
    source: "today",
    parameters: &[
        Parameter::duration(
            "runtime",
            "CPU time reserved in each period",
            "100us",
            Nanos(1024),
            Nanos::from_secs(1),
        ),
        Parameter::duration(
            "work",
            "CPU time that the probe uses in each period; if this time exceeds the runtime, the \
             kernel throttles the thread",
            "0s",
            Nanos::ZERO,
            Nanos::from_secs(1),
        ),
        Parameter::duration(
            "deadline",
            "time from the start of a period within which the runtime is guaranteed; 0 means the \
             whole period",
            "0s",
            Nanos::ZERO,
            Nanos::from_secs(3_600),
        ),
    ],
    placement: Placement::CopyACpu,
    is_throttled: true,
    resolve,
    open,
    ..ProbeInfo::USUAL
};

fn policy(probe: &ProbePlan) -> Policy {
    let nanos = |time: Nanos| time.get().unsigned_abs();
    let deadline = deadline(probe);
    Policy::Deadline {
        runtime: nanos(probe.parameters.duration("runtime")),
        deadline: nanos(deadline),
        period: nanos(probe.period),
    }
}

fn deadline(probe: &ProbePlan) -> Nanos {
    let asked = probe.parameters.duration("deadline");
    if asked > Nanos::ZERO {
        asked
    } else {
        probe.period
    }
}

/// Returns all online CPUs. The kernel accepts such a thread only if it may run on all of them.
fn everywhere() -> CpuList {
    Root::system().online_cpus().unwrap_or_default()
}

fn resolve(probe: &ProbePlan, _: &Host) -> Result<(), Refusal> {
    let runtime = probe.parameters.duration("runtime");
    if runtime > probe.period {
        let (runtime, period) = (runtime.exact(), probe.period.exact());
        return Err(Refusal::Request(format!(
            "a runtime of {runtime} does not fit into a period of {period}: give a longer period"
        )));
    }
    let deadline = deadline(probe);
    if runtime > deadline || deadline > probe.period {
        let (deadline, period) = (deadline.exact(), probe.period.exact());
        return Err(Refusal::Request(format!(
            "a deadline of {deadline} does not lie between the runtime of {} and the period of \
             {period}",
            runtime.exact()
        )));
    }
    let wanted = policy(probe);
    let cpus: Vec<u32> = everywhere().iter().map(|cpu| cpu.0).collect();
    // Only an attempt shows whether the process has the privilege, may use all CPUs, and can get
    // enough bandwidth.
    let tried = scoped::apart(|| {
        let _ = affinity::set(0, &cpus);
        sched::try_policy(wanted)
    });
    match tried {
        Err(error) if scoped::is_refusal(&error) => Err(Refusal::Absent(Unsupported::new(
            "a thread for a test of SCHED_DEADLINE",
            scoped::REMEDY,
        ))),
        Ok(Err(error)) => {
            let missing = format!("SCHED_DEADLINE ({error})");
            let remedy = "run as root, allow all CPUs (SCHED_DEADLINE accepts no affinity), and \
                          leave bandwidth free: use a shorter runtime or a longer period";
            Err(Refusal::Absent(Unsupported::new(missing, remedy)))
        }
        _ => Ok(()),
    }
}

fn open(mut opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    let producer = opening.producers.remove(0);
    let thread = opening.thread.clone();
    let work = opening.probe.parameters.duration("work").get();
    let run: Run = Box::new(move |ready| {
        let start = ready.wait();
        let mut is_first = true;
        by_due_times(&thread.at(start.at), producer, start.control, |due| {
            // Does the work of the previous period, after that period's sample was taken. The loop
            // itself needs only a few us of the runtime.
            if work > 0 && !std::mem::take(&mut is_first) {
                let end = clock::thread_cpu_time() + work;
                while clock::thread_cpu_time() < end {}
            }
            clock::sleep_until(&clock::Instant::from_nanos(due)).map(|()| clock::monotonic())
        })
    });
    let member = Member {
        policy: policy(opening.probe),
        cpus: everywhere(),
        ..Member::new(opening.probe, None, run)
    };
    Ok(ProbeInstance {
        members: vec![member],
        ..ProbeInstance::default()
    })
}
