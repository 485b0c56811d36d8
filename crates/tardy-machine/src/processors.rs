//! Divides the CPUs into those reserved for real-time work and the housekeeping CPUs.
//!
//! A process cannot rely on the affinity that it inherits from its shell. With `isolcpus=`, the
//! first process, and so every shell, is kept off the isolated CPUs, but real-time tasks run on
//! exactly these. So a thread requests all CPUs from the kernel, and reads back its actual
//! affinity, which a control group's cpuset still limits.
//!
//! By default, the CPUs reserved for real-time work are measured, unless the user has restricted
//! the process to other CPUs. Loads and the tool's own threads stay on the housekeeping CPUs.

use std::io;

use tardy_core::cpu::{CpuId, CpuList};
use tardy_sys::affinity;

use super::cgroup;
use super::root::Root;

const FOLDER: &str = "sys/devices/system/cpu";

/// Returns the isolated CPUs; `None` if the files are missing.
///
/// `sys/devices/system/cpu/isolated` contains only the CPUs of `isolcpus=`. The root control group
/// of version 2 lists the CPUs of isolated partitions (seen with Linux 6.12 and 7.3).
pub(crate) fn isolated(root: &Root) -> Option<CpuList> {
    let at_boot = root.cpu_list(format!("{FOLDER}/isolated"));
    let in_partitions = cgroup::cpus_of_isolated_partitions(root);
    match (at_boot, in_partitions) {
        (Some(at_boot), Some(in_partitions)) => {
            Some(at_boot.iter().chain(in_partitions.iter()).collect())
        }
        (at_boot, in_partitions) => at_boot.or(in_partitions),
    }
}

/// The CPUs that this process can use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Processors {
    /// The CPUs that a thread gets if it requests all CPUs.
    pub usable: CpuList,
    /// The CPUs on which this process was started. They may be the user's choice (`taskset`).
    pub own: CpuList,
    /// The usable CPUs that are isolated, by `isolcpus=` or by an isolated partition. CPUs of a
    /// partition can be used only in the partition's control group.
    pub isolated: CpuList,
    /// The usable CPUs that stop their tick (`nohz_full=`).
    pub nohz_full: CpuList,
}

impl Processors {
    /// Reads the CPUs from the kernel.
    ///
    /// # Errors
    /// Returns the errors of sched_getaffinity(2).
    pub fn read(root: &Root) -> io::Result<Self> {
        let list = |cpus: Vec<u32>| cpus.into_iter().map(CpuId).collect::<CpuList>();
        let own = list(affinity::get(0)?);
        // If a sandbox refuses the request, the process's current CPUs still count as usable.
        let usable: CpuList = list(affinity::obtainable().unwrap_or_default())
            .iter()
            .chain(own.iter())
            .collect();
        let of_usable = |cpus: Option<CpuList>| cpus.unwrap_or_default().and(&usable);
        Ok(Self {
            isolated: of_usable(isolated(root)),
            nohz_full: of_usable(root.cpu_list(format!("{FOLDER}/nohz_full"))),
            usable,
            own,
        })
    }

    /// Returns the usable CPUs that are reserved for real-time work: isolated, or without a tick.
    #[must_use]
    pub fn set_apart(&self) -> CpuList {
        self.isolated.iter().chain(self.nohz_full.iter()).collect()
    }

    /// Returns the usable CPUs for everything else. If all usable CPUs are reserved, returns all of
    /// them.
    #[must_use]
    pub fn housekeeping(&self) -> CpuList {
        let rest = self.usable.minus(&self.set_apart());
        if rest.is_empty() {
            self.usable.clone()
        } else {
            rest
        }
    }

    /// Returns whether this process was started without at least one of the housekeeping CPUs.
    /// `isolcpus=` never excludes a housekeeping CPU, so the user must have excluded it.
    #[must_use]
    pub fn is_restricted(&self) -> bool {
        !self.housekeeping().minus(&self.own).is_empty()
    }

    /// Returns the CPUs to measure by default: the reserved ones, unless there are none or the user
    /// chose other CPUs.
    #[must_use]
    pub fn by_default(&self) -> CpuList {
        let apart = self.set_apart();
        if apart.is_empty() || self.is_restricted() {
            self.own.clone()
        } else {
            apart
        }
    }

