//! Checks whether the clock is reliable, and which device triggers timers.

use super::{Check, CheckInput, Importance, State, Weight, either};

pub(super) const STABILITY: Check = Check {
    name: "clock-stability",
    weight: Weight::of(Importance::Medium),
    reads: &[
        "proc/cpuinfo",
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
    ],
    why: "the kernel drops a time-stamp counter that stops in idle states or changes its rate, and \
          each read of the clock then takes microseconds",
    source: "kernel-parameters.txt, tsc=; arch/x86/kernel/tsc.c",
    look: |examined| either(stability(examined)),
};

pub(super) const EVENT_DEVICE: Check = Check {
    name: "clock-event-device",
    weight: Weight::of(Importance::Medium),
    reads: &["proc/timer_list"],
    why: "if a CPU's timer stops in idle states, another CPU must wake this CPU with an interrupt",
    source: "Documentation/timers/highres.rst, clock event devices; kernel/time/tick-broadcast.c",
    look: |examined| either(event_device(examined)),
};

fn stability(examined: &CheckInput<'_>) -> Result<State, State> {
    let information = examined.text("proc/cpuinfo")?;
    let clock = examined
        .facts
        .kernel
        .clocksource
        .clone()
        .ok_or_else(|| State::unknown("the clock source cannot be read"))?;
    let flags = information
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == "flags");
    let Some((_, flags)) = flags else {
        return Ok(State::none(
            "only x86 has a time-stamp counter that may stop",
        ));
    };
    if clock != "tsc" {
        return Ok(State::none(format!(
            "the clock is {clock}, not the time-stamp counter"
        )));
    }
    let lacks = |flag: &&&str| !flags.split_whitespace().any(|word| word == **flag);
    let missing: Vec<&str> = ["constant_tsc", "nonstop_tsc"]
        .iter()
        .filter(lacks)
        .copied()
        .collect();
    Ok(if missing.is_empty() {
        State::good("constant rate, runs in all idle states")
    } else {
        State::improvable_at_start(
            format!("a time-stamp counter without {}", missing.join(" and ")),
            "a counter of constant rate that never stops",
            "processor.max_cstate=1 on the kernel's command line and a fixed frequency, or other \
             hardware",
        )
    })
}

/// A device with `CLOCK_EVT_FEAT_C3STOP` stops in idle states; the kernel then puts its CPU into
/// the broadcast mask.
fn event_device(examined: &CheckInput<'_>) -> Result<State, State> {
    let list = examined.text("proc/timer_list")?;
    let device = |line: &str| {
        line.trim()
            .strip_prefix("Clock Event Device:")
            .map(|name| name.trim().to_owned())
    };
    // The kernel lists the broadcast device first, and then the devices of the CPUs.
    let own = list
        .lines()
        .skip_while(|line| !line.starts_with("Per CPU device"))
        .find_map(device);
    let mask = list
        .lines()
        .find_map(|line| line.trim().strip_prefix("tick_broadcast_mask:"));
    let is_needed =
        mask.is_some_and(|mask| mask.trim().bytes().any(|byte| !matches!(byte, b'0' | b',')));
    Ok(match (own, is_needed) {
        (None, _) => State::unknown("/proc/timer_list lists no clock event device"),
        (Some(name), false) if ["hpet", "pit", "jiffies"].contains(&name.as_str()) => {
            State::improvable_at_start(
                name,
                "a timer per CPU (lapic, arch_sys_timer)",
                "remove nolapic, lapic=notscdeadline and nohpet from the kernel's command line; \
                 look for the timer in the kernel's log",
            )
        }
        (Some(name), false) => State::good(name),
        (Some(name), true) => State::improvable_at_start(
            format!("{name}, which stops in idle states and relies on broadcast wake-ups"),
            "a timer that runs in all idle states",
            "processor.max_cstate=1 intel_idle.max_cstate=1 on the kernel's command line",
        ),
    })
}
