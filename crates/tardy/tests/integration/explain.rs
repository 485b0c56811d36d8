//! Tests `tardy explain` on stored traces from another tool, trace-cmd.
//! crates/tardy-trace/tests/data/README.md describes the origin of the files.

use std::path::PathBuf;

use crate::support::document;
use crate::support::workplace::Workplace;
use serde_json::Value;

fn trace(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../tardy-trace/tests/data")
        .join(name)
}

fn explain(name: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let place = Workplace::new();
    let path = trace(name);
    let outcome = place.tardy_with(&[&["explain", path.to_str().unwrap()], arguments].concat());
    (outcome.status.code(), outcome.stdout, outcome.stderr)
}

fn json(name: &str, arguments: &[&str]) -> Value {
    let (code, stdout, stderr) = explain(name, &[arguments, &["--json"]].concat());
    assert_eq!(code, Some(0), "{stderr}");
    document::read_as(&stdout, "explain-trace")
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// The sum of the values of a key over all rows.
fn sum(rows: &Value, key: &str) -> u64 {
    rows.as_array()
        .unwrap()
        .iter()
        .map(|row| number(&row[key]))
        .sum()
}

#[test]
fn the_thread_that_makes_the_loop_late_is_named_first() {
    let found = json("application.dat", &["--task", "my_loop"]);
    assert_eq!(
        found["wake_ups"]["timed"], 300,
        "one for each cycle of the loop"
    );
    let first = &found["holders"][0];
    assert_eq!(
        (&first["cause"], &first["name"], &first["priority"]),
        (&"higher_priority".into(), &"interference".into(), &9.into())
    );
    assert_eq!(first["known"], "seen");
    assert_eq!(found["unexplained_ns"], 0);
    // In every tenth of 300 cycles, the interfering thread runs until 300 us after the loop's due
    // time.
    let late = json(
        "application.dat",
        &["--task", "my_loop", "--above", "200us"],
    );
    assert_eq!(
        (&late["wake_ups"]["ranked"], &late["holders"][0]["wake_ups"]),
        (&30.into(), &30.into())
    );
}

#[test]
fn holders_and_components_add_up_to_all_lateness() {
    for (name, task) in [
        ("application.dat", "my_loop"),
        ("local.dat", "my_loop"),
        ("local.dat", "my_worker"),
        ("wakeup.dat", "my_loop"),
    ] {
        let found = json(name, &["--task", task, "--above", "1ns"]);
        let all = number(&found["lateness"]["sum_ns"]);
        assert!(all > 0);
        assert_eq!(sum(&found["holders"], "sum_ns"), all, "{name}");
        assert_eq!(sum(&found["components"], "sum_ns"), all, "{name}");
        for story in found["worst"].as_array().unwrap() {
            assert_eq!(
                sum(&story["pieces"], "length_ns"),
                number(&story["lateness_ns"]),
                "{name}"
            );
        }
    }
}

#[test]
fn a_trace_of_sched_wakeup_alone_is_explained_and_says_what_it_lacks() {
    let found = json("wakeup.dat", &["--task", "my_loop"]);
    assert_eq!(
        found["wake_ups"]["timed"], 60,
        "one for each cycle of the loop"
    );
    let first = &found["holders"][0];
    assert_eq!(
        (&first["cause"], &first["name"]),
        (&"higher_priority".into(), &"interference".into())
    );
    let lacks = "the trace has sched_wakeup and no sched_waking";
    for (name, is_said) in [("wakeup.dat", true), ("application.dat", false)] {
        let (_, stdout, _) = explain(name, &["--task", "my_loop"]);
        assert_eq!(stdout.contains(lacks), is_said, "{stdout}");
    }
}

#[test]
fn the_worst_wake_ups_are_told_as_a_time_line() {
    let (code, stdout, stderr) = explain("application.dat", &["--task", "my_loop", "--worst", "2"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stdout.contains("thread of higher priority: interference (real-time 90)"),
        "{stdout}"
    );
    assert_eq!(stdout.matches("\nWorst ").count(), 2, "{stdout}");
    for mark in ["due", "timer interrupt", "waking", "runs"] {
        assert!(stdout.contains(mark), "no {mark} in {stdout}");
    }
    assert_eq!(
        json("application.dat", &["--task", "my_loop", "--worst", "2"])["worst"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn only_late_wake_ups_are_ranked_where_asked() {
    let all = json("application.dat", &["--task", "my_loop", "--above", "1ns"]);
    let late = json(
        "application.dat",
        &["--task", "my_loop", "--above", "200us"],
    );
    assert_eq!(all["wake_ups"]["all"], late["wake_ups"]["all"]);
    assert!(number(&late["wake_ups"]["ranked"]) < number(&all["wake_ups"]["ranked"]));
    assert_eq!(late["holders"][0]["name"], "interference");
    let (_, stdout, _) = explain(
        "application.dat",
        &["--task", "my_loop", "--above", "200us"],
    );
    assert!(stdout.contains("later than 200"), "{stdout}");
}

#[test]
fn the_worst_wake_ups_are_explained_and_the_others_are_a_baseline() {
    let found = json("application.dat", &["--task", "my_loop"]);
    let threshold = number(&found["threshold"]["above_ns"]);
    assert_eq!(found["threshold"]["from"], "worst");
    assert_eq!(found["wake_ups"]["ranked"], 20, "of 303");
    assert!(number(&found["lateness"]["min_ns"]) > threshold);
    let ordinary = &found["ordinary"];
    assert_eq!(
        number(&ordinary["count"]) + 20,
        number(&found["wake_ups"]["all"])
    );
    assert!(number(&ordinary["lateness"]["max_ns"]) <= threshold);
    assert_eq!(
        sum(&ordinary["components"], "sum_ns"),
        number(&ordinary["lateness"]["sum_ns"])
    );
    let (_, text, _) = explain("application.dat", &["--task", "my_loop"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[1].starts_with("The 20 worst wake-ups, later than "),
        "{text}"
    );
    assert!(
        lines[2].starts_with(
            "Largest cause: thread of higher priority: interference (real-time 90), in 20 of \
             these: "
        ),
        "{text}"
    );
    assert!(
        text.contains("\nThe other 283 wake-ups, for comparison: median "),
        "{text}"
    );
}

#[test]
fn faults_of_the_loop_are_counted_with_their_remedy() {
    let rules = |task: &str| json("application.dat", &["--task", task])["rules"].clone();
    let of = |rules: &Value, name: &str| {
        rules
            .as_array()
            .unwrap()
            .iter()
            .find(|rule| rule["rule"] == name)
            .unwrap()
            .clone()
    };
    let faults = of(&rules("my_loop"), "page_faults");
    // Every 50th of 300 cycles touches a new page, which makes six faults. The seventh fault occurs
    // at the end, where the loop waits for its threads to end; the last of these threads wakes the
    // loop.
    assert_eq!(faults["count"], 7, "{faults}");
    let lower = of(&rules("my_worker"), "woken_by_lower_priority");
    assert!(number(&lower["count"]) >= 10, "{lower}");
    assert!(
        lower["detail"]
            .as_str()
            .unwrap()
            .contains("helper (real-time 10)"),
        "{lower}"
    );
    assert_eq!(of(&rules("my_loop"), "woken_by_lower_priority")["count"], 1);
    // The run has no futex events, so the count is unknown, not zero.
    assert_eq!(
        of(&rules("my_loop"), "futex_without_inheritance")["count"],
        Value::Null
    );
    let (_, stdout, _) = explain("application.dat", &["--task", "my_loop"]);
    assert!(stdout.contains("mlockall"), "{stdout}");
}

#[test]
fn a_switch_that_is_not_traced_is_counted_and_said() {
    let found = json("application.dat", &["--task", "my_loop"]);
    assert_eq!(
        found["trace"]["switches_out_of_idle"], 0,
        "the kernel that made the trace has none"
    );
    let (_, stdout, _) = explain("application.dat", &["--task", "my_loop"]);
    assert_eq!(
        stdout.contains("lower bound"),
        number(&found["wake_ups"]["lower_bounds"]) > 0,
        "{stdout}"
    );
}

#[test]
fn a_clock_that_is_not_monotonic_is_told_from_the_trace_itself() {
    // Both files name the clock `local`, because trace-cmd extract does not know which clock was
    // used. The clock of application.dat is in fact the monotonic one.
    assert_eq!(
        json("application.dat", &["--task", "my_loop"])["trace"]["is_monotonic"],
        true
    );
    let local = json("local.dat", &["--task", "my_loop"]);
    assert_eq!(local["trace"]["is_monotonic"], false);
    assert_eq!(local["wake_ups"]["timed"], 30);
    assert!(
        number(&local["lateness"]["max_ns"]) < 1_000_000_000,
        "times of two clocks were mixed: {}",
        local["lateness"]
    );
}

#[test]
fn a_period_stands_in_for_timers_that_were_not_recorded() {
    let timers = json("application.dat", &["--task", "my_loop", "--worst", "1000"]);
    let period = json(
        "application.dat",
        &["--task", "my_loop", "--worst", "1000", "--period", "1ms"],
    );
    assert_eq!(
        (
            number(&period["wake_ups"]["timed"]),
            number(&period["wake_ups"]["periodic"])
        ),
        (0, 300)
    );
    assert_eq!(period["thread"]["period_ns"], 1_000_000.0);
    // The trace has the true due times. The fitted grid is later by a constant: the smallest time
    // from a due time to the wake-up.
    let due = |found: &Value, from: &str| {
        let stories = found["worst"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|story| story["due_from"] == from);
        let mut due: Vec<u64> = stories.map(|story| number(&story["due_ns"])).collect();
        due.sort_unstable();
        due
    };
    let (true_due, fitted) = (due(&timers, "timer"), due(&period, "period"));
    let ahead = fitted[0] - true_due[0];
    assert!((1..100_000).contains(&ahead), "{ahead}");
    assert!(
        true_due
            .iter()
            .zip(&fitted)
            .all(|(&of_timer, &of_grid)| of_timer + ahead == of_grid)
    );
    assert_eq!(
        sum(&period["holders"], "sum_ns"),
        number(&period["lateness"]["sum_ns"])
    );
    assert_eq!(period["holders"][0]["name"], "interference");
    let (_, stdout, _) = explain(
        "application.dat",
        &[
            "--task",
            "my_loop",
            "--period",
            "1ms",
            "--due-from",
            "period",
        ],
    );
    assert!(
        stdout.contains("due on a grid with a period of 1.0")
            && stdout.contains("a delay common to all wake-ups does not show"),
        "{stdout}"
    );
    for (arguments, words) in [
        (&["--due-from", "period"][..], "--period"),
        (
            &["--due-from", "hrtimer", "--period", "1ms"],
            "--due-from hrtimer",
        ),
        (&["--period", "1h"], "omit --period"),
    ] {
        let (code, stdout, stderr) = explain(
            "application.dat",
            &[&["--task", "my_loop"], arguments].concat(),
        );
        assert_eq!((code, stdout.as_str()), (Some(2), ""));
        assert!(stderr.contains(words), "{stderr}");
    }
}

/// Tests of tardy-trace and `cargo xtask perfetto` check the contents of the file.
#[test]
fn a_trace_for_perfetto_is_written_whole_or_not_at_all() {
    let place = Workplace::new();
    let path = trace("application.dat");
    let write = |task: &str, file: &str| {
        place.tardy_with(&[
            "explain",
            path.to_str().unwrap(),
            "--task",
            task,
            "--perfetto",
            file,
        ])
    };
    let outcome = write("my_loop", "loop.pftrace").ends_with(0);
    assert!(
        outcome.stdout.contains("Causes of latency"),
        "{}",
        outcome.stdout
    );
    let written = std::fs::read(place.path("loop.pftrace")).unwrap();
    for words in [
        "my_loop",
        ": from due to running",
        "thread of higher priority: interference (real-time 90)",
        "due time to timer interrupt",
    ] {
        assert!(
            written
                .windows(words.len())
                .any(|window| window == words.as_bytes()),
            "no {words}"
        );
    }
    // If the trace cannot be explained, the existing file stays and no temporary file is left.
    write("your_loop", "loop.pftrace").ends_with(2);
    assert_eq!(std::fs::read(place.path("loop.pftrace")).unwrap(), written);
    assert_eq!(place.names(), ["loop.pftrace"]);
    // A device is not replaced by a file.
    let refused = write("my_loop", "/dev/null").ends_with(3);
    assert!(
        refused.stderr.contains("/dev/null") && refused.stderr.contains("name of a file"),
        "{}",
        refused.stderr
    );
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn what_cannot_be_explained_is_refused_with_a_remedy() {
    let refused = |name: &str, arguments: &[&str], words: &[&str]| {
        let (code, stdout, stderr) = explain(name, arguments);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
        for word in words {
            assert!(stderr.contains(word), "no {word} in {stderr}");
        }
    };
    refused(
        "application.dat",
        &["--task", "your_loop"],
        &["your_loop", "my_loop", "interference"],
    );
    refused("my_loop.c", &["--task", "my_loop"], &["not a trace.dat"]);
    refused("none.dat", &["--task", "my_loop"], &["none.dat"]);
    refused("", &["--task", "my_loop"], &["trace.dat"]);
    refused(
        "application.dat",
        &["--task", "my_loop", "--buffer", "other"],
        &["other", "tardy_test_data"],
    );
}
