//! The facts of the machine that do not change during a run.

mod kernel;
mod memory;
mod processors;
mod summary;
mod virtualization;

use serde::{Deserialize, Serialize};

pub use self::kernel::{CompiledPreemption, KernelFacts, Preemption, PreemptionSource};
pub use self::memory::MemoryFacts;
pub use self::processors::{ClockRate, ClockRateSource, IdleFacts, IdleState, ProcessorFacts};
pub use self::virtualization::Virtualization;
use super::cgroup::CgroupLimits;
use super::root::Root;
use super::throttling::ThrottlingSettings;

/// The machine at the start of a run. Unreadable facts are absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineFacts {
    /// The name of the host.
    pub host_name: Option<String>,
    /// `PRETTY_NAME` of os-release(5).
    pub distribution: Option<String>,
    /// The board or model, from the device tree, otherwise from the firmware (DMI).
    pub model: Option<String>,
    /// The kernel's random boot ID, the same for all runs of one boot.
    pub boot_id: Option<String>,
    pub kernel: KernelFacts,
    /// The CPUs.
    pub processors: ProcessorFacts,
    /// Whether the machine is virtual.
    pub virtualization: Virtualization,
    /// Memory and swap.
    pub memory: MemoryFacts,
    /// Mechanisms that can take CPUs from real-time tasks.
    pub throttling: ThrottlingSettings,
    /// The limits of this process's control groups.
    pub cgroup: CgroupLimits,
}

impl MachineFacts {
    /// Reads all facts: about 100 small files, and more for each CPU and each of its idle states.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        let kernel = KernelFacts::read(root);
        let cgroup = CgroupLimits::read(root);
        let cpuinfo = root.read("proc/cpuinfo").unwrap_or_default();
        let firmware = ["product_name", "board_name"]
            .iter()
            .find_map(|name| root.text(format!("sys/class/dmi/id/{name}")));
        Self {
            host_name: root.text("proc/sys/kernel/hostname"),
            distribution: distribution(root),
            model: root.text("proc/device-tree/model").or(firmware),
            boot_id: root.text("proc/sys/kernel/random/boot_id"),
            processors: ProcessorFacts::read(root, &cpuinfo),
            virtualization: Virtualization::read(root, &cpuinfo),
            memory: MemoryFacts::read(root),
            throttling: ThrottlingSettings::read(root, kernel.release.as_deref(), cgroup.real_time),
            kernel,
            cgroup,
        }
    }
}

fn distribution(root: &Root) -> Option<String> {
    let text = root
        .read("etc/os-release")
        .or_else(|_| root.read("usr/lib/os-release"))
        .ok()?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim().trim_matches(['"', '\'']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::fake_root::FakeRoot;
    use super::*;

    #[test]
    fn an_empty_machine_has_no_facts_and_no_zeros() {
        let facts = MachineFacts::read(&FakeRoot::new().root());
        let expected = KernelFacts {
            architecture: Some(std::env::consts::ARCH.to_owned()),
            ..KernelFacts::default()
        };
        assert_eq!(
            facts,
            MachineFacts {
                kernel: expected,
                ..MachineFacts::default()
            }
        );
    }

    #[test]
    fn the_board_of_a_device_tree_goes_before_the_firmwares_name() {
        let fake = FakeRoot::new()
            .with("proc/device-tree/model", "Board 5\0")
            .with("sys/class/dmi/id/product_name", "Standard PC\n")
            .with(
                "etc/os-release",
                "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
            );
        let facts = MachineFacts::read(&fake.root());
        assert_eq!(facts.model.as_deref(), Some("Board 5"));
        assert_eq!(
            facts.distribution.as_deref(),
            Some("Debian GNU/Linux 12 (bookworm)")
        );
    }

    #[test]
    fn the_running_machine_is_consistent_with_itself() {
        let facts = MachineFacts::read(&Root::system());
        let online = facts.processors.online.clone().unwrap();
        assert!(!online.is_empty());
        for listed in facts.processors.governors.values() {
            assert!(
                listed.minus(&online).is_empty(),
                "{listed} has a governor, {online} are online"
            );
        }
        assert!(facts.memory.available_bytes.unwrap() <= facts.memory.total_bytes.unwrap());
        let clocksource = facts.kernel.clocksource.clone();
        assert!(
            clocksource
                .is_none_or(|current| facts.kernel.clocksources_available.contains(&current))
        );
        let release = facts.kernel.release.as_deref().unwrap();
        assert!(facts.two_lines()[0].contains(release) && facts.one_line().contains(release));
        assert_eq!(
            serde_json::from_str::<MachineFacts>(&serde_json::to_string(&facts).unwrap()).unwrap(),
            facts
        );
        assert_eq!(MachineFacts::read(&Root::system()).boot_id, facts.boot_id);
    }

    #[test]
    fn facts_of_an_older_or_later_version_are_read() {
        let later = r#"{"host_name":"a","colour":"red","kernel":{"release":"9.1","preemption":{"compiled":"quantum","hue":1}},"processors":{"x":[]}}"#;
        let facts: MachineFacts = serde_json::from_str(later).unwrap();
        assert_eq!(
            facts.kernel.preemption.unwrap().compiled,
            CompiledPreemption::Unknown
        );
        assert_eq!(
            serde_json::from_str::<MachineFacts>("{}").unwrap(),
            MachineFacts::default()
        );
    }
}
