//! Checks the driver and the governor that set the CPUs' frequency.

use super::{Check, CheckInput, Importance, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "governor",
    weight: Weight::of(Importance::High),
    reads: &["sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"],
    why: "work starts at a low frequency, and the CPU takes time to raise its frequency",
    source: "kernel-configuration.rst, CPU frequency scaling; TuneD, governor",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    let governors = &examined.facts.processors.governors;
    if governors.is_empty() {
        return if examined.facts.processors.online.is_some() {
            State::none("the kernel does not set the frequency")
        } else {
            State::unknown("/sys/devices/system/cpu cannot be read")
        };
    }
    let others: Vec<String> = governors
        .iter()
        .filter(|(name, _)| *name != "performance")
        .map(|(name, cpus)| format!("{name} on {cpus}"))
        .collect();
    if others.is_empty() {
        return State::good("performance");
    }
    State::improvable(
        others.join(", "),
        "performance",
        "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    )
}
