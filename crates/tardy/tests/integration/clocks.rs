//! Tests timers and grids of due times on CLOCK_REALTIME and CLOCK_TAI.

use crate::support;

use serde_json::Value;
use support::workplace::{Workplace, finish};
use support::{machine, series};
use tardy_sys::clock::{self, Clock};

const MILLISECOND: i64 = 1_000_000;

fn clock_named(name: &Value) -> Clock {
    match name.as_str().unwrap() {
        "monotonic" => Clock::Monotonic,
        "realtime" => Clock::Realtime,
        "tai" => Clock::Tai,
        other => panic!("{other}"),
    }
}

/// Returns the offset of a clock from CLOCK_MONOTONIC that the run recorded (`ahead_ns`). Asserts
/// that the offset agrees with present reads of both clocks.
#[track_caller]
fn ahead(reading: &Value) -> i64 {
    let (clock, ahead) = (
        clock_named(&reading["clock"]),
        reading["ahead_ns"].as_i64().unwrap(),
    );
    let is_so = || {
        let (before, now, after) = (clock::monotonic(), clock.now(), clock::monotonic());
        (now - after..=now - before).contains(&ahead)
    };
    // On a busy machine the reads may be far apart, and another program may step a clock. The
    // recorded offset is wrong only if no pair of reads agrees with it.
    assert!((0..1000).any(|_| is_so()), "{reading}");
    ahead
}

#[test]
fn due_times_are_whole_multiples_of_the_period_on_the_clock_asked_for() {
    let (place, cpus) = (Workplace::new(), machine::cpus().len());
    let cases = [
        ("--align tai --clock tai", 7 * MILLISECOND, 0),
        ("--align realtime", 10 * MILLISECOND, 0),
        (
            "--align tai --probe posix-timer:clock=realtime",
            10 * MILLISECOND,
            0,
        ),
        (
            "--probe timerfd:clock=realtime:align=realtime:offset=300us",
            5 * MILLISECOND,
            300_000,
        ),
        ("--align monotonic --probe epoll", 3 * MILLISECOND, 0),
    ];
    for (index, (flags, period, offset)) in cases.into_iter().enumerate() {
        let command = format!(
            "run {flags} --period {period}ns --cycles 20 --load none --json --quiet --out {index}"
        );
        let summary = place.tardy(&command).ends_with(0).json();
        let record = place.record(&index.to_string());
        let threads = record["plan"]["threads"].as_array().unwrap();
        assert_eq!(threads.len(), cpus);
        let found = series::all(&place.path(&index.to_string()));
        for (thread, series) in threads.iter().zip(&found) {
            let ahead = ahead(&thread["clocks"]["grid"]);
            assert!(!series.samples.is_empty());
            for sample in &series.samples {
                assert_eq!(
                    (sample.due.get() + ahead).rem_euclid(period),
                    offset,
                    "{flags}: {}",
                    sample.due
                );
            }
        }
        let start = record["started"]["monotonic_ns"].as_i64().unwrap();
        let first = found[0].samples[0].due.get();
        assert!(first >= start, "{flags}: a sample is due before the start");
        assert_eq!(
            summary["probes"][0]["counts"]["expected"],
            20 * cpus as u64,
            "{flags}"
        );
    }
}

