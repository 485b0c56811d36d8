//! Checks whether the kernel throttles real-time tasks that use most of a CPU.

use tardy_core::units::Nanos;

use super::{Check, CheckInput, Importance, Profile, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "real-time-throttling",
    weight: Weight::of(Importance::Medium).but(&[
        (Profile::Polling, Importance::High),
        (Profile::VmHost, Importance::High),
    ]),
    reads: &["proc/sys/kernel/sched_rt_runtime_us"],
    why: "real-time tasks that use more than the limit in a period are stopped until the period \
          ends",
    source: "Documentation/scheduler/sched-rt-group.rst; TuneD, sched_rt_runtime_us",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    let settings = &examined.facts.throttling;
    let Some(limit) = settings.real_time else {
        return State::unknown("/proc/sys/kernel/sched_rt_runtime_us cannot be read");
    };
    if settings.has_fair_server == Some(true) {
        return State::none(
            "since Linux 6.12, this limit only governs the admission of deadline tasks; the fair \
             server does the throttling",
        );
    }
    if limit.runtime < Nanos::ZERO || limit.runtime >= limit.period {
        return State::good("no limit");
    }
    State::improvable(
        format!("{} of each {}", limit.runtime, limit.period),
        "no limit, if a real-time task needs to run for longer and cannot hang the machine",
        "sysctl kernel.sched_rt_runtime_us=-1",
    )
}
