//! Checks whether a control group throttles the CPU.

use super::{Check, CheckInput, Importance, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "cpu-quota",
    weight: Weight::of(Importance::High),
    reads: &["proc/self/cgroup"],
    why: "a group that has used up its quota is stopped for the rest of the period, usually for \
          milliseconds",
    source: "Documentation/scheduler/sched-bwc.rst",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    let cgroup = &examined.facts.cgroup;
    match cgroup.cpu_quota {
        Some(quota) => State::improvable(
            format!("{} of each {}", quota.quota, quota.period),
            "no quota",
            "start the work outside of this control group, or write max to its cpu.max \
             (containers: without a CPU limit)",
        ),
        None if cgroup.groups.contains_key("cpu") => State::good("no quota"),
        None => State::unknown("the CPU controller of this process's control group cannot be read"),
    }
}
