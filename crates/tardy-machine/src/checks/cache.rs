//! Checks whether the caches are divided into partitions, if the CPU supports it.

use super::{Check, CheckInput, Importance, Profile, State, Weight, either};

pub(super) const CHECK: Check = Check {
    name: "cache-partition",
    weight: Weight::of(Importance::Low).but(&[(Profile::Polling, Importance::Medium)]),
    reads: &["proc/cpuinfo", "sys/fs/resctrl/schemata"],
    why: "other CPUs push the work's data out of shared caches",
    source: "Documentation/filesystems/resctrl.rst; hardware.rst, system memory and cache",
    look: |examined| either(look(examined)),
};

fn look(examined: &CheckInput<'_>) -> Result<State, State> {
    let information = examined.text("proc/cpuinfo")?;
    let has_flag = |flag: &str| information.split_whitespace().any(|word| word == flag);
    let can_be_divided = ["cat_l3", "cat_l2", "mba"]
        .iter()
        .any(|flag| has_flag(flag));
    let root = examined.root()?;
    let groups: Vec<String> = root
        .matching("sys/fs/resctrl/*/schemata")
        .into_iter()
        .filter(|path| !path.contains("/info/"))
        .collect();
    Ok(
        match (root.names("sys/fs/resctrl").len() > 1, can_be_divided) {
            (false, false) => State::none("the CPU reports no cache partitioning"),
            (true, _) if !groups.is_empty() => {
                let names: Vec<&str> = groups
                    .iter()
                    .filter_map(|path| path.split('/').nth(3))
                    .collect();
                State::good(format!("groups {}", names.join(", ")))
            }
            (is_mounted, _) => State::improvable(
                if is_mounted {
                    "the caches are not divided (resctrl is mounted, but has only one group)"
                } else {
                    "the caches are not divided, although the CPU supports it"
                },
                "divided, with a share reserved for the CPUs of the work",
                format!(
                    "mount -t resctrl resctrl /sys/fs/resctrl; mkdir /sys/fs/resctrl/work; echo \
                     {} > /sys/fs/resctrl/work/cpus_list; write its schemata",
                    examined.cpus
                ),
            ),
        },
    )
}
