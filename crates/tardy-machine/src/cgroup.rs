//! The control groups of this process (version 1 and 2), and their limits.
//!
//! Format: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/,
//! Documentation/scheduler/sched-bwc.rst, cgroups(7), proc_pid_mountinfo(5).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tardy_core::budget::{NO_BUDGET, NO_BUDGETS};
use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;

use super::kernel_configuration::KernelConfiguration;
use super::root::Root;

/// Number of the capability to use any scheduling policy and priority (linux/capability.h).
const CAP_SYS_NICE: u32 = 23;

/// The limits of this process's control groups.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CgroupLimits {
    /// The group's path for each controller (`cpu`, `cpuset`, `memory`). `/proc/self` may not show
    /// a controller's group, or may not show where the files of this group are mounted. The
    /// controller is then missing here, and its limits below are absent.
    pub groups: BTreeMap<String, String>,
    /// The tightest quota of CPU time in the group and its ancestors; absent if none of them has a
    /// quota.
    pub cpu_quota: Option<CpuQuota>,
    /// The CPUs that the group may use; absent if neither the group nor an ancestor has a readable
    /// list.
    pub cpus: Option<CpuList>,
    /// CPU time that real-time tasks may use in each `cpu.rt_period_us`; only in version 1 with
    /// RT_GROUP_SCHED. If this time is 0, the kernel refuses SCHED_FIFO with EPERM.
    pub real_time: Option<CpuQuota>,
    /// The tightest memory limit in the group and its ancestors; absent if none of them has a
    /// limit.
    pub memory_bytes_max: Option<u64>,
}

/// A budget of CPU time per period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuQuota {
    /// CPU time that the group may use in one period, over all CPUs.
    pub quota: Nanos,
    pub period: Nanos,
}

/// How often and how long the quota stopped this process's groups: since the groups were created,
/// or between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CgroupThrottling {
    /// Number of periods in which the quota ran out.
    pub throttled: u64,
    /// Total time for which the quota stopped the groups' run queues, summed over CPUs.
    pub throttled_time: Nanos,
}

impl CgroupLimits {
    /// Reads the limits of the calling process.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        let mut limits = Self::default();
        if let Some(branch) = Branch::of(root, "cpu") {
            limits.cpu_quota = branch
                .folders
                .iter()
                .filter_map(|folder| cpu_quota(root, folder))
                .min_by(CpuQuota::compare);
            limits.real_time = branch
                .folders
                .first()
                .and_then(|folder| real_time(root, folder));
            limits.groups.insert("cpu".to_owned(), branch.group);
        }
        if let Some(branch) = Branch::of(root, "cpuset") {
            let names = [
                "cpuset.cpus.effective",
                "cpuset.effective_cpus",
                "cpuset.cpus",
            ];
            // If the controller is not enabled for a group, the CPUs of its parent apply.
            limits.cpus = branch
                .folders
                .iter()
                .find_map(|folder| {
                    names
                        .iter()
                        .find_map(|name| root.cpu_list(folder.join(name)))
                })
                .filter(|cpus| !cpus.is_empty());
            limits.groups.insert("cpuset".to_owned(), branch.group);
        }
        if let Some(branch) = Branch::of(root, "memory") {
            limits.memory_bytes_max = branch
                .folders
                .iter()
                .filter_map(|folder| memory_max(root, folder))
                .min();
            limits.groups.insert("memory".to_owned(), branch.group);
        }
        limits
    }
}

/// Returns the reason why the kernel refused a real-time policy with `error`. With
/// `RT_GROUP_SCHED`, the kernel refuses even root if the control group has no real-time budget.
#[must_use]
pub fn why_no_real_time(root: &Root, error: &std::io::Error) -> String {
    let limits = CgroupLimits::read(root);
    match (limits.real_time, limits.groups.get("cpu")) {
        _ if error.kind() != std::io::ErrorKind::PermissionDenied => error.to_string(),
        (Some(budget), Some(group)) if budget.quota == Nanos::ZERO => {
            format!("{NO_BUDGET}{group}")
        }
        (None, Some(group)) if is_without_budgets(root) => format!("{NO_BUDGETS}{group}"),
        _ => error.to_string(),
    }
}

