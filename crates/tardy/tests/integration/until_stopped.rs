//! Tests runs without a planned end: a signal ends them as complete runs.

use crate::support;

use serde_json::Value;
use support::machine;
use support::series;
use support::workplace::{RunningCommand, Workplace};
use tardy_sys::signal;

/// Waits until the file of one series contains `count` samples.
#[track_caller]
fn wait_for_samples(running: &mut RunningCommand, run: &std::path::Path, count: usize) {
    running.until("it stored samples", || {
        // At first the file does not exist, then it has no head.
        let files = series::files(run);
        let has_head = files
            .iter()
            .all(|file| std::fs::metadata(file).is_ok_and(|data| data.len() > 400));
        (!files.is_empty() && has_head && series::all(run)[0].samples.len() >= count).then_some(())
    });
}

#[track_caller]
fn count(summary: &Value, name: &str) -> u64 {
    summary["probes"][0]["counts"][name].as_u64().unwrap()
}

#[test]
fn a_run_until_stopped_is_complete_when_somebody_stops_it_and_shows_what_it_has_before_that() {
    for number in [signal::INTERRUPT, signal::TERMINATE] {
        let place = Workplace::new();
        let run = place.path("week");
        let cpu = machine::last_cpu();
        let mut running = place.start(&format!(
            "run --until-stopped --period 1ms --cpus {cpu} --deadline 10s --json --out week"
        ));
        wait_for_samples(&mut running, &run, 300);
        let meanwhile = place.tardy("show week").ends_with(4);
        assert!(
            meanwhile.stdout.contains("UNDER WAY")
                && meanwhile.stdout.contains("the run is still under way"),
            "{}",
            meanwhile.stdout
        );
        assert!(
            !meanwhile.stdout.contains("CUT OFF") && !meanwhile.stdout.contains("cut off"),
            "{}",
            meanwhile.stdout
        );
        let before = place.summary("week");
        assert!(
            before["state"] == "running" && before["warnings"].to_string().contains("under-way"),
            "{}",
            before["warnings"]
        );
        let deviation = before["phases"][0]["deviation_ns"][1].as_i64();
        assert_eq!(
            deviation,
            Some(0),
            "a phase without an end is not told to be short: {}",
            before["phases"]
        );
        running.signal(number);
        let outcome = running.wait();
        // As for any complete run, the verdict determines the exit code. Code 4 occurs on machines
        // that do not allow a real-time priority.
        assert!([0, 4].contains(&outcome.code()), "{outcome:?}");
        let summary = outcome.json();
        assert_eq!(summary["state"], "finished");
        let warnings = summary["warnings"].to_string();
        assert!(
            ["interrupted", "cut-off", "under-way"]
                .iter()
                .all(|name| !warnings.contains(&format!("\"{name}\""))),
            "{warnings}"
        );
        assert_eq!(
            count(&summary, "expected"),
            count(&summary, "recorded") + count(&summary, "skipped") + count(&summary, "lost")
        );
        assert!(
            count(&summary, "recorded") >= 300 && count(&summary, "lost") == 0,
            "{}",
            summary["probes"][0]["counts"]
        );
        let record = place.record("week");
        assert_eq!(record["plan"]["until_stopped"], true);
        assert_eq!(
            record["phases"][0]["planned_ns"][1], record["phases"][0]["end_ns"],
            "it ended when it was to"
        );
        assert_eq!(place.tardy("show --json week").stdout, outcome.stdout);
        place.assert_no_process_is_left();
    }
}

#[test]
fn a_load_works_until_the_run_is_stopped() {
    let place = Workplace::new();
    let plan = place
        .tardy("run --until-stopped --load busy --dry-run --out week")
        .ends_with(0)
        .stdout;
    assert!(
        plan.contains(
            "\nphase      idle for 10.0 s: no load\nphase      busy until it is stopped: busy on \
             CPU"
        ),
        "{plan}"
    );
    assert!(
        plan.contains(" MB an hour\n") && !plan.contains("31536"),
        "{plan}"
    );
    let plan = place
        .tardy("run --until-stopped --dry-run --json --out week")
        .ends_with(0)
        .json();
    assert_eq!(
        (
            plan["until_stopped"].as_bool(),
            plan["phases"].as_array().unwrap().len()
        ),
        (Some(true), 1)
    );
    // For a run without a planned end, the estimated disk space is that of one hour, so even a
    // machine with a small disk can start it.
    assert!(
        plan["bytes_estimated"].as_u64().unwrap() < 1 << 40,
        "{}",
        plan["bytes_estimated"]
    );
}

#[test]
fn what_has_an_end_is_not_also_until_stopped() {
    let place = Workplace::new();
    for (with, other) in [
        ("--for 1s", "--for <TIME>"),
        ("--cycles 5", "--cycles <N>"),
        ("--scenario default", "--scenario <NAME|FILE>"),
    ] {
        let refused = place
            .tardy(&format!("run --until-stopped {with} --out week"))
            .ends_with(2);
        let first = refused.stderr.lines().next().unwrap();
        assert!(
            first.contains("--until-stopped")
                && first.contains(other)
                && first.contains("cannot be used with"),
            "{}",
            refused.stderr
        );
        assert!(!place.path("week").exists());
    }
}
