//! Tests `tardy breakdown` of real runs, and the phase from which the numbers of each source of
//! latency are taken.

use crate::support;

use serde_json::Value;
use support::machine;
use support::workplace::Workplace;

/// Phases that isolate all three sources. The last phase is long, to give a busy machine time to
/// start all forking processes.
const SCENARIO: &str = r#"
name = "small"
[[probe]]
name = "cyclic"
priority = 98
[[probe]]
name = "nanosleep"
priority = 50
[[phase]]
name = "nothing"
length = "500ms"
[[phase]]
name = "competitor"
length = "500ms"
loads = ["busy:length=3ms:period=10ms:priority=90"]
[[phase]]
name = "forks"
length = "3s"
loads = ["fork:processes=8"]
"#;

fn isolated<'a>(breakdown: &'a Value, source: &str, probe: &str) -> Vec<(&'a str, &'a str)> {
    let all = breakdown["isolated"].as_array().unwrap().iter();
    let found = all.filter(|isolated| {
        isolated["source"] == source && isolated["probe"].as_str().unwrap().starts_with(probe)
    });
    found
        .map(|isolated| {
            (
                isolated["phase"].as_str().unwrap(),
                isolated["by"].as_str().unwrap(),
            )
        })
        .collect()
}

#[test]
fn each_source_is_taken_from_the_phase_that_isolated_it() {
    if !machine::is_root() {
        return machine::left_out(
            "each_source_is_taken_from_the_phase_that_isolated_it",
            "priorities need the superuser",
        );
    }
    let place = Workplace::new();
    std::fs::write(place.path("small.toml"), SCENARIO).unwrap();
    let cpu = machine::last_cpu();
    // A busy machine may lose samples, which changes the exit code, but not the phase that isolates
    // a source.
    let code = place
        .tardy(&format!(
            "run --scenario small.toml --cpus {cpu} --quiet --out run"
        ))
        .code();
    assert!([0, 4].contains(&code), "{code}");
    let breakdown = place.tardy("breakdown run --json").ends_with(0).json();
    let timers = "high-resolution timers";
    assert_eq!(
        isolated(&breakdown, "timer-resolution", "cyclic"),
        [("nothing", "idle, high-resolution timers")]
    );
    assert_eq!(
        isolated(&breakdown, "non-preemptable-sections", "cyclic"),
        [("competitor", timers), ("forks", timers)]
    );
    assert_eq!(isolated(&breakdown, "scheduling-jitter", "cyclic"), []);
    let jitter = isolated(&breakdown, "scheduling-jitter", "nanosleep");
    assert_eq!(
        jitter,
        [
            ("nothing", "below cyclic at 98"),
            ("competitor", "below busy at 90 and cyclic at 98")
        ]
    );
    assert_eq!(breakdown["excluded"].as_array().unwrap().len(), 1);
    assert_eq!(breakdown["mixed"][0]["phase"], "forks");
    // The numbers equal those of the run's summary.
    let summary = place.summary("run");
    let phase = summary["loads"]
        .as_array()
        .unwrap()
        .iter()
        .find(|load| load["name"] == "nothing")
        .unwrap();
    let of_probe = phase["probes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|probe| probe[0] == "cyclic")
        .unwrap();
    let row = breakdown["isolated"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["source"] == "timer-resolution")
        .unwrap();
    assert_eq!(row["numbers"], of_probe[1]);

    let text = place.tardy("breakdown run run").ends_with(0).stdout;
    for part in [
        "timer resolution",
        "scheduling jitter",
        "non-preemptible sections",
        "cyclic at SCHED_FIFO 98: the probe's priority rules out scheduling jitter",
        "left out of all tables",
    ] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    assert!(
        text.contains("without high-resolution timers: not measured"),
        "{text}"
    );
    // The warnings of the run's summary come before these numbers too.
    let summary = place.tardy("show run --json").json();
    let warnings = summary["warnings"].as_array().unwrap().len();
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with("! run: ") || line.starts_with("note: run: "))
            .count(),
        2 * warnings,
        "{text}"
    );
}

#[test]
fn ordinary_tasks_isolate_nothing() {
    let place = Workplace::new();
    place
        .tardy("run --probe cyclic --policy other --cycles 50 --quiet --out run")
        .ends_with(0);
    let outcome = place.tardy("breakdown run").ends_with(4);
    assert!(
        outcome
            .stdout
            .contains("other tasks can delay an ordinary task at any time"),
        "{}",
        outcome.stdout
    );
    place.tardy("breakdown nothing-there").ends_with(2);
    place.tardy("breakdown").ends_with(2);
}
