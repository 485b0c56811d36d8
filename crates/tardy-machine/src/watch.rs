//! Counters that must stand still where tasks are to be on time, looked at twice: interrupts, time that a host took, system management interrupts.

use std::collections::BTreeMap;

use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::units::Nanos;

use super::cpu_time::CpuTimes;
use super::interrupts::{InterruptDelta, Interrupts};
use super::root::Root;
use super::smi::{self, SmiCounts, SmiReader, SmiUnavailable};

/// The first look.
#[derive(Debug)]
pub struct Watch {
    interrupts: Option<Interrupts>,
    times: Option<CpuTimes>,
    smi: Result<(SmiReader, SmiCounts), SmiUnavailable>,
}

/// What came between two looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchDelta {
    /// How long it was, by the caller's clock.
    pub span: Nanos,
    /// The interrupts; absent if the table cannot be read.
    pub interrupts: Option<InterruptDelta>,
    /// Time that the host gave to others, by CPU; absent where the kernel does not count it.
    pub stolen: Option<BTreeMap<CpuId, Nanos>>,
    /// System management interrupts, or why they cannot be counted.
    pub smi: Result<SmiCounts, SmiUnavailable>,
}

impl Watch {
    /// Looks for the first time.
    #[must_use]
    pub fn begin(root: &Root, cpus: &CpuList) -> Self {
        let smi = SmiReader::open(root, cpus).and_then(|reader| reader.read().map(|counts| (reader, counts)));
        Self { interrupts: Interrupts::read(root).ok(), times: CpuTimes::read(root).ok(), smi }
    }

    /// Looks for the second time, `span` later.
    #[must_use]
    pub fn end(self, root: &Root, span: Nanos) -> WatchDelta {
        let interrupts = self.interrupts.and_then(|before| Some(Interrupts::read(root).ok()?.since(&before)));
        let stolen = self.times.and_then(|before| {
            let grown = CpuTimes::read(root).ok()?.since(&before);
            grown.cpus.iter().map(|(cpu, time)| Some((*cpu, time.steal?))).collect()
        });
        let smi = self.smi.and_then(|(reader, before)| reader.read().map(|after| smi::since(&after, &before)));
        WatchDelta { span, interrupts, stolen, smi }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake_root::FakeRoot;
    use super::*;

    #[test]
    fn only_what_grew_between_two_looks_is_told() {
        let stat = |steal| format!("cpu  0 0 0 0 0 0 0 {steal} 0 0\ncpu0 0 0 0 0 0 0 0 {steal} 0 0\n");
        let fake = FakeRoot::new().with("proc/interrupts", "      CPU0\n 9:  5  chip  disk\n").with("proc/stat", stat(7));
        let watch = Watch::begin(&fake.root(), &"0".parse().unwrap());
        fake.write("proc/interrupts", "      CPU0\n 9:  8  chip  disk\n");
        fake.write("proc/stat", stat(9));
        let watched = watch.end(&fake.root(), Nanos::from_secs(1));
        assert_eq!(watched.interrupts.unwrap().lines[0].counts[&CpuId(0)], 3);
        assert_eq!(watched.stolen.unwrap()[&CpuId(0)], Nanos::from_millis(20));
        assert!(watched.smi.is_err());
    }
}
