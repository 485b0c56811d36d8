//! Probes that lose their CPU because it leaves their cpuset or goes offline.

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

/// A cpuset for the test, removed on drop.
struct Cpuset {
    folder: PathBuf,
    parent: PathBuf,
}

impl Cpuset {
    /// Creates the cpuset below the root of the first hierarchy, version 1 or 2, that has the
    /// controller.
    fn new(cpu: u32) -> Option<Self> {
        let parent = ["/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"]
            .map(Path::new)
            .into_iter()
            .find(|root| root.join("cpuset.cpus").exists())?;
        let set = Self {
            folder: parent.join(format!("tardy-test-{}", std::process::id())),
            parent: parent.to_owned(),
        };
        std::fs::create_dir(&set.folder).ok()?;
        let mems = std::fs::read_to_string(parent.join("cpuset.mems")).ok()?;
        std::fs::write(set.folder.join("cpuset.mems"), mems.trim()).ok()?;
        std::fs::write(set.folder.join("cpuset.cpus"), cpu.to_string()).ok()?;
        Some(set)
    }

    fn take(&self, pid: i32) -> std::io::Result<()> {
        std::fs::write(self.folder.join("cgroup.procs"), pid.to_string())
    }
}

impl Drop for Cpuset {
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
    let Some(set) = Cpuset::new(first) else {
        return machine::left_out(test, "this machine cannot make a cpuset");
    };
    let place = Workplace::new();
    let running = run_on_last_cpu(&place);
    if let Err(error) = set.take(running.pid()) {
        return machine::left_out(test, &format!("the cpuset takes no process ({error})"));
    }
    assert_moved_away(&place, running);
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
