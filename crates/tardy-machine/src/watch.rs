//! Reads some counters twice: those of interrupts, steal time and system management interrupts. On
//! a tuned machine, they must not increase between the readings. The second reading also lists BPF
//! programs and the coalescing settings of network devices.

use std::collections::BTreeMap;

use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::units::Nanos;
use tardy_sys::bpf::{self, BpfProgram};
use tardy_sys::ethtool::{self, Coalescing};

use super::cpu_time::CpuTimes;
use super::interrupts::{InterruptDelta, Interrupts};
use super::root::Root;
use super::smi::{self, SmiCounts, SmiReader, SmiUnavailable};

/// Pattern for a file that each network device has, except loopback, bridges and tunnels.
pub(crate) const NETWORK_DEVICES: &str = "sys/class/net/*/device/uevent";
/// The first error (errno.h) means that the driver lacks the setting, the second (errno-base.h)
/// that the device has been removed.
const EOPNOTSUPP: i32 = 95;
const ENODEV: i32 = 19;

/// The first reading.
#[derive(Debug)]
pub struct Watch {
    interrupts: Option<Interrupts>,
    times: Option<CpuTimes>,
    smi: Result<(SmiReader, SmiCounts), SmiUnavailable>,
}

/// By how much the counters increased between two readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchDelta {
    /// Time between the readings, on the caller's clock.
    pub span: Nanos,
    /// The interrupts; absent if the table cannot be read.
    pub interrupts: Option<InterruptDelta>,
    /// Steal time of each CPU between the readings; absent if the kernel does not count it.
    pub stolen: Option<BTreeMap<CpuId, Nanos>>,
    /// System management interrupts between the readings, or the reason why they cannot be counted.
    pub smi: Result<SmiCounts, SmiUnavailable>,
    /// BPF programs that are loaded at the second reading, or the reason why they cannot be listed.
    pub bpf: Result<Vec<BpfProgram>, String>,
    /// The coalescing settings of network devices, by name of the device, or the reason why they
    /// cannot be read.
    pub coalescing: Result<BTreeMap<String, Coalescing>, String>,
}

impl Watch {
    /// Takes the first reading.
    #[must_use]
    pub fn begin(root: &Root, cpus: &CpuList) -> Self {
        let smi = SmiReader::open(root, cpus)
            .and_then(|reader| reader.read().map(|counts| (reader, counts)));
        Self {
            interrupts: Interrupts::read(root).ok(),
            times: CpuTimes::read(root).ok(),
            smi,
        }
    }

    /// Takes the second reading, `span` later.
    #[must_use]
    pub fn end(self, root: &Root, span: Nanos) -> WatchDelta {
        let interrupts = self
            .interrupts
            .and_then(|before| Some(Interrupts::read(root).ok()?.since(&before)));
        let stolen = self.times.and_then(|before| {
            let grown = CpuTimes::read(root).ok()?.since(&before);
            grown
                .cpus
                .iter()
                .map(|(cpu, time)| Some((*cpu, time.steal?)))
                .collect()
        });
        let smi = self
            .smi
            .and_then(|(reader, before)| reader.read().map(|after| smi::since(&after, &before)));
        let (bpf, coalescing) = if *root == Root::system() {
            (
                bpf::programs().map_err(|error| error.to_string()),
                coalescing(root),
            )
        } else {
            let elsewhere = || "the examined files come from another machine".to_owned();
            (Err(elsewhere()), Err(elsewhere()))
        };
        WatchDelta {
            span,
            interrupts,
            stolen,
            smi,
            bpf,
            coalescing,
        }
    }
}

/// Reads the coalescing settings of network devices, real or emulated.
fn coalescing(root: &Root) -> Result<BTreeMap<String, Coalescing>, String> {
    let mut found = BTreeMap::new();
    for path in root.matching(NETWORK_DEVICES) {
        let device = path.split('/').nth(3).unwrap_or_default();
        match ethtool::coalescing(device) {
            Ok(coalescing) => drop(found.insert(device.to_owned(), coalescing)),
            Err(error) if [Some(EOPNOTSUPP), Some(ENODEV)].contains(&error.raw_os_error()) => {}
            Err(error) => return Err(format!("{device}: {error}")),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::fake_root::FakeRoot;
    use super::*;

    #[test]
    fn only_what_grew_between_two_looks_is_told() {
        let stat =
            |steal| format!("cpu  0 0 0 0 0 0 0 {steal} 0 0\ncpu0 0 0 0 0 0 0 0 {steal} 0 0\n");
        let fake = FakeRoot::new()
            .with("proc/interrupts", "      CPU0\n 9:  5  chip  disk\n")
            .with("proc/stat", stat(7));
        let watch = Watch::begin(&fake.root(), &"0".parse().unwrap());
        fake.write("proc/interrupts", "      CPU0\n 9:  8  chip  disk\n");
        fake.write("proc/stat", stat(9));
        let watched = watch.end(&fake.root(), Nanos::from_secs(1));
        assert_eq!(watched.interrupts.unwrap().lines[0].counts[&CpuId(0)], 3);
        assert_eq!(watched.stolen.unwrap()[&CpuId(0)], Nanos::from_millis(20));
        assert!(watched.smi.is_err());
    }
}
