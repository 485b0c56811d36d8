//! Tests `--on-threshold` and `-b`: actions when a latency exceeds a limit. All latencies exceed
//! one microsecond.

use crate::support;

use serde_json::Value;
use support::workplace::{Workplace, finish};

/// The latencies in ns that the commands recorded.
fn acted(place: &Workplace) -> Vec<i64> {
    let text = std::fs::read_to_string(place.path("acted")).unwrap_or_default();
    text.lines()
        .map(|line| line.parse().unwrap_or_else(|_| panic!("{line}")))
        .collect()
}

const NOTE: &str = "shell=echo $TARDY_LATENCY_NS >> acted";

#[test]
fn a_latency_above_the_threshold_is_acted_on_once_and_stops_the_run() {
    let place = Workplace::new();
    let line = [
        "run",
        "--for",
        "600s",
        "--load",
        "none",
        "--stop-above",
        "1us",
        "--on-threshold",
        NOTE,
        "--quiet",
        "--out",
        "run",
    ];
    let outcome = place.tardy_with(&line).ends_with(1);
    assert!(
        outcome.stdout.contains("stopped by a latency of"),
        "{}",
        outcome.stdout
    );
    let record = place.record("run");
    let of_record = record["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|warning| warning["warning"] == "stopped-above")
        .unwrap();
    assert_eq!(acted(&place), [of_record["latency"].as_i64().unwrap()]);
    assert_eq!(record["state"], "stopped");
}

#[test]
fn a_run_that_continues_acts_on_each_latency_that_is_larger_than_those_before() {
    let place = Workplace::new();
    let actions = ["--on-threshold", NOTE, "--on-threshold", "continue"];
    let line = [
        "run",
        "--for",
        "1s",
        "--load",
        "none",
        "--deadline",
        "1us",
        "--quiet",
        "--out",
        "run",
    ];
    place
        .tardy_with(&[&line[..], &actions].concat())
        .ends_with(1);
    assert_eq!(place.record("run")["state"], "finished");
    let acted = acted(&place);
    // Commands run side by side, so if one check starts several, they may end in any order.
    assert!(
        !acted.is_empty() && acted.iter().all(|&latency| latency > 1_000),
        "{acted:?}"
    );
    let summary = place.summary("run");
    let max = summary["probes"][0]["numbers"]["max_ns"].as_i64().unwrap();
    assert_eq!(
        acted.iter().max(),
        Some(&max),
        "the largest is acted on, whenever it comes"
    );
}

#[test]
fn a_command_or_process_that_fails_is_told_and_ends_nothing() {
    let place = Workplace::new();
    let actions = [
        "--on-threshold",
        "shell=exit 3",
        "--on-threshold",
        "signal=4194304",
        "--on-threshold",
        "continue",
    ];
    let line = [
        "run",
        "--for",
        "1s",
        "--load",
        "none",
        "--stop-above",
        "1us",
        "--quiet",
        "--out",
        "run",
    ];
    let outcome = place
        .tardy_with(&[&line[..], &actions].concat())
        .ends_with(0);
    for words in [
        "a command of --on-threshold ended with",
        "--on-threshold signal=4194304: ",
    ] {
        assert!(
            outcome.stdout.contains(words),
            "no {words:?} in {}",
            outcome.stdout
        );
    }
}

#[test]
fn a_signal_of_any_number_reaches_the_process_that_is_named_or_the_parent() {
    let place = Workplace::new();
    // The shell is the tool's parent and records the signals that it receives.
    let tool = env!("CARGO_BIN_EXE_tardy");
    let line = "run --for 600s --load none --stop-above 1us --quiet --out run";
    for (pid, folder) in [("parent", "run-parent"), ("$$", "run-named")] {
        let line = line.replace("--out run", &format!("--out {folder}"));
        let script = format!(
            "trap 'echo got >> got' USR1; {tool} {line} --on-threshold signal,num=10,pid={pid} & \
             wait $!; wait $!; cat got"
        );
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c");
        let outcome = finish(place.prepared(shell, [script.as_str()])).ends_with(0);
        assert!(outcome.stdout.contains("got"), "{pid}: {outcome:?}");
        std::fs::remove_file(place.path("got")).unwrap();
    }
}

#[test]
fn the_short_form_of_cyclictest_stops_and_asks_for_the_trace() {
    let place = Workplace::new();
    let plan: Value = place
        .tardy("run -b 1 --for 10s --load none --dry-run --json")
        .ends_with(0)
        .json();
    assert_eq!(
        (
            &plan["stop_above_ns"],
            &plan["on_threshold"],
            &plan["explain"]
        ),
        (
            &1000.into(),
            &serde_json::json!(["trace"]),
            &"events".into()
        )
    );
    place
        .tardy("run -b 1 --for 600s --load none --quiet --out run")
        .ends_with(1);
    // Some machines cannot record a trace.
    if place.record("run")["tracing"].is_object() {
        let found = place.tardy("explain run --json").ends_with(0).json();
        assert!(
            found["samples"]["explained"].as_u64() > Some(0)
                && found["samples"]["not_adding_up"] == 0,
            "{}",
            found["samples"]
        );
        assert!(place.path("run/trace/worst.dat").exists());
    }
}

#[test]
fn actions_that_are_none_or_have_no_threshold_are_refused() {
    let place = Workplace::new();
    for (line, words) in [
        (
            "run --stop-above 1ms --on-threshold stop",
            "is not an action: write trace, shell=COMMAND",
        ),
        (
            "run --stop-above 1ms --on-threshold signal=0",
            "is not a process",
        ),
        (
            "run --stop-above 1ms --on-threshold signal,num=99,pid=1234",
            "does not name a signal and a process",
        ),
        (
            "run --on-threshold trace",
            "--on-threshold acts on latencies above",
        ),
        ("run -b 5 --stop-above 1ms", "cannot be used with"),
    ] {
        let refused = place.tardy(&format!("{line} --out run")).ends_with(2);
        assert!(
            refused.stderr.contains(words),
            "no {words:?} in {}",
            refused.stderr
        );
    }
    assert_eq!(place.names(), Vec::<String>::new());
}
