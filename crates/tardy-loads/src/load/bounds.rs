//! Bounds the resources that all loads together may take.

use tardy_machine::host::{Host, disk_floor};

/// Resource limits of the loads of one phase together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of memory. The default is half of the available memory, so that the rest of the system
    /// never needs the OOM killer.
    pub memory: u64,
    /// Limit of the scratch files in the scratch folder's file system, in bytes.
    pub disk: u64,
    /// Maximum number of processes and threads. The default is a quarter of the kernel's limit.
    pub processes: u64,
}

/// Assumed available memory if the kernel does not report it (MemAvailable exists since Linux
/// 3.14), in bytes.
const MEMORY_UNKNOWN: u64 = 64 << 20;
/// Assumed maximum number of processes if the kernel does not report it.
const PROCESSES_UNKNOWN: u64 = 4096;

impl Bounds {
    /// Returns the default bounds on this machine.
    #[must_use]
    pub fn of(host: &Host) -> Self {
        let disk = host
            .room(&host.scratch)
            .map_or(0, |room| room.free.saturating_sub(disk_floor(room.total)));
        Self {
            memory: host.memory_available().unwrap_or(MEMORY_UNKNOWN) / 2,
            disk,
            processes: host.processes_max().unwrap_or(PROCESSES_UNKNOWN) / 4,
        }
    }

    /// Returns the bounds of each load if `count` loads run at the same time.
    #[must_use]
    pub fn shared_by(self, count: usize) -> Self {
        let count = count.max(1) as u64;
        Self {
            memory: self.memory / count,
            disk: self.disk / count,
            processes: self.processes / count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_take_at_most_half_of_the_memory_and_a_quarter_of_the_processes() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("sys/kernel")).unwrap();
        std::fs::write(root.path().join("meminfo"), "MemAvailable: 1024 kB\n").unwrap();
        std::fs::write(root.path().join("sys/kernel/pid_max"), "4000\n").unwrap();
        let host = Host {
            proc: root.path().to_owned(),
            ..Host::of_this_machine()
        };
        let bounds = Bounds::of(&host);
        assert_eq!((bounds.memory, bounds.processes), (512 * 1024, 1000));
        assert_eq!(bounds.shared_by(4).memory, 128 * 1024);
        assert_eq!(bounds.shared_by(0), bounds);
    }
}
