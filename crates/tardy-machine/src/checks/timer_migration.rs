//! Whether timers of idle processors move to busy ones.

use super::{Check, Examined, Importance, State, number_is};

pub(super) const CHECK: Check = Check {
    name: "timer-migration",
    importance: Importance::Low,
    why: "timers that other processors set may fire on these",
    source: "TuneD, realtime (kernel.timer_migration=0)",
    look,
};

fn look(examined: &Examined<'_>) -> State {
    number_is(examined, "proc/sys/kernel/timer_migration", |value| value == 0, "0", "sysctl kernel.timer_migration=0")
}
