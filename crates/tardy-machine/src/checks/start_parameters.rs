//! Checks kernel parameters that can only be set at boot.

use super::{Check, CheckInput, Importance, Profile, State, Weight, either};
use crate::facts::CompiledPreemption;

/// If a machine has at least this many CPUs, the check assumes that simultaneous ticks contend for
/// locks.
const MANY_CPUS: usize = 8;

pub(super) const THREADED_INTERRUPTS: Check = Check {
    name: "threaded-interrupts",
    weight: Weight::of(Importance::Medium),
    reads: &["proc/cmdline", "proc/sys/kernel/version"],
    why: "handlers that are not threads preempt tasks of every priority",
    source: "kernel-parameters.txt, threadirqs; rtcqs",
    look: |examined| either(threaded_interrupts(examined)),
};

pub(super) const SKEWED_TICKS: Check = Check {
    name: "skewed-ticks",
    weight: Weight::of(Importance::Low),
    reads: &["proc/cmdline", "sys/devices/system/cpu/online"],
    why: "CPUs that tick at the same moment contend for the same locks",
    source: "kernel-parameters.txt, skew_tick=; TuneD, realtime",
    look: |examined| either(skewed_ticks(examined)),
};

pub(super) const GRACE_PERIODS: Check = Check {
    name: "rcu-grace-periods",
    weight: Weight::of(Importance::Medium),
    reads: &[
        "proc/cmdline",
        "sys/kernel/rcu_normal",
        "sys/kernel/rcu_expedited",
    ],
    why: "expedited grace periods of RCU interrupt every CPU that does not sleep",
    source: "kernel-parameters.txt, rcupdate.rcu_normal_after_boot=; TuneD, realtime-virtual-host",
    look: |examined| either(grace_periods(examined)),
};

fn threaded_interrupts(examined: &CheckInput<'_>) -> Result<State, State> {
    let preemption = examined
        .facts
        .kernel
        .preemption
        .as_ref()
        .ok_or_else(|| State::unknown("the kernel's version cannot be read"))?;
    if preemption.compiled == CompiledPreemption::RealTime {
        return Ok(State::good("PREEMPT_RT: interrupt handlers are threads"));
    }
    Ok(if examined.has_parameter("threadirqs")? {
        State::good("threadirqs")
    } else {
        State::improvable_at_start(
            "interrupt handlers run in interrupt context",
            "threads with a priority",
            "threadirqs on the kernel's command line, or PREEMPT_RT",
        )
    })
}

fn skewed_ticks(examined: &CheckInput<'_>) -> Result<State, State> {
    let online = examined
        .facts
        .processors
        .online
        .as_ref()
        .ok_or_else(|| State::unknown("/sys/devices/system/cpu/online cannot be read"))?;
    let is_set = examined.parameter("skew_tick")? == Some("1");
    Ok(match (is_set, online.len()) {
        (true, _) => State::good("skew_tick=1"),
        (false, 1) => State::none("there is one CPU"),
        (false, count) if count < MANY_CPUS && examined.profile != Profile::VmHost => {
            State::good(format!("off, for {count} CPUs"))
        }
        (false, count) => State::improvable_at_start(
            format!("off, for {count} CPUs"),
            "on",
            "skew_tick=1 on the kernel's command line",
        ),
    })
}

fn grace_periods(examined: &CheckInput<'_>) -> Result<State, State> {
    let is_one = |path| {
        examined
            .optional(path)
            .map(|text| text.as_deref() == Some("1"))
    };
    let is_normal = is_one("sys/kernel/rcu_normal")?;
    if is_normal {
        return Ok(State::good(
            "grace periods are never expedited (rcu_normal)",
        ));
    }
    if is_one("sys/kernel/rcu_expedited")? {
        return Ok(State::improvable(
            "always expedited",
            "never expedited",
            "echo 0 > /sys/kernel/rcu_expedited; echo 1 > /sys/kernel/rcu_normal",
        ));
    }
    let is_real_time = examined
        .facts
        .kernel
        .preemption
        .as_ref()
        .is_some_and(|found| found.compiled == CompiledPreemption::RealTime);
    if is_real_time && examined.parameter("rcupdate.rcu_normal_after_boot")? != Some("0") {
        return Ok(State::good(
            "grace periods are never expedited after boot (PREEMPT_RT)",
        ));
    }
    Ok(State::improvable(
        "grace periods are expedited whenever the kernel requests it",
        "never expedited",
        "echo 1 > /sys/kernel/rcu_normal, or rcupdate.rcu_normal_after_boot=1 on the kernel's \
         command line",
    ))
}
