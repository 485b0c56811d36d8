//! Lists the settings that the tool knows, each with its recommended values on this machine. The
//! row of the same name in `tardy doctor` states the reason and the source
//! (`tardy_machine::checks`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use tardy_core::cpu::CpuList;
use tardy_machine::checks::Profile;
use tardy_machine::irq_affinity::{self, IrqPlan};
use tardy_machine::root::Root;

use crate::setting::Setting;

/// The machine that is set up, and the profile and the CPUs for which it is set up.
#[derive(Debug, Clone)]
pub struct Target<'a> {
    pub root: &'a Root,
    pub profile: Profile,
    /// CPUs whose tasks must be on time.
    pub cpus: &'a CpuList,
    /// All online CPUs.
    pub online: &'a CpuList,
}

/// A setting with a fixed value for each file that matches a pattern.
struct KnownSetting {
    name: &'static str,
    /// Patterns below the root, as in [`Root::matching`], each with the value for all matching
    /// files.
    files: &'static [(&'static str, &'static str)],
    only_named: bool,
    is_for: fn(Profile) -> bool,
}

const fn known(name: &'static str, files: &'static [(&'static str, &'static str)]) -> KnownSetting {
    KnownSetting {
        name,
        files,
        only_named: false,
        is_for: |_| true,
    }
}

const KNOWN: &[KnownSetting] = &[
    known(
        "preemption-mode",
        &[("sys/kernel/debug/sched/preempt", "full")],
    ),
    known(
        "governor",
        &[(
            "sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
            "performance",
        )],
    ),
    known(
        "energy-preference",
        &[(
            "sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference",
            "performance",
        )],
    ),
    // Without turbo, the frequency is more even but lower.
    KnownSetting {
        only_named: true,
        ..known(
            "turbo",
            &[("sys/devices/system/cpu/intel_pstate/no_turbo", "1")],
        )
    },
    known(
        "pcie-power",
        &[("sys/module/pcie_aspm/parameters/policy", "performance")],
    ),
    known(
        "timer-migration",
        &[("proc/sys/kernel/timer_migration", "0")],
    ),
    known("watchdog", &[("proc/sys/kernel/watchdog", "0")]),
    known("nmi-watchdog", &[("proc/sys/kernel/nmi_watchdog", "0")]),
    known(
        "hung-tasks",
        &[("proc/sys/kernel/hung_task_timeout_secs", "600")],
    ),
    known(
        "statistics-interval",
        &[("proc/sys/vm/stat_interval", "120")],
    ),
    known("swap", &[("proc/sys/vm/swappiness", "10")]),
    known(
        "compaction",
        &[("proc/sys/vm/compaction_proactiveness", "0")],
    ),
    known(
        "locked-page-compaction",
        &[("proc/sys/vm/compact_unevictable_allowed", "0")],
    ),
    known(
        "transparent-hugepages",
        &[("sys/kernel/mm/transparent_hugepage/enabled", "never")],
    ),
    known(
        "hugepage-defragmentation",
        &[("sys/kernel/mm/transparent_hugepage/defrag", "never")],
    ),
    known("page-merging", &[("sys/kernel/mm/ksm/run", "0")]),
    known("numa-balancing", &[("proc/sys/kernel/numa_balancing", "0")]),
    known("rcu-grace-periods", &[("sys/kernel/rcu_normal", "1")]),
    known(
        "machine-check-polling",
        &[(
            "sys/devices/system/machinecheck/machinecheck*/check_interval",
            "0",
        )],
    ),
    known(
        "tcp-timestamps",
        &[("proc/sys/net/ipv4/tcp_timestamps", "0")],
    ),
    known(
        "busy-polling",
        &[
            ("proc/sys/net/core/busy_poll", "0"),
            ("proc/sys/net/core/busy_read", "0"),
        ],
    ),
    known(
        "utilisation-clamp",
        &[("proc/sys/kernel/sched_util_clamp_min_rt_default", "1024")],
    ),
    known(
        "bpf-statistics",
        &[("proc/sys/kernel/bpf_stats_enabled", "0")],
    ),
    // The kernel's minimum (kernel/rseq.c, `rseq_slice_ext_nsecs_min`).
    known(
        "time-slice-extension",
        &[("sys/kernel/debug/rseq/slice_ext_nsec", "5000")],
    ),
    KnownSetting {
        is_for: |profile| matches!(profile, Profile::VmHost),
        ..known(
            "kvm-host",
            &[("sys/module/kvm/parameters/halt_poll_ns", "0")],
        )
    },
    // Without throttling, a real-time task that never sleeps blocks the machine.
    KnownSetting {
        only_named: true,
        ..known(
            "real-time-throttling",
            &[("proc/sys/kernel/sched_rt_runtime_us", "-1")],
        )
    },
    // Without the fair server, tasks of the fair class wait as long as real-time tasks run.
    KnownSetting {
        only_named: true,
        ..known(
            "fair-server",
            &[("sys/kernel/debug/sched/fair_server/cpu*/runtime", "0")],
        )
    },
    KnownSetting {
        only_named: true,
        ..known(
            "ext-server",
            &[("sys/kernel/debug/sched/ext_server/cpu*/runtime", "0")],
        )
    },
    // Without SMT, half of the CPUs are unavailable.
    KnownSetting {
        only_named: true,
        ..known("smt", &[("sys/devices/system/cpu/smt/control", "off")])
    },
];

