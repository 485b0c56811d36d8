//! Checks the preemption mode of kernels that let the user select it.

use super::super::facts::CompiledPreemption;
use super::{Check, CheckInput, Importance, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "preemption-mode",
    weight: Weight::of(Importance::Medium),
    reads: &["proc/sys/kernel/version"],
    why: "in mode none or voluntary, a task switch waits for a preemption point; in mode lazy, a \
          task switch waits for up to a tick",
    source: "kernel-parameters.txt, preempt=",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    let Some(found) = &examined.facts.kernel.preemption else {
        return State::unknown("the kernel's version cannot be read");
    };
    match (found.compiled, found.mode.as_deref()) {
        (CompiledPreemption::RealTime | CompiledPreemption::Full, None) | (_, Some("full")) => {
            State::good(found.to_string())
        }
        (CompiledPreemption::Dynamic | CompiledPreemption::RealTime, Some(mode)) => {
            State::improvable(
                mode,
                "full",
                "echo full > /sys/kernel/debug/sched/preempt, or preempt=full on the kernel's \
                 command line",
            )
        }
        (CompiledPreemption::VoluntaryOrNone | CompiledPreemption::Lazy, _) => {
            State::improvable_at_start(
                found.to_string(),
                "PREEMPT or PREEMPT_RT",
                "use a kernel built with PREEMPT_DYNAMIC and preempt=full, or with PREEMPT_RT",
            )
        }
        _ => {
            State::unknown("/sys/kernel/debug/sched/preempt cannot be read (only root may read it)")
        }
    }
}
