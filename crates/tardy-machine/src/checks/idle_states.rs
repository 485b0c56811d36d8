//! Checks which idle states the CPUs may enter.

use std::io::Read;

use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;

use super::super::facts::IdleState;
use super::super::root::Root;
use super::{Check, CheckInput, Importance, Profile, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "idle-states",
    weight: Weight::of(Importance::High).but(&[(Profile::Polling, Importance::Low)]),
    reads: &[
        "sys/devices/system/cpu/cpu*/cpuidle/state*/latency",
        "sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us",
        "dev/cpu_dma_latency",
    ],
    why: "waking up from a deep idle state takes the state's exit latency, plus the time to refill \
          caches",
    source: "kernel-configuration.rst, CPU idle; TuneD, force_latency",
    look,
};

/// Maximum exit latency of an idle state that the check accepts. C1 has an exit latency of about 2
/// us.
const EXIT_LATENCY_MAX: Nanos = Nanos::from_micros(2);
/// PM_QOS_CPU_LATENCY_DEFAULT_VALUE of include/linux/pm_qos.h: the value if no process requested a
/// limit.
const NO_REQUEST_US: i32 = 2_000_000_000;

fn look(examined: &CheckInput<'_>) -> State {
    let idle = &examined.facts.processors.idle;
    if idle.states.is_empty() {
        return match idle.driver.as_deref() {
            Some("none") => State::none("there is no idle driver"),
            _ => State::unknown("/sys/devices/system/cpu/cpu*/cpuidle cannot be read"),
        };
    }
    if examined.parameter("idle") == Ok(Some("poll")) {
        return State::good("idle CPUs poll, and enter no idle state (idle=poll)");
    }
    let limit = examined.root.and_then(requested).unwrap_or(Nanos::MAX);
    let entered = |state: &&IdleState| {
        let enabled = state.cpus.minus(&state.disabled);
        let cpus = if examined.cpus.is_empty() {
            enabled
        } else {
            enabled.and(examined.cpus)
        };
        let is_allowed = |cpu: CpuId| {
            state.exit_latency
                <= examined
                    .root
                    .and_then(|root| allowed(root, cpu))
                    .unwrap_or(Nanos::MAX)
                    .min(limit)
        };
        cpus.iter().any(is_allowed)
    };
    let Some(deepest) = idle
        .states
        .iter()
        .filter(entered)
        .max_by_key(|state| state.exit_latency)
    else {
        return State::good("not entered");
    };
    let by_request = if limit == Nanos::MAX {
        String::new()
    } else {
        format!(", as long as a program requests a limit of {limit}")
    };
    let current = format!(
        "down to {} ({}){by_request}",
        deepest.name, deepest.exit_latency
    );
    if deepest.exit_latency <= EXIT_LATENCY_MAX {
        return State::good(current);
    }
    State::improvable(
        current,
        "C1 at most",
        "in the application, write 0 to /dev/cpu_dma_latency and keep the file open (tardy run \
         does so while it measures), or boot with processor.max_cstate=1 \
         intel_idle.max_cstate=1",
    )
}

/// Returns the maximum exit latency that processes requested through /dev/cpu_dma_latency; `None`
/// if there is no request. Reading the device returns the tightest request in us, as a 32-bit
/// number. Opening it requests nothing.
fn requested(root: &Root) -> Option<Nanos> {
    let mut latency = [0; 4];
    root.open("dev/cpu_dma_latency")
        .ok()?
        .read_exact(&mut latency)
        .ok()?;
    let latency = i32::from_ne_bytes(latency);
    (0..NO_REQUEST_US)
        .contains(&latency)
        .then(|| Nanos::from_micros(latency.into()))
}

/// Returns the maximum exit latency that is allowed on one CPU: `n/a` allows none, 0 sets no limit
/// (Documentation/ABI/testing/sysfs-devices-power).
fn allowed(root: &Root, cpu: CpuId) -> Option<Nanos> {
    match root
        .text(format!(
            "sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us"
        ))?
        .as_str()
    {
        "n/a" => Some(Nanos::ZERO),
        text => text
            .parse::<i64>()
            .ok()
            .filter(|&latency| latency > 0)
            .map(Nanos::from_micros),
    }
}
