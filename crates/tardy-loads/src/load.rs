//! Provides loads, which are ways to stress the system while probes run. Each load is bounded and
//! reports how much it did.
//!
//! A load is one file in this folder and one line in [`LOADS`]. The help text, `tardy list loads`,
//! the resolution of requests and the tests that walk the list follow from its [`LoadInfo`]. The
//! measuring process only resolves requests to plans ([`resolve`]). The work itself runs in
//! processes below the guardian ([`crate::guardian`]); each of them is a [`worker`].

mod allowance;
pub mod backing;
pub mod bounds;
pub mod busy;
pub mod cache;
pub mod caps_lock;
pub mod cgroup;
pub mod composite;
pub mod console;
pub mod cpu_hotplug;
pub mod crashme;
pub mod dd;
mod device;
pub mod du;
pub mod exec;
pub mod fifos_mmap;
pub mod fork;
pub mod fpu;
pub mod fs;
mod gate;
pub mod hackbench;
pub mod info;
pub mod io;
pub mod ipi;
pub mod kcore;
pub mod kernel_build;
pub mod memory;
mod memory_group;
pub mod mmap_lock;
pub mod netlink;
pub mod nfs_compile;
pub mod operations;
mod pace;
pub mod pi_futex;
pub mod ping_flood;
pub mod printk;
pub mod procfs;
mod program;
pub mod receive;
pub mod reclaim;
pub mod request;
pub mod resolution;
pub mod resolve;
pub mod rights;
pub mod scratch;
pub mod sharing;
pub mod thp;
mod threads;
pub mod timers;
pub mod ttcp;
mod veth;
pub mod worker;
pub mod worker_process;
pub mod writeback;

pub use info::{GuestNeeds, LoadInfo, Placement};
pub use request::LoadRequest;
pub use resolve::resolve_all;
use tardy_core::units::Nanos;
use tardy_machine::unsupported::Unsupported;
use tardy_run::plan::LoadPlan;

/// All loads, in the order of listing.
pub const LOADS: &[&LoadInfo] = &[
    &memory::INFO,
    &io::INFO,
    &procfs::INFO,
    &kcore::INFO,
    &fork::INFO,
    &console::INFO,
    &caps_lock::INFO,
    &ttcp::INFO,
    &fifos_mmap::INFO,
    &fpu::INFO,
    &fs::INFO,
    &crashme::INFO,
    &nfs_compile::INFO,
    &kernel_build::INFO,
    &dd::INFO,
    &ping_flood::INFO,
    &hackbench::INFO,
    &du::INFO,
    &timers::INFO,
    &mmap_lock::INFO,
    &cgroup::INFO,
    &netlink::INFO,
    &cache::INFO,
    &reclaim::INFO,
    &thp::INFO,
    &ipi::INFO,
    &pi_futex::INFO,
    &receive::INFO,
    &writeback::INFO,
    &printk::INFO,
    &cpu_hotplug::INFO,
    &busy::INFO,
    &exec::INFO,
    &operations::INFO,
];

/// The loads for which a guest of the lab needs more than tardy.
pub const GUEST_NEEDS: &[GuestNeeds] = &[nfs_compile::GUEST_NEEDS];

/// Old names of loads, with the new ones. Requests may use the old names for one more minor
/// version.
pub const RENAMED: &[(&str, &str)] = &[("spin", "busy")];

/// Returns the load with this name or old name.
#[must_use]
pub fn find(name: &str) -> Option<&'static LoadInfo> {
    let name = RENAMED
        .iter()
        .find(|(old, _)| *old == name)
        .map_or(name, |(_, new)| new);
    LOADS.iter().copied().find(|info| info.name == name)
}

/// Returns how long `loads` must be allowed to stop, however little time there is. A killed load
/// cannot stop the kernel's NFS server, which would then hold the load's files.
#[must_use]
pub fn shortest_stop(loads: &[LoadPlan]) -> Nanos {
    loads
        .iter()
        .filter(|load| load.name == nfs_compile::INFO.name)
        .map(|load| load.finish_limit)
        .max()
        .unwrap_or(Nanos::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_load_says_what_it_does_and_why() {
        for (index, info) in LOADS.iter().enumerate() {
            assert!(
                LOADS[..index].iter().all(|other| other.name != info.name),
                "{} twice",
                info.name
            );
            assert!(
                !composite::COMPOSITES
                    .iter()
                    .any(|composite| composite.name == info.name),
                "{} is a composite's name",
                info.name
            );
            assert!(
                !info.does.is_empty() && !info.effect.is_empty() && !info.source.is_empty(),
                "{}",
                info.name
            );
            assert!(
                info.name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
                "{}",
                info.name
            );
        }
    }

    #[test]
    fn what_was_renamed_is_found_by_its_old_name() {
        for (old, new) in RENAMED {
            assert_eq!(find(old).map(|info| info.name), Some(*new), "{old}");
            assert!(
                LOADS.iter().all(|info| info.name != *old),
                "{old}: the name of another"
            );
        }
    }

    #[test]
    fn every_default_passes_its_own_limits() {
        for info in LOADS {
            for parameter in info.parameters {
                if let Some(default) = parameter.default {
                    assert!(
                        parameter.parse(default).is_ok(),
                        "{}: {}={default}",
                        info.name,
                        parameter.name
                    );
                }
            }
        }
    }

    #[test]
    fn composites_name_loads_that_exist_and_none_that_must_be_asked_for() {
        for composite in composite::COMPOSITES {
            for name in composite.loads() {
                let info =
                    find(name).unwrap_or_else(|| panic!("{}: no load {name}", composite.name));
                assert!(
                    !info.can_do_harm || composite.names_dangers,
                    "{}: {name} runs only by name",
                    composite.name
                );
            }
        }
    }
}
