//! How deep idle processors sleep.

use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;

use super::super::facts::IdleState;
use super::{Check, Examined, Importance, State};

pub(super) const CHECK: Check = Check {
    name: "idle-states",
    importance: Importance::High,
    why: "waking from a deep state takes as long as its exit latency, and more to fill caches again",
    source: "kernel-configuration.rst, CPU idle; TuneD, force_latency",
    look,
};

/// C1 takes about 2 us; what takes longer is felt.
const EXIT_LATENCY_MAX: Nanos = Nanos::from_micros(2);

fn look(examined: &Examined<'_>) -> State {
    let idle = &examined.facts.processors.idle;
    if idle.states.is_empty() {
        return match idle.driver.as_deref() {
            Some("none") => State::NotApplicable,
            _ => State::unknown("/sys/devices/system/cpu/cpu*/cpuidle"),
        };
    }
    let entered = |state: &&IdleState| {
        let enabled = state.cpus.minus(&state.disabled);
        let of_interest = enabled.minus(&enabled.minus(examined.cpus));
        let cpus: &CpuList = if examined.cpus.is_empty() { &enabled } else { &of_interest };
        !cpus.is_empty()
    };
    let Some(deepest) = idle.states.iter().filter(entered).max_by_key(|state| state.exit_latency) else {
        return State::good("none is entered");
    };
    let current = format!("down to {} ({})", deepest.name, deepest.exit_latency);
    if deepest.exit_latency <= EXIT_LATENCY_MAX {
        return State::good(current);
    }
    State::improvable(
        current,
        "C1 at most",
        "hold /dev/cpu_dma_latency open with 0 in the application (tardy run does so while it measures), or processor.max_cstate=1 intel_idle.max_cstate=1",
    )
}
