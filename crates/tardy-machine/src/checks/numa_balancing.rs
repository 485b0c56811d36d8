//! Checks whether the kernel moves memory between NUMA nodes.

use super::{Check, CheckInput, Importance, State, Weight, number_is};

pub(super) const CHECK: Check = Check {
    name: "numa-balancing",
    weight: Weight::of(Importance::Low),
    reads: &["proc/sys/kernel/numa_balancing"],
    why: "the kernel unmaps pages to see which CPU uses them, and the next access then causes a \
          page fault",
    source: "Documentation/admin-guide/sysctl/kernel.rst, numa_balancing; TuneD, realtime",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    number_is(
        examined,
        "proc/sys/kernel/numa_balancing",
        |value| value == 0,
        "0",
        "sysctl kernel.numa_balancing=0",
    )
}
