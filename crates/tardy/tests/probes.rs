//! Probes side by side in one run: each with its own series, schedule, policy and parameters, each accounted for.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as expected")]

mod support;

use serde_json::Value;
use support::machine;
use support::series;
use support::workplace::Workplace;
use tardy_core::series::{Meaning, Schedule};
use tardy_core::units::Nanos;

/// The series of the run, each checked against the counts that the summary shows of it.
fn assert_accounted_for(place: &Workplace, summary: &Value) -> Vec<support::series::Series> {
    let stored = series::all(&place.path("run"));
    assert_eq!(stored.len(), summary["series"].as_array().unwrap().len());
    for shown in summary["series"].as_array().unwrap() {
        let count = |name: &str| shown["counts"][name].as_u64().unwrap();
        assert_eq!(count("expected"), count("recorded") + count("missed") + count("lost"), "{shown}");
        let is_it = |series: &&support::series::Series| {
            shown["probe"] == series.descriptor.probe.as_str() && shown["cpu"].as_u64() == series.descriptor.cpu.map(|cpu| u64::from(cpu.0))
        };
        let found = stored.iter().find(is_it).unwrap();
        assert_eq!(found.samples.len() as u64, count("recorded") - count("unstored"), "{shown}");
        assert!(!found.samples.is_empty(), "{shown}");
    }
    stored
}

#[test]
fn several_probes_run_at_once_on_one_clock_with_their_own_values() {
    let place = Workplace::new();
    let probes = "--probe cyclic --probe timerfd:period=2ms:priority=80 --probe itimer:3ms --probe usleep:policy=other";
    let summary = place.tardy(&format!("run --for 1s --load none {probes} --json --out run")).ends_with(0).json();
    let stored = assert_accounted_for(&place, &summary);
    let record = place.record("run");
    let planned: Vec<_> = record["plan"]["probes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|probe| {
            (
                probe["name"].as_str().unwrap(),
                probe["period_ns"].as_i64().unwrap(),
                probe["policy"].as_str().unwrap(),
                probe["priority"].as_i64(),
            )
        })
        .collect();
    let expected = [
        ("cyclic", 1_000_000, "fifo", Some(95)),
        ("timerfd", 2_000_000, "fifo", Some(80)),
        ("itimer", 3_000_000, "fifo", Some(95)),
        ("usleep", 1_000_000, "other", None),
    ];
    assert_eq!(planned, expected);
    let cpus = machine::cpus();
    let of = |name: &str| stored.iter().filter(|series| series.descriptor.probe == name).collect::<Vec<_>>();
    assert_eq!([of("cyclic").len(), of("timerfd").len(), of("usleep").len(), of("itimer").len()], [cpus.len(), cpus.len(), cpus.len(), 1]);
    // One clock: every series lies within the same seconds, whatever the machine does meanwhile.
    let start = Nanos(record["started"]["monotonic_ns"].as_i64().unwrap());
    for series in &stored {
        let (first, last) = (series.samples.first().unwrap().due, series.samples.last().unwrap().due);
        assert!(
            first >= start - Nanos::from_secs(1) && last < start + Nanos::from_secs(30),
            "{:?}: {first:?} to {last:?} from {start:?}",
            series.descriptor
        );
    }
}

#[test]
fn a_timer_on_a_grid_is_due_on_the_grid_and_counts_its_expiries() {
    let place = Workplace::new();
    let summary = place.tardy("run --cycles 400 --period 1ms --probe timerfd --json --out run").ends_with(0).json();
    for series in assert_accounted_for(&place, &summary) {
        let Schedule::Grid { period, start, .. } = series.descriptor.schedule else { panic!("{:?}", series.descriptor) };
        assert_eq!(period, Nanos::from_millis(1));
        let mut next = start;
        for sample in &series.samples {
            assert_eq!(sample.due, next, "no due time is passed over without being counted");
            assert!(sample.latency >= Nanos::ZERO, "an expiry is not read before its time: {sample:?}");
            next = sample.due + period * (1 + i64::from(sample.missed));
        }
    }
    assert!(summary["series"].as_array().unwrap().iter().all(|series| series["counts"]["expected"].as_u64() >= Some(400)), "{summary}");
}