/// Returns whether the kernel refuses real-time policies because this process is in a group of
/// version 2. Such a group has no file for a budget (kernel/sched/core.c, `rt_group_files`), so its
/// budget stays 0. A group has `cpu.weight` if the `cpu` controller is enabled for it; the root
/// group never has this file. If the process lacks the right to use any priority, the kernel
/// refuses because of the missing right, so the result is false.
fn is_without_budgets(root: &Root) -> bool {
    let may_use_any_priority = || {
        let status = root.read("proc/self/status").ok()?;
        let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let set = u64::from_str_radix(set?.trim(), 16).ok()?;
        // In another user namespace, the kernel does not accept the capability.
        let users = root.text("proc/self/uid_map")?;
        let is_first_namespace = users.split_whitespace().eq(["0", "0", "4294967295"]);
        Some(is_first_namespace && set >> CAP_SYS_NICE & 1 == 1)
    };
    let has_budgets = || {
        let release = root.text("proc/sys/kernel/osrelease");
        let options = KernelConfiguration::read(root, release.as_deref())?;
        let command_line = root.text("proc/cmdline").unwrap_or_default();
        let is_off = command_line
            .split_whitespace()
            .any(|word| word == "rt_group_sched=0");
        Some(options.is_built_in("RT_GROUP_SCHED") && !is_off)
    };
    let is_in_group = || {
        let folders = Branch::of(root, "cpu")?.folders;
        Some(
            folders
                .iter()
                .any(|folder| root.text(folder.join("cpu.weight")).is_some()),
        )
    };
    is_in_group() == Some(true)
        && may_use_any_priority() == Some(true)
        && has_budgets() == Some(true)
}

impl CpuQuota {
    /// Compares two quotas by the share of a CPU that they allow.
    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        let cross = |a: &Self, b: &Self| i128::from(a.quota.get()) * i128::from(b.period.get());
        cross(self, other).cmp(&cross(other, self))
    }

    /// Returns the quota as a number of CPUs.
    #[must_use]
    pub fn processors(&self) -> f64 {
        self.quota.as_secs_f64() / self.period.as_secs_f64()
    }
}

impl CgroupThrottling {
    /// Reads `cpu.stat` of the process's group and its ancestors; `None` if none is readable.
    #[must_use]
    pub fn read(root: &Root) -> Option<Self> {
        let branch = Branch::of(root, "cpu")?;
        let stats = branch
            .folders
            .iter()
            .filter_map(|folder| Self::parse(&root.read(folder.join("cpu.stat")).ok()?));
        stats.reduce(|sum, one| Self {
            throttled: sum.throttled + one.throttled,
            throttled_time: sum.throttled_time + one.throttled_time,
        })
    }

    /// Returns the paths of the files that [`Self::read`] sums. A caller that reads them repeatedly
    /// can keep them open.
    pub(super) fn paths(root: &Root) -> Vec<PathBuf> {
        Branch::of(root, "cpu").map_or_else(Vec::new, |branch| {
            branch
                .folders
                .iter()
                .map(|folder| folder.join("cpu.stat"))
                .collect()
        })
    }

    /// Parses the throttling counts in the `cpu.stat` of a group. Version 2 writes
    /// `throttled_usec`, version 1 `throttled_time` in nanoseconds. In version 2, a group without
    /// the `cpu` controller has neither field.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            text.lines().find_map(|line| {
                line.strip_prefix(name)?
                    .strip_prefix(' ')?
                    .trim()
                    .parse::<i64>()
                    .ok()
            })
        };
        let throttled = u64::try_from(field("nr_throttled")?).ok()?;
        let throttled_time = field("throttled_usec")
            .map(|us| Nanos(us.saturating_mul(1_000)))
            .or_else(|| field("throttled_time").map(Nanos))?;
        Some(Self {
            throttled,
            throttled_time,
        })
    }

    /// Returns by how much the counts increased since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            throttled: self.throttled.saturating_sub(before.throttled),
            throttled_time: (self.throttled_time - before.throttled_time).max(Nanos::ZERO),
        }
    }
}