    /// Returns the CPUs on which the tool's own threads run while the CPUs in `measured` are
    /// measured. These are the unmeasured CPUs on which this process was started, or only the
    /// housekeeping CPUs among them, if there are any. If there is no such CPU, and the process was
    /// started only on reserved CPUs, returns the unmeasured housekeeping CPUs. Otherwise returns
    /// an empty list.
    #[must_use]
    pub fn beside(&self, measured: &CpuList) -> CpuList {
        let housekeeping = self.housekeeping();
        let is_kept_apart = self.own.minus(&self.set_apart()).is_empty();
        let elsewhere = if is_kept_apart {
            housekeeping.clone()
        } else {
            CpuList::default()
        };
        let candidates = [self.own.and(&housekeeping), self.own.clone(), elsewhere];
        let left = candidates
            .iter()
            .map(|cpus| cpus.minus(measured))
            .find(|left| !left.is_empty());
        left.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake_root::FakeRoot;
    use super::*;

    fn processors(usable: &str, own: &str, isolated: &str, nohz_full: &str) -> Processors {
        let list = |text: &str| text.parse::<CpuList>().unwrap();
        Processors {
            usable: list(usable),
            own: list(own),
            isolated: list(isolated),
            nohz_full: list(nohz_full),
        }
    }

    fn chosen(processors: &Processors) -> (String, String) {
        let measured = processors.by_default();
        (
            measured.to_string(),
            processors.beside(&measured).to_string(),
        )
    }

    #[test]
    fn cpus_are_isolated_at_boot_or_by_a_partition() {
        const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        const V1: &str = "33 31 0:30 / /sys/fs/cgroup/set rw - cgroup cgroup rw,cpuset\n";
        const HYBRID: &str = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let of_boot = ("sys/devices/system/cpu/isolated", "2\n");
        let none_at_boot = ("sys/devices/system/cpu/isolated", "\n");
        let of_partition = ("sys/fs/cgroup/cpuset.cpus.isolated", "3-4\n");
        for (mounts, files, wanted) in [
            (V2, vec![of_boot], Some("2")),
            (V2, vec![of_partition], Some("3-4")),
            (V2, vec![none_at_boot, of_partition], Some("3-4")),
            (V2, vec![of_boot, of_partition], Some("2-4")),
            // `tardy doctor --root` finds no list of mounts if the user did not copy the other
            // machine's /proc.
            ("", vec![of_boot, of_partition], Some("2-4")),
            (V1, vec![of_boot], Some("2")),
            (
                HYBRID,
                vec![
                    of_boot,
                    ("sys/fs/cgroup/unified/cpuset.cpus.isolated", "3\n"),
                ],
                Some("2-3"),
            ),
            (V1, vec![none_at_boot], Some("")),
            ("", vec![], None),
        ] {
            let fake = FakeRoot::new().with("proc/self/mountinfo", mounts);
            let fake = files
                .iter()
                .fold(fake, |fake, (path, text)| fake.with(path, text));
            let found = isolated(&fake.root()).map(|cpus| cpus.to_string());
            assert_eq!(found.as_deref(), wanted, "{mounts} {files:?}");
        }
    }

    #[test]
    fn isolated_cpus_are_measured_and_the_tool_keeps_to_the_others() {
        assert_eq!(
            chosen(&processors("0-3", "0-1", "2-3", "")),
            ("2-3".into(), "0-1".into())
        );
        assert_eq!(
            chosen(&processors("0-3", "0-1", "2", "2-3")),
            ("2-3".into(), "0-1".into())
        );
        // nohz_full= alone does not move the shell to other CPUs.
        assert_eq!(
            chosen(&processors("0-3", "0-3", "", "3")),
            ("3".into(), "0-2".into())
        );
    }

    #[test]
    fn without_isolated_cpus_everything_is_as_the_shell_has_it() {
        assert_eq!(
            chosen(&processors("0-3", "0-3", "", "")),
            ("0-3".into(), String::new())
        );
        assert_eq!(
            chosen(&processors("0-3", "1-2", "", "")),
            ("1-2".into(), String::new())
        );
    }

    #[test]
    fn a_choice_of_the_user_goes_before_isolation() {
        // `taskset -c 0` on a machine with isolated CPUs: the user excluded one of two housekeeping
        // CPUs.
        assert_eq!(chosen(&processors("0-3", "0", "2-3", "")).0, "0");
        assert_eq!(
            chosen(&processors("0-3", "2", "2-3", "")),
            ("2".into(), "0-1".into())
        );
    }

    #[test]
    fn a_container_of_isolated_cpus_alone_measures_them_all() {
        let container = processors("2-3", "2-3", "2-3", "2-3");
        assert_eq!(chosen(&container), ("2-3".into(), String::new()));
        assert_eq!(container.housekeeping().to_string(), "2-3");
    }
}