/// Returns all settings for the profile that this machine has, in the order of the table. Settings
/// that depend on the CPUs come last.
#[must_use]
pub fn settings(target: &Target<'_>) -> Vec<Setting> {
    let mut found: Vec<Setting> = KNOWN
        .iter()
        .filter(|known| (known.is_for)(target.profile))
        .filter_map(|known| known.here(target))
        .collect();
    found.extend(
        [
            idle_states(target),
            console(target),
            workqueues(target),
            interrupts(target),
        ]
        .into_iter()
        .flatten(),
    );
    found
}

impl KnownSetting {
    fn here(&self, target: &Target<'_>) -> Option<Setting> {
        let of_pattern = |(pattern, value): &(&str, &str)| -> Vec<(PathBuf, String)> {
            target
                .root
                .matching(pattern)
                .iter()
                .map(|path| (target.root.path(path), (*value).to_owned()))
                .collect()
        };
        setting(
            self.name,
            self.files.iter().flat_map(of_pattern).collect(),
            self.only_named,
        )
    }
}

/// Returns `None` if the setting has no file on this machine.
fn setting(name: &str, files: BTreeMap<PathBuf, String>, only_named: bool) -> Option<Setting> {
    let check = tardy_machine::checks::CHECKS
        .iter()
        .find(|check| check.name == name);
    let why = check.map_or_else(String::new, |check| check.why.to_owned());
    (!files.is_empty()).then(|| Setting {
        name: name.to_owned(),
        why,
        files,
        while_on: Vec::new(),
        words: Vec::new(),
        only_named,
    })
}

