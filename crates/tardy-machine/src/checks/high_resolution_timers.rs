//! Checks whether timers expire at the requested time, or only at the next tick.

use super::{Check, CheckInput, Importance, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "high-resolution-timers",
    weight: Weight::of(Importance::Fatal),
    reads: &["proc/timer_list"],
    why: "without high-resolution timers, timers fire at the next tick, up to 10 ms late",
    source: "Documentation/timers/highres.rst; abeni2002, timer resolution latency",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    let switched_off = examined
        .command_line()
        .is_some_and(|words| words.contains(&"highres=off"));
    match examined.facts.kernel.high_resolution_timers {
        Some(true) => State::good("on"),
        None if !switched_off => {
            State::unknown("/proc/timer_list cannot be read (only root may read it)")
        }
        _ => State::improvable_at_start(
            "off",
            "on",
            "remove highres=off from the kernel's command line; make sure that a clock source \
             suitable for high-resolution timers is in use",
        ),
    }
}
