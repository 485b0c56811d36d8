//! Whether processors slowed down because they were hot.

use tardy_core::cpu::CpuId;

use super::super::throttling::thermal_counts;
use super::{Check, Examined, Importance, NOT_HERE, State};

pub(super) const CHECK: Check = Check {
    name: "heat",
    importance: Importance::High,
    why: "a hot processor works more slowly until it has cooled down",
    source: "hardware.rst; drivers/thermal/intel/therm_throt.c",
    look,
};

fn look(examined: &Examined<'_>) -> State {
    let Some(root) = examined.root else { return State::unknown(NOT_HERE) };
    let counts = thermal_counts(root);
    if counts.is_empty() {
        return State::unknown("/sys/devices/system/cpu/cpu*/thermal_throttle (Intel only)");
    }
    let events = |cpu: CpuId| counts.get(&cpu).map_or(0, |counts| counts.core.unwrap_or(0).max(counts.package.unwrap_or(0)));
    match examined.cpus.iter().map(events).max() {
        None | Some(0) => State::good("never since the start of the system"),
        Some(most) => State::improvable(
            format!("{most} times since the start of the system"),
            "never",
            "better cooling, or a lower highest frequency (scaling_max_freq)",
        ),
    }
}
