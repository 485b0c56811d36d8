//! Finds what a command leaves on the machine: trace instances, control groups, mounts, folders and
//! settings. The state of the machine is read before and after the command.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Mount point of the trace file system, in this program's namespace.
pub(crate) const TRACEFS: &str = "/sys/kernel/tracing";
const CGROUPS: &str = "/sys/fs/cgroup";
/// Folders in which a board stores the files that it received.
const BOARD_FOLDERS: [&str; 3] = ["/var/tmp", "/tmp", "/dev/shm"];

/// Folders that contain settings, and how many levels are read below each.
const FOLDERS: &[(&str, usize)] = &[
    ("/proc/sys/kernel", 2),
    ("/proc/sys/vm", 1),
    ("/proc/sys/net/ipv4", 0),
    ("/sys/kernel/mm/transparent_hugepage", 1),
    ("/sys/kernel/mm/ksm", 0),
    ("/sys/module/pcie_aspm/parameters", 0),
    ("/sys/devices/system/cpu/smt", 0),
    ("/sys/kernel/tracing/osnoise", 0),
    ("/sys/kernel/tracing/hwlat_detector", 0),
];

/// Single settings; `*` stands for any name.
const FILES: &[&str] = &[
    "/dev/cpu_dma_latency",
    "/proc/irq/default_smp_affinity",
    "/proc/irq/*/smp_affinity_list",
    "/sys/devices/system/cpu/*/online",
    "/sys/devices/system/cpu/*/power/pm_qos_resume_latency_us",
    "/sys/devices/system/cpu/*/cpufreq/scaling_governor",
    "/sys/devices/system/cpu/*/cpufreq/scaling_min_freq",
    "/sys/devices/system/cpu/*/cpufreq/scaling_max_freq",
    "/sys/devices/virtual/workqueue/cpumask",
    "/sys/devices/virtual/workqueue/*/cpumask",
    "/sys/block/*/queue/scheduler",
    "/sys/class/leds/*/trigger",
    "/sys/fs/cgroup/cgroup.subtree_control",
    "/sys/fs/cgroup/*/cgroup.subtree_control",
    "/sys/kernel/rcu_normal",
    "/sys/kernel/rcu_expedited",
    "/sys/kernel/tracing/tracing_on",
    "/sys/kernel/tracing/current_tracer",
    "/sys/kernel/tracing/trace_clock",
    "/sys/kernel/tracing/trace_options",
    "/sys/kernel/tracing/tracing_cpumask",
    "/sys/kernel/tracing/tracing_thresh",
    "/sys/kernel/tracing/set_event",
    "/sys/kernel/tracing/dynamic_events",
    "/sys/kernel/tracing/buffer_size_kb",
];

/// Files in these folders that change without any command.
const MOVING: &[&str] = &[
    "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/kernel/perf_event_max_sample_rate",
    "/proc/sys/kernel/pty/nr",
    "/proc/sys/kernel/random",
    "/proc/sys/kernel/tainted",
    "/proc/sys/vm/stat_refresh",
    "/sys/kernel/mm/ksm/full_scans",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/full_scans",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed",
];

/// Maximum time to wait until the commands of concurrent attempts have ended.
const OTHERS: Duration = Duration::from_secs(20);

/// The traces that commands can leave on the machine, at one moment.
#[derive(Debug)]
pub(crate) struct Footprint {
    things: BTreeSet<String>,
    settings: BTreeMap<PathBuf, Vec<u8>>,
}

impl Footprint {
    /// Reads all traces.
    pub(crate) fn read() -> Self {
        let mut settings = BTreeMap::new();
        for &(folder, levels) in FOLDERS {
            add_folder(Path::new(folder), levels, &mut settings);
        }
        for path in FILES.iter().flat_map(|pattern| matching(pattern)) {
            add_file(path, &mut settings);
        }
        Self {
            things: Self::things(),
            settings,
        }
    }

    fn things() -> BTreeSet<String> {
        let mut things: BTreeSet<String> = names(Path::new(TRACEFS).join("instances"))
            .into_iter()
            .map(|name| format!("the trace instance {name}"))
            .collect();
        let mut groups = Vec::new();
        add_groups(Path::new(CGROUPS), &mut groups);
        things.extend(
            groups
                .iter()
                .map(|group| format!("the control group {}", group.display())),
        );
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        things.extend(mounts.lines().map(|mount| format!("the mount {mount}")));
        for kind in ["msg", "sem", "shm"] {
            let table = std::fs::read_to_string(format!("/proc/sysvipc/{kind}"));
            let rows = table.unwrap_or_default();
            things.extend(rows.lines().skip(1).map(|row| {
                let identity: Vec<&str> = row.split_whitespace().take(2).collect();
                format!("the {kind} of System V {}", identity.join(" "))
            }));
        }
        for folder in BOARD_FOLDERS {
            let made = names(Path::new(folder).to_owned());
            things.extend(
                made.into_iter()
                    .filter(|name| name.starts_with("tardy-"))
                    .map(|name| format!("{folder}/{name}")),
            );
        }
        things
    }

    /// Returns a sentence for each trace whose name contains this process ID.
    pub(crate) fn left_by(pid: i32) -> Vec<String> {
        let things = Self::things().into_iter();
        things
            .filter(|thing| processes_in(thing).any(|process| process == pid))
            .map(|thing| format!("{thing} is left"))
            .collect()
    }

