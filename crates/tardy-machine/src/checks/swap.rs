//! Checks whether memory can be swapped to a disk.

use super::{Check, CheckInput, Importance, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "swap",
    weight: Weight::of(Importance::Low),
    reads: &["proc/meminfo"],
    why: "memory that is not locked may have to be read back from a disk",
    source: "TuneD, vm.swappiness; mlockall(2)",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    match examined.facts.memory.swap_total_bytes {
        None => State::unknown("/proc/meminfo cannot be read"),
        Some(0) => State::good("none"),
        Some(bytes) => State::improvable(
            tardy_core::bytes::format_bytes(bytes),
            "no swap, or all memory of the work locked",
            "mlockall(MCL_CURRENT | MCL_FUTURE) in the application, or swapoff -a",
        ),
    }
}
