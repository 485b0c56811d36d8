//! Whether the kernel can be preempted nearly everywhere.

use super::super::facts::CompiledPreemption;
use super::{Check, CheckInput, Importance, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "real-time-kernel",
    weight: Weight::of(Importance::Medium),
    reads: &["proc/sys/kernel/version|sys/kernel/realtime"],
    why: "kernels without PREEMPT_RT do not bound their non-preemptible sections; measure whether \
          your deadline allows for such sections",
    source: "kernel-configuration.rst, CONFIG_PREEMPT_RT",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    match &examined.facts.kernel.preemption {
        None => State::unknown("the kernel's version"),
        Some(found) if found.compiled == CompiledPreemption::RealTime => {
            State::good(found.to_string())
        }
        Some(found) => State::improvable_at_start(
            found.to_string(),
            "PREEMPT_RT",
            "measure first (tardy run --deadline TIME, then tardy advise RUN); if this kernel \
             misses the deadline, install the distribution's real-time kernel (Debian: \
             linux-image-rt-amd64)",
        ),
    }
}
