//! Checks whether the kernel's lockup watchdogs run.

use super::{Check, CheckInput, Importance, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "watchdog",
    weight: Weight::of(Importance::Low),
    reads: &["proc/sys/kernel/watchdog"],
    why: "the watchdog runs a timer every few seconds, and a thread at the highest priority, on \
          every watched CPU",
    source: "kernel-configuration.rst, lockup detector; TuneD, realtime (nowatchdog)",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    if examined
        .command_line()
        .is_some_and(|words| words.contains(&"nowatchdog"))
    {
        return State::good("off (nowatchdog)");
    }
    match examined.number("proc/sys/kernel/watchdog") {
        Ok(0) => State::good("off"),
        Ok(_) => {
            let watched = examined
                .root
                .and_then(|root| root.cpu_list("proc/sys/kernel/watchdog_cpumask"));
            if watched.as_ref().is_some_and(|watched| {
                examined.cpus.iter().all(|cpu| !watched.contains(cpu)) && !examined.cpus.is_empty()
            }) {
                return State::good("on, but only on other CPUs");
            }
            State::improvable(
                "on",
                "off, or on other CPUs",
                format!(
                    "sysctl kernel.watchdog=0, or sysctl kernel.watchdog_cpumask={}",
                    examined.others()
                ),
            )
        }
        Err(state) => state,
    }
}
