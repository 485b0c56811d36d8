//! A sample of the system's state. All counts are totals since the start of the system; readers of
//! the samples compute differences.

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;

use super::super::cgroup::CgroupThrottling;

/// The state at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StateSample {
    /// Time at which the reading started, on the monotonic clock.
    pub at: Nanos,
    /// Time for which tasks were stalled because a resource was short.
    pub pressure: Pressure,
    /// Context switches of the whole machine.
    pub context_switches: Option<u64>,
    /// Number of processes and threads created.
    pub forks: Option<u64>,
    /// How often and how long the quota of this process's control groups throttled them.
    pub cgroup_throttling: Option<CgroupThrottling>,
    /// Temperatures in thousandths of a degree Celsius, in the order of
    /// [`super::StateReader::sensors`].
    pub temperatures_millidegrees: Vec<Option<i64>>,
    /// The state of each requested CPU, in ascending order. An offline CPU has only its number.
    pub cpus: Vec<CpuState>,
}

/// Pressure stall information (Documentation/accounting/psi.rst).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pressure {
    pub cpu: Option<Stall>,
    /// Stalls of tasks that waited for I/O.
    pub io: Option<Stall>,
    pub memory: Option<Stall>,
    /// Stalls of tasks that waited for interrupt handlers (since Linux 6.1,
    /// CONFIG_IRQ_TIME_ACCOUNTING).
    pub irq: Option<Stall>,
}

/// Total time since the start of the system in which tasks waited for a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stall {
    /// Time in which at least one task waited.
    pub some: Option<Nanos>,
    /// Time in which all non-idle tasks waited at the same time.
    pub full: Option<Nanos>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuState {
    pub cpu: CpuId,
    /// Number of interrupts of all kinds.
    #[serde(default)]
    pub interrupts: Option<u64>,
    /// Number of softirqs of all kinds.
    #[serde(default)]
    pub softirqs: Option<u64>,
    /// Time that was not idle, including steal time.
    #[serde(default)]
    pub busy: Option<Nanos>,
    /// Steal time.
    #[serde(default)]
    pub steal: Option<Nanos>,
    /// The frequency that cpufreq reports.
    #[serde(default)]
    pub frequency_khz: Option<u64>,
    /// How often heat throttled the core.
    #[serde(default)]
    pub thermal_throttles: Option<u64>,
}

impl CpuState {
    /// Returns a state without values.
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
    /// Parses lines such as `some avg10=0.03 avg60=0.31 avg300=0.54 total=6570788`, with times in
    /// microseconds, and the same lines with `full` instead of `some`.
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
