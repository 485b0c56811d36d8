//! The CPUs: which exist and which are isolated, their idle states and frequencies.
//!
//! Sources: Documentation/ABI/testing/sysfs-devices-system-cpu,
//! Documentation/admin-guide/pm/cpuidle.rst and cpufreq.rst.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::units::Nanos;

use super::super::processors;
use super::super::root::Root;

const FOLDER: &str = "sys/devices/system/cpu";

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessorFacts {
    /// The model name of the first CPU; on Arm, where the kernel gives no name, numbers such as
    /// `implementer 0x41 part 0xd08`.
    pub model: Option<String>,
    /// Online CPUs.
    pub online: Option<CpuList>,
    /// CPUs that `isolcpus=` or an isolated partition excludes from load balancing.
    pub isolated: Option<CpuList>,
    /// CPUs that stop the tick while they run one task.
    pub nohz_full: Option<CpuList>,
    /// Whether two or more hardware threads share a core.
    pub smt_active: Option<bool>,
    /// The driver that sets the frequency (`intel_pstate`, `acpi-cpufreq`).
    pub frequency_driver: Option<String>,
    /// The CPUs that use each frequency governor.
    pub governors: BTreeMap<String, CpuList>,
    /// The clock rate of the fastest CPU.
    pub clock_rate: Option<ClockRate>,
    /// The idle states and their drivers.
    pub idle: IdleFacts,
}

/// A CPU's clock rate and its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockRate {
    /// The clock rate in kHz.
    pub khz: u64,
    pub source: ClockRateSource,
}

/// Where a clock rate was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockRateSource {
    /// `cpufreq/cpuinfo_max_freq`, the driver's maximum.
    CpufreqMax,
    /// `cpu MHz` of /proc/cpuinfo, which is the current value if the rate varies.
    Cpuinfo,
    /// A source that this version of tardy does not know.
    #[serde(other)]
    Other,
}

/// The idle states.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct IdleFacts {
    /// The driver that enters the states (`intel_idle`, `haltpoll`, `none`).
    pub driver: Option<String>,
    /// The governor that selects a state (`menu`, `teo`).
    pub governor: Option<String>,
    /// The states of all online CPUs, in order of depth.
    pub states: Vec<IdleState>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct IdleState {
    /// The name, such as `POLL` or `C1E`.
    pub name: String,
    /// The exit latency in the driver's table.
    pub exit_latency: Nanos,
    /// The CPUs that have the state.
    pub cpus: CpuList,
    /// The CPUs on which the state is disabled.
    pub disabled: CpuList,
}

impl ProcessorFacts {
    pub(super) fn read(root: &Root, cpuinfo: &str) -> Self {
        let online = root.online_cpus();
        let cpus = || online.iter().flat_map(CpuList::iter);
        let mut governors: BTreeMap<String, CpuList> = BTreeMap::new();
        for cpu in cpus() {
            if let Some(governor) = root.text(format!("{FOLDER}/cpu{cpu}/cpufreq/scaling_governor"))
            {
                governors.entry(governor).or_default().insert(cpu);
            }
        }
        let frequency_driver =
            cpus().find_map(|cpu| root.text(format!("{FOLDER}/cpu{cpu}/cpufreq/scaling_driver")));
        let idle = IdleFacts::read(root, cpus());
        let cpufreq = cpus()
            .filter_map(|cpu| {
                root.number::<u64>(format!("{FOLDER}/cpu{cpu}/cpufreq/cpuinfo_max_freq"))
            })
            .max();
        let clock_rate = cpufreq
            .map(|khz| ClockRate {
                khz,
                source: ClockRateSource::CpufreqMax,
            })
            .or_else(|| named_clock_rate(cpuinfo));
        Self {
            model: model(cpuinfo),
            isolated: processors::isolated(root),
            nohz_full: root.cpu_list(format!("{FOLDER}/nohz_full")),
            smt_active: root
                .number::<u32>(format!("{FOLDER}/smt/active"))
                .map(|active| active == 1),
            frequency_driver,
            governors,
            clock_rate,
            idle,
            online,
        }
    }
}

impl IdleFacts {
    fn read(root: &Root, cpus: impl Iterator<Item = CpuId>) -> Self {
        let mut states: Vec<IdleState> = Vec::new();
        for cpu in cpus {
            let folder = format!("{FOLDER}/cpu{cpu}/cpuidle");
            for state in root
                .names(&folder)
                .iter()
                .filter(|name| name.starts_with("state"))
            {
                let Some(name) = root.text(format!("{folder}/{state}/name")) else {
                    continue;
                };
                let Some(latency_us) = root.number::<i64>(format!("{folder}/{state}/latency"))
                else {
                    continue;
                };
                let exit_latency = Nanos(latency_us.saturating_mul(1_000));
                let known = states
                    .iter()
                    .position(|known| known.name == name && known.exit_latency == exit_latency);
                let at = known.unwrap_or_else(|| {
                    states.push(IdleState {
                        name,
                        exit_latency,
                        ..IdleState::default()
                    });
                    states.len() - 1
                });
                states[at].cpus.insert(cpu);
                // In `disable`, bit 0 is set if the user disabled the state, and bit 1 if the
                // driver disabled it.
                if root
                    .number::<u32>(format!("{folder}/{state}/disable"))
                    .is_some_and(|disabled| disabled != 0)
                {
                    states[at].disabled.insert(cpu);
                }
            }
        }
        states.sort_by_key(|state| state.exit_latency);
        let governor = || root.text(format!("{FOLDER}/cpuidle/current_governor_ro"));
        Self {
            driver: root.text(format!("{FOLDER}/cpuidle/current_driver")),
            governor: root
                .text(format!("{FOLDER}/cpuidle/current_governor"))
                .or_else(governor),
            states,
        }
    }
}

