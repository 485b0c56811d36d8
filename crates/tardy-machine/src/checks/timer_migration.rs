//! Checks whether timers of idle CPUs move to busy CPUs.

use super::{Check, CheckInput, Importance, Profile, State, Weight, number_is};

pub(super) const CHECK: Check = Check {
    name: "timer-migration",
    weight: Weight::of(Importance::Low).but(&[
        (Profile::Polling, Importance::Medium),
        (Profile::VmHost, Importance::Medium),
    ]),
    reads: &["proc/sys/kernel/timer_migration"],
    why: "timers set on other CPUs may fire on the CPUs of the work",
    source: "TuneD, realtime (kernel.timer_migration=0)",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    number_is(
        examined,
        "proc/sys/kernel/timer_migration",
        |value| value == 0,
        "0",
        "sysctl kernel.timer_migration=0",
    )
}
