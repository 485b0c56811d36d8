//! On a machine with many CPUs, a run needs more file descriptors than shells allow, and the cost
//! of reading and measuring must not grow faster than the number of series.

use std::process::Command;

use crate::support;

use serde_json::Value;
use support::large::LargeMachine;
use support::machine;
use support::made_run::MadeRun;
use support::summary::assert_exact;
use support::workplace::{Outcome, Workplace, finish};

/// Runs `tardy` with limits of open files, set by `ulimit`.
fn limited(place: &Workplace, limits: &str, line: &str) -> Outcome {
    let script = format!("{limits}; exec \"$0\" {line}");
    finish(place.prepared(
        machine::program("sh", "dash"),
        ["-c", &script, env!("CARGO_BIN_EXE_tardy")],
    ))
}

#[test]
fn a_soft_limit_of_descriptors_is_raised_to_the_hard_one() {
    let place = Workplace::new();
    let run =
        "run --probe parallel:copies=40:period=50ms --load none --for 500ms --quiet --out run";
    limited(&place, "ulimit -Sn 48", run).ends_with(0);
    assert_eq!(place.record("run")["series"].as_array().unwrap().len(), 40);
}

#[test]
fn a_want_of_descriptors_names_the_limit_to_raise() {
    let place = Workplace::new();
    let run =
        "run --probe parallel:copies=40:period=50ms --load none --for 500ms --quiet --out run";
    let outcome = limited(&place, "ulimit -n 48", run);
    assert_eq!(outcome.code(), 3, "{outcome:?}");
    assert!(
        outcome
            .stderr
            .contains("raise the hard limit of open files"),
        "{outcome:?}"
    );
}

/// `tardy doctor` on the machine in the folder `big`, on a screen of 80 columns and 24 lines.
fn doctor(place: &Workplace, flags: &str) -> Outcome {
    let line = format!("doctor --root big --watch 0s {flags}");
    let mut command = place.command(line.split_whitespace());
    command.env("COLUMNS", "80").env("LINES", "24");
    finish(command).ends_with(0)
}

