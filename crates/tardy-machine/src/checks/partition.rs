//! Checks whether the user's work and everything else run on separate CPUs.

use std::collections::BTreeMap;

use tardy_core::cpu::{CpuId, CpuList};

use super::{Check, CheckInput, Importance, Profile, State, Weight, either};

const CPU: &str = "sys/devices/system/cpu";

pub(super) const SETS: Check = Check {
    name: "isolation-sets",
    weight: Weight::of(Importance::Medium),
    reads: &[
        "sys/devices/system/cpu/isolated",
        "sys/devices/system/cpu/nohz_full",
    ],
    why: "a CPU that is isolated by only one method still gets the work that the other methods \
          would keep away",
    source: "Documentation/admin-guide/cpu-isolation.rst",
    look: |examined| either(sets(examined)),
};

pub(super) const HOUSEKEEPING: Check = Check {
    name: "housekeeping",
    weight: Weight::of(Importance::Medium),
    reads: &["sys/devices/system/cpu/cpu*/topology/physical_package_id"],
    why: "the kernel and other programs need a housekeeping CPU, preferably one in each package",
    source: "Documentation/admin-guide/cpu-isolation.rst, housekeeping; TuneD, realtime",
    look: |examined| either(housekeeping(examined)),
};

pub(super) const SIBLINGS: Check = Check {
    name: "core-siblings",
    weight: Weight::of(Importance::High).but(&[
        (Profile::Audio, Importance::Low),
        (Profile::Periodic, Importance::Medium),
    ]),
    reads: &["sys/devices/system/cpu/cpu*/topology/thread_siblings_list"],
    why: "other tasks on the second thread of the work's core take half of the core",
    source: "Documentation/admin-guide/cpu-isolation.rst, checklist; OpenShift, cnf-tests",
    look: |examined| either(siblings(examined)),
};

pub(super) const FULL_DYNTICKS: Check = Check {
    name: "full-dynticks",
    weight: Weight::of(Importance::Medium).but(&[
        (Profile::Polling, Importance::High),
        (Profile::VmHost, Importance::High),
    ]),
    reads: &["sys/devices/system/cpu/nohz_full"],
    why: "without a tick, a task in user space runs undisturbed, but every system call takes longer",
    source: "kernel-configuration.rst, CONFIG_NO_HZ_FULL; Documentation/timers/no_hz.rst",
    look: |examined| either(full_dynticks(examined)),
};

pub(super) const OFFLINE: Check = Check {
    name: "offline-cpus",
    weight: Weight::of(Importance::Low),
    reads: &["sys/devices/system/cpu/offline"],
    why: "taking a CPU offline or online stops all others for a moment",
    source: "kernel-per-CPU-kthreads.rst, CPU hotplug; Documentation/core-api/cpu_hotplug.rst",
    look: |examined| either(offline(examined)),
};

fn sets(examined: &CheckInput<'_>) -> Result<State, State> {
    let isolated = examined
        .facts
        .processors
        .isolated
        .clone()
        .ok_or_else(|| State::unknown("/sys/devices/system/cpu/isolated cannot be read"))?;
    let nohz = examined
        .facts
        .processors
        .nohz_full
        .clone()
        .unwrap_or_default();
    let mut named: Vec<(&str, CpuList)> = vec![("isolated", isolated), ("nohz_full", nohz)];
    named.retain(|(_, cpus)| !cpus.is_empty());
    let text = named
        .iter()
        .map(|(name, cpus)| format!("{name} {cpus}"))
        .collect::<Vec<_>>()
        .join(", ");
    let first = named.first().map(|(_, cpus)| cpus.to_string());
    Ok(match first {
        None => State::none("there are no isolated CPUs"),
        Some(first) if named.iter().all(|(_, cpus)| cpus.to_string() == first) => State::good(text),
        Some(_) => State::improvable_at_start(
            text,
            "the same CPUs for both",
            format!(
                "isolcpus=managed_irq,domain,{0} on the kernel's command line, with nohz_full={0} \
                 for work that never sleeps",
                examined.to_isolate()
            ),
        ),
    })
}

