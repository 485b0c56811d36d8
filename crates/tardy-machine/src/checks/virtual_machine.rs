//! Checks whether the machine is virtual, so that the host can take its CPUs away.

use super::{Check, CheckInput, Importance, Profile, State, Weight};

pub(super) const CHECK: Check = Check {
    name: "virtual-machine",
    weight: Weight::of(Importance::High).but(&[(Profile::VmGuest, Importance::Low)]),
    reads: &["proc/cpuinfo", "sys/class/dmi/id/sys_vendor"],
    why: "the host's scheduler delays every task in the guest, and the guest's settings cannot \
          change that",
    source: "hardware.rst, virtualization; mckenney2009, section 5",
    look,
};

fn look(examined: &CheckInput<'_>) -> State {
    match examined.facts.virtualization.is_virtual() {
        None => State::unknown("the kernel does not show whether this is a virtual machine"),
        Some(false) => State::good("no hypervisor"),
        Some(true) => State::improvable(
            "virtual machine",
            "bare metal, or a host that dedicates whole CPUs to the guest",
            "use bare metal; or, on the host, bind each virtual CPU to an isolated CPU at \
             real-time priority, and lock the guest's memory",
        ),
    }
}
