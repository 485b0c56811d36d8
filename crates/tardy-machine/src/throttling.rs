//! Two ways in which a runnable task is stopped. The scheduler stops real-time tasks for a known
//! time (real-time throttling, the fair server and the ext server). A hot CPU throttles itself.
//!
//! Sources: Documentation/scheduler/sched-rt-group.rst and sched-deadline.rst;
//! `sysctl_sched_rt_runtime` in kernel/sched/rt.c; the fair server in kernel/sched/debug.c and
//! deadline.c (since Linux 6.12); the ext server there and in kernel/sched/ext.c (since Linux 7.0);
//! drivers/thermal/intel/therm_throt.c for the counts of hot CPUs. Quotas of control groups are in
//! [`super::cgroup`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::units::Nanos;

use super::cgroup::CpuQuota;
use super::root::Root;

/// `kernel.sched_rt_runtime_us` and `kernel.sched_rt_period_us`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RealTimeThrottling {
    /// The period; 1 s by default.
    pub period: Nanos,
    /// Time that real-time tasks may use per period, 950 ms by default. A negative value (-1 us)
    /// sets no limit.
    pub runtime: Nanos,
}

/// How much of a CPU its fair server or ext server gives to ordinary tasks when real-time tasks
/// starve them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FairServer {
    /// The CPUs that have these values.
    pub cpus: CpuList,
    /// Time for ordinary tasks in each period; 50 ms by default, 0 switches the server off.
    pub runtime: Nanos,
    /// The period; 1 s by default.
    pub period: Nanos,
}

/// The settings for all rules by which the scheduler throttles real-time tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ThrottlingSettings {
    /// Real-time throttling; absent if the kernel lacks the setting.
    pub real_time: Option<RealTimeThrottling>,
    /// Whether this kernel has a fair server, which replaced real-time throttling in Linux 6.12;
    /// absent if the release cannot be parsed.
    pub has_fair_server: Option<bool>,
    /// The settings of the fair servers; absent if debugfs is not mounted, not accessible to this
    /// user, or locked down.
    pub fair_servers: Option<Vec<FairServer>>,
    /// The settings of the ext servers, which serve tasks of BPF schedulers (sched_ext); absent if
    /// no BPF scheduler is loaded, or if they cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ext_servers: Option<Vec<FairServer>>,
    /// The real-time limit of the control group, only with RT_GROUP_SCHED.
    pub group: Option<CpuQuota>,
}

/// The rule that throttles real-time tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThrottlingRule {
    /// Real-time throttling by `sched_rt_runtime_us`.
    RealTimeThrottling,
    /// The fair server, with its actual settings.
    FairServer,
    /// The fair server with the kernel's default settings (50 ms in 1 s), because the actual ones
    /// are unreadable.
    FairServerByDefault,
    /// The ext server, which serves tasks of a BPF scheduler.
    ExtServer,
    /// Real-time throttling by `cpu.rt_runtime_us` of the control group.
    GroupRealTimeThrottling,
    /// A rule that this version of tardy does not know.
    #[serde(other)]
    Unknown,
}

impl std::fmt::Display for ThrottlingRule {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::RealTimeThrottling => "real-time throttling (kernel.sched_rt_runtime_us)",
            Self::FairServer => {
                "the fair server, which gives ordinary tasks a share \
                 (/sys/kernel/debug/sched/fair_server)"
            }
            Self::FairServerByDefault => {
                "the fair server, which gives ordinary tasks 50 ms of each second (Linux 6.12 and \
                 later)"
            }
            Self::ExtServer => {
                "the ext server, which gives tasks of a BPF scheduler a share \
                 (/sys/kernel/debug/sched/ext_server)"
            }
            Self::GroupRealTimeThrottling => {
                "real-time throttling of the control group (cpu.rt_runtime_us)"
            }
            Self::Unknown => "a throttling rule of this kernel",
        })
    }
}

/// The longest time for which a rule can stop real-time tasks without interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThrottlingGap {
    pub rule: ThrottlingRule,
    /// Length of this time. It occurs at most once per period of the rule.
    pub gap: Nanos,
}

/// A latency can be caused by a gap if the two differ by at most this percentage of the gap. The
/// reason is that the first wake-up that is due in a gap is delayed until the gap ends. Its latency
/// is the gap, minus at most one period of the probe, plus other delays.
const TOLERANCE_PERCENT: i64 = 20;

/// The fair server's default time (`sched_init_dl_servers` in kernel/sched/deadline.c).
const FAIR_SERVER_DEFAULT: Nanos = Nanos::from_millis(50);

