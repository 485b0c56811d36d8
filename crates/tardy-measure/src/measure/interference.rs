//! Other activity on the measured CPUs during a run.

use tardy_core::cpu::CpuList;
use tardy_machine::cgroup::CgroupThrottling;
use tardy_machine::context_switches::ContextSwitches;
use tardy_machine::cpu_time::CpuTimes;
use tardy_machine::interrupts::Interrupts;
use tardy_machine::root::Root;
use tardy_machine::smi::{self, SmiReader};
use tardy_machine::softirqs::Softirqs;
use tardy_run::interference::Interference;

/// The kernel's counts at one time.
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
    /// Reads all counts. Counts that cannot be read are absent.
    pub(super) fn take(root: &Root, measured: &CpuList) -> Self {
        let management = SmiReader::open(root, measured)
            .and_then(|reader| reader.read())
            .map_err(|absent| absent.to_string());
        Self {
            interrupts: Interrupts::read(root).ok(),
            softirqs: Softirqs::read(root).ok(),
            times: CpuTimes::read(root).ok(),
            switches: ContextSwitches::read(root),
            management,
            cgroup: CgroupThrottling::read(root),
        }
    }

    /// Returns by how much the counts increased from `before` to `self`, for the CPUs `measured`.
    pub(super) fn since(&self, before: &Self, measured: &CpuList) -> Interference {
        let interrupts = Option::zip(self.interrupts.as_ref(), before.interrupts.as_ref())
            .map(|(after, before)| after.since(before).on(measured));
        let softirqs =
            Option::zip(self.softirqs.as_ref(), before.softirqs.as_ref()).map(|(after, before)| {
                after
                    .since(before)
                    .on(measured)
                    .into_iter()
                    .map(|(name, count)| (name.to_owned(), count))
                    .collect()
            });
        let times = Option::zip(self.times.as_ref(), before.times.as_ref())
            .map(|(after, before)| after.since(before));
        let management = match (&self.management, &before.management) {
            (Ok(after), Ok(before)) => Ok(smi::since(after, before)
                .into_iter()
                .map(|(cpu, count)| (cpu, u64::from(count)))
                .collect()),
            (Err(absent), _) | (_, Err(absent)) => Err(absent.clone()),
        };
        Interference {
            interrupts: interrupts.unwrap_or_default(),
            softirqs: softirqs.unwrap_or_default(),
            context_switches: times.as_ref().and_then(|times| times.context_switches),
            cpu_times: times
                .map(|times| {
                    times
                        .cpus
                        .into_iter()
                        .filter(|(cpu, _)| measured.contains(*cpu))
                        .collect()
                })
                .unwrap_or_default(),
            context_switches_by_cpu: Option::zip(self.switches.as_ref(), before.switches.as_ref())
                .and_then(|(after, before)| after.since(before)),
            management_interrupts_absent: management.as_ref().err().cloned(),
            management_interrupts: management.ok(),
            cgroup: Option::zip(self.cgroup.as_ref(), before.cgroup.as_ref())
                .map(|(after, before)| after.since(before)),
        }
    }
}