#[test]
fn interval_errors_are_no_lateness_and_stand_beside_the_lateness_against_the_fitted_grid() {
    let place = Workplace::new();
    let ran = place.tardy("run --cycles 500 --probe itimer:2ms --deadline 1ns --json --out run").ends_with(4);
    let summary = ran.json();
    let stored = assert_accounted_for(&place, &summary);
    assert_eq!((stored.len(), stored[0].descriptor.meaning), (1, Meaning::IntervalError { has_own_clock: false }));
    let sentence = summary["verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.contains("no sample was taken that says something about a deadline"), "{sentence}");
    assert!(
        !summary["warnings"].to_string().contains("early"),
        "an interval that is too short is no early wake-up: {}",
        summary["warnings"]
    );
    // Errors are differences of latenesses: they add up to the difference of the last and the first.
    let samples = &stored[0].samples;
    let period = stored[0].descriptor.schedule.period();
    let sum: i64 = samples.iter().map(|sample| sample.latency.get()).sum();
    let span = samples.last().unwrap().wake() - (samples[0].due - period);
    assert_eq!(sum, span.get() - period.get() * samples.len() as i64);
    let fitted = &summary["series"][0]["fitted"];
    assert_eq!(fitted["lateness"]["samples"], 501, "each activation, the first one included: {fitted}");
    assert!(fitted["lateness"]["min_ns"].as_i64() >= Some(0), "no activation comes before its expiry: {fitted}");
    let (expiries, without) = (fitted["expiries"].as_u64().unwrap(), fitted["without_event"].as_u64().unwrap());
    assert!(expiries >= 501 - 1 && expiries - without <= 501, "{fitted}");
    let text = place.tardy("show run").ends_with(4).stdout;
    for words in ["interval error us", "lateness against the fitted grid of expiries", "what all are late by does not show"] {
        assert!(text.contains(words), "no `{words}` in {text}");
    }
}

#[test]
fn relative_sleeps_between_reads_of_the_cycle_counter_say_what_their_clock_can_be_off_by() {
    let place = Workplace::new();
    let summary = place.tardy("run --cycles 300 --probe usleep:1ms --json --out run").ends_with(0).json();
    for series in assert_accounted_for(&place, &summary) {
        match (tardy_sys::cycle_counter::invariant(), series.descriptor.meaning) {
            (Ok(()), Meaning::Lateness { clock_error }) => {
                assert!(clock_error >= Nanos(500), "1 ms times 500 parts per million, and the calibration: {clock_error:?}");
                assert!(clock_error < Nanos::from_micros(100), "{clock_error:?}");
                let early = series.samples.iter().filter(|sample| sample.latency < Nanos(-clock_error.get())).count() as u64;
                let shown = summary["series"].as_array().unwrap().iter();
                let shown = shown.filter(|shown| shown["cpu"].as_u64() == series.descriptor.cpu.map(|cpu| u64::from(cpu.0)));
                assert_eq!(shown.map(|shown| shown["early"].as_u64().unwrap()).sum::<u64>(), early);
            }
            (Err(reason), meaning) => {
                assert_eq!(meaning, Meaning::default());
                assert!(summary["warnings"].to_string().contains(&reason.to_string()), "it is said: {}", summary["warnings"]);
            }
            (Ok(()), meaning) => panic!("{meaning:?}"),
        }
    }
}

#[test]
fn a_probe_in_a_scenario_takes_values_as_on_the_command_line() {
    let place = Workplace::new();
    let text = "name = \"two\"\n[[probe]]\nname = \"timerfd:period=500us\"\npriority = 70\n[[probe]]\nname = \"itimer\"\nperiod = \"4ms\"\n\
                [[phase]]\nname = \"idle\"\nlength = \"300ms\"\n";
    std::fs::write(place.path("two.toml"), text).unwrap();
    let described = place.tardy("scenarios check two.toml").ends_with(0).stdout;
    assert!(described.contains("timerfd every 500us, itimer every 4ms"), "{described}");
    let plan = place.tardy("run --dry-run --json --scenario two.toml --out run").ends_with(0).json();
    assert_eq!((&plan["probes"][0]["priority"], &plan["probes"][1]["period_ns"]), (&Value::from(70), &Value::from(4_000_000)));
}

#[test]
fn what_a_probe_cannot_do_is_refused_before_anything_is_written() {
    let place = Workplace::new();
    for (probe, words) in [
        ("itimer:1500ns", "no whole number of microseconds"),
        ("timerfd:dither=10us", "leave --dither out"),
        ("usleep:colour=red", "has no parameter `colour`"),
        ("cyclic:priority=99", "from 1 to 98"),
    ] {
        let refused = place.tardy(&format!("run --probe {probe} --out run")).ends_with(2);
        assert!(refused.stderr.contains(words) && refused.stderr.contains("--probe"), "{}", refused.stderr);
    }
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn the_list_says_of_every_probe_where_its_timer_expires() {
    let place = Workplace::new();
    let text = place.tardy("list probes").ends_with(0).stdout;
    let list = place.tardy("list probes --json").ends_with(0).json();
    assert_eq!(list.as_array().unwrap().len(), tardy::probe::PROBES.len());
    for probe in tardy::probe::PROBES {
        assert!(text.contains(&format!("{} ({}", probe.name, probe.series[0].quantity)) && text.contains(probe.context), "{text}");
    }
}
