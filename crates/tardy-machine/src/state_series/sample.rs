//! One sample of the system's state. All counts are since the start of the system: readers subtract
//! neighbours.

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;

use super::super::cgroup::CgroupThrottling;

/// The state at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StateSample {
    /// When the reading started, on the monotonic clock.
    pub at: Nanos,
    /// Time lost to a shortage of resources.
    pub pressure: Pressure,
    /// Context switches of the whole machine.
    pub context_switches: Option<u64>,
    /// Processes and threads created.
    pub forks: Option<u64>,
    /// Throttling by the quota of the own control groups.
    pub cgroup_throttling: Option<CgroupThrottling>,
    /// In the order of [`super::StateReader::sensors`], in thousandths of a degree Celsius.
    pub temperatures_millidegrees: Vec<Option<i64>>,
    /// The CPUs given to the reader, in ascending order; one that is offline has nothing but its
    /// number.
    pub cpus: Vec<CpuState>,
}

/// Pressure stall information (Documentation/accounting/psi.rst).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pressure {
    pub cpu: Option<Stall>,
    /// Waiting for a disk.
    pub io: Option<Stall>,
    pub memory: Option<Stall>,
    /// Waiting for interrupt handlers (since Linux 6.1, CONFIG_IRQ_TIME_ACCOUNTING).
    pub irq: Option<Stall>,
}

/// Total time since the start of the system in which tasks waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stall {
    /// At least one task waited.
    pub some: Option<Nanos>,
    /// All tasks that were not idle waited at once.
    pub full: Option<Nanos>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuState {
    pub cpu: CpuId,
    /// Interrupts of all kinds.
    #[serde(default)]
    pub interrupts: Option<u64>,
    /// Deferred interrupt work of all kinds, runs.
    #[serde(default)]
    pub softirqs: Option<u64>,
    /// Time that was not idle, stolen time included.
    #[serde(default)]
    pub busy: Option<Nanos>,
    /// Steal time.
    #[serde(default)]
    pub steal: Option<Nanos>,
    /// The frequency as cpufreq sees it.
    #[serde(default)]
    pub frequency_khz: Option<u64>,
    /// Slow-downs of the core because of heat.
    #[serde(default)]
    pub thermal_throttles: Option<u64>,
}

impl CpuState {
    /// Returns a sample without values.
    #[must_use]
    pub fn unknown(cpu: CpuId) -> Self {
        Self {
            cpu,
            interrupts: None,
            softirqs: None,
            busy: None,
            steal: None,
            frequency_khz: None,
            thermal_throttles: None,
        }
    }
}

impl Stall {
    /// Parses lines such as `some avg10=0.03 avg60=0.31 avg300=0.54 total=6570788`, in
    /// microseconds, and the same with `full`.
    pub(super) fn parse(text: &str) -> Self {
        let total = |kind: &str| {
            let line = text
                .split_inclusive('\n')
                .filter_map(|line| line.strip_suffix('\n'))
                .find_map(|line| line.strip_prefix(kind))?;
            let micros: i64 = line
                .split(' ')
                .find_map(|word| word.strip_prefix("total="))?
                .parse()
                .ok()?;
            Some(Nanos(micros.saturating_mul(1_000)))
        };
        Self {
            some: total("some"),
            full: total("full"),
        }
    }
}
