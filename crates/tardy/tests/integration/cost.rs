//! Tests `tardy cost` as a user starts it: stored data, results, and refused requests.

use crate::support;

use std::time::{Duration, Instant};

use serde_json::Value;
use support::series;
use support::workplace::{Outcome, PATIENCE, Workplace, finish, names};
use tardy_sys::{process, signal};

const SHORT: &str = "--rounds 2 --trials 3 --trial-length 100us --quiet";

fn metric<'a>(costs: &'a Value, name: &str) -> &'a Value {
    costs["metrics"]
        .as_array()
        .unwrap()
        .iter()
        .find(|metric| metric["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {costs}"))
}

fn numbers(values: &Value) -> Vec<f64> {
    values
        .as_array()
        .unwrap()
        .iter()
        .map(|value| value.as_f64().unwrap())
        .collect()
}

fn middle(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn each_trial_is_stored_and_the_figure_is_the_least_median_of_a_round() {
    let place = Workplace::new();
    let costs = place
        .tardy(&format!(
            "cost --metric null-call --metric stat {SHORT} --out c --json"
        ))
        .ends_with(0)
        .json();
    assert_eq!(costs["metrics"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&costs["unit"], &costs["state"]),
        (&"ns".into(), &"finished".into())
    );
    for name in ["null-call", "stat"] {
        let metric = metric(&costs, name);
        let values = numbers(&metric["values"]);
        assert_eq!(values.len(), 6);
        let figure = middle(&values[..3]).min(middle(&values[3..]));
        assert_eq!(metric["cost"].as_f64().unwrap(), figure);
        assert!(metric["operations"].as_u64().unwrap() > 1);
    }
    let files = series::all(&place.path("c"));
    assert_eq!(files.len(), 2);
    for file in &files {
        assert_eq!(
            (
                file.samples.len(),
                file.descriptor.unit.as_str(),
                file.counts.is_exact()
            ),
            (6, "ps", true)
        );
        let stored: Vec<f64> = file
            .samples
            .iter()
            .map(|sample| sample.latency.get() as f64 / 1000.0)
            .collect();
        assert_eq!(
            stored,
            numbers(&metric(&costs, &file.descriptor.probe)["values"])
        );
        assert!(file.samples.is_sorted_by_key(|sample| sample.due));
    }
    assert_eq!(place.record("c")["kind"], "cost");
    assert_eq!(place.tardy("show --json c").ends_with(0).json(), costs);
    let text = place
        .tardy("show c --paper koolwal2009")
        .ends_with(0)
        .stdout;
    assert!(
        text.contains("2.6.26-rt1")
            && text
                .lines()
                .any(|line| line.starts_with("null-call") && line.contains("0.550")),
        "{text}"
    );
}

/// Metrics that a machine may not support. Every Linux on which the tests run supports all other
/// metrics.
const MAY_BE_ABSENT: [&str; 6] = [
    "rpc-udp-latency",
    "rpc-tcp-latency",
    "io-uring-nop",
    "rcu-grace-period",
    "shared-line",
    "fork-sh",
];

#[test]
fn every_service_is_measured_or_left_out_by_name_and_nothing_stays_behind() {
    let place = Workplace::new();
    std::fs::create_dir(place.path("temporary")).unwrap();
    let mut command = place.command(
        "cost --rounds 1 --trials 2 --trial-length 20us --quiet --json --out c".split(' '),
    );
    command.env("TMPDIR", place.path("temporary"));
    let costs = finish(command).ends_with(0).json();
    let listed = place.tardy("list costs --json").ends_with(0).json();
    let left_out: Vec<&Value> = costs["left_out"].as_array().unwrap().iter().collect();
    assert!(
        left_out
            .iter()
            .all(|one| MAY_BE_ABSENT.contains(&one["name"].as_str().unwrap())),
        "{left_out:?}"
    );
    for service in listed["costs"].as_array().unwrap() {
        let name = service["name"].as_str().unwrap();
        let is_left_out = left_out.iter().any(|one| one["name"] == name);
        assert!(
            is_left_out || numbers(&metric(&costs, name)["values"]).len() == 2,
            "{name}"
        );
    }
    assert!(names(&place.path("temporary")).is_empty());
    place.assert_no_process_is_left();
}

#[test]
fn processes_of_a_metric_end_with_a_tool_that_is_killed() {
    let place = Workplace::new();
    let mut command =
        place.command("cost --metric switch-16p-0k --trials 100000 --quiet --out c".split(' '));
    let mut tool = command.env("TMPDIR", place.folder()).spawn().unwrap();
    let begin = Instant::now();
    // The ring consists of the tool and fifteen other processes.
    while place.processes().len() < 16 {
        assert!(tool.try_wait().unwrap().is_none() && begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(2));
    }
    tool.kill().unwrap();
    tool.wait().unwrap();
    place.assert_no_process_is_left();
    assert_eq!(place.tardy("show c").code(), 4);
}

#[test]
fn a_command_is_timed_with_all_that_it_waits_for() {
    let place = Workplace::new();
    let line = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sh -c 'i=0; while [ $i -lt \
                20000 ]; do i=$((i+1)); done'; echo said";
    let command = [
        "cost", "--trials", "4", "--out", "c", "--json", "--", "sh", "-c", line,
    ];
    let costs = place.tardy_with(&command).ends_with(0).json();
    assert_eq!(
        (&costs["set"], &costs["command"][0]),
        (&"command".into(), &"sh".into())
    );
    let [real, user, system] =
        ["real", "user", "sys"].map(|time| numbers(&metric(&costs, time)["values"]));
    assert_eq!((real.len(), user.len(), system.len()), (4, 4, 4));
    // Only one process runs at a time. So for kernels that count CPU time in ticks, CPU time
    // exceeds the duration by at most one tick. Such a kernel may attribute a short time wholly to
    // the user or to the system.
    for trial in 0..4 {
        let computed = user[trial] + system[trial];
        assert!(computed > 0.0 && computed <= real[trial] + 10e6, "{costs}");
    }
    assert_eq!(
        metric(&costs, "real")["mean"].as_f64().unwrap(),
        real.iter().sum::<f64>() / 4.0
    );
    assert_eq!(place.tardy("show --json c").ends_with(0).json(), costs);
    let text = place.tardy("show c").ends_with(0).stdout;
    let head = text.lines().next().unwrap();
    assert!(
        head.contains(" ms +- ") && head.contains(" (range ") && head.ends_with(", 4 trials)"),
        "{text}"
    );
    assert!(
        place
            .tardy("show c --paper mckenney2009")
            .ends_with(0)
            .stdout
            .contains("real-fast 2008")
    );
}

#[test]
fn a_command_that_fails_or_cannot_be_run_leaves_nothing() {
    let place = Workplace::new();
    for (words, said) in [
        ("false", "`false` ended with 1"),
        ("/nonexistent", "cannot run `/nonexistent`"),
    ] {
        let refused = place
            .tardy(&format!("cost --out c -- {words}"))
            .ends_with(2);
        assert!(
            refused.stdout.is_empty() && refused.stderr.contains(said),
            "{refused:?}"
        );
        assert!(!place.path("c").exists());
    }
    // The second trial fails, and the first one is kept.
    let fails_once_more = "mkdir \"$0\" || exit 3";
    let words = [
        "cost",
        "--warm-up",
        "0",
        "--out",
        "c",
        "--",
        "sh",
        "-c",
        fails_once_more,
        place.path("made").to_str().unwrap(),
    ]
    .map(str::to_owned);
    place
        .tardy_with(&words.each_ref().map(String::as_str))
        .ends_with(2);
    let costs = place.tardy("show --json c").json();
    assert_eq!(
        (
            &costs["state"],
            numbers(&metric(&costs, "real")["values"]).len()
        ),
        (&"interrupted".into(), 1)
    );
}

#[test]
fn a_command_is_run_once_before_it_is_timed() {
    let place = Workplace::new();
    for (flags, runs) in [("", 4), ("--warm-up 0", 3), ("--warm-up 2", 5)] {
        let log = place.path("log");
        let mut words: Vec<&str> = "cost --trials 3 --quiet --json --out c"
            .split(' ')
            .chain(flags.split_whitespace())
            .collect();
        words.extend(["--", "sh", "-c", "echo x >> \"$0\"", log.to_str().unwrap()]);
        let costs = place.tardy_with(&words).ends_with(0).json();
        assert_eq!(
            numbers(&metric(&costs, "real")["values"]).len(),
            3,
            "{flags}"
        );
        assert_eq!(
            std::fs::read_to_string(&log).unwrap().lines().count(),
            runs,
            "{flags}"
        );
        std::fs::remove_file(&log).unwrap();
        std::fs::remove_dir_all(place.path("c")).unwrap();
    }
    let refused = place
        .tardy("cost --metric null-call --warm-up 2 --out c")
        .ends_with(2);
    assert!(refused.stderr.contains("--warm-up"), "{refused:?}");
}

#[test]
fn an_interrupted_command_ends_with_its_children_and_keeps_its_trials() {
    let place = Workplace::new();
    // In the first trial the shell starts no other process; the second trial lasts until it is
    // interrupted.
    let waits = "if test -e \"$0\"; then sleep 600; else : > \"$0\"; fi";
    let words = [
        "cost",
        "--warm-up",
        "0",
        "--trials",
        "5",
        "--quiet",
        "--json",
        "--out",
        "c",
        "--",
        "sh",
        "-c",
        waits,
        place.path("made").to_str().unwrap(),
    ]
    .map(str::to_owned);
    let tool = place.command(words).spawn().unwrap();
    let pid = i32::try_from(tool.id()).unwrap();
    let begin = Instant::now();
    // The three processes are the tool, the shell and `sleep`.
    while place.processes().len() < 3 {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(2));
    }
    process::kill(pid, signal::TERMINATE).unwrap();
    let ended: Outcome = tool.wait_with_output().unwrap().into();
    let costs = ended.ends_with(130).json();
    assert_eq!(
        (
            &costs["state"],
            numbers(&metric(&costs, "real")["values"]).len()
        ),
        (&"interrupted".into(), 1)
    );
    place.assert_no_process_is_left();
}

