//! Checks whether other tasks are kept off the CPUs of interest.

use super::{Check, CheckInput, Importance, Profile, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "isolation",
    weight: Weight::of(Importance::Medium).but(&[
        (Profile::Polling, Importance::High),
        (Profile::VmHost, Importance::High),
        (Profile::Audio, Importance::Low),
    ]),
    reads: &[
        "sys/devices/system/cpu/isolated",
        "sys/fs/cgroup/cpuset.cpus.isolated",
    ],
    why: "other tasks and kernel work on the CPUs of the work use CPU time and caches, and hold locks",
    source: "kernel-per-CPU-kthreads.rst; kernel-parameters.txt, isolcpus=; cgroup-v2.rst, \
             cpuset.cpus.partition",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    let processors = &examined.facts.processors;
    let Some(isolated) = &processors.isolated else {
        return State::unknown("/sys/devices/system/cpu/isolated cannot be read");
    };
    if processors
        .online
        .as_ref()
        .is_some_and(|online| online.len() < 2)
    {
        return State::none("there is one CPU");
    }
    let open = examined.cpus.minus(isolated);
    if open.is_empty() && !examined.cpus.is_empty() {
        return State::good(isolated.to_string());
    }
    let current = if isolated.is_empty() {
        "no CPU is isolated".to_owned()
    } else {
        format!("CPUs {isolated} are isolated; CPUs {open} are not")
    };
    State::improvable(
        current,
        "isolated CPUs for the work, and at least one CPU for everything else",
        format!(
            "isolcpus=managed_irq,domain,{} on the kernel's command line (needs a restart); or, \
             without a restart, a cpuset with cpuset.cpus.partition=isolated",
            examined.to_isolate()
        ),
    )
}
