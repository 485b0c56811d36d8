//! Whether the machine is virtual. If it is, the host's scheduler can delay tasks by any amount,
//! and no setting inside the virtual machine prevents that.

use serde::{Deserialize, Serialize};

use super::super::root::Root;

/// What suggests that the machine runs under a hypervisor.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Virtualization {
    /// The `hypervisor` flag of an x86 CPU; absent on other CPUs.
    pub processor_flag: Option<bool>,
    /// Name of the hypervisor: /sys/hypervisor/type (`xen`), or `compatible` of the device tree
    /// (`linux,kvm`).
    pub hypervisor: Option<String>,
    /// The vendor of the machine, from its firmware (`QEMU`).
    pub vendor: Option<String>,
}

impl Virtualization {
    pub(super) fn read(root: &Root, cpuinfo: &str) -> Self {
        let flags = cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == "flags");
        Self {
            processor_flag: flags
                .map(|(_, flags)| flags.split_whitespace().any(|flag| flag == "hypervisor")),
            hypervisor: root
                .text("sys/hypervisor/type")
                .or_else(|| root.text("proc/device-tree/hypervisor/compatible")),
            vendor: root.text("sys/class/dmi/id/sys_vendor"),
        }
    }

    /// Returns whether this is a virtual machine; `None` if unknown.
    #[must_use]
    pub fn is_virtual(&self) -> Option<bool> {
        // Vendors whose name proves that the machine is virtual. Microsoft, Google and Amazon are
        // missing here because they also sell hardware.
        const VIRTUAL_ONLY: [&str; 6] = ["QEMU", "VMware", "innotek", "Xen", "Parallels", "Bochs"];
        let by_vendor = self
            .vendor
            .as_ref()
            .is_some_and(|vendor| VIRTUAL_ONLY.iter().any(|name| vendor.starts_with(name)));
        if self.hypervisor.is_some() || by_vendor {
            Some(true)
        } else {
            self.processor_flag
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::fake_root::FakeRoot;
    use super::*;

    #[test]
    fn any_sign_of_a_hypervisor_is_enough_and_no_sign_is_not_a_no() {
        let read = |fake: FakeRoot, cpuinfo: &str| {
            Virtualization::read(&fake.root(), cpuinfo).is_virtual()
        };
        assert_eq!(
            read(FakeRoot::new(), "flags\t\t: fpu hypervisor lahf_lm\n"),
            Some(true)
        );
        assert_eq!(
            read(FakeRoot::new(), "flags\t\t: fpu lahf_lm\nvmx flags : x\n"),
            Some(false)
        );
        assert_eq!(read(FakeRoot::new(), "Features\t: fp asimd\n"), None);
        assert_eq!(
            read(
                FakeRoot::new().with("sys/class/dmi/id/sys_vendor", "QEMU\n"),
                "Features\t: fp\n"
            ),
            Some(true)
        );
        assert_eq!(
            read(
                FakeRoot::new().with("proc/device-tree/hypervisor/compatible", "linux,kvm\0"),
                ""
            ),
            Some(true)
        );
        assert_eq!(
            read(
                FakeRoot::new().with("sys/class/dmi/id/sys_vendor", "Dell Inc.\n"),
                ""
            ),
            None
        );
    }
}
