//! Tests environments in which rights or parts of the kernel are missing: runs the real binary in
//! the environment of each row of the table in docs/containers.md.

use crate::support;

use std::path::PathBuf;

use support::machine;
use support::workplace::{Outcome, Workplace, finish};

const TABLE: &str = include_str!("../../../../docs/containers.md");
/// System calls of Linux 5.1 to 5.16 that strace(1) knows by name.
const YOUNG: &str = "pidfd_send_signal,io_uring_setup,io_uring_enter,io_uring_register,open_tree,\
                     move_mount,fsopen,fsconfig,fsmount,fspick,pidfd_open,clone3,close_range,\
                     openat2,pidfd_getfd,faccessat2,process_madvise,epoll_pwait2,mount_setattr,\
                     landlock_create_ruleset,landlock_add_rule,landlock_restrict_self,futex_waitv";
/// Unmounts each tracefs from the shell's mount namespace. Unmounts each debugfs, too, because an
/// access to a debugfs mounts a tracefs.
const NO_TRACEFS: &str = "grep -wE 'tracefs|debugfs' /proc/mounts | cut -d ' ' -f 2 | xargs -r -n 1 \
                          umount -l;";
/// The version 1 hierarchy of control groups that has real-time budgets.
const GROUPS: &str = "/sys/fs/cgroup/cpu";

/// Returns the message from the table's row whose environment starts with `environment`; `None` if
/// the row has no message.
fn message(environment: &str) -> Option<&'static str> {
    let row = TABLE
        .lines()
        .find(|line| line.starts_with(&format!("| {environment}")))
        .unwrap_or_else(|| panic!("no row {environment:?}"));
    let message = row.trim_end_matches(" |").rsplit_once(" | ").unwrap().1;
    (message != "none").then_some(message)
}

/// Runs `tardy` in the environment of a row, and checks its message. Returns the working folder,
/// which contains the folder `run`, and the outcome; `None` if this machine cannot make the
/// environment.
fn measured(environment: &str, starter: &[&str]) -> Option<(Workplace, Outcome)> {
    let test = format!("a container: {environment}");
    if !machine::is_root() {
        machine::left_out(&test, "only root can make it");
        return None;
    }
    let place = Workplace::new();
    let inside = |line: &str| {
        let starter_program = std::process::Command::new(starter[0]);
        let mut command = place.prepared(starter_program, &starter[1..]);
        command
            .arg(env!("CARGO_BIN_EXE_tardy"))
            .args(line.split(' '));
        finish(command)
    };
    let tried = inside("--version");
    if tried.code() != 0 {
        machine::left_out(&test, &format!("it cannot be made here: {}", tried.stderr));
        return None;
    }
    let line = "run --cycles 100 --load none --explain --quiet --out run";
    let ran = inside(line).ends_with(0);
    let warnings: Vec<&str> = ran
        .stdout
        .lines()
        .filter(|line| line.starts_with("! "))
        .collect();
    match message(environment) {
        Some(message) => assert!(
            warnings.iter().any(|line| line.ends_with(message)),
            "no {message:?} in {warnings:#?}"
        ),
        None => assert!(
            warnings.iter().all(|line| !line.contains("not explained")),
            "{warnings:#?}"
        ),
    }
    Some((place, ran))
}

/// The number of samples that the trace of a run explains.
fn explained(place: &Workplace) -> u64 {
    let record = place.record("run");
    let series = record["tracing"]["series"].as_array();
    let counts = series.into_iter().flatten();
    counts.map(|row| row["explained"].as_u64().unwrap()).sum()
}

#[test]
fn a_read_only_sys_changes_nothing() {
    // Without `bind`, the file system itself would become read-only, for the whole machine.
    let script = "mount -o remount,bind,ro /sys && exec \"$@\"";
    let starter = ["unshare", "--mount", "sh", "-c", script, "sh"];
    if let Some((place, _)) = measured("`/sys` mounted read-only", &starter) {
        assert!(explained(&place) > 0);
    }
}

#[test]
fn without_tracefs_samples_are_not_explained_and_the_run_says_why() {
    let script =
        format!("{NO_TRACEFS} exec setpriv --bounding-set -sys_admin --inh-caps -sys_admin \"$@\"");
    let starter = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    if let Some((place, _)) = measured("no tracefs", &starter) {
        assert_eq!(explained(&place), 0);
    }
}

#[test]
fn in_a_pid_namespace_samples_are_explained() {
    let starter = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"];
    if let Some((place, _)) = measured("PID namespace", &starter) {
        assert!(explained(&place) > 0);
    }
}

#[test]
fn in_a_time_namespace_the_run_names_the_namespace() {
    let starter = ["unshare", "--time", "--monotonic", "100000", "--fork"];
    if let Some((place, _)) = measured("time namespace", &starter) {
        let refused = place.tardy("explain run").ends_with(2).stderr;
        assert!(refused.contains("time namespace"), "{refused}");
    }
}

#[test]
fn in_a_user_namespace_probes_are_ordinary_tasks() {
    // The namespace's root would own the files of a tracefs that is mounted outside, so the script
    // first unmounts each tracefs.
    let script = format!("{NO_TRACEFS} exec unshare --user --map-root-user \"$@\"");
    let starter = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    if let Some((_, ran)) = measured("user namespace", &starter) {
        let says = "probes ran as ordinary tasks instead of SCHED_FIFO";
        assert!(ran.stdout.contains(says), "{ran:?}");
    }
}

#[test]
fn without_young_system_calls_tardy_measures() {
    let trace = format!("trace={YOUNG}");
    let inject = format!("inject={YOUNG}:error=ENOSYS");
    let script = format!("{NO_TRACEFS} exec \"$@\"");
    let mut starter = vec![
        "unshare", "--mount", "sh", "-c", &script, "sh", "strace", "-f",
    ];
    starter.extend(["--seccomp-bpf", "-o", "calls", "-e", &trace, "-e", &inject]);
    measured("system calls of Linux 5.1", &starter);
}

/// A control group of version 1. Dropping the value removes the group.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn in_a_group_without_a_budget_probes_are_ordinary_tasks() {
    const TEST: &str = "in_a_group_without_a_budget_probes_are_ordinary_tasks";
    let group = Group(format!("{GROUPS}/tardy-test-budget-{}", std::process::id()).into());
    let budget = std::fs::create_dir(&group.0)
        .and_then(|()| std::fs::read_to_string(group.0.join("cpu.rt_runtime_us")));
    if budget.ok().as_deref() != Some("0\n") {
        return machine::left_out(TEST, "this kernel has no groups with real-time budgets");
    }
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec \"$@\"",
        group.0.display()
    );
    let starter = ["sh", "-c", &script, "sh"];
    measured("control group of version 1", &starter);
}
