//! Checks which CPUs run deferred work of the kernel.

use tardy_core::cpu::CpuList;

use super::{Check, CheckInput, Importance, Profile, State, Weight, either};

pub(super) const CHECK: Check = Check {
    name: "workqueues",
    weight: Weight::of(Importance::Low).but(&[
        (Profile::Polling, Importance::Medium),
        (Profile::VmHost, Importance::Medium),
    ]),
    reads: &[
        "sys/devices/virtual/workqueue/cpumask",
        "sys/devices/virtual/workqueue/*/cpumask",
    ],
    why: "unbound work items may run on the CPUs of the work",
    source: "kernel-per-CPU-kthreads.rst, workqueues; Documentation/core-api/workqueue.rst",
    look: |examined| either(look(examined)),
};

const FOLDER: &str = "sys/devices/virtual/workqueue";

fn look(examined: &CheckInput<'_>) -> Result<State, State> {
    let mask = examined.text(&format!("{FOLDER}/cpumask"))?;
    let others = examined
        .other_cpus()
        .ok_or_else(|| State::unknown("/sys/devices/system/cpu/online cannot be read"))?;
    if others.is_empty() {
        return Ok(State::none("the work uses every CPU"));
    }
    let cpus = CpuList::from_mask(&mask)
        .ok_or_else(|| State::unknown(format!("/{FOLDER}/cpumask has no mask")))?;
    // The kernel combines the mask of each queue with the mask for all queues, so only CPUs in both
    // masks run work.
    let reached = cpus.and(examined.cpus);
    if !reached.is_empty() {
        return Ok(State::improvable(
            format!("CPUs {cpus}"),
            format!("CPUs {others}"),
            format!("echo {} > /{FOLDER}/cpumask", others.to_mask()),
        ));
    }
    let own = examined.texts(&format!("{FOLDER}/*/cpumask"))?;
    let reaches = |mask: &str| {
        CpuList::from_mask(mask).is_some_and(|cpus| !cpus.and(examined.cpus).is_empty())
    };
    let reaching: Vec<&str> = own
        .iter()
        .filter(|(_, mask)| reaches(mask))
        .filter_map(|(path, _)| path.strip_prefix(FOLDER)?.split('/').nth(1))
        .collect();
    Ok(if reaching.is_empty() {
        State::good(format!("CPUs {cpus}"))
    } else {
        State::good(format!(
            "CPUs {cpus}; unbound work items stay on these CPUs, although the masks of {} are \
             wider",
            reaching.join(", ")
        ))
    })
}
