//! What else touched the measured processors while a run lasted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::warning::Warning;

use crate::machine::cgroup::CgroupThrottling;
use crate::machine::context_switches::ContextSwitches;
use crate::machine::cpu_time::{CpuTime, CpuTimes};
use crate::machine::interrupts::{InterruptLineDelta, Interrupts};
use crate::machine::root::Root;
use crate::machine::smi::{self, SmiReader};
use crate::machine::softirqs::Softirqs;

/// Counts between the start and the end of a run, on the measured processors.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Interference {
    /// Interrupts by line, largest sum first.
    pub interrupts: Vec<InterruptLineDelta>,
    /// Deferred interrupt work by kind, largest sum first.
    pub softirqs: Vec<(String, u64)>,
    /// How each processor spent its time.
    pub cpu_times: BTreeMap<CpuId, CpuTime>,
    /// Context switches of the whole machine.
    pub context_switches: Option<u64>,
    /// Context switches of each processor, where the kernel tells.
    pub context_switches_by_cpu: Option<ContextSwitches>,
    /// System-management interrupts of each processor; absent with the reason below.
    pub management_interrupts: Option<BTreeMap<CpuId, u64>>,
    /// Why they are absent.
    pub management_interrupts_absent: Option<String>,
    /// What the control group's quota took.
    pub cgroup: Option<CgroupThrottling>,
}

/// Counts at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    interrupts: Option<Interrupts>,
    softirqs: Option<Softirqs>,
    times: Option<CpuTimes>,
    switches: Option<ContextSwitches>,
    management: Result<smi::SmiCounts, String>,
    cgroup: Option<CgroupThrottling>,
}

impl Snapshot {
    /// Reads all counts; what cannot be read is absent.
    pub(super) fn take(root: &Root, measured: &CpuList) -> Self {
        let management = SmiReader::open(root, measured).and_then(|reader| reader.read()).map_err(|absent| absent.to_string());
        Self {
            interrupts: Interrupts::read(root).ok(),
            softirqs: Softirqs::read(root).ok(),
            times: CpuTimes::read(root).ok(),
            switches: ContextSwitches::read(root),
            management,
            cgroup: CgroupThrottling::read(root),
        }
    }

    /// What came between `before` and `self` on `measured`.
    pub(super) fn since(&self, before: &Self, measured: &CpuList) -> Interference {
        let interrupts =
            Option::zip(self.interrupts.as_ref(), before.interrupts.as_ref()).map(|(after, before)| after.since(before).on(measured));
        let softirqs = Option::zip(self.softirqs.as_ref(), before.softirqs.as_ref())
            .map(|(after, before)| after.since(before).on(measured).into_iter().map(|(name, count)| (name.to_owned(), count)).collect());
        let times = Option::zip(self.times.as_ref(), before.times.as_ref()).map(|(after, before)| after.since(before));
        let management = match (&self.management, &before.management) {
            (Ok(after), Ok(before)) => Ok(smi::since(after, before).into_iter().map(|(cpu, count)| (cpu, u64::from(count))).collect()),
            (Err(absent), _) | (_, Err(absent)) => Err(absent.clone()),
        };
        Interference {
            interrupts: interrupts.unwrap_or_default(),
            softirqs: softirqs.unwrap_or_default(),
            context_switches: times.as_ref().and_then(|times| times.context_switches),
            cpu_times: times.map(|times| times.cpus.into_iter().filter(|(cpu, _)| measured.contains(*cpu)).collect()).unwrap_or_default(),
            context_switches_by_cpu: Option::zip(self.switches.as_ref(), before.switches.as_ref())
                .and_then(|(after, before)| after.since(before)),
            management_interrupts_absent: management.as_ref().err().cloned(),
            management_interrupts: management.ok(),
            cgroup: Option::zip(self.cgroup.as_ref(), before.cgroup.as_ref()).map(|(after, before)| after.since(before)),
        }
    }
}

impl Interference {
    /// What a reader must know of it.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for (&cpu, time) in &self.cpu_times {
            if let Some(stolen) = time.steal.filter(|steal| steal.get() > 0) {
                warnings.push(Warning::TimeStolen { cpu, stolen });
            }
        }
        for (&cpu, &count) in self.management_interrupts.iter().flatten().filter(|(_, count)| **count > 0) {
            warnings.push(Warning::ManagementInterrupts { cpu, count });
        }
        if let Some(periods) = self.cgroup.as_ref().map(|cgroup| cgroup.throttled).filter(|&periods| periods > 0) {
            warnings.push(Warning::CgroupThrottled { periods });
        }
        warnings
    }
}
