//! Tests the sources of latency in guests. Measuring the timer resolution with and without
//! high-resolution timers takes two boots.

use std::process::Command;

use serde_json::Value;

use super::{STOCK, compared, lab_is_there};

/// A scenario that isolates each source of latency, in three seconds of guest time.
const SCENARIO: &str = r#"
name = "small"
order = "fixed"
[[probe]]
name = "cyclic"
period = "10ms"
priority = 98
[[probe]]
name = "nanosleep"
period = "10ms"
priority = 50
[[phase]]
name = "idle"
length = "1s"
[[phase]]
name = "competitor"
length = "1s"
loads = ["busy:length=2ms:period=10ms:priority=90"]
[[phase]]
name = "memory"
length = "1s"
loads = ["memory"]
"#;

#[test]
fn timer_resolution_stands_side_by_side_with_and_without_high_resolution_timers() {
    if !lab_is_there("breakdown", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (scenario, out) = (
        folder.path().join("small.toml"),
        folder.path().join("timers"),
    );
    std::fs::write(&scenario, SCENARIO).unwrap();
    let variants = [
        "--kernel",
        STOCK,
        "--cmdline",
        "highres=off nohz=off",
        "--kernel",
        STOCK,
        "--cmdline",
        "highres=on",
    ];
    compared(
        &out,
        &[&variants[..], &["--scenario", scenario.to_str().unwrap()]].concat(),
    );
    let breakdown = |further: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tardy"))
            .arg("breakdown")
            .args(further)
            .arg(&out)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let found = crate::support::document::read_as(&breakdown(&["--json"]), "breakdown");
    let of = |source: &str, probe: &str| -> Vec<Value> {
        let all = found["isolated"].as_array().unwrap().iter();
        all.filter(|row| {
            row["source"] == source && row["probe"].as_str().unwrap().starts_with(probe)
        })
        .cloned()
        .collect()
    };
    let resolution = of("timer-resolution", "cyclic");
    let by: Vec<&str> = resolution
        .iter()
        .map(|row| row["by"].as_str().unwrap())
        .collect();
    assert_eq!(
        by,
        [
            "idle, timers that fire at ticks of 4ms",
            "idle, high-resolution timers"
        ],
        "{found}"
    );
    assert!(
        found["isolated"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["clock"] == "virtual"),
        "{found}"
    );
    // With a period of 10 ms and ticks of 4 ms, due times alternate between two positions, half a
    // tick apart. So every second wake-up is at least half a tick late. With high-resolution
    // timers, these wake-ups are less late.
    let [ticks, fine] = [&resolution[0], &resolution[1]].map(|row| &row["numbers"]);
    assert!(ticks["max_ns"].as_i64() > Some(2_000_000), "{ticks}");
    assert!(
        fine["percentiles"][0]["value_ns"]
            .as_i64()
            .is_some_and(|median| median < 100_000),
        "{fine}"
    );
    // Sources that are smaller than a tick are shown only for the run with high-resolution timers.
    for (source, probe) in [
        ("non-preemptable-sections", "cyclic"),
        ("scheduling-jitter", "nanosleep"),
    ] {
        let rows = of(source, probe);
        assert!(
            !rows.is_empty()
                && rows
                    .iter()
                    .all(|row| row["run"].as_str().unwrap().contains("highres=on")),
            "{source}: {found}"
        );
    }
    let text = breakdown(&[]);
    assert!(
        text.contains("(virtual time)") && !text.contains("resolution timers: not measured"),
        "{text}"
    );
}