#[test]
fn a_timer_on_another_clock_is_asked_for_there_and_recorded_on_the_runs_own() {
    let place = Workplace::new();
    let probes = [
        "cyclic:clock=tai",
        "cyclic:clock=realtime:name=wall",
        "nanosleep:clock=tai",
        "posix-timer:clock=tai",
    ];
    let asked: String = probes
        .iter()
        .map(|probe| format!(" --probe {probe}"))
        .collect();
    let flags = format!(
        "{asked} --period 5ms --for 300ms --load none --cpus {}",
        machine::last_cpu()
    );
    let planned = place
        .tardy(&format!("run --dry-run{flags}"))
        .ends_with(0)
        .stdout;
    assert!(planned.contains("cyclic:clock=tai every 5ms"), "{planned}");
    place
        .tardy(&format!("run{flags} --quiet --out run"))
        .ends_with(0);
    let record = place.record("run");
    let (start, end) = (
        record["started"]["monotonic_ns"].as_i64().unwrap(),
        record["ended_ns"].as_i64().unwrap(),
    );
    let found = series::all(&place.path("run"));
    assert_eq!(found.len(), probes.len());
    for series in &found {
        let name = &series.descriptor.probe;
        // Threads of the probe `nanosleep` follow no grid of due times. They start to sleep when
        // they are released, which is up to 100 ms before the first due time of a grid.
        let first = if name == "nanosleep" {
            start - 100 * MILLISECOND
        } else {
            start
        };
        assert!(
            series
                .samples
                .iter()
                .all(|sample| (first..end).contains(&sample.due.get())),
            "{name}"
        );
        assert!(
            series.samples.len() > 1
                && series
                    .samples
                    .iter()
                    .all(|sample| sample.latency.get() >= 0),
            "{name}"
        );
    }
    for thread in record["plan"]["threads"].as_array().unwrap() {
        assert_ne!(ahead(&thread["clocks"]["timer"]), 0, "{thread}");
    }
    let plain = place
        .tardy("run --dry-run --json --load none --for 1s")
        .ends_with(0)
        .json();
    assert!(
        plain["threads"][0].get("clocks").is_none() && plain["probes"][0].get("clock").is_none(),
        "plans without other clocks read as ever"
    );
}

#[test]
fn the_timer_is_set_on_the_clock_asked_for() {
    let place = Workplace::new();
    for (probe, call, name) in [
        (
            "cyclic:clock=tai",
            "clock_nanosleep",
            "CLOCK_TAI, TIMER_ABSTIME",
        ),
        (
            "nanosleep:clock=realtime",
            "clock_nanosleep",
            "CLOCK_REALTIME, 0",
        ),
        ("timerfd:clock=realtime", "timerfd_create", "CLOCK_REALTIME"),
        ("posix-timer:clock=tai", "timer_create", "CLOCK_TAI"),
        (
            "cyclic",
            "clock_nanosleep",
            "CLOCK_MONOTONIC, TIMER_ABSTIME",
        ),
    ] {
        let traced = format!(
            "-f -o trace -e trace={call} {} run --probe {probe} --cycles 5 --period 5ms --quiet \
             --out run",
            env!("CARGO_BIN_EXE_tardy")
        );
        finish(place.prepared(machine::program("strace", "strace"), traced.split(' ')))
            .ends_with(0);
        let calls = std::fs::read_to_string(place.path("trace")).unwrap();
        assert!(
            calls.contains(&format!("{call}({name}")),
            "{probe}: {calls}"
        );
        std::fs::remove_dir_all(place.path("run")).unwrap();
    }
}

#[test]
fn a_clock_that_shows_utc_for_tai_is_told() {
    let place = Workplace::new();
    for (flags, is_of_tai) in [
        ("--clock tai", true),
        ("--align tai", true),
        ("--align realtime --clock realtime", false),
        ("", false),
    ] {
        let plan = place
            .tardy(&format!("run --dry-run --load none --for 1s {flags}"))
            .ends_with(0)
            .stdout;
        assert_eq!(
            plan.contains("CLOCK_TAI shows UTC here"),
            is_of_tai && clock::tai_offset() == 0,
            "{flags}: {plan}"
        );
    }
}

#[test]
fn what_cannot_be_set_on_another_clock_is_refused_with_what_can() {
    let place = Workplace::new();
    for (flags, said) in [
        (
            "--probe timerfd:clock=tai",
            "timerfd_create(2) has no CLOCK_TAI: use cyclic or posix-timer",
        ),
        (
            "--probe gtod --clock tai",
            "the probe's timer cannot use another clock: leave clock=tai out",
        ),
        (
            "--probe nanosleep --align tai",
            "no grid of due times that could be aligned: leave align=tai out",
        ),
        (
            "--probe cyclic:clock=boottime",
            "`boottime` is not one of the values of `clock`: monotonic, realtime, tai",
        ),
        (
            "--align tai --probe cyclic:offset=1ms",
            "is not shorter than the period",
        ),
    ] {
        let outcome = place
            .tardy(&format!("run --dry-run --load none --for 1s {flags}"))
            .ends_with(2);
        assert!(outcome.stderr.contains(said), "{flags}: {}", outcome.stderr);
    }
}
