//! Tests runs whose phases are counted in cycles: each phase has the requested number of cycles,
//! however long they take.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where something is not as expected"
)]

use crate::support;

use serde_json::Value;
use support::machine;
use support::workplace::Workplace;

/// Runs `line` and returns the summary. Repeats the run if a phase has no numbers under load,
/// because the loads of another test may have occupied the CPU for the whole phase.
#[track_caller]
fn stressed(place: &Workplace, line: &str) -> Value {
    for run in 0..5 {
        let summary = place
            .tardy(&format!("run {line} --quiet --json --out run-{run}"))
            .ends_with(0)
            .json();
        let phases = summary["phases"].as_array().unwrap();
        let is_stressed = |phase: &Value| {
            phase["probes"]
                .as_array()
                .unwrap()
                .iter()
                .all(|probe| !probe[1].is_null())
        };
        if phases.iter().all(is_stressed) {
            return summary;
        }
    }
    panic!("the loads of five runs did nothing");
}

/// The number of due times or sleeps of `probe` in each phase of a summary, with the phase's name.
fn of_phases(summary: &Value, probe: &str) -> Vec<(String, u64)> {
    let count = |phase: &Value| {
        let probes = phase["probes"].as_array().unwrap();
        let numbers = &probes.iter().find(|of| of[0] == probe).unwrap()[1];
        numbers["samples"].as_u64().unwrap() + numbers["skipped"].as_u64().unwrap()
    };
    let phases = summary["phases"].as_array().unwrap();
    phases
        .iter()
        .map(|phase| (phase["name"].as_str().unwrap().to_owned(), count(phase)))
        .collect()
}

#[track_caller]
fn assert_had(summary: &Value, phases: &[&str], cycles: u64) {
    for probe in ["cyclic", "nanosleep"] {
        let had = of_phases(summary, probe);
        assert_eq!(had.iter().map(|(name, _)| name).collect::<Vec<_>>(), phases);
        assert!(
            had.iter().all(|(_, count)| *count >= cycles),
            "{probe}: {had:?}"
        );
    }
}

#[test]
fn as_many_cycles_are_had_idle_and_under_a_load() {
    let place = Workplace::new();
    let line = format!(
        "--cycles 300 --period 2ms --load fork --cpus {} --probe cyclic --probe nanosleep",
        machine::last_cpu()
    );
    let plan = place
        .tardy(&format!("run {line} --dry-run --out run"))
        .ends_with(0)
        .stdout;
    for phase in [
        "idle for 300 cycles of each probe thread (about 600 ms): no load",
        "fork for 300 cycles of each probe thread (about 600 ms): fork",
    ] {
        assert!(plan.contains(phase), "{plan}");
    }
    let summary = stressed(&place, &line);
    assert_eq!(summary["state"], "finished");
    assert_had(&summary, &["idle", "fork"], 300);
}

#[test]
fn probes_that_go_by_the_clock_alone_have_their_cycles_in_each_phase() {
    let place = Workplace::new();
    let line = format!(
        "--cycles 300 --period 2ms --load fork --cpus {}",
        machine::last_cpu()
    );
    let had = of_phases(&stressed(&place, &line), "cyclic");
    assert!(
        had.len() == 2 && had.iter().all(|(_, count)| *count >= 300),
        "{had:?}"
    );
}

const SCENARIO: &str = r#"
name = "counted"
repeats = 2
[[probe]]
name = "cyclic"
period = "2ms"
[[probe]]
name = "nanosleep"
period = "1ms"
[[phase]]
name = "idle"
cycles = 200
[[phase]]
name = "busy"
cycles = 200
loads = ["busy:length=1ms:period=10ms"]
"#;

#[test]
fn phases_of_a_scenario_are_counted_in_cycles() {
    let place = Workplace::new();
    std::fs::write(place.path("counted.toml"), SCENARIO).unwrap();
    let line = format!("--scenario counted.toml --cpus {}", machine::last_cpu());
    assert_had(
        &stressed(&place, &line),
        &["idle", "busy", "idle", "busy"],
        200,
    );
    // `--cycles` overrides the scenario's own cycles and lengths.
    let plan = place
        .tardy(&format!("run {line} --cycles 50 --dry-run --out other"))
        .ends_with(0)
        .stdout;
    assert_eq!(
        plan.matches("for 50 cycles of each probe thread (about 100 ms)")
            .count(),
        4,
        "{plan}"
    );
    let plan = place
        .tardy("run --scenario koolwal2009 --cycles 50 --dry-run --out other")
        .ends_with(0)
        .stdout;
    assert_eq!(
        plan.matches("for 50 cycles of each probe thread").count(),
        2,
        "{plan}"
    );
}

#[test]
fn a_phase_has_one_end_and_cycles_cannot_be_stretched() {
    let place = Workplace::new();
    for (wrong, says) in [
        (
            SCENARIO.replacen("cycles = 200", "", 1),
            "the phase `idle` needs either a length or cycles",
        ),
        (
            SCENARIO.replacen("cycles = 200", "cycles = 200\nlength = \"1s\"", 1),
            "the phase `idle` needs either a length or cycles",
        ),
        (
            SCENARIO.replacen("cycles = 200", "cycles = 0", 1),
            "line 12",
        ),
    ] {
        std::fs::write(place.path("wrong.toml"), wrong).unwrap();
        let refused = place
            .tardy("run --scenario wrong.toml --out run")
            .ends_with(2);
        assert!(refused.stderr.contains(says), "{}", refused.stderr);
    }
    std::fs::write(place.path("counted.toml"), SCENARIO).unwrap();
    let refused = place
        .tardy("run --scenario counted.toml --for 10s --out run")
        .ends_with(2);
    assert!(
        refused.stderr.contains("leave --for out"),
        "{}",
        refused.stderr
    );
    assert!(!place.path("run").exists());
}
