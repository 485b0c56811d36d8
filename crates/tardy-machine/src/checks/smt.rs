//! Checks whether hyperthreading is on, so that two hardware threads share a core.

use super::{Check, CheckInput, Importance, Profile, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "smt",
    weight: Weight::of(Importance::Medium).but(&[(Profile::Audio, Importance::Low)]),
    reads: &["sys/devices/system/cpu/smt/active"],
    why: "a task on the other thread of a core takes half of the core, and shares its caches",
    source: "kernel-parameters.txt, nosmt; hardware.rst, simultaneous multithreading",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    match examined.facts.processors.smt_active {
        None => State::unknown("/sys/devices/system/cpu/smt/active cannot be read"),
        Some(false) => State::good("off"),
        Some(true) => State::improvable(
            "on",
            "off, or the other thread of each core left idle",
            "echo off > /sys/devices/system/cpu/smt/control, or nosmt on the kernel's command line",
        ),
    }
}
