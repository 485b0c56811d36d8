//! Tests CPUs that the tool's shell may not use, as with `isolcpus=`, which keeps every shell off
//! the isolated CPUs. Isolation itself is tested in `tests/lab/several_cpus.rs`, because it needs a
//! kernel that was booted with the option.

use crate::support;

use std::path::Path;

use support::machine;
use support::workplace::{Outcome, Workplace, finish};

/// Runs `tardy` from a thread that is bound to the first CPU; child processes inherit the affinity.
fn on_the_first_cpu(place: &Workplace, line: &str) -> Outcome {
    let first = machine::cpus().iter().next().unwrap().0;
    let run = || {
        tardy_sys::affinity::set(0, &[first]).unwrap();
        place.tardy(line)
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

#[test]
fn a_cpu_that_the_shell_was_kept_off_is_measured_where_it_is_asked_for() {
    let (place, last) = (Workplace::new(), machine::last_cpu());
    on_the_first_cpu(
        &place,
        &format!("run --for 500ms --cpus {last} --load none --quiet --json --out run"),
    )
    .ends_with(0);
    let record = place.record("run");
    assert_eq!(record["plan"]["measured_cpus"], last.to_string());
    assert!(
        record["series"][0]["counts"]["recorded"].as_u64() > Some(0),
        "{record}"
    );
    let is_not_bound = |warning: &serde_json::Value| warning["warning"] == "not-bound";
    assert!(
        !record["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .any(is_not_bound),
        "{}",
        record["warnings"]
    );
}

#[test]
fn a_choice_by_taskset_stays_the_default_and_all_means_all() {
    let (place, cpus) = (Workplace::new(), machine::cpus());
    let first = cpus.iter().next().unwrap();
    let measured = |flags: &str| {
        let plan = on_the_first_cpu(&place, &format!("run --dry-run --json --load none {flags}"))
            .ends_with(0)
            .json();
        plan["measured_cpus"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        (measured(""), measured("--cpus all")),
        (first.to_string(), cpus.to_string())
    );
}

#[test]
fn isolated_cpus_that_there_are_not_are_refused() {
    let isolated = |name: &str| {
        std::fs::read_to_string(Path::new("/sys/devices/system/cpu").join(name)).unwrap_or_default()
    };
    if ["isolated", "nohz_full"]
        .iter()
        .any(|name| !["", "(null)"].contains(&isolated(name).trim()))
    {
        return machine::left_out("isolated CPUs that there are not", "this machine has some");
    }
    let outcome = Workplace::new()
        .tardy("run --dry-run --cpus isolated")
        .ends_with(3);
    assert!(
        outcome.stderr.contains("there are no isolated CPUs"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_cpuset_bounds_what_is_measured_and_where_loads_run() {
    const TEST: &str = "a cpuset bounds what is measured";
    if machine::cpus().len() < 2 {
        return machine::left_out(TEST, "there is one CPU");
    }
    let (place, first, last) = (
        Workplace::new(),
        machine::cpus().iter().next().unwrap(),
        machine::last_cpu(),
    );
    let Some(cpuset) = Cpuset::make(&first.to_string()) else {
        return machine::left_out(TEST, "this machine cannot make a cpuset");
    };
    let within = |line: &str| {
        let script = format!(
            "echo $$ > {}/cgroup.procs && exec \"$0\" {line}",
            cpuset.0.display()
        );
        finish(place.prepared(
            machine::program("sh", "dash"),
            ["-c", &script, env!("CARGO_BIN_EXE_tardy")],
        ))
    };
    let outcome = within(&format!("run --dry-run --cpus {last}")).ends_with(2);
    assert!(
        outcome.stderr.contains(&format!("choose from {first}")),
        "{}",
        outcome.stderr
    );
    let outcome = within(&format!("run --dry-run --load-cpus {last}")).ends_with(2);
    assert!(
        outcome.stderr.contains("not allowed here"),
        "{}",
        outcome.stderr
    );
    let all = within("run --dry-run --cpus all").ends_with(0);
    assert!(
        all.stdout.contains(&format!("on CPU {first}")),
        "{}",
        all.stdout
    );
}

/// A control group with some CPUs, removed on drop.
struct Cpuset(std::path::PathBuf);

impl Cpuset {
    /// Creates the group in the hierarchy of version 1 or 2 that has cpusets and is writable.
    fn make(cpus: &str) -> Option<Self> {
        let name = format!("tardy-test-{}", std::process::id());
        for root in ["/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"] {
            let folder = Path::new(root).join(&name);
            if !Path::new(root).join("cpuset.cpus.effective").exists()
                && !Path::new(root).join("cpuset.effective_cpus").exists()
            {
                continue;
            }
            // In version 2, each group must enable a controller for its children.
            let _ = std::fs::write(Path::new(root).join("cgroup.subtree_control"), "+cpuset");
            if std::fs::create_dir(&folder).is_err() {
                continue;
            }
            let cpuset = Self(folder);
            let mems = std::fs::write(cpuset.0.join("cpuset.mems"), "0");
            if mems
                .and_then(|()| std::fs::write(cpuset.0.join("cpuset.cpus"), cpus))
                .is_ok()
            {
                return Some(cpuset);
            }
        }
        None
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}
