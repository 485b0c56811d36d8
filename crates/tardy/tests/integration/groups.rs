//! Tests probes and loads in control groups, and power management of the measured CPUs.

use crate::support;

use std::path::{Path, PathBuf};

use support::machine;
use support::workplace::{Workplace, names};

/// The version 1 hierarchy that has cpusets. These groups take single threads, not only whole
/// processes.
const CPUSETS: &str = "/sys/fs/cgroup/cpuset";

/// A cpuset that is removed on drop.
struct Cpuset(PathBuf);

impl Cpuset {
    fn make(name: &str, cpus: &str) -> Option<Self> {
        let cpuset =
            Self(Path::new(CPUSETS).join(format!("tardy-test-{name}-{}", std::process::id())));
        std::fs::create_dir(&cpuset.0).ok()?;
        let write = |file: &str, value: &str| std::fs::write(cpuset.0.join(file), value).ok();
        write("cpuset.mems", "0")?;
        write("cpuset.cpus", cpus)?;
        Some(cpuset)
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn probes_and_loads_join_the_groups_that_they_are_given() {
    const TEST: &str = "control groups for probes and loads";
    if machine::cpus().len() < 2 {
        return machine::left_out(TEST, "there is one CPU");
    }
    let (place, first, last) = (
        Workplace::new(),
        machine::cpus().iter().next().unwrap(),
        machine::last_cpu(),
    );
    let groups =
        Cpuset::make("probes", &last.to_string()).zip(Cpuset::make("loads", &first.to_string()));
    let Some((probes, loads)) = groups else {
        return machine::left_out(TEST, "this machine cannot make a version 1 cpuset");
    };
    let (probe_group, load_group) = (probes.0.display(), loads.0.display());
    let line = format!(
        "run --for 2s --load procfs --probe-cgroup {probe_group} --load-cgroup {load_group} \
         --quiet --out run"
    );
    let mut running = place.start(&line);
    let group_of = |path: String| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines()
            .find_map(|line| line.split_once(":cpuset:"))
            .map(|(_, group)| format!("/sys/fs/cgroup/cpuset{group}"))
    };
    let pid = running.pid();
    running.until("a measuring thread is in its group", || {
        let threads = names(Path::new(&format!("/proc/{pid}/task")));
        let of_probes = threads.iter().filter(|tid| {
            group_of(format!("/proc/{pid}/task/{tid}/cgroup")) == Some(probe_group.to_string())
        });
        (of_probes.count() == 1).then_some(())
    });
    let guardian = running.guardian();
    running.until("the guardian is in its group", || {
        (group_of(format!("/proc/{guardian}/cgroup")) == Some(load_group.to_string())).then_some(())
    });
    running.wait().ends_with(0);
    let plan = &place.record("run")["plan"];
    assert_eq!(
        (&plan["measured_cpus"], &plan["tool_cpus"]),
        (&last.to_string().into(), &first.to_string().into()),
        "{plan}"
    );
    assert_eq!(plan["phases"][1]["loads"][0]["cpus"], first.to_string());
}

/// A group of the version 1 `cpu` controller, which is removed on drop. In such a group the kernel
/// does not group processes by session.
struct CpuGroup(PathBuf);

impl CpuGroup {
    fn make() -> Option<Self> {
        let group = Self(
            Path::new("/sys/fs/cgroup/cpu").join(format!("tardy-test-cpu-{}", std::process::id())),
        );
        std::fs::create_dir(&group.0).ok()?;
        group.0.join("cpu.shares").exists().then_some(group)
    }