/// Stand-ins for the programs whose presence the tool checks before it runs make; the build itself
/// calls none of them.
const STAND_INS: [&str; 5] = ["gcc", "ld", "flex", "bison", "bc"];

#[test]
fn a_build_is_configured_and_built_in_a_new_folder_each_time_and_its_tree_stays_clean() {
    let place = Workplace::new();
    let makefile = "tinyconfig:\n\techo made > $(O)/.config\nall:\n\ttest -e $(O)/.config && test \
                    ! -e $(O)/vmlinux && touch $(O)/vmlinux && echo x >> $(LOG)\n.DEFAULT_GOAL := \
                    all\n";
    std::fs::create_dir(place.path("tree")).unwrap();
    std::fs::write(place.path("tree/Kconfig"), "").unwrap();
    std::fs::write(place.path("tree/Makefile"), makefile).unwrap();
    std::fs::create_dir(place.path("programs")).unwrap();
    for name in STAND_INS {
        let path = place.path("programs").join(name);
        std::fs::write(&path, "#!/bin/sh\nexit 1\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    let path = format!(
        "{}:{}",
        place.path("programs").display(),
        std::env::var("PATH").unwrap()
    );
    let mut command = place.command(
        "cost build --source tree --config tinyconfig --trials 3 --jobs 2 --out c --json"
            .split(' '),
    );
    command
        .env("PATH", path)
        .env("TMPDIR", place.folder())
        .env("LOG", place.path("log"));
    let costs = finish(command).ends_with(0).json();
    assert_eq!(
        (
            &costs["set"],
            numbers(&metric(&costs, "real")["values"]).len()
        ),
        (&"build".into(), 3)
    );
    assert_eq!(
        std::fs::read_to_string(place.path("log"))
            .unwrap()
            .lines()
            .count(),
        3
    );
    assert_eq!(names(&place.path("tree")), ["Kconfig", "Makefile"]);
    assert!(
        names(place.folder())
            .iter()
            .all(|name| !name.starts_with("tardy-cost"))
    );
    let refused = place
        .tardy("cost build --source nothing-there --out d")
        .ends_with(2);
    assert!(refused.stderr.contains("nothing-there") && !place.path("d").exists());
}

#[test]
fn bad_input_measures_and_writes_nothing() {
    let place = Workplace::new();
    for line in [
        "--metric nope",
        "--trials 0",
        "--trial-length 1ns",
        "--cpu 4095 --metric null-call",
    ] {
        let refused = place.tardy(&format!("cost {line} --out c"));
        assert!(
            [2, 3].contains(&refused.code())
                && refused.stdout.is_empty()
                && !refused.stderr.is_empty(),
            "{line}: {refused:?}"
        );
        assert!(!place.path("c").exists(), "{line}");
    }
    std::fs::create_dir(place.path("c")).unwrap();
    place
        .tardy(&format!("cost --metric null-call {SHORT} --out c"))
        .ends_with(2);
}

#[test]
fn costs_are_compared_metric_by_metric_and_never_with_anything_else() {
    let place = Workplace::new();
    place
        .tardy(&format!(
            "cost --metric null-call --metric bcopy-libc {SHORT} --out a"
        ))
        .ends_with(0);
    place
        .tardy(&format!("cost --metric null-call {SHORT} --out b"))
        .ends_with(0);
    place
        .tardy("cost --trials 2 --out program -- true")
        .ends_with(0);
    let same = place.tardy("compare a a --format json");
    // Equal numbers are never judged better or worse. Whether they are equivalent or the comparison
    // is inconclusive depends on the spread of six trials.
    assert!([0, 4].contains(&same.code()), "{same:?}");
    let rows = same.json()["candidates"][0]["rows"].clone();
    assert_eq!(rows.as_array().unwrap().len(), 2);
    assert!(
        rows.as_array()
            .unwrap()
            .iter()
            .all(|row| row["advantage_percent"] == 0.0 && row["base"] == row["candidate"]),
        "{rows}"
    );
    let text = place.tardy("compare a b").stdout;
    assert!(
        text.contains("left out, because they are only in base: bcopy-libc")
            && text.lines().any(|line| line.starts_with("null-call")),
        "{text}"
    );
    assert!(
        place
            .tardy("compare a program")
            .ends_with(2)
            .stderr
            .contains("share no metric")
    );
    for format in ["markdown", "junit"] {
        assert!(
            place
                .tardy(&format!("compare a a --format {format}"))
                .stdout
                .contains("null-call")
        );
    }
    place.tardy("run --cycles 20 --period 2ms --quiet --out latency");
    assert!(
        place
            .tardy("compare a latency")
            .ends_with(2)
            .stderr
            .contains("not a run of kind cost")
    );
}

#[test]
fn a_run_of_another_kind_is_no_cost_and_a_cost_is_no_latency() {
    let place = Workplace::new();
    let listed = place.tardy("list costs --json").ends_with(0).json();
    assert!(
        listed["costs"]
            .as_array()
            .unwrap()
            .iter()
            .any(|metric| metric["name"] == "fork-exec" && metric["lmbench"] == "lat_proc exec")
    );
    assert!(
        place
            .tardy("show --paper koolwal2009 nothing")
            .ends_with(2)
            .stderr
            .contains("not a run folder")
    );
}

#[test]
fn programs_are_timed_below_a_parent_that_ignores_its_children() {
    let place = Workplace::new();
    let tool = env!("CARGO_BIN_EXE_tardy");
    let ended = place
        .start_command(
            std::process::Command::new("env"),
            [
                "--ignore-signal=CHLD",
                tool,
                "cost",
                "--quiet",
                "--",
                "true",
            ],
        )
        .wait()
        .ends_with(0);
    assert!(ended.stdout.contains(" +- "), "{}", ended.stdout);
}
