//! Checks whether the kernel replaces small pages by huge pages on its own.

use super::{Check, CheckInput, Importance, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "transparent-hugepages",
    weight: Weight::of(Importance::Low),
    reads: &["sys/kernel/mm/transparent_hugepage/enabled"],
    why: "memory is compacted and copied while a task faults, or by a kernel thread",
    source: "Documentation/admin-guide/mm/transhuge.rst; TuneD, realtime \
             (transparent_hugepages=never)",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    match examined.facts.memory.transparent_hugepages.as_deref() {
        None => State::unknown("/sys/kernel/mm/transparent_hugepage/enabled cannot be read"),
        Some(mode @ ("never" | "madvise")) => State::good(mode),
        Some(mode) => State::improvable(
            mode,
            "never",
            "echo never > /sys/kernel/mm/transparent_hugepage/enabled",
        ),
    }
}
