//! Describes what this machine offers to loads, probes and cost measurements: mounted kernel file
//! systems, scratch space and programs.

use std::path::{Path, PathBuf};

use tardy_sys::disk::{self, Room};

/// One tenth of a file system stays free for logs and for the run itself, but not less than the
/// minimum and not more than the maximum below.
const DISK_FLOOR_PART: u64 = 10;
const DISK_FLOOR_MIN: u64 = 256 << 20;
const DISK_FLOOR_MAX: u64 = 4 << 30;

/// The folders from which the machine's state is read. Tests replace them.
#[derive(Debug, Clone)]
pub struct Host {
    /// procfs.
    pub proc: PathBuf,
    /// sysfs.
    pub sys: PathBuf,
    /// The folder of device files.
    pub dev: PathBuf,
    /// The folder for scratch files, on a real file system if possible.
    pub scratch: PathBuf,
    /// The run's folder or, if it does not exist yet, its nearest existing ancestor; absent without
    /// a run.
    pub run: Option<PathBuf>,
    /// The folders to search for programs.
    pub program_folders: Vec<PathBuf>,
    /// Whether the tool runs as the superuser.
    pub superuser: bool,
}

impl Host {
    /// Describes this machine. The scratch folder is `TMPDIR` if this is set to a folder, otherwise
    /// /var/tmp (usually on a disk) if it exists, otherwise /tmp.
    #[must_use]
    pub fn of_this_machine() -> Self {
        let scratch = std::env::var_os("TMPDIR")
            .map(PathBuf::from)
            .filter(|folder| folder.is_absolute() && folder.is_dir());
        let scratch =
            scratch.or_else(|| Some(PathBuf::from("/var/tmp")).filter(|folder| folder.is_dir()));
        let mut program_folders: Vec<_> = std::env::var_os("PATH")
            .map_or_else(Vec::new, |path| std::env::split_paths(&path).collect());
        // The PATH of ordinary users often lacks these folders, although they may execute many of
        // the programs there.
        program_folders.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
        Self {
            proc: PathBuf::from("/proc"),
            sys: PathBuf::from("/sys"),
            dev: PathBuf::from("/dev"),
            scratch: scratch.unwrap_or_else(|| PathBuf::from("/tmp")),
            run: None,
            program_folders,
            superuser: tardy_sys::user::is_root(),
        }
    }

    /// Describes this machine, for a run in `out`, which may not exist yet.
    #[must_use]
    pub fn of_run(out: &Path) -> Self {
        let out = std::path::absolute(out).unwrap_or_else(|_| out.to_owned());
        Self {
            run: out
                .ancestors()
                .find(|folder| folder.is_dir())
                .map(Path::to_owned),
            ..Self::of_this_machine()
        }
    }

    /// Returns the first program with this name in the folders.
    #[must_use]
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        use std::os::unix::fs::PermissionsExt;
        let executable = |path: &PathBuf| {
            path.metadata()
                .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
        };
        self.program_folders
            .iter()
            .map(|folder| folder.join(name))
            .find(executable)
    }

    /// Returns the memory that new processes can use without swapping, in bytes, as the kernel
    /// estimates it (MemAvailable).
    #[must_use]
    pub fn memory_available(&self) -> Option<u64> {
        let text = std::fs::read_to_string(self.proc.join("meminfo")).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.trim()
            .strip_suffix("kB")?
            .trim()
            .parse::<u64>()
            .ok()?
            .checked_mul(1024)
    }

    /// Returns the maximum number of processes and threads on the machine.
    #[must_use]
    pub fn processes_max(&self) -> Option<u64> {
        let read = |name: &str| {
            std::fs::read_to_string(self.proc.join("sys/kernel").join(name))
                .ok()?
                .trim()
                .parse::<u64>()
                .ok()
        };
        match (read("pid_max"), read("threads-max")) {
            (Some(pids), Some(threads)) => Some(pids.min(threads)),
            (one, other) => one.or(other),
        }
    }

    /// Returns the space on the file system of `folder`.
    #[must_use]
    pub fn room(&self, folder: &Path) -> Option<Room> {
        disk::room(folder).ok()
    }
}

/// Returns how many bytes stay free on a file system of `total` bytes.
#[must_use]
pub fn disk_floor(total: u64) -> u64 {
    (total / DISK_FLOOR_PART).clamp(DISK_FLOOR_MIN, DISK_FLOOR_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(root: &Path) -> Host {
        Host {
            proc: root.to_owned(),
            program_folders: vec![root.join("bin")],
            ..Host::of_this_machine()
        }
    }

    #[test]
    fn a_run_that_does_not_exist_yet_is_in_the_nearest_folder_that_does() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(
            Host::of_run(&root.path().join("not/yet")).run.as_deref(),
            Some(root.path())
        );
        assert!(
            Host::of_run(Path::new("run"))
                .run
                .is_some_and(|folder| folder.is_absolute())
        );
    }

    #[test]
    fn the_kernels_estimate_of_available_memory_is_read() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(
            root.path().join("meminfo"),
            "MemTotal:  2000 kB\nMemFree: 1 kB\nMemAvailable:   1500 kB\n",
        )
        .unwrap();
        assert_eq!(host(root.path()).memory_available(), Some(1500 * 1024));
        std::fs::write(root.path().join("meminfo"), "MemTotal:  2000 kB\n").unwrap();
        assert_eq!(host(root.path()).memory_available(), None);
    }

    #[test]
    fn only_executable_files_are_programs() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().join("bin");
        std::fs::create_dir_all(bin.join("folder")).unwrap();
        std::fs::write(bin.join("text"), "").unwrap();
        std::fs::write(bin.join("tool"), "").unwrap();
        std::fs::set_permissions(bin.join("tool"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let host = host(root.path());
        assert_eq!(host.program("tool"), Some(bin.join("tool")));
        assert_eq!((host.program("text"), host.program("folder")), (None, None));
    }

    #[test]
    fn the_smaller_limit_of_processes_counts() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("sys/kernel")).unwrap();
        assert_eq!(host(root.path()).processes_max(), None);
        std::fs::write(root.path().join("sys/kernel/pid_max"), "32768\n").unwrap();
        std::fs::write(root.path().join("sys/kernel/threads-max"), "4000\n").unwrap();
        assert_eq!(host(root.path()).processes_max(), Some(4000));
    }

    #[test]
    fn a_tenth_stays_free_but_neither_too_little_nor_more_than_anything_needs() {
        assert_eq!(disk_floor(100 << 20), DISK_FLOOR_MIN);
        assert_eq!(disk_floor(10 << 30), 1 << 30);
        assert_eq!(disk_floor(250 << 30), DISK_FLOOR_MAX);
    }
}
