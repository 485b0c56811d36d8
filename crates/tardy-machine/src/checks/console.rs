//! Checks where the kernel prints its messages.

use super::{Check, CheckInput, Importance, State, Weight, either};

pub(super) const CHECK: Check = Check {
    name: "console",
    weight: Weight::of(Importance::Medium),
    reads: &["proc/sys/kernel/printk", "sys/class/tty/console/active"],
    why: "the task that logs a message also prints it, with interrupts off: 87 us per character \
          on a serial console at 115200 baud",
    source: "koolwal2009, section 2.3; kernel-parameters.txt, loglevel= and quiet; \
             Documentation/core-api/printk-basics.rst",
    look: |examined| either(look(examined)),
};

/// The console log level at which only messages of KERN_ERR (3) and more severe levels are printed.
/// A healthy machine has no such messages.
const LEVEL_MAX: i64 = 4;

fn look(examined: &CheckInput<'_>) -> Result<State, State> {
    let levels = examined.text("proc/sys/kernel/printk")?;
    let level: i64 = levels
        .split_whitespace()
        .next()
        .and_then(|level| level.parse().ok())
        .ok_or_else(|| State::unknown("/proc/sys/kernel/printk contains no number"))?;
    let Some(active) = examined.optional("sys/class/tty/console/active")? else {
        return Ok(State::none("the kernel has no console"));
    };
    let slow: Vec<&str> = active
        .split_whitespace()
        .filter(|name| !name.starts_with("hvc") && *name != "null")
        .collect();
    let current = format!("log level {level} on {active}");
    Ok(
        if active.is_empty() || slow.is_empty() || level <= LEVEL_MAX {
            State::good(current)
        } else {
            State::improvable(
                current,
                "log level 4 or less, or no console",
                "dmesg -n 4, or quiet on the kernel's command line; work over the network, not on \
                 the console",
            )
        },
    )
}