impl ThrottlingSettings {
    /// Reads the settings. `release` is the kernel's release (`6.12.5-rt1`), `group` the control
    /// group's real-time limit.
    #[must_use]
    pub fn read(root: &Root, release: Option<&str>, group: Option<CpuQuota>) -> Self {
        let fair_servers = read_servers(root, "fair_server");
        let is_bpf_scheduler_loaded = root
            .text("sys/kernel/sched_ext/state")
            .is_some_and(|state| state != "disabled");
        let ext_servers = is_bpf_scheduler_loaded
            .then(|| read_servers(root, "ext_server"))
            .flatten();
        let has_fair_server = if fair_servers.is_some() {
            Some(true)
        } else {
            release
                .and_then(release_numbers)
                .map(|release| release >= (6, 12))
        };
        Self {
            real_time: RealTimeThrottling::read(root),
            has_fair_server,
            fair_servers,
            ext_servers,
            group,
        }
    }

    /// Returns, for each rule, the longest time for which it can stop real-time tasks on `cpu`.
    #[must_use]
    pub fn gaps(&self, cpu: CpuId) -> Vec<ThrottlingGap> {
        let rule = |rule, gap: Nanos| (gap > Nanos::ZERO).then_some(ThrottlingGap { rule, gap });
        let of_group = self.group.and_then(|group| {
            rule(
                ThrottlingRule::GroupRealTimeThrottling,
                group.period - group.quota,
            )
        });
        let server = |of, servers: &[FairServer]| {
            let server = servers.iter().find(|server| server.cpus.contains(cpu));
            server.and_then(|server| rule(of, server.runtime))
        };
        let of_ext = self.ext_servers.as_deref();
        let of_ext = of_ext.and_then(|servers| server(ThrottlingRule::ExtServer, servers));
        let of_scheduler = match (&self.fair_servers, self.has_fair_server) {
            (Some(servers), _) => server(ThrottlingRule::FairServer, servers),
            (None, Some(true)) => rule(ThrottlingRule::FairServerByDefault, FAIR_SERVER_DEFAULT),
            (None, _) => {
                let limited = self.real_time.filter(|limit| limit.runtime >= Nanos::ZERO);
                limited.and_then(|limit| {
                    rule(
                        ThrottlingRule::RealTimeThrottling,
                        limit.period - limit.runtime,
                    )
                })
            }
        };
        let gaps = [of_scheduler, of_ext, of_group];
        gaps.into_iter().flatten().collect()
    }

    /// Returns the gap that can explain a latency on `cpu`: its length differs from the latency by
    /// at most 20 %. The match is a hint, not a proof.
    #[must_use]
    pub fn consistent_with(&self, cpu: CpuId, latency: Nanos) -> Option<ThrottlingGap> {
        let near = |gap: &ThrottlingGap| {
            (latency - gap.gap).get().abs() <= gap.gap.get() / 100 * TOLERANCE_PERCENT
        };
        self.gaps(cpu).into_iter().find(near)
    }
}

impl RealTimeThrottling {
    fn read(root: &Root) -> Option<Self> {
        let micros = |name| {
            root.number::<i64>(name)
                .map(|us| Nanos(us.saturating_mul(1_000)))
        };
        Some(Self {
            period: micros("proc/sys/kernel/sched_rt_period_us")?,
            runtime: micros("proc/sys/kernel/sched_rt_runtime_us")?,
        })
    }
}

/// Reads the settings of the servers in a folder of debugfs.
fn read_servers(root: &Root, name: &str) -> Option<Vec<FairServer>> {
    let folder = format!("sys/kernel/debug/sched/{name}");
    let mut servers: BTreeMap<(Nanos, Nanos), CpuList> = BTreeMap::new();
    for name in root.names(&folder) {
        let nanos = |file| {
            root.number::<i64>(format!("{folder}/{name}/{file}"))
                .map(Nanos)
        };
        if let (Some(cpu), Some(runtime), Some(period)) = (
            super::root::cpu_of_name(&name),
            nanos("runtime"),
            nanos("period"),
        ) {
            servers.entry((runtime, period)).or_default().insert(cpu);
        }
    }
    let servers: Vec<_> = servers
        .into_iter()
        .map(|((runtime, period), cpus)| FairServer {
            cpus,
            runtime,
            period,
        })
        .collect();
    (!servers.is_empty()).then_some(servers)
}

/// Parses `6.12.5-rt` to (6, 12).
pub(super) fn release_numbers(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// How often heat throttled a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ThermalThrottling {
    /// How often the core was throttled.
    pub core: Option<u64>,
    /// How often the package that contains the core was throttled.
    pub package: Option<u64>,
}

/// Returns the counts of all online CPUs that have such counts (Intel only), since the start of the
/// system.
#[must_use]
pub fn thermal_counts(root: &Root) -> BTreeMap<CpuId, ThermalThrottling> {
    let cpus = root.online_cpus().unwrap_or_default();
    let counts = cpus.iter().map(|cpu| {
        let count = |name: &str| {
            root.number(format!(
                "sys/devices/system/cpu/cpu{cpu}/thermal_throttle/{name}_throttle_count"
            ))
        };
        (
            cpu,
            ThermalThrottling {
                core: count("core"),
                package: count("package"),
            },
        )
    });
    counts
        .filter(|(_, counts)| *counts != ThermalThrottling::default())
        .collect()
}