/// Returns the clock rate of the fastest CPU, where the kernel reports the rate of each CPU (x86
/// and PowerPC).
fn named_clock_rate(cpuinfo: &str) -> Option<ClockRate> {
    let rates = cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(key, _)| matches!(key.trim(), "cpu MHz" | "clock"));
    let khz = rates.filter_map(|(_, value)| {
        value
            .trim()
            .trim_end_matches("MHz")
            .parse::<f64>()
            .ok()
            .map(|mhz| (mhz * 1e3).round())
    });
    let khz = khz
        .filter(|khz| (1e3..1e8).contains(khz))
        .fold(None, |most: Option<f64>, khz| {
            Some(most.map_or(khz, |most| most.max(khz)))
        })?;
    Some(ClockRate {
        khz: khz as u64,
        source: ClockRateSource::Cpuinfo,
    })
}

/// Returns the model of the first CPU: on x86 and PowerPC a name, on RISC-V the ISA or `uarch`, on
/// Arm only numbers.
fn model(cpuinfo: &str) -> Option<String> {
    let field = |name: &str| {
        let found = cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == name);
        found
            .map(|(_, value)| value.split_whitespace().collect::<Vec<_>>().join(" "))
            .filter(|value| !value.is_empty())
    };
    let by_number = || {
        Some(format!(
            "implementer {} part {}",
            field("CPU implementer")?,
            field("CPU part")?
        ))
    };
    field("model name")
        .or_else(|| field("cpu"))
        .or_else(by_number)
        .or_else(|| field("uarch"))
        .or_else(|| field("isa"))
}

#[cfg(test)]
mod tests {
    use super::super::super::fake_root::FakeRoot;
    use super::*;

    #[test]
    fn cpus_are_grouped_by_what_they_share() {
        let mut fake = FakeRoot::new()
            .with("sys/devices/system/cpu/online", "0-2\n")
            .with("sys/devices/system/cpu/isolated", "\n")
            .with("sys/devices/system/cpu/smt/active", "0\n");
        for (cpu, governor, disabled) in [
            (0, "powersave", 0),
            (1, "performance", 1),
            (2, "performance", 0),
        ] {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}");
            fake = fake.with(&format!("{folder}/cpufreq/scaling_governor"), governor);
            for (state, name, latency) in [
                ("state0", "POLL", 0),
                ("state1", "C1", 2),
                ("state10", "C10", 890),
                ("state2", "C2", 9),
            ] {
                fake = fake
                    .with(&format!("{folder}/cpuidle/{state}/name"), name)
                    .with(
                        &format!("{folder}/cpuidle/{state}/latency"),
                        latency.to_string(),
                    )
                    .with(
                        &format!("{folder}/cpuidle/{state}/disable"),
                        disabled.to_string(),
                    );
            }
        }
        let facts = ProcessorFacts::read(&fake.root(), "");
        assert_eq!(facts.governors["performance"].to_string(), "1-2");
        assert_eq!(
            facts
                .idle
                .states
                .iter()
                .map(|state| state.name.as_str())
                .collect::<Vec<_>>(),
            ["POLL", "C1", "C2", "C10"]
        );
        let deepest = &facts.idle.states[3];
        assert_eq!(
            (
                deepest.exit_latency,
                deepest.cpus.to_string(),
                deepest.disabled.to_string()
            ),
            (Nanos::from_micros(890), "0-2".into(), "1".into())
        );
        assert_eq!(
            (facts.smt_active, facts.isolated, facts.nohz_full),
            (Some(false), Some(CpuList::default()), None)
        );
        assert_eq!(facts.model, None);
    }

    #[test]
    fn the_clock_rate_is_the_most_that_the_driver_gives_else_the_named_one() {
        let cpuinfo =
            "processor\t: 0\ncpu MHz\t\t: 2596.146\nprocessor\t: 1\ncpu MHz\t\t: 1400.000\n";
        let fake = || FakeRoot::new().with("sys/devices/system/cpu/online", "0-1\n");
        let of =
            |fake: FakeRoot, cpuinfo: &str| ProcessorFacts::read(&fake.root(), cpuinfo).clock_rate;
        assert_eq!(
            of(fake(), cpuinfo),
            Some(ClockRate {
                khz: 2_596_146,
                source: ClockRateSource::Cpuinfo
            })
        );
        let driver = fake().with(
            "sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq",
            "3700000\n",
        );
        assert_eq!(
            of(driver, cpuinfo),
            Some(ClockRate {
                khz: 3_700_000,
                source: ClockRateSource::CpufreqMax
            })
        );
        assert_eq!(
            of(fake(), "clock\t\t: 3425.000000MHz\n").map(|rate| rate.khz),
            Some(3_425_000),
            "PowerPC"
        );
        assert_eq!(
            (
                of(fake(), ""),
                of(fake(), "cpu MHz : fast\n"),
                of(fake(), "cpu MHz : 0.000\n")
            ),
            (None, None, None)
        );
    }

    #[test]
    fn each_architecture_names_its_cpu_in_its_own_way() {
        assert_eq!(
            model("processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD   EPYC\n").as_deref(),
            Some("AMD EPYC")
        );
        assert_eq!(
            model("CPU implementer\t: 0x41\nCPU part\t: 0xd08\n").as_deref(),
            Some("implementer 0x41 part 0xd08")
        );
        assert_eq!(
            model("hart : 0\nisa : rv64imafdc\nuarch : sifive,u74-mc\n").as_deref(),
            Some("sifive,u74-mc")
        );
        assert_eq!(model("model name\t:\n"), None);
    }
}
