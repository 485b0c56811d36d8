//! Other activity on the measured CPUs during a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuId;
use tardy_core::warning::Warning;
use tardy_machine::cgroup::CgroupThrottling;
use tardy_machine::context_switches::ContextSwitches;
use tardy_machine::cpu_time::CpuTime;
use tardy_machine::interrupts::InterruptLineDelta;

/// By how much the kernel's counts increased from the start to the end of a run, on the measured
/// CPUs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Interference {
    /// Interrupts by line, largest sum first.
    pub interrupts: Vec<InterruptLineDelta>,
    /// Deferred interrupt work (softirqs) by kind, largest sum first.
    pub softirqs: Vec<(String, u64)>,
    /// How each CPU spent its time, by kind.
    pub cpu_times: BTreeMap<CpuId, CpuTime>,
    /// Context switches of the whole machine.
    pub context_switches: Option<u64>,
    /// Context switches of each CPU, if the kernel reports them.
    pub context_switches_by_cpu: Option<ContextSwitches>,
    /// System-management interrupts of each CPU. If absent, `management_interrupts_absent` has the
    /// reason.
    pub management_interrupts: Option<BTreeMap<CpuId, u64>>,
    /// Why the system-management interrupts are absent.
    pub management_interrupts_absent: Option<String>,
    /// How often, and for how long, the quota of the control group throttled its tasks.
    pub cgroup: Option<CgroupThrottling>,
}

impl Interference {
    /// Returns the warnings to which the counts give rise.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for (&cpu, time) in &self.cpu_times {
            if let Some(stolen) = time.steal.filter(|steal| steal.get() > 0) {
                warnings.push(Warning::TimeStolen { cpu, stolen });
            }
        }
        for (&cpu, &count) in self
            .management_interrupts
            .iter()
            .flatten()
            .filter(|(_, count)| **count > 0)
        {
            warnings.push(Warning::ManagementInterrupts { cpu, count });
        }
        if let Some(periods) = self
            .cgroup
            .as_ref()
            .map(|cgroup| cgroup.throttled)
            .filter(|&periods| periods > 0)
        {
            warnings.push(Warning::CgroupThrottled { periods });
        }
        warnings
    }
}