/// Returns the CPUs of all isolated partitions; absent if there is no root control group of version
/// 2.
pub(crate) fn cpus_of_isolated_partitions(root: &Root) -> Option<CpuList> {
    let mounts = root.read("proc/self/mountinfo").unwrap_or_default();
    let mounted = mounts
        .lines()
        .filter_map(Mount::parse)
        .filter(|mount| mount.kind == "cgroup2")
        .map(|mount| PathBuf::from(mount.point));
    // Only the root group has this file.
    mounted
        .chain([PathBuf::from("sys/fs/cgroup")])
        .find_map(|folder| root.cpu_list(folder.join("cpuset.cpus.isolated")))
}

/// The process's group for one controller, and those ancestors of this group that the process can
/// see.
struct Branch {
    group: String,
    /// Folders of the groups: the process's own group first, the root group last.
    folders: Vec<PathBuf>,
}

impl Branch {
    fn of(root: &Root, controller: &str) -> Option<Self> {
        let membership = root.read("proc/self/cgroup").ok()?;
        let entries = || {
            membership
                .lines()
                .filter_map(|line| line.split_once(':')?.1.split_once(':'))
        };
        let version_1 = entries()
            .find(|(controllers, _)| controllers.split(',').any(|name| name == controller));
        let (_, group) =
            version_1.or_else(|| entries().find(|(controllers, _)| controllers.is_empty()))?;
        let mounts = root.read("proc/self/mountinfo").ok()?;
        let mount = mounts
            .lines()
            .filter_map(Mount::parse)
            .find(|mount| match version_1 {
                Some(_) => {
                    mount.kind == "cgroup"
                        && mount.options.split(',').any(|option| option == controller)
                }
                None => mount.kind == "cgroup2",
            })?;
        // In a container, the mount may show only a part of the tree of groups. Groups above it are
        // invisible.
        let inside = Path::new(group)
            .strip_prefix(&mount.root)
            .or_else(|_| Path::new(group).strip_prefix("/"))
            .unwrap_or(Path::new(""));
        let inside = if mount.root.starts_with("/..") {
            Path::new("")
        } else {
            inside
        };
        let folders = inside
            .ancestors()
            .map(|part| Path::new(&mount.point).join(part))
            .collect();
        Some(Self {
            group: group.to_owned(),
            folders,
        })
    }
}

/// A line of mountinfo.
struct Mount {
    root: String,
    point: String,
    kind: String,
    options: String,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        // The kernel writes blanks in paths as \040.
        let mut path = || mount.next().map(|path| path.replace("\\040", " "));
        let (root, point) = (path()?, path()?);
        let mut file_system = file_system.split(' ');
        Some(Self {
            root,
            point,
            kind: file_system.next()?.to_owned(),
            options: file_system.nth(1)?.to_owned(),
        })
    }
}

fn micros(text: &str) -> Option<Nanos> {
    text.trim()
        .parse::<i64>()
        .ok()
        .filter(|&us| us > 0)
        .map(|us| Nanos(us.saturating_mul(1_000)))
}

/// `cpu.max` is `QUOTA PERIOD` or `max PERIOD`; version 1 writes -1 for no quota.
fn cpu_quota(root: &Root, folder: &Path) -> Option<CpuQuota> {
    if let Some(text) = root.text(folder.join("cpu.max")) {
        let (quota, period) = text.split_once(' ')?;
        return Some(CpuQuota {
            quota: micros(quota)?,
            period: micros(period)?,
        });
    }
    let file = |name: &str| root.text(folder.join(name)).as_deref().and_then(micros);
    Some(CpuQuota {
        quota: file("cpu.cfs_quota_us")?,
        period: file("cpu.cfs_period_us")?,
    })
}