    /// Weights of the groups inside this one, sorted.
    fn weights(&self) -> Vec<u64> {
        let weight = |name: String| {
            std::fs::read_to_string(self.0.join(name).join("cpu.shares"))
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        let mut weights: Vec<u64> = names(&self.0)
            .into_iter()
            .filter(|name| name.contains("share-"))
            .filter_map(weight)
            .collect();
        weights.sort_unstable();
        weights
    }
}

impl Drop for CpuGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn each_worker_of_loads_that_run_together_has_a_group_of_the_weight_of_its_cpus() {
    let Some(group) = CpuGroup::make() else {
        return machine::left_out(
            "control groups of loads that run together",
            "this machine cannot make a version 1 CPU group",
        );
    };
    let place = Workplace::new();
    // A new version 1 group cannot run real-time tasks, so the policy is `other`.
    let line = "run --for 3s --policy other --load procfs --load mmap-lock --quiet --out run";
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec {} {line}",
        group.0.display(),
        env!("CARGO_BIN_EXE_tardy")
    );
    let mut running = place.start_command(std::process::Command::new("sh"), ["-c", &script]);
    let cpus = machine::cpus().len() as u64;
    // One worker of procfs for each CPU, and one worker of mmap-lock for all CPUs.
    let expected: Vec<u64> = std::iter::repeat_n(1024, cpus as usize)
        .chain([1024 * cpus])
        .collect();
    let mut seen = Vec::new();
    running.until("the loads have their groups", || {
        seen = group.weights();
        // A group exists before its weight is set.
        (seen == expected).then_some(())
    });
    running.wait().ends_with(0);
    assert_eq!(group.weights(), [0; 0], "all groups are removed");
}

#[test]
fn groups_that_there_are_not_are_refused() {
    let place = Workplace::new();
    let outcome = place
        .tardy("run --dry-run --load none --probe-cgroup /no/such/group")
        .ends_with(3);
    assert!(
        outcome
            .stderr
            .contains("--probe-cgroup /no/such/group: a measuring thread cannot join it"),
        "{}",
        outcome.stderr
    );
    let outcome = place
        .tardy("run --dry-run --load none --load-cgroup /tmp")
        .ends_with(2);
    assert!(
        outcome
            .stderr
            .contains("--load-cgroup /tmp is not a control group"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn the_limit_of_measured_cpus_is_put_back_also_after_a_kill() {
    const TEST: &str = "pm_qos_resume_latency_us";
    let (place, cpu) = (Workplace::new(), machine::last_cpu());
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us");
    let content = || {
        std::fs::read_to_string(&file)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let before = content();
    if before.is_empty() || before == "27" || !machine::is_root() {
        return machine::left_out(TEST, "the kernel has no such file, or this is not root");
    }
    let line = format!("run --for 60s --load none --cpus {cpu} --resume-latency 27 --quiet --out");
    let mut ended = place.start(&format!("{line} ended"));
    ended.until("the limit is set", || (content() == "27").then_some(()));
    ended.signal(tardy_sys::signal::INTERRUPT);
    ended.wait();
    assert_eq!(content(), before);
    let changes = place.record("ended")["plan"]["changes"].clone();
    assert_eq!(changes[0]["change"], "resume-latency", "{changes}");
    let mut killed = place.start(&format!("{line} killed"));
    killed.until("the limit is set again", || {
        (content() == "27").then_some(())
    });
    killed.signal(tardy_sys::process::KILL);
    killed.wait();
    place.tardy("restore");
    assert_eq!(content(), before);
}

/// New groups of the version 1 `cpu` controller have no real-time budget (`RT_GROUP_SCHED`), and
/// refuse real-time tasks even to root.
#[test]
fn a_group_without_a_real_time_budget_is_named_as_the_cause() {
    const TEST: &str = "a control group without a real-time budget";
    let name = format!("tardy-test-budget-{}", std::process::id());
    let group = Path::new("/sys/fs/cgroup/cpu").join(&name);
    let is_made = std::fs::create_dir(&group).is_ok() && group.join("cpu.rt_runtime_us").exists();
    if !is_made {
        let _ = std::fs::remove_dir(&group);
        return machine::left_out(
            TEST,
            "this machine cannot make a version 1 group with budgets",
        );
    }
    let place = Workplace::new();
    let line = format!(
        "echo $$ > {}/tasks; exec \"$0\" run --cycles 10 --load none --quiet --out run",
        group.display()
    );
    let words = ["-c", &line, env!("CARGO_BIN_EXE_tardy")];
    let ran = place
        .start_command(std::process::Command::new("sh"), words)
        .wait();
    std::fs::remove_dir(&group).unwrap();
    let expected = format!(
        "(no real-time budget in the control group /{name}), so latencies are those of an \
         ordinary task: write a budget to the group's cpu.rt_runtime_us"
    );
    assert!(ran.stdout.contains(&expected), "{ran:?}");
}
