//! `tardy cost` as a user starts it: what it stores, what it computes from that, what it refuses.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as expected")]

mod support;

use std::time::{Duration, Instant};

use serde_json::Value;
use support::series;
use support::workplace::{PATIENCE, Workplace, finish, names};

const SHORT: &str = "--rounds 2 --trials 3 --trial-length 100us --quiet";

fn metric<'a>(costs: &'a Value, name: &str) -> &'a Value {
    costs["metrics"].as_array().unwrap().iter().find(|metric| metric["name"] == name).unwrap_or_else(|| panic!("no {name} in {costs}"))
}

fn numbers(values: &Value) -> Vec<f64> {
    values.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

fn middle(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn each_trial_is_stored_and_the_figure_is_the_least_median_of_a_round() {
    let place = Workplace::new();
    let costs = place.tardy(&format!("cost --metric null-call --metric stat {SHORT} --out c --json")).ends_with(0).json();
    assert_eq!(costs["metrics"].as_array().unwrap().len(), 2);
    assert_eq!((&costs["unit"], &costs["state"]), (&"ns".into(), &"finished".into()));
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
        assert_eq!((file.samples.len(), file.descriptor.unit.as_str(), file.counts.is_exact()), (6, "ps", true));
        let stored: Vec<f64> = file.samples.iter().map(|sample| sample.latency.get() as f64 / 1000.0).collect();
        assert_eq!(stored, numbers(&metric(&costs, &file.descriptor.probe)["values"]));
        assert!(file.samples.is_sorted_by_key(|sample| sample.due));
    }
    assert_eq!(place.record("c")["kind"], "cost");
    assert_eq!(place.tardy("show --json c").ends_with(0).json(), costs);
    let text = place.tardy("show c --reference koolwal2009").ends_with(0).stdout;
    assert!(text.contains("2.6.26-rt1") && text.lines().any(|line| line.starts_with("null-call") && line.contains("0.550")), "{text}");
}

/// What a machine may lack; all others are measured on every Linux that the tests run on.
const MAY_BE_ABSENT: [&str; 6] = ["rpc-udp-latency", "rpc-tcp-latency", "io-uring-nop", "rcu-grace-period", "shared-line", "fork-sh"];

#[test]
fn every_service_is_measured_or_left_out_by_name_and_nothing_stays_behind() {
    let place = Workplace::new();
    std::fs::create_dir(place.path("temporary")).unwrap();
    let mut command = place.command("cost --rounds 1 --trials 2 --trial-length 20us --quiet --json --out c".split(' '));
    command.env("TMPDIR", place.path("temporary"));
    let costs = finish(command).ends_with(0).json();
    let listed = place.tardy("list costs --json").ends_with(0).json();
    let left_out: Vec<&Value> = costs["left_out"].as_array().unwrap().iter().collect();
    assert!(left_out.iter().all(|one| MAY_BE_ABSENT.contains(&one["name"].as_str().unwrap())), "{left_out:?}");
    for service in listed.as_array().unwrap() {
        let name = service["name"].as_str().unwrap();
        let is_left_out = left_out.iter().any(|one| one["name"] == name);
        assert!(is_left_out || numbers(&metric(&costs, name)["values"]).len() == 2, "{name}");
    }
    assert!(names(&place.path("temporary")).is_empty());
    place.assert_no_process_is_left();
}

#[test]
fn processes_of_a_metric_end_with_a_tool_that_is_killed() {
    let place = Workplace::new();
    let mut command = place.command("cost --metric switch-16p-0k --trials 100000 --quiet --out c".split(' '));
    let mut tool = command.env("TMPDIR", place.folder()).spawn().unwrap();
    let begin = Instant::now();
    // The tool, and fifteen others of its ring.
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
fn bad_input_measures_and_writes_nothing() {
    let place = Workplace::new();
    for line in ["--metric nope", "--trials 0", "--trial-length 1ns", "--cpu 4095 --metric null-call"] {
        let refused = place.tardy(&format!("cost {line} --out c"));
        assert!([2, 3].contains(&refused.code()) && refused.stdout.is_empty() && !refused.stderr.is_empty(), "{line}: {refused:?}");
        assert!(!place.path("c").exists(), "{line}");
    }
    std::fs::create_dir(place.path("c")).unwrap();
    place.tardy(&format!("cost --metric null-call {SHORT} --out c")).ends_with(2);
}

#[test]
fn a_run_of_another_kind_is_no_cost_and_a_cost_is_no_latency() {
    let place = Workplace::new();
    let listed = place.tardy("list costs --json").ends_with(0).json();
    assert!(listed.as_array().unwrap().iter().any(|metric| metric["name"] == "fork-exec" && metric["lmbench"] == "lat_proc exec"));
    assert!(place.tardy("show --reference koolwal2009 nothing").ends_with(2).stderr.contains("not a run folder"));
}