/// A quota of 0 is valid here: the tasks of the group must not run at real-time priority.
fn real_time(root: &Root, folder: &Path) -> Option<CpuQuota> {
    let runtime: i64 = root.number(folder.join("cpu.rt_runtime_us"))?;
    let period = micros(&root.text(folder.join("cpu.rt_period_us"))?)?;
    (runtime >= 0).then(|| CpuQuota {
        quota: Nanos(runtime.saturating_mul(1_000)),
        period,
    })
}

fn memory_max(root: &Root, folder: &Path) -> Option<u64> {
    // If no limit is set, version 1 writes the largest multiple of a page (PAGE_COUNTER_MAX in
    // include/linux/page_counter.h). Values of an exbibyte or more therefore mean that there is no
    // limit, because machines have less memory.
    let limit: u64 = root
        .number(folder.join("memory.max"))
        .or_else(|| root.number(folder.join("memory.limit_in_bytes")))?;
    (limit < 1 << 60).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::super::fake_root::FakeRoot;
    use super::*;

    const V2_MOUNT: &str =
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_tightest_quota_on_the_way_to_the_root_counts() {
        let fake = FakeRoot::new()
            .with("proc/self/cgroup", "0::/a/b\n")
            .with("proc/self/mountinfo", V2_MOUNT)
            .with("sys/fs/cgroup/a/b/cpu.max", "90000 100000\n")
            .with("sys/fs/cgroup/cpu.max", "max 100000\n")
            .with("sys/fs/cgroup/a/cpu.max", "50000 100000\n")
            .with("sys/fs/cgroup/a/cpuset.cpus.effective", "2-3\n")
            .with("sys/fs/cgroup/a/b/memory.max", "max\n")
            .with("sys/fs/cgroup/a/memory.max", "1048576\n")
            .with(
                "sys/fs/cgroup/a/cpu.stat",
                "usage_usec 5\nnr_periods 9\nnr_throttled 4\nthrottled_usec 70\n",
            )
            .with("sys/fs/cgroup/cpu.stat", "usage_usec 5\n");
        let limits = CgroupLimits::read(&fake.root());
        assert_eq!(
            limits.cpu_quota,
            Some(CpuQuota {
                quota: Nanos::from_millis(50),
                period: Nanos::from_millis(100)
            })
        );
        assert_eq!(limits.cpus.as_ref().unwrap().to_string(), "2-3");
        assert_eq!(limits.memory_bytes_max, Some(1 << 20));
        assert_eq!(limits.groups["cpu"], "/a/b");
        let throttling = CgroupThrottling::read(&fake.root()).unwrap();
        assert_eq!(
            throttling,
            CgroupThrottling {
                throttled: 4,
                throttled_time: Nanos::from_micros(70)
            }
        );
        assert_eq!(
            serde_json::from_str::<CgroupLimits>(&serde_json::to_string(&limits).unwrap()).unwrap(),
            limits
        );
    }

    #[test]
    fn version_1_has_its_own_names_and_numbers() {
        let fake = FakeRoot::new()
            .with(
                "proc/self/cgroup",
                "3:cpuset:/\n2:cpu,cpuacct:/box\n1:memory:/box\n0::/\n",
            )
            .with(
                "proc/self/mountinfo",
                "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n33 31 0:30 / \
                 /sys/fs/cgroup/set rw - cgroup cgroup rw,cpuset\n34 31 0:31 / \
                 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n41 31 0:38 / \
                 /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            )
            .with("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "20000\n")
            .with("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n")
            .with("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
            .with("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
            .with("sys/fs/cgroup/cpu/box/cpu.rt_runtime_us", "0\n")
            .with("sys/fs/cgroup/cpu/box/cpu.rt_period_us", "1000000\n")
            .with(
                "sys/fs/cgroup/cpu/box/cpu.stat",
                "nr_periods 9\nnr_throttled 4\nthrottled_time 70\n",
            )
            .with("sys/fs/cgroup/set/cpuset.effective_cpus", "0-1\n")
            .with(
                "sys/fs/cgroup/memory/box/memory.limit_in_bytes",
                "9223372036854771712\n",
            );
        let limits = CgroupLimits::read(&fake.root());
        assert_eq!(
            limits.cpu_quota,
            Some(CpuQuota {
                quota: Nanos::from_millis(20),
                period: Nanos::from_millis(100)
            })
        );
        assert!((limits.cpu_quota.unwrap().processors() - 0.2).abs() < 1e-9);
        assert_eq!(
            limits.real_time,
            Some(CpuQuota {
                quota: Nanos::ZERO,
                period: Nanos::from_secs(1)
            })
        );
        assert_eq!(limits.cpus.unwrap().to_string(), "0-1");
        assert_eq!(limits.memory_bytes_max, None);
        let throttling = CgroupThrottling::read(&fake.root()).unwrap();
        assert_eq!(throttling.throttled_time, Nanos(70));
        assert_eq!(
            throttling.since(&CgroupThrottling {
                throttled: 1,
                throttled_time: Nanos(80)
            }),
            CgroupThrottling {
                throttled: 3,
                throttled_time: Nanos::ZERO
            }
        );
    }

    #[test]
    fn a_container_that_sees_a_part_of_the_tree_finds_its_own_group() {
        let v2 = "30 23 0:26 /docker/abc /sys/fs/cgroup\\040dir ro - cgroup2 cgroup2 rw\n";
        let fake = FakeRoot::new()
            .with("proc/self/cgroup", "0::/docker/abc/deep\n")
            .with("proc/self/mountinfo", v2)
            .with("sys/fs/cgroup dir/deep/cpu.max", "1000 2000\n");
        assert_eq!(
            CgroupLimits::read(&fake.root()).cpu_quota.unwrap().quota,
            Nanos::from_millis(1)
        );
    }

    #[test]
    fn a_refusal_names_the_group_without_a_budget() {
        let refused = std::io::Error::from_raw_os_error(1);
        let in_group = || {
            FakeRoot::new()
                .with("proc/self/cgroup", "0::/box\n")
                .with("proc/self/mountinfo", V2_MOUNT)
                .with("sys/fs/cgroup/box/cpu.weight", "100\n")
                .with("proc/self/status", "CapEff:\t000001ffffffffff\n")
                .with("proc/self/uid_map", "         0          0 4294967295\n")
                .with("proc/sys/kernel/osrelease", "6.18.1\n")
                .with("boot/config-6.18.1", "CONFIG_RT_GROUP_SCHED=y\n")
        };
        let why = |fake: FakeRoot| why_no_real_time(&fake.root(), &refused);
        let named = why(in_group());
        assert_eq!(named, format!("{NO_BUDGETS}/box"));
        assert!(tardy_core::budget::remedy(&named).contains("root control group"));

        let other = std::io::Error::from_raw_os_error(22);
        assert_eq!(
            why_no_real_time(&in_group().root(), &other),
            other.to_string()
        );
        let without = [
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/status", "CapEff:\t0000000000000000\n"),
            ("proc/self/uid_map", "0 1000 1\n"),
            ("boot/config-6.18.1", "CONFIG_RT_MUTEXES=y\n"),
            ("proc/cmdline", "quiet rt_group_sched=0\n"),
        ];
        for (path, text) in without {
            assert_eq!(
                why(in_group().with(path, text)),
                refused.to_string(),
                "{path}"
            );
        }
    }

    #[test]
    fn without_files_nothing_is_known() {
        for text in ["", "nonsense", "0::", "0::/a"] {
            let fake = FakeRoot::new()
                .with("proc/self/cgroup", text)
                .with("proc/self/mountinfo", "1 2 3\n- - -\n");
            assert_eq!(
                CgroupLimits::read(&fake.root()),
                CgroupLimits::default(),
                "{text}"
            );
            assert_eq!(CgroupThrottling::read(&fake.root()), None);
        }
    }
}
