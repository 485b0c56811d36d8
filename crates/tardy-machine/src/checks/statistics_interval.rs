//! Checks the interval at which the kernel updates its memory statistics.

use super::{Check, CheckInput, Importance, State, Weight, number_is};

pub(super) const CHECK: Check = Check {
    name: "statistics-interval",
    weight: Weight::of(Importance::Low),
    reads: &["proc/sys/vm/stat_interval"],
    why: "a kernel worker runs on every CPU once per interval (in seconds)",
    source: "Documentation/admin-guide/sysctl/vm.rst, stat_interval; kernel-per-CPU-kthreads.rst",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    number_is(
        examined,
        "proc/sys/vm/stat_interval",
        |value| value >= 10,
        "10 or more",
        "sysctl vm.stat_interval=10",
    )
}
