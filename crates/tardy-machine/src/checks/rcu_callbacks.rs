//! Checks which CPUs run RCU callbacks.

use super::{Check, CheckInput, Importance, Profile, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "rcu-callbacks",
    weight: Weight::of(Importance::Medium).but(&[
        (Profile::Polling, Importance::High),
        (Profile::VmHost, Importance::High),
        (Profile::Audio, Importance::Low),
    ]),
    reads: &["proc/cmdline"],
    why: "RCU callbacks run in softirqs on the CPU that queued them, many in a row",
    source: "kernel-per-CPU-kthreads.rst, rcu_nocbs=; TuneD, cpu-partitioning",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    let Some(words) = examined.command_line() else {
        return State::unknown("/proc/cmdline cannot be read");
    };
    if examined
        .facts
        .processors
        .online
        .as_ref()
        .is_some_and(|online| online.len() < 2)
    {
        return State::none("there is one CPU");
    }
    let given = words.iter().rev().find_map(|word| {
        word.strip_prefix("rcu_nocbs")
            .map(|rest| rest.strip_prefix('='))
    });
    // nohz_full= implies rcu_nocbs= for its CPUs.
    let by_nohz = examined
        .facts
        .processors
        .nohz_full
        .clone()
        .unwrap_or_default();
    let current = match given {
        Some(None | Some("all")) => return State::good("callbacks are moved off all CPUs"),
        Some(Some(list)) => list.to_owned(),
        None if !by_nohz.is_empty() => by_nohz.to_string(),
        None => "callbacks stay on the CPUs that queued them".to_owned(),
    };
    let covered = current
        .parse::<tardy_core::cpu::CpuList>()
        .unwrap_or_default();
    let open = examined.cpus.minus(&covered).minus(&by_nohz);
    if open.is_empty() && !examined.cpus.is_empty() {
        return State::good(current);
    }
    State::improvable_at_start(
        current,
        "moved off the CPUs of the work",
        format!(
            "rcu_nocbs={} on the kernel's command line",
            examined.to_isolate()
        ),
    )
}