/// On the CPUs of the work, permits only idle states without exit latency
/// (Documentation/ABI/testing/sysfs-devices-power, `pm_qos_resume_latency_us`).
fn idle_states(target: &Target<'_>) -> Option<Setting> {
    let has_states = |cpu: &tardy_core::cpu::CpuId| {
        !target
            .root
            .names(format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state1"))
            .is_empty()
    };
    let file = |cpu: tardy_core::cpu::CpuId| {
        let path = target.root.path(format!(
            "sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us"
        ));
        path.exists().then(|| (path, "n/a".to_owned()))
    };
    setting(
        "idle-states",
        target
            .cpus
            .iter()
            .filter(has_states)
            .filter_map(file)
            .collect(),
        false,
    )
}

/// Sends only emergency messages to the console. The other three numbers of the file stay
/// unchanged.
fn console(target: &Target<'_>) -> Option<Setting> {
    let levels = target.root.text("proc/sys/kernel/printk")?;
    let rest: Vec<&str> = levels.split_whitespace().skip(1).collect();
    let file = (
        target.root.path("proc/sys/kernel/printk"),
        format!("1 {}", rest.join(" ")),
    );
    setting("console", BTreeMap::from([file]), false)
}

/// Moves workqueue items that are not bound to a CPU to the other CPUs.
fn workqueues(target: &Target<'_>) -> Option<Setting> {
    let others = target.online.minus(target.cpus);
    if others.is_empty() {
        return None;
    }
    let files = target
        .root
        .matching("sys/devices/virtual/workqueue/cpumask")
        .into_iter();
    let files = files.chain(
        target
            .root
            .matching("sys/devices/virtual/workqueue/writeback/cpumask"),
    );
    setting(
        "workqueues",
        files
            .map(|path| (target.root.path(path), others.to_mask()))
            .collect(),
        false,
    )
}

/// Moves existing and future device interrupts to the other CPUs.
fn interrupts(target: &Target<'_>) -> Option<Setting> {
    let others = target.online.minus(target.cpus);
    if others.is_empty() {
        return None;
    }
    let plan = IrqPlan::new(&irq_affinity::read(target.root), target.cpus, target.online);
    let mut files: BTreeMap<PathBuf, String> = plan
        .moves
        .into_iter()
        .map(|to| (to.path, to.new.to_string()))
        .collect();
    files.extend(
        target
            .root
            .matching("proc/irq/default_smp_affinity")
            .into_iter()
            .map(|path| (target.root.path(path), others.to_mask())),
    );
    setting("interrupt-affinity", files, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &tempfile::TempDir, path: &str, text: &str) {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn every_known_setting_is_a_row_of_the_doctor() {
        let names = KNOWN.iter().map(|known| known.name).chain([
            "idle-states",
            "console",
            "workqueues",
            "interrupt-affinity",
        ]);
        for name in names {
            assert!(
                tardy_machine::checks::CHECKS
                    .iter()
                    .any(|check| check.name == name),
                "{name}"
            );
        }
    }

    #[test]
    fn a_machine_has_the_settings_whose_files_it_has() {
        let folder = tempfile::tempdir().unwrap();
        put(&folder, "proc/sys/vm/stat_interval", "1\n");
        put(&folder, "proc/sys/kernel/printk", "7\t4\t1\t7\n");
        for cpu in 0..3 {
            put(
                &folder,
                &format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"),
                "schedutil\n",
            );
            put(
                &folder,
                &format!("sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us"),
                "0\n",
            );
            put(
                &folder,
                &format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state1/name"),
                "C1\n",
            );
        }
        put(&folder, "sys/devices/virtual/workqueue/cpumask", "7\n");
        put(&folder, "proc/irq/default_smp_affinity", "7\n");
        let (cpus, online) = ("2".parse().unwrap(), "0-2".parse().unwrap());
        let root = Root::at(folder.path());
        let found = settings(&Target {
            root: &root,
            profile: Profile::Periodic,
            cpus: &cpus,
            online: &online,
        });
        let names: Vec<&str> = found.iter().map(|setting| setting.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "governor",
                "statistics-interval",
                "idle-states",
                "console",
                "workqueues",
                "interrupt-affinity"
            ]
        );
        let value = |name: &str| {
            found
                .iter()
                .find(|setting| setting.name == name)
                .unwrap()
                .files
                .values()
                .next()
                .unwrap()
                .clone()
        };
        assert_eq!(
            (value("console").as_str(), value("workqueues").as_str()),
            ("1 4 1 7", "3")
        );
        assert_eq!(
            found
                .iter()
                .find(|setting| setting.name == "governor")
                .unwrap()
                .files
                .len(),
            3
        );
        assert_eq!(
            found
                .iter()
                .find(|setting| setting.name == "idle-states")
                .unwrap()
                .files
                .len(),
            1,
            "only CPUs of the work"
        );
        assert!(
            found.iter().all(|setting| !setting.why.is_empty()),
            "{found:?}"
        );
    }

    #[test]
    fn where_all_cpus_are_of_the_work_nothing_can_go_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        put(&folder, "sys/devices/virtual/workqueue/cpumask", "7\n");
        let cpus = "0-2".parse().unwrap();
        let root = Root::at(folder.path());
        assert!(
            settings(&Target {
                root: &root,
                profile: Profile::Periodic,
                cpus: &cpus,
                online: &cpus
            })
            .is_empty()
        );
    }
}