    /// Returns a sentence for each trace that did not exist in `before`, for each mount that has
    /// disappeared, and for each changed setting. A setting is changed if its value differs both
    /// from the one in `before` and from the one in `start_of_all`. A trace does not count if its
    /// process still runs or is in `others`. Traces of concurrent commands get some time to
    /// disappear.
    pub(crate) fn left_since(
        before: &Self,
        start_of_all: &Self,
        others: &Mutex<BTreeSet<i32>>,
    ) -> Vec<String> {
        let start = Instant::now();
        loop {
            let mut now = Self::read();
            let others = others.lock().unwrap_or_else(PoisonError::into_inner);
            now.things
                .retain(|thing| !processes_in(thing).any(|process| others.contains(&process)));
            drop(others);
            let left = now.differences(before, start_of_all);
            if left.is_empty() || start.elapsed() > OTHERS {
                return left;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn differences(&self, before: &Self, start_of_all: &Self) -> Vec<String> {
        let new = self.things.difference(&before.things);
        let gone = before.things.difference(&self.things);
        let is_own = |thing: &&String| !is_of_a_living_process(thing);
        let things = new
            .filter(is_own)
            .map(|thing| format!("{thing} is left"))
            .chain(
                gone.filter(|thing| thing.starts_with("the mount"))
                    .map(|thing| format!("{thing} is gone")),
            );
        let text = |value: Option<&Vec<u8>>| {
            value.map_or_else(
                || "nothing".to_owned(),
                |value| format!("{:?}", String::from_utf8_lossy(value).trim()),
            )
        };
        let changed = before
            .settings
            .iter()
            .filter(|(path, value)| {
                let now = self.settings.get(*path);
                now != Some(*value) && now != start_of_all.settings.get(*path)
            })
            .map(|(path, value)| {
                format!(
                    "{} was {} and is {}",
                    path.display(),
                    text(Some(value)),
                    text(self.settings.get(path))
                )
            });
        things.chain(changed).collect()
    }

    /// Restores the settings that a failed attempt changed.
    pub(crate) fn set_back(&self) {
        let now = Self::read();
        for (path, value) in &self.settings {
            if now.settings.get(path) != Some(value) {
                let _ = std::fs::write(path, value);
            }
        }
    }
}

/// Returns all numbers in the name of a trace. Any of these numbers can be a process ID, as in
/// tardy-scratch-io-123-456.
fn processes_in(thing: &str) -> impl Iterator<Item = i32> {
    let name = thing.rsplit('/').next().unwrap_or(thing);
    name.split(['-', ' ']).filter_map(|word| word.parse().ok())
}

fn is_of_a_living_process(thing: &str) -> bool {
    processes_in(thing).any(|process| Path::new(&format!("/proc/{process}/exe")).exists())
}

fn names(folder: PathBuf) -> Vec<String> {
    crate::place::names(&folder)
}

/// Adds the tool's control groups at every level of the hierarchy. Control groups of other programs
/// are ignored, because they come and go.
fn add_groups(folder: &Path, groups: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let path = entry.path();
            if entry.file_name().to_string_lossy().starts_with("tardy-") {
                groups.push(path.clone());
            }
            add_groups(&path, groups);
        }
    }
}

fn add_folder(folder: &Path, levels: usize, settings: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && levels > 0 => {
                add_folder(&entry.path(), levels - 1, settings);
            }
            Ok(kind) if kind.is_file() => add_file(entry.path(), settings),
            _ => {}
        }
    }
}

fn add_file(path: PathBuf, settings: &mut BTreeMap<PathBuf, Vec<u8>>) {
    if MOVING.iter().any(|moving| path.starts_with(moving)) {
        return;
    }
    let mut value = vec![0; 4096];
    let read =
        std::fs::File::open(&path).and_then(|mut file| std::io::Read::read(&mut file, &mut value));
    if let Ok(length) = read {
        value.truncate(length);
        settings.insert(path, value);
    }
}

/// Returns the paths that match a pattern.
fn matching(pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        found = found
            .into_iter()
            .flat_map(|folder| {
                let parts = if part == "*" {
                    names(folder.clone())
                } else {
                    vec![part.to_owned()]
                };
                parts.into_iter().map(move |part| folder.join(part))
            })
            .collect();
    }
    found.retain(|path| path.exists());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footprint(things: &[&str], settings: &[(&str, &str)]) -> Footprint {
        Footprint {
            things: things.iter().map(|&thing| thing.to_owned()).collect(),
            settings: settings
                .iter()
                .map(|&(path, value)| (path.into(), value.into()))
                .collect(),
        }
    }

    #[test]
    fn what_is_new_and_what_has_another_value_is_named() {
        let before = footprint(&["the mount a", "the trace instance x"], &[("/a", "1\n")]);
        let left = "the control group /g/tardy-scratch-io-4194305-1";
        let of_this_process = format!("the trace instance tardy-{}-77", std::process::id());
        let after = footprint(&[left, &of_this_process], &[("/a", "2\n"), ("/b", "1")]);
        assert_eq!(
            after.differences(&before, &before),
            [
                format!("{left} is left"),
                "the mount a is gone".to_owned(),
                "/a was \"1\" and is \"2\"".to_owned()
            ]
        );
        assert_eq!(before.differences(&before, &before), [""; 0]);
        // The setting has its old value again: another process had changed it temporarily.
        let other = footprint(&["the mount a", "the trace instance x"], &[("/a", "3\n")]);
        assert_eq!(before.differences(&other, &before), [""; 0]);
    }

    #[test]
    fn settings_are_found_by_patterns() {
        let found = matching("/proc/sys/*/swappiness");
        assert_eq!(found, [Path::new("/proc/sys/vm/swappiness")]);
        let mut settings = BTreeMap::new();
        add_folder(Path::new("/proc/sys/kernel"), 1, &mut settings);
        assert!(settings.contains_key(Path::new("/proc/sys/kernel/watchdog_thresh")));
        assert!(!settings.contains_key(Path::new("/proc/sys/kernel/random/uuid")));
    }
}