/// Returns by how much the counts increased between two readings of [`thermal_counts`], for the
/// CPUs in both.
#[must_use]
pub fn thermal_since(
    after: &BTreeMap<CpuId, ThermalThrottling>,
    before: &BTreeMap<CpuId, ThermalThrottling>,
) -> BTreeMap<CpuId, ThermalThrottling> {
    let grown = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
    let delta = after.iter().filter_map(|(cpu, after)| {
        let before = before.get(cpu)?;
        Some((
            *cpu,
            ThermalThrottling {
                core: grown(after.core, before.core),
                package: grown(after.package, before.package),
            },
        ))
    });
    delta.collect()
}

#[cfg(test)]
mod tests {
    use super::super::fake_root::FakeRoot;
    use super::*;

    fn sysctls(runtime: &str) -> FakeRoot {
        FakeRoot::new()
            .with("proc/sys/kernel/sched_rt_period_us", "1000000\n")
            .with("proc/sys/kernel/sched_rt_runtime_us", runtime)
    }

    fn rule_for(settings: &ThrottlingSettings, millis: i64) -> Option<ThrottlingRule> {
        settings
            .consistent_with(CpuId(0), Nanos::from_millis(millis))
            .map(|gap| gap.rule)
    }

    #[test]
    fn a_latency_near_the_gap_is_consistent_with_throttling_and_others_are_not() {
        let settings =
            ThrottlingSettings::read(&sysctls("950000\n").root(), Some("6.1.0-18-rt-amd64"), None);
        for (millis, expected) in [
            (39, false),
            (40, true),
            (50, true),
            (60, true),
            (61, false),
            (0, false),
            (-50, false),
        ] {
            assert_eq!(
                rule_for(&settings, millis),
                expected.then_some(ThrottlingRule::RealTimeThrottling),
                "{millis}"
            );
        }
    }

    #[test]
    fn without_a_limit_there_is_no_gap() {
        let settings = ThrottlingSettings::read(&sysctls("-1\n").root(), Some("5.10.0"), None);
        assert!(settings.real_time.is_some());
        assert!(settings.gaps(CpuId(0)).is_empty());
        assert!(
            ThrottlingSettings::read(&FakeRoot::new().root(), None, None)
                .gaps(CpuId(0))
                .is_empty()
        );
    }

    #[test]
    fn a_kernel_with_a_fair_server_follows_that_and_not_the_sysctl() {
        let debugfs = sysctls("-1\n")
            .with(
                "sys/kernel/debug/sched/fair_server/cpu0/runtime",
                "20000000\n",
            )
            .with(
                "sys/kernel/debug/sched/fair_server/cpu0/period",
                "1000000000\n",
            )
            .with("sys/kernel/debug/sched/fair_server/cpu1/runtime", "0\n")
            .with(
                "sys/kernel/debug/sched/fair_server/cpu1/period",
                "1000000000\n",
            );
        let settings = ThrottlingSettings::read(&debugfs.root(), Some("6.12.5"), None);
        assert_eq!(
            settings.gaps(CpuId(0)),
            [ThrottlingGap {
                rule: ThrottlingRule::FairServer,
                gap: Nanos::from_millis(20)
            }]
        );
        assert!(settings.gaps(CpuId(1)).is_empty());
        let unreadable = ThrottlingSettings::read(&sysctls("-1\n").root(), Some("6.12.5"), None);
        assert_eq!(
            rule_for(&unreadable, 50),
            Some(ThrottlingRule::FairServerByDefault)
        );
        assert_eq!(
            serde_json::from_str::<ThrottlingSettings>(&serde_json::to_string(&settings).unwrap())
                .unwrap(),
            settings
        );
    }

    #[test]
    fn a_groups_own_limit_is_a_rule_of_its_own() {
        let group = CpuQuota {
            quota: Nanos::from_millis(100),
            period: Nanos::from_secs(1),
        };
        let settings =
            ThrottlingSettings::read(&sysctls("950000").root(), Some("5.10"), Some(group));
        assert_eq!(
            rule_for(&settings, 900),
            Some(ThrottlingRule::GroupRealTimeThrottling)
        );
    }

    #[test]
    fn releases_are_compared_as_numbers() {
        assert_eq!(release_numbers("6.9.1-rt"), Some((6, 9)));
        assert!(release_numbers("6.9") < release_numbers("6.12-rc1"));
        assert_eq!(release_numbers("custom"), None);
    }

    #[test]
    fn heat_is_counted_between_two_readings_where_the_cpu_tells() {
        let fake = FakeRoot::new()
            .with("sys/devices/system/cpu/online", "0-1\n")
            .with(
                "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count",
                "4\n",
            );
        let before = thermal_counts(&fake.root());
        assert_eq!(
            before,
            BTreeMap::from([(
                CpuId(1),
                ThermalThrottling {
                    core: Some(4),
                    package: None
                }
            )])
        );
        fake.write(
            "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count",
            "9\n",
        );
        assert_eq!(
            thermal_since(&thermal_counts(&fake.root()), &before)[&CpuId(1)].core,
            Some(5)
        );
    }
}
