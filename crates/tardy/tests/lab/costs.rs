//! Tests the costs of services in guests. They are instruction counts, which are reproducible, not
//! times.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{REAL_TIME, STOCK, compared, lab_is_there, support};

const METRICS: &str = "null-call,pipe-latency,page-fault-new,shared-line,fork-sh";

fn tardy(arguments: &[&str], paths: &[&Path]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tardy"))
        .args(arguments)
        .args(paths)
        .output()
        .unwrap();
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr),
    )
}

fn names(of: &Value) -> Vec<&str> {
    of.as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect()
}

#[test]
fn costs_of_guests_are_counts_of_instructions_the_same_twice_and_no_times() {
    if !lab_is_there("costs", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("costs");
    let how = [
        "--",
        "--rounds",
        "2",
        "--trials",
        "3",
        "--trial-length",
        "1ms",
    ];
    let variants = compared(
        &out,
        &[
            &[
                "--kernel",
                STOCK,
                "--kernel",
                REAL_TIME,
                "--cost",
                METRICS,
                "--verify-repeatable",
            ],
            &how[..],
        ]
        .concat(),
    );
    for (name, variant) in &variants {
        assert_eq!(
            (
                &variant["runs"][0]["repeated"],
                &variant["runs"][0]["failure"]
            ),
            (&Value::Bool(true), &Value::Null),
            "{name}"
        );
        assert_eq!(
            names(&variant["metrics"]),
            ["null-call", "pipe-latency", "page-fault-new"],
            "{name}"
        );
        // The guest has one CPU and no shell.
        assert_eq!(
            names(&variant["left_out"]),
            ["fork-sh", "shared-line"],
            "{name}: {}",
            variant["left_out"]
        );
        assert!(
            variant["left_out"]
                .as_array()
                .unwrap()
                .iter()
                .all(|absent| !absent["reason"].as_str().unwrap().is_empty())
        );
        let cost = |index: usize| variant["metrics"][index]["cost"].as_f64().unwrap();
        // An empty system call takes some hundred instructions; a round trip with two wake-ups of
        // another process takes some thousand.
        assert!(
            (50.0..2_000.0).contains(&cost(0)),
            "{name}: a null call of {} instructions",
            cost(0)
        );
        assert!(
            (2_000.0..60_000.0).contains(&cost(1)),
            "{name}: a round trip of {} instructions",
            cost(1)
        );
        assert_eq!(
            variant["metrics"][0]["idle_share"].as_f64(),
            Some(0.0),
            "{name}: a null call waits for nothing"
        );
        let run = out.join(name).join("replica-000");
        let record = tardy_run::folder::open(&run).unwrap();
        assert_eq!(serde_json::to_value(record.kind).unwrap(), "cost");
        let shown = support::document::read_as(&tardy(&["show", "--json"], &[&run]).1, "cost");
        assert_eq!(
            (&shown["unit"], &shown["clock"], &shown["state"]),
            (
                &"instructions".into(),
                &"virtual".into(),
                &"finished".into()
            )
        );
        assert_eq!(
            shown["metrics"][0]["cost"].as_f64(),
            Some(cost(0)),
            "the comparison has the cost of the run"
        );
        assert!(
            shown["metrics"]
                .as_array()
                .unwrap()
                .iter()
                .all(|metric| metric["megabytes_per_second"].is_null())
        );
    }
    let (stock, real_time) = (out.join("6.1/replica-000"), out.join("6.1-rt/replica-000"));
    // An empty system call is nearly the same code on both kernels. Sleeping locks make every
    // wake-up more expensive.
    let round_trip = |name: &str| variants[name]["metrics"][1]["cost"].as_f64().unwrap();
    assert!(
        round_trip("6.1-rt") > round_trip("6.1"),
        "{} and {}",
        round_trip("6.1-rt"),
        round_trip("6.1")
    );

    let (code, text) = tardy(&["compare"], &[&stock, &real_time]);
    assert!(
        code != Some(2) && text.contains("never the speed of a machine"),
        "{code:?}: {text}"
    );
    let machine = folder.path().join("machine");
    let here = [
        "cost",
        "--metric",
        "null-call",
        "--rounds",
        "1",
        "--trials",
        "3",
        "--trial-length",
        "100us",
        "--quiet",
        "--out",
    ];
    assert_eq!(tardy(&here, &[&machine]).0, Some(0));
    for sides in [[&*stock, &*machine], [&*machine, &*real_time]] {
        let (code, text) = tardy(&["compare"], &sides);
        assert!(
            code == Some(2) && text.contains("a time and a length of code are not comparable"),
            "{code:?}: {text}"
        );
    }
    let task = [
        "advise",
        "--json",
        "--work",
        "100us",
        "--deadline",
        "250us",
        "--period",
        "1ms",
        "--kind",
        "syscalls",
    ];
    let (code, text) = tardy(&task, &[&stock, &real_time]);
    let advice = support::document::read_as(&text, "advise");
    assert_eq!(code, Some(4), "{text}");
    assert_eq!(
        (&advice["outcome"], &advice["comparisons"]),
        (&"inconclusive".into(), &Value::Array(Vec::new())),
        "{text}"
    );
    assert!(
        advice["kernels"]
            .as_array()
            .unwrap()
            .iter()
            .all(|kernel| kernel["verdict"].is_null()),
        "{text}"
    );
}

#[test]
fn what_cannot_be_asked_for_is_refused_before_anything_boots() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let refused = |further: &[&str]| {
        let all = [
            &["lab", "run", "--kernel", "/nonexistent"],
            further,
            &["--out"],
        ]
        .concat();
        let (code, text) = tardy(&all, &[&out]);
        assert_eq!(code, Some(2), "{text}");
        text
    };
    assert!(
        refused(&["--cost", "null-call,nope"])
            .contains("--cost: there is no metric or group `nope`")
    );
    assert!(refused(&["--cost", "--load", "io"]).contains("cannot be used with"));
}
