//! Sets up the guest's system and reads facts about it.

use std::path::Path;

use tardy_core::units::Nanos;
use tardy_machine::idle::idle_time;
use tardy_machine::root::Root;
use tardy_sys::mount::mount_kernel_file_system;

/// File systems and their mount points, in the order of mounting.
const MOUNTS: [(&str, &str); 9] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tmpfs", "/run"),
    ("tmpfs", "/tmp"),
    ("devpts", "/dev/pts"),
    ("tmpfs", "/dev/shm"),
    ("debugfs", "/sys/kernel/debug"),
    ("tracefs", "/sys/kernel/tracing"),
];

/// Mounts all file systems and the hierarchy of control groups. Returns a remark for each file
/// system that could not be mounted.
pub(super) fn mount_all() -> Vec<String> {
    let mut remarks = Vec::new();
    for (kind, target) in MOUNTS.into_iter().chain([("cgroup2", "/sys/fs/cgroup")]) {
        // If /tmp or /run contains a user's program or its files, nothing is mounted there, because
        // a mount would hide them. Without the mount, these folders are in memory anyway, like all
        // of the initial file system.
        if kind == "tmpfs" && has_content(Path::new(target)) {
            continue;
        }
        // The folders in /dev on which file systems are mounted do not exist yet, so they are made
        // here. All others exist.
        let made = if target.starts_with("/dev/") {
            std::fs::create_dir_all(target)
        } else {
            Ok(())
        };
        if let Err(error) = made.and_then(|()| mount_kernel_file_system(kind, Path::new(target))) {
            remarks.push(format!("{kind} cannot be mounted on {target}: {error}"));
        }
    }
    remarks
}

fn has_content(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Switches the loopback interface on, which connections within the guest need. Returns a remark if
/// this fails.
pub(super) fn switch_loopback_on() -> Option<String> {
    let error = tardy_sys::socket::switch_loopback_on().err()?;
    Some(format!(
        "the loopback interface cannot be switched on: {error}"
    ))
}

/// Returns the text of a file without the final line break. Returns an empty text if the file
/// cannot be read.
pub(super) fn read_line(path: &str) -> String {
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .trim_end()
        .to_owned()
}

/// Returns for how long the CPUs have been idle since boot; `None` if the kernel does not report
/// it.
pub(super) fn idle() -> Option<Nanos> {
    idle_time(&Root::system())
}

/// Returns the guest's memory in bytes (MemTotal of /proc/meminfo).
pub(super) fn memory() -> std::io::Result<usize> {
    parse_memory(&std::fs::read_to_string("/proc/meminfo")?)
        .ok_or_else(|| std::io::Error::other("/proc/meminfo has no MemTotal"))
}

fn parse_memory(text: &str) -> Option<usize> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim()
        .strip_suffix(" kB")?
        .parse::<usize>()
        .ok()?
        .checked_mul(1024)
}

pub(super) fn preemption() -> Option<String> {
    Some(read_line("/sys/kernel/debug/sched/preempt")).filter(|text| !text.is_empty())
}

pub(super) fn killed_for_memory() -> u64 {
    let vmstat = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    vmstat
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok())
        .unwrap_or_default()
}

/// Loads a module that is a file of the initial file system. `module` is the path, optionally
/// followed by parameters. Errors contain the name of the module and the reason.
pub(super) fn load_module(module: &str) -> Result<(), String> {
    let (path, parameters) = module.split_once(' ').unwrap_or((module, ""));
    let file = std::fs::File::open(path).map_err(|error| format!("{path}: {error}"))?;
    let parameters =
        std::ffi::CString::new(parameters).map_err(|error| format!("{path}: {error}"))?;
    tardy_sys::module::load(&file, &parameters)
        .map_err(|error| format!("the module {path} was not loaded: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_in_bytes() {
        assert_eq!(
            parse_memory("MemTotal:         710336 kB\nMemFree:          1 kB\n"),
            Some(710_336 << 10)
        );
        assert_eq!(parse_memory("MemFree: 1 kB\n"), None);
    }
}
