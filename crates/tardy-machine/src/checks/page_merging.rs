//! Checks whether the kernel merges equal pages.

use super::{Check, CheckInput, Importance, State, Weight, number_is};

pub(super) const CHECK: Check = Check {
    name: "page-merging",
    weight: Weight::of(Importance::Low),
    reads: &["sys/kernel/mm/ksm/run"],
    why: "a write to a merged page has to copy the page first",
    source: "Documentation/admin-guide/mm/ksm.rst; TuneD, realtime",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    number_is(
        examined,
        "sys/kernel/mm/ksm/run",
        |value| value != 1,
        "0 or 2",
        "echo 2 > /sys/kernel/mm/ksm/run",
    )
}
