//! Checks the clock source.

use super::{Check, CheckInput, Importance, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "clock-source",
    weight: Weight::of(Importance::Medium),
    reads: &["sys/devices/system/clocksource/clocksource0/current_clocksource"],
    why: "a read of hpet or acpi_pm takes microseconds, over a shared bus",
    source: "kernel-parameters.txt, clocksource=; Red Hat's guide, hardware clocks",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    let kernel = &examined.facts.kernel;
    match kernel.clocksource.as_deref() {
        None => State::unknown(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource cannot be read",
        ),
        Some(slow @ ("hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" | "pit")) => {
            let better = kernel
                .clocksources_available
                .iter()
                .find(|name| ["tsc", "kvm-clock", "arch_sys_counter"].contains(&name.as_str()));
            match better {
                Some(better) => State::improvable(
                    slow,
                    better.as_str(),
                    format!(
                        "echo {better} > \
                         /sys/devices/system/clocksource/clocksource0/current_clocksource"
                    ),
                ),
                None => State::improvable_at_start(
                    slow,
                    "tsc",
                    "check the kernel's log for the reason why tsc was rejected; use tsc=reliable \
                     if tsc is known to be good",
                ),
            }
        }
        Some(other) => State::good(other),
    }
}
