//! Whether other tasks are kept off the processors.

use super::{Check, Examined, Importance, State};

pub(super) const CHECK: Check = Check {
    name: "isolation",
    importance: Importance::Medium,
    why: "tasks and work of the kernel that come to these processors take caches, locks and time",
    source: "kernel-per-CPU-kthreads.rst; kernel-parameters.txt, isolcpus=; cgroup-v2.rst, cpuset.cpus.partition",
    look,
};

fn look(examined: &Examined<'_>) -> State {
    let processors = &examined.facts.processors;
    let Some(isolated) = &processors.isolated else { return State::unknown("/sys/devices/system/cpu/isolated") };
    if processors.online.as_ref().is_some_and(|online| online.len() < 2) {
        return State::NotApplicable;
    }
    let open = examined.cpus.minus(isolated);
    if open.is_empty() && !examined.cpus.is_empty() {
        return State::good(isolated.to_string());
    }
    let current = if isolated.is_empty() { "none is isolated".to_owned() } else { format!("isolated {isolated}; {open} are not") };
    State::improvable_at_start(
        current,
        "the processors of the work isolated, at least one left for everything else",
        "without a restart: a cpuset with cpuset.cpus.partition=isolated; else isolcpus=managed_irq,domain,LIST on the kernel's command line",
    )
}