/// Returns the text `current` of the report's row for this check.
fn current(rows: &Value, check: &str) -> String {
    let rows = rows["findings"].as_array().unwrap();
    let row = rows.iter().find(|row| row["check"] == check).unwrap();
    row["current"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_doctor_of_256_cpus_fits_a_screen_and_names_cpus_by_their_numbers() {
    let place = Workplace::new();
    let big = LargeMachine::write(&place.path("big"), 256);
    assert_eq!((big.present.len(), big.online.len()), (256, 254));
    let text = doctor(&place, "").stdout;
    assert!(
        text.lines().count() <= 24 && text.lines().all(|line| line.len() <= 80),
        "{text}"
    );
    assert!(text.contains("CPUs 0-126,256-382;"), "{text}");
    let rows = doctor(&place, "--cpus 2,382 --json").json();
    assert!(current(&rows, "offline-cpus").contains("CPUs 127,383 are offline"));
    assert_eq!(current(&rows, "governor"), "powersave on 0-126,256-382");
    // CPU 2 shares its core with CPU 3. CPU 383, which shares its core with CPU 382, is offline.
    assert!(current(&rows, "core-siblings").ends_with(" with CPUs 3"));
}

/// Returns the number of instructions that `tardy` executes with the arguments in `line`.
fn instructions(place: &Workplace, line: &str) -> u64 {
    let [valgrind, options @ ..] = CALLGRIND;
    let mut valgrind = place.prepared(machine::program(valgrind, "valgrind"), options);
    valgrind
        .arg(env!("CARGO_BIN_EXE_tardy"))
        .args(line.split(' '));
    collected(&finish(valgrind).ends_with(0).stderr)
}

const CALLGRIND: [&str; 3] = [
    "valgrind",
    "--tool=callgrind",
    "--callgrind-out-file=/dev/null",
];

/// Returns the number of instructions that callgrind printed.
fn collected(printed: &str) -> u64 {
    let total = printed
        .lines()
        .find_map(|line| line.split_once("Collected : "))
        .and_then(|(_, count)| count.trim().parse::<u64>().ok());
    total.unwrap_or_else(|| panic!("callgrind printed: {printed}"))
}

#[test]
fn the_work_of_the_doctor_grows_at_most_linearly_with_cpus() {
    let place = Workplace::new();
    let [small, large] = [32, 128].map(|cpus| {
        let name = format!("m{cpus}");
        LargeMachine::write(&place.path(&name), cpus);
        instructions(&place, &format!("doctor --watch 0s --json --root {name}"))
    });
    assert!(
        large <= 4 * small,
        "{small} instructions with 32 CPUs, {large} with 128"
    );
}

#[test]
fn the_work_of_a_summary_grows_at_most_linearly_with_cpus() {
    let place = Workplace::new();
    let [small, large] = [64, 256].map(|cpus| {
        let name = format!("r{cpus}");
        let latencies = (0..50).map(|index| 8_000 + index * 100).collect();
        MadeRun::new(vec![latencies; cpus]).write(&place.path(&name));
        instructions(&place, &format!("show {name}"))
    });
    assert!(
        large <= 4 * small,
        "{small} instructions with 64 CPUs, {large} with 256"
    );
}

#[test]
fn the_plan_of_a_run_on_256_cpus_fits_a_screen() {
    const TEST: &str = "the_plan_of_a_run_on_256_cpus_fits_a_screen";
    if !machine::is_root() {
        return machine::left_out(TEST, NEEDS_ROOT);
    }
    let place = Workplace::new();
    let mut run = on_large_machine(&place, 256);
    run.arg(env!("CARGO_BIN_EXE_tardy"));
    run.args(["run", "--dry-run", "--load", "memory"]);
    let text = finish(run).ends_with(0).stdout;
    assert!(
        text.contains("cyclic every 1ms on CPUs 0-126,256-382,")
            && text.contains("memory on CPUs 0-126,256-382"),
        "{text}"
    );
    assert!(text.lines().count() <= 24, "{text}");
}

#[test]
fn the_work_of_a_short_run_grows_at_most_linearly_with_cpus() {
    const TEST: &str = "the_work_of_a_short_run_grows_at_most_linearly_with_cpus";
    if !machine::is_root() {
        return machine::left_out(TEST, NEEDS_ROOT);
    }
    let [small, large] = [16, 64].map(|cpus| {
        let place = Workplace::new();
        let mut run = on_large_machine(&place, cpus);
        run.args(CALLGRIND).arg(env!("CARGO_BIN_EXE_tardy"));
        let words = "run --load none --for 20ms --period 20ms --policy other --quiet --out r";
        run.args(words.split(' '));
        let counted = collected(&finish(run).ends_with(0).stderr);
        let summary = place.tardy("show r --json").json();
        let series = summary["series"].as_array().unwrap();
        assert_eq!(series.len(), cpus as usize - 2, "two CPUs are offline");
        series.iter().for_each(assert_exact);
        counted
    });
    assert!(
        large <= 4 * small,
        "{small} instructions with 16 CPUs, {large} with 64"
    );
}

const NEEDS_ROOT: &str = "only root can mount files over those of /sys";

/// Returns a command that runs the program in its last arguments with the processors of a
/// [`LargeMachine`] in /proc and /sys. The threads of the program may run on all of them, as far as
/// the program can see.
fn on_large_machine(place: &Workplace, cpus: u32) -> Command {
    let big = LargeMachine::write(&place.path("big"), cpus);
    let mask: String = big
        .mask()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let script = "mount --bind big/sys/devices/system/cpu /sys/devices/system/cpu && for file in \
                  stat interrupts cpuinfo softirqs; do mount --bind big/proc/$file /proc/$file || \
                  exit 77; done; exec \"$@\"";
    let mut strace = place.prepared(
        machine::program("unshare", "util-linux"),
        [
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
            "strace",
            "-f",
            "-o",
            "calls",
            "--seccomp-bpf",
        ],
    );
    // The first call of a thread comes from the C library, which passes a small buffer, so only
    // later calls are replaced.
    strace.args(["-e", "trace=sched_getaffinity,sched_setaffinity"]);
    strace.arg("-e").arg(format!(
        "inject=sched_getaffinity:retval={}:poke_exit=@arg3={mask}:when=2+",
        mask.len() / 2
    ));
    strace.args(["-e", "inject=sched_setaffinity:retval=0"]);
    strace
}
