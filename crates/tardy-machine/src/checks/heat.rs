//! Checks whether heat throttled CPUs.

use tardy_core::cpu::CpuId;

use super::super::throttling::thermal_counts;
use super::{Check, CheckInput, Importance, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "heat",
    weight: Weight::of(Importance::High),
    reads: &["sys/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count"],
    why: "a hot CPU runs more slowly until it has cooled down",
    source: "hardware.rst; drivers/thermal/intel/therm_throt.c",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    let root = match examined.root() {
        Ok(root) => root,
        Err(state) => return state,
    };
    let counts = thermal_counts(root);
    if counts.is_empty() {
        return State::none("the CPU does not count thermal throttling (Intel CPUs do)");
    }
    let events = |cpu: CpuId| {
        counts.get(&cpu).map_or(0, |counts| {
            counts.core.unwrap_or(0).max(counts.package.unwrap_or(0))
        })
    };
    match examined.cpus.iter().map(events).max() {
        None | Some(0) => State::good("not throttled since boot"),
        Some(most) => State::improvable(
            format!("throttled {most} times since boot"),
            "never",
            "better cooling, or a lower maximum frequency (scaling_max_freq)",
        ),
    }
}
