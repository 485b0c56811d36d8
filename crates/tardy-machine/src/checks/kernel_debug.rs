//! Checks whether the kernel was built with debugging checks.

use super::{Check, CheckInput, Importance, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "kernel-debug",
    weight: Weight::of(Importance::High),
    reads: &["boot/config-*|lib/modules/*/config|proc/config.gz"],
    why: "kernel debug options lengthen locks, allocations and non-preemptible sections, even when \
          unused",
    source: "kernel-configuration.rst, kernel debug options; libevl, kconf-checklist.evl",
    look,
};

/// The options that kernel-configuration.rst and EVL's list advise against, and the allocation
/// checkers. The checkers cost more time than any other option here.
const OPTIONS: [&str; 13] = [
    "PROVE_LOCKING",
    "LOCKDEP",
    "LOCK_STAT",
    "DEBUG_LOCK_ALLOC",
    "IRQSOFF_TRACER",
    "PREEMPT_TRACER",
    "DEBUG_PREEMPT",
    "DEBUG_PER_CPU_MAPS",
    "DEBUG_VM",
    "DEBUG_OBJECTS",
    "KASAN",
    "DEBUG_PAGEALLOC_ENABLE_DEFAULT",
    "SLUB_DEBUG_ON",
];

fn look(examined: &CheckInput<'_>) -> State {
    let configuration = match examined.configuration() {
        Ok(configuration) => configuration,
        Err(state) => return state,
    };
    let on: Vec<&str> = OPTIONS
        .iter()
        .filter(|option| configuration.is_built_in(option))
        .copied()
        .collect();
    if on.is_empty() {
        return State::good("all debug options off");
    }
    State::improvable_at_start(
        on.join(", "),
        "all debug options off",
        "use a kernel built without these options; distributions add -debug or -dbg to the names \
         of kernels that have these options",
    )
}
