//! Tests probes that lose their CPU, because it leaves their cpuset or goes offline, and probes
//! that lose a share of their CPU, because their group gets a quota.

use crate::support;

use std::path::{Path, PathBuf};

use support::machine;
use support::workplace::{RunningCommand, Workplace};

/// Starts a run on the last CPU with a deadline that no sample misses.
fn run_on_last_cpu(place: &Workplace) -> RunningCommand {
    let cpu = machine::last_cpu();
    let mut running = place.start(&format!(
        "run --for 4s --period 5ms --load none --cpus {cpu} --deadline 1h --quiet --out run"
    ));
    running.until("it measures", || {
        place.path("run/state.jsonl").exists().then_some(())
    });
    running
}

#[track_caller]
fn assert_moved_away(place: &Workplace, running: RunningCommand) {
    let outcome = running.wait().ends_with(4);
    let first = outcome.first_warning();
    assert!(
        first.starts_with(&format!(
            "cyclic was moved away from CPU {}: ",
            machine::last_cpu()
        )),
        "{}",
        outcome.stdout
    );
    let stretches = place.record("run")["series"][0]["elsewhere"]
        .as_array()
        .unwrap()
        .clone();
    assert!(
        stretches
            .iter()
            .all(|stretch| stretch["cpu"] != machine::last_cpu()),
        "{stretches:?}"
    );
}

/// A control group for the test, removed on drop.
struct Group {
    folder: PathBuf,
    parent: PathBuf,
}

impl Group {
    /// Creates the group below the root of a hierarchy, and writes `values` to the group's files.
    fn new(parent: &Path, values: &[(&str, &str)]) -> Option<Self> {
        let group = Self {
            folder: parent.join(format!("tardy-test-{}", std::process::id())),
            parent: parent.to_owned(),
        };
        std::fs::create_dir(&group.folder).ok()?;
        for (file, value) in values {
            std::fs::write(group.folder.join(file), value).ok()?;
        }
        Some(group)
    }

    /// Creates a group that contains one CPU, in the first hierarchy (version 1, else version 2)
    /// that has the cpuset controller.
    fn with_cpu(cpu: u32) -> Option<Self> {
        let parent = ["/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"]
            .map(Path::new)
            .into_iter()
            .find(|root| root.join("cpuset.cpus").exists())?;
        let mems = std::fs::read_to_string(parent.join("cpuset.mems")).ok()?;
        let cpu = cpu.to_string();
        Self::new(
            parent,
            &[("cpuset.mems", mems.trim()), ("cpuset.cpus", &cpu)],
        )
    }

    /// Creates a group with 2 % of a CPU.
    fn with_quota() -> Option<Self> {
        let version_1 = Path::new("/sys/fs/cgroup/cpu");
        Self::new(version_1, &[("cpu.cfs_quota_us", "2000")])
            .or_else(|| Self::new(Path::new("/sys/fs/cgroup"), &[("cpu.max", "2000 100000")]))
    }

    fn take(&self, pid: i32) -> std::io::Result<()> {
        std::fs::write(self.folder.join("cgroup.procs"), pid.to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let processes =
            std::fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        for pid in processes.lines() {
            let _ = std::fs::write(self.parent.join("cgroup.procs"), pid);
        }
        let _ = std::fs::remove_dir(&self.folder);
    }
}

#[test]
fn a_probe_that_a_cpuset_takes_away_decides_nothing() {
    let _turn = crate::turn();
    let test = "a_probe_that_a_cpuset_takes_away_decides_nothing";
    let first = machine::cpus().iter().next().unwrap().0;
    if !machine::is_root() || first == machine::last_cpu() {
        return machine::left_out(test, "it needs root and two CPUs");
    }
    let Some(set) = Group::with_cpu(first) else {
        return machine::left_out(test, "this machine cannot make a cpuset");
    };
    let place = Workplace::new();
    let running = run_on_last_cpu(&place);
    if let Err(error) = set.take(running.pid()) {
        return machine::left_out(test, &format!("the cpuset takes no process ({error})"));
    }
    assert_moved_away(&place, running);
}

#[test]
fn a_run_that_gets_a_quota_of_cpu_time_reports_it() {
    let _turn = crate::turn();
    let test = "a_run_that_gets_a_quota_of_cpu_time_reports_it";
    if !machine::is_root() {
        return machine::left_out(test, "it needs root");
    }
    let Some(group) = Group::with_quota() else {
        return machine::left_out(test, "this machine cannot make a group with a quota");
    };
    let place = Workplace::new();
    let mut running =
        place.start("run --for 2s --load none --policy other --period 100us --quiet --out run");
    running.until("it measures", || {
        place.path("run/state.jsonl").exists().then_some(())
    });
    group.take(running.pid()).unwrap();
    let outcome = running.wait();
    assert!([0, 4].contains(&outcome.code()), "{outcome:?}");
    let summary = place.summary("run");
    let warnings = summary["warnings"].as_array().unwrap();
    let reports = ["cgroup-throttled", "most-periods-skipped", "samples-lost"];
    assert!(
        warnings
            .iter()
            .any(|warning| reports.iter().any(|report| warning["warning"] == *report)),
        "{warnings:?}"
    );
    for series in summary["series"].as_array().unwrap() {
        let count = |name: &str| series["counts"][name].as_u64().unwrap();
        assert_eq!(
            count("expected"),
            count("recorded") + count("skipped") + count("lost")
        );
    }
    place.assert_no_process_is_left();
    assert_eq!(place.journals(), [""; 0]);
}

/// A CPU that is offline until the value is dropped.
struct Offline(PathBuf);

impl Offline {
    fn take(cpu: u32) -> std::io::Result<Self> {
        let path = PathBuf::from(format!("/sys/devices/system/cpu/cpu{cpu}/online"));
        std::fs::write(&path, "0")?;
        Ok(Self(path))
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        std::fs::write(&self.0, "1").unwrap();
    }
}

#[test]
fn a_probe_whose_cpu_goes_offline_decides_nothing() {
    let _turn = crate::turn();
    let test = "a_probe_whose_cpu_goes_offline_decides_nothing";
    if !machine::may_be_dangerous(test) {
        return;
    }
    if !machine::is_root() || machine::cpus().len() < 2 {
        return machine::left_out(test, "it needs root and two CPUs");
    }
    let place = Workplace::new();
    let running = run_on_last_cpu(&place);
    match Offline::take(machine::last_cpu()) {
        Ok(offline) => {
            std::thread::sleep(std::time::Duration::from_millis(800));
            drop(offline);
        }
        Err(error) => {
            return machine::left_out(test, &format!("the CPU does not go offline ({error})"));
        }
    }
    assert_moved_away(&place, running);
}