fn housekeeping(examined: &CheckInput<'_>) -> Result<State, State> {
    let others = examined
        .other_cpus()
        .ok_or_else(|| State::unknown("/sys/devices/system/cpu/online cannot be read"))?;
    let mut packages: BTreeMap<String, CpuList> = BTreeMap::new();
    for (path, package) in examined.texts(&format!("{CPU}/cpu*/topology/physical_package_id"))? {
        let cpu = path
            .split('/')
            .nth(4)
            .and_then(|name| name.strip_prefix("cpu")?.parse().ok());
        packages.entry(package).or_default().insert(CpuId(
            cpu.ok_or_else(|| State::unknown("the number of a CPU cannot be read"))?,
        ));
    }
    if packages.is_empty() {
        return Ok(State::none("the kernel lists no packages"));
    }
    if others.is_empty() {
        let is_one = examined.cpus.len() < 2;
        return Ok(if is_one {
            State::none("there is one CPU")
        } else {
            State::improvable(
                "the work uses every CPU, so none is left for everything else",
                "at least one",
                "name fewer CPUs (--cpus), and bind the work to them",
            )
        });
    }
    let full: Vec<&String> = packages
        .iter()
        .filter(|(_, cpus)| cpus.and(&others).is_empty())
        .map(|(package, _)| package)
        .collect();
    Ok(match full.first() {
        None => State::good(format!("CPUs {others} are left for everything else")),
        Some(package) => State::improvable(
            format!(
                "package {package} has no housekeeping CPU, because the work uses all its CPUs"
            ),
            "at least one in each package",
            "leave one CPU of each package to everything else",
        ),
    })
}

fn siblings(examined: &CheckInput<'_>) -> Result<State, State> {
    let lists = examined.of_each_cpu(&format!("{CPU}/cpuCPU/topology/thread_siblings_list"))?;
    if lists.is_empty() {
        return Ok(State::none("the kernel lists no siblings"));
    }
    let online = examined.facts.processors.online.clone().unwrap_or_default();
    let shared = |list: &String| {
        list.parse::<CpuList>()
            .unwrap_or_default()
            .and(&online)
            .minus(examined.cpus)
    };
    let strangers: CpuList = lists
        .iter()
        .flat_map(|(_, list)| shared(list).iter().collect::<Vec<_>>())
        .collect();
    Ok(if strangers.is_empty() {
        State::good("the work is alone on its cores")
    } else {
        let first = strangers.iter().next().map_or(0, |cpu| cpu.0);
        State::improvable(
            format!("the work shares cores with CPUs {strangers}"),
            "alone on its cores",
            format!(
                "echo 0 > /sys/devices/system/cpu/cpu{first}/online for each of these CPUs, or \
                 name both threads of each core (--cpus)"
            ),
        )
    })
}

fn full_dynticks(examined: &CheckInput<'_>) -> Result<State, State> {
    let Some(text) = examined.optional(&format!("{CPU}/nohz_full"))? else {
        return Ok(State::none("the kernel has no CONFIG_NO_HZ_FULL"));
    };
    let cpus = match text.as_str() {
        "(null)" => CpuList::default(),
        list => list
            .parse()
            .map_err(|_| State::unknown("/sys/devices/system/cpu/nohz_full contains no list"))?,
    };
    let current = if cpus.is_empty() {
        "on no CPU".to_owned()
    } else {
        format!("on CPUs {cpus}")
    };
    let list = examined.cpus;
    Ok(match examined.profile.is_busy() {
        true if examined.cpus.minus(&cpus).is_empty() => State::good(current),
        true => State::improvable_at_start(
            current,
            format!("on CPUs {list}"),
            format!("nohz_full={list} on the kernel's command line"),
        ),
        false if cpus.and(examined.cpus).is_empty() => State::good(current),
        false => State::improvable_at_start(
            current,
            "on none of the work's CPUs, because the work sleeps and makes system calls",
            "remove nohz_full= from the kernel's command line",
        ),
    })
}

fn offline(examined: &CheckInput<'_>) -> Result<State, State> {
    let text = examined.text(&format!("{CPU}/offline"))?;
    Ok(if text.is_empty() {
        State::good("every CPU is online")
    } else {
        State::noted(format!("CPUs {text} are offline"))
    })
}
