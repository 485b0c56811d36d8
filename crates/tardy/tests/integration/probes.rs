//! Tests several probes in one run: each has its own series, schedule, policy and parameters, and
//! accounts for all its samples.

use crate::support;

use serde_json::Value;
use support::machine;
use support::series;
use support::workplace::Workplace;
use tardy_core::series::{Meaning, Schedule};
use tardy_core::units::Nanos;

/// Reads the series of the run and checks each against the counts in the summary.
fn assert_accounted_for(place: &Workplace, summary: &Value) -> Vec<support::series::Series> {
    let stored = series::all(&place.path("run"));
    assert_eq!(stored.len(), summary["series"].as_array().unwrap().len());
    for shown in summary["series"].as_array().unwrap() {
        let count = |name: &str| shown["counts"][name].as_u64().unwrap();
        assert_eq!(
            count("expected"),
            count("recorded") + count("skipped") + count("lost"),
            "{shown}"
        );
        let is_it = |series: &&support::series::Series| {
            shown["probe"] == series.descriptor.probe.as_str()
                && shown["cpu"].as_u64() == series.descriptor.cpu.map(|cpu| u64::from(cpu.0))
        };
        let found = stored.iter().find(is_it).unwrap();
        assert_eq!(
            found.samples.len() as u64,
            count("recorded") - count("unstored"),
            "{shown}"
        );
        assert!(!found.samples.is_empty(), "{shown}");
    }
    stored
}

#[test]
fn several_probes_run_at_once_on_one_clock_with_their_own_values() {
    let place = Workplace::new();
    let probes = "--probe cyclic --probe timerfd:period=2ms:priority=80 --probe itimer:3ms \
                  --probe usleep:policy=other";
    let summary = place
        .tardy(&format!(
            "run --for 1s --load none {probes} --json --out run"
        ))
        .ends_with(0)
        .json();
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
    let of = |name: &str| {
        stored
            .iter()
            .filter(|series| series.descriptor.probe == name)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        [
            of("cyclic").len(),
            of("timerfd").len(),
            of("usleep").len(),
            of("itimer").len()
        ],
        [cpus.len(), cpus.len(), cpus.len(), 1]
    );
    // All series use one clock, so they lie within the same seconds on any machine.
    let start = Nanos(record["started"]["monotonic_ns"].as_i64().unwrap());
    for series in &stored {
        let (first, last) = (
            series.samples.first().unwrap().due,
            series.samples.last().unwrap().due,
        );
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
    let summary = place
        .tardy("run --cycles 400 --period 1ms --probe timerfd --json --out run")
        .ends_with(0)
        .json();
    for series in assert_accounted_for(&place, &summary) {
        let Schedule::Grid { period, start, .. } = series.descriptor.schedule else {
            panic!("{:?}", series.descriptor)
        };
        assert_eq!(period, Nanos::from_millis(1));
        let mut next = start;
        for sample in &series.samples {
            assert_eq!(sample.due, next, "every skipped due time is counted");
            assert!(
                sample.latency >= Nanos::ZERO,
                "an expiry is not read before its time: {sample:?}"
            );
            next = sample.due + period * (1 + i64::from(sample.skipped));
        }
    }
    assert!(
        summary["series"]
            .as_array()
            .unwrap()
            .iter()
            .all(|series| series["counts"]["expected"].as_u64() >= Some(400)),
        "{summary}"
    );
}

#[test]
fn interval_errors_are_no_lateness_and_stand_beside_the_lateness_against_the_fitted_grid() {
    let place = Workplace::new();
    let ran = place
        .tardy("run --cycles 500 --probe itimer:2ms --deadline 1ns --json --out run")
        .ends_with(4);
    let summary = ran.json();
    let stored = assert_accounted_for(&place, &summary);
    assert_eq!(
        (stored.len(), stored[0].descriptor.meaning),
        (
            1,
            Meaning::IntervalError {
                has_own_clock: false
            }
        )
    );
    let sentence = summary["verdict"]["sentence"].as_str().unwrap();
    assert!(
        sentence.contains("there is no sample that can be judged against a deadline"),
        "{sentence}"
    );
    assert!(
        !summary["warnings"].to_string().contains("early"),
        "an interval that is too short is no early wake-up: {}",
        summary["warnings"]
    );
    // Each error is the difference between the latencies of two successive wake-ups, so the errors
    // add up to the last latency minus the first.
    let samples = &stored[0].samples;
    let period = stored[0].descriptor.schedule.period();
    let sum: i64 = samples.iter().map(|sample| sample.latency.get()).sum();
    let span = samples.last().unwrap().wake() - (samples[0].due - period);
    assert_eq!(sum, span.get() - period.get() * samples.len() as i64);
    let fitted = &summary["series"][0]["fitted"];
    assert_eq!(
        fitted["lateness"]["samples"], 501,
        "each activation, the first one included: {fitted}"
    );
    assert!(
        fitted["lateness"]["min_ns"].as_i64() >= Some(0),
        "an activation comes before its expiry: {fitted}"
    );
    let (expiries, without) = (
        fitted["expiries"].as_u64().unwrap(),
        fitted["without_event"].as_u64().unwrap(),
    );
    assert!(expiries >= 501 - 1 && expiries - without <= 501, "{fitted}");
    let text = place.tardy("show run").ends_with(4).stdout;
    for words in [
        "interval error  ",
        "latency against the fitted grid of expiries",
        "a delay common to all expiries does not show",
    ] {
        assert!(text.contains(words), "no `{words}` in {text}");
    }
}

#[test]
fn relative_sleeps_between_reads_of_the_cycle_counter_say_what_their_clock_can_be_off_by() {
    let place = Workplace::new();
    let summary = place
        .tardy("run --cycles 300 --probe usleep:1ms --json --out run")
        .ends_with(0)
        .json();
    for series in assert_accounted_for(&place, &summary) {
        match (
            tardy_sys::cycle_counter::invariant(),
            series.descriptor.meaning,
        ) {
            (Ok(()), Meaning::Lateness { clock_error }) => {
                assert!(
                    clock_error >= Nanos(500),
                    "1 ms times 500 parts per million, and the calibration: {clock_error:?}"
                );
                assert!(clock_error < Nanos::from_micros(100), "{clock_error:?}");
                let early = series
                    .samples
                    .iter()
                    .filter(|sample| sample.latency < Nanos(-clock_error.get()))
                    .count() as u64;
                let shown = summary["series"].as_array().unwrap().iter();
                let shown = shown.filter(|shown| {
                    shown["cpu"].as_u64() == series.descriptor.cpu.map(|cpu| u64::from(cpu.0))
                });
                assert_eq!(
                    shown
                        .map(|shown| shown["early"].as_u64().unwrap())
                        .sum::<u64>(),
                    early
                );
            }
            (Err(reason), meaning) => {
                assert_eq!(meaning, Meaning::default());
                assert!(
                    summary["warnings"]
                        .to_string()
                        .contains(&reason.to_string()),
                    "the warning names it: {}",
                    summary["warnings"]
                );
            }
            (Ok(()), meaning) => panic!("{meaning:?}"),
        }
    }
}

#[test]
fn a_probe_in_a_scenario_takes_values_as_on_the_command_line() {
    let place = Workplace::new();
    let text = "name = \"two\"\n[[probe]]\nname = \"timerfd:period=500us\"\npriority = \
                70\n[[probe]]\nname = \"itimer\"\nperiod = \"4ms\"\n[[phase]]\nname = \
                \"idle\"\nlength = \"300ms\"\n";
    std::fs::write(place.path("two.toml"), text).unwrap();
    let described = place.tardy("scenarios check two.toml").ends_with(0).stdout;
    assert!(
        described.contains("timerfd every 500us, itimer every 4ms"),
        "{described}"
    );
    let plan = place
        .tardy("run --dry-run --json --scenario two.toml --out run")
        .ends_with(0)
        .json();
    assert_eq!(
        (
            &plan["probes"][0]["priority"],
            &plan["probes"][1]["period_ns"]
        ),
        (&Value::from(70), &Value::from(4_000_000))
    );
}

#[test]
fn what_a_probe_cannot_do_is_refused_before_anything_is_written() {
    let place = Workplace::new();
    for (probe, words) in [
        ("itimer:1500ns", "not a whole number of microseconds"),
        ("timerfd:dither=10us", "leave --dither out"),
        ("usleep:colour=red", "has no parameter `colour`"),
        ("cyclic:priority=100", "from 1 to 99"),
        ("rtc:1000", "not a power of two"),
        (
            "deadline:runtime=2ms:period=1ms",
            "does not fit into a period",
        ),
    ] {
        let refused = place
            .tardy(&format!("run --probe {probe} --out run"))
            .ends_with(2);
        assert!(
            refused.stderr.contains(words) && refused.stderr.contains("--probe"),
            "{}",
            refused.stderr
        );
    }
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn the_list_says_of_every_probe_where_its_timer_expires() {
    let place = Workplace::new();
    let short = place.tardy("list probes").ends_with(0).stdout;
    let text = place.tardy("list probes --full").ends_with(0).stdout;
    let list = place.tardy("list probes --json").ends_with(0).json();
    assert_eq!(
        list["probes"].as_array().unwrap().len(),
        tardy_probes::probe::PROBES.len()
    );
    for probe in tardy_probes::probe::PROBES {
        assert!(
            text.contains(&format!("{} ({}", probe.name, probe.series[0].quantity))
                && text.contains(probe.context),
            "{text}"
        );
        assert!(
            short.contains(&format!("{}  ", probe.name)) && short.contains(probe.about),
            "{short}"
        );
    }
    assert!(short.lines().all(|line| line.len() <= 80), "{short}");
    let page = include_str!("../../../../docs/probes.md");
    for probe in tardy_probes::probe::PROBES {
        let series: Vec<String> = probe
            .series
            .iter()
            .map(|series| format!("`{}`", series.name(probe.name)))
            .collect();
        let row = format!(
            "| `{}` | {} | {} |",
            probe.name,
            probe.about,
            series.join(", ")
        );
        assert!(page.contains(&row), "docs/probes.md has no row {row}");
    }
    let one = place.tardy("list probes cyclic").ends_with(0).stdout;
    assert!(
        one.starts_with("cyclic (latency") && !one.contains("timerfd ("),
        "{one}"
    );
    let refused = place.tardy("list probes cyclik").ends_with(2);
    assert!(
        refused.stdout.is_empty() && refused.stderr.contains("did you mean `cyclic`?"),
        "{refused:?}"
    );
    assert!(
        place
            .tardy("list")
            .ends_with(0)
            .stdout
            .contains("tardy list loads ")
    );
    assert_eq!(
        place
            .tardy("list loads hackbench --json")
            .ends_with(0)
            .json()["loads"][0]["name"],
        "hackbench"
    );
}

/// Returns whether the run succeeded. Otherwise checks that the error names what the machine lacks,
/// and reports the test as left out.
fn ran(outcome: &support::workplace::Outcome, test: &str) -> bool {
    if outcome.code() == 3 {
        assert!(
            outcome.stderr.contains("cannot run here, because "),
            "{}",
            outcome.stderr
        );
        machine::left_out(test, outcome.stderr.trim());
        return false;
    }
    assert_eq!(outcome.code(), 0, "{}", outcome.stderr);
    true
}

#[test]
fn every_probe_accounts_for_what_it_took_or_says_what_the_machine_lacks() {
    // Probes that wait for other threads, programs or machines have separate tests.
    let by_themselves = [
        "cyclic",
        "nanosleep",
        "usleep",
        "timerfd",
        "posix-timer",
        "epoll",
        "io-uring",
        "itimer",
        "rtc",
        "gtod",
        "oslat",
        "parallel",
        "sched-deadline",
    ];
    for probe in by_themselves.map(|name| tardy_probes::probe::find(name).unwrap()) {
        let place = Workplace::new();
        let outcome = place.tardy(&format!(
            "run --for 400ms --load none --probe {} --quiet --json --out run",
            probe.name
        ));
        if !ran(
            &outcome,
            &format!("every_probe_accounts_for_what_it_took: {}", probe.name),
        ) {
            assert_eq!(
                place.names(),
                [""; 0],
                "{}: files are written before it is refused",
                probe.name
            );
            continue;
        }
        let summary = outcome.json();
        let series = summary["series"].as_array().unwrap();
        assert!(!series.is_empty(), "{}", probe.name);
        for shown in series {
            let count = |name: &str| shown["counts"][name].as_u64().unwrap();
            assert_eq!(
                count("expected"),
                count("recorded") + count("skipped") + count("lost"),
                "{shown}"
            );
        }
        let stored: u64 = series::all(&place.path("run"))
            .iter()
            .map(|series| series.samples.len() as u64)
            .sum();
        let kept: u64 = series
            .iter()
            .map(|shown| {
                shown["counts"]["recorded"].as_u64().unwrap()
                    - shown["counts"]["unstored"].as_u64().unwrap()
            })
            .sum();
        assert_eq!(stored, kept, "{}", probe.name);
    }
}

#[test]
fn every_interval_that_the_load_spin_occupied_lies_in_a_gap_that_spin_found() {
    let test = "every_interval_that_the_load_spin_occupied_lies_in_a_gap_that_spin_found";
    if !machine::is_root() {
        return machine::left_out(
            test,
            "a load of higher priority than the probe needs the right to one",
        );
    }
    let place = Workplace::new();
    let (cpu, record) = (machine::last_cpu(), place.path("truth"));
    let load = format!(
        "busy:length=3ms:period=40ms:priority=50:record={}",
        record.display()
    );
    let outcome = place.tardy(&format!(
        "run --for 2s --probe oslat:least=500us --cpus {cpu} --load {load} --load-cpus measured \
         --quiet --json --out run"
    ));
    let outcome = outcome.ends_with(0);
    let stored = series::all(&place.path("run"));
    let gaps = &stored
        .iter()
        .find(|series| series.descriptor.probe == "oslat")
        .unwrap()
        .samples;
    let truth = std::fs::read_to_string(place.path(&format!("truth.cpu{cpu}"))).unwrap();
    let intervals: Vec<Vec<i64>> = truth
        .lines()
        .map(|line| {
            line.split(' ')
                .map(|number| number.parse().unwrap())
                .collect()
        })
        .collect();
    // The run may end before the load.
    let end = gaps.last().map_or(0, |gap| gap.wake().get());
    let seen: Vec<_> = intervals
        .iter()
        .filter(|interval| interval[1] <= end)
        .collect();
    assert!(
        seen.len() >= 5,
        "{} of {} intervals lie in the run",
        seen.len(),
        intervals.len()
    );
    // When the probe converts ticks to ns, the error is some parts per million of two lengths: that
    // of the gap, and the time since the last anchor, which is at most 1 ms.
    let error = 20_000;
    for interval in seen {
        let holds = |gap: &&tardy_core::sample::Sample| {
            gap.due.get() - error <= interval[0] && interval[1] <= gap.wake().get() + error
        };
        assert_eq!(
            gaps.iter().filter(holds).count(),
            1,
            "{interval:?} in {gaps:?}"
        );
    }
    let tasks = &summary_of(&outcome, "oslat.tasks")["gaps"];
    assert!(
        tasks["count"].as_u64() >= Some(5),
        "a task took the CPU: {tasks}"
    );
    let all = &summary_of(&outcome, "oslat")["gaps"];
    assert!(
        all["share"].as_f64() > Some(0.0) && all["share"].as_f64() < Some(1.0),
        "{all}"
    );
    assert_each_gap_has_one_cause(&outcome);
    // The report's main figures include the same share.
    place.tardy("report run --html report.html").ends_with(0);
    let page = std::fs::read_to_string(place.path("report.html")).unwrap();
    let share = format!(
        "<dt>CPU time taken away, on the worst CPU</dt><dd>{:.4} %</dd>",
        all["share"].as_f64().unwrap() * 100.0
    );
    assert!(page.contains(&share), "{share}");
}

/// Checks that each gap is attributed to a task, to an interrupt, or to nothing that the kernel
/// counts. If interrupts cannot be counted, the summary must report this.
fn assert_each_gap_has_one_cause(outcome: &support::workplace::Outcome) {
    let summary = outcome.json();
    let count = |name: &str| {
        let series = summary["series"]
            .as_array()
            .unwrap()
            .iter()
            .find(|series| series["probe"] == name)?;
        series["counts"]["recorded"].as_u64()
    };
    let (Some(interrupts), Some(unseen)) = (count("oslat.interrupts"), count("oslat.unseen"))
    else {
        assert!(
            summary["warnings"]
                .to_string()
                .contains("cannot separate interrupts from gaps outside the kernel"),
            "{}",
            summary["warnings"]
        );
        return;
    };
    assert_eq!(
        count("oslat"),
        count("oslat.tasks").map(|tasks| tasks + interrupts + unseen),
        "{}",
        summary["series"]
    );
}

#[test]
fn interrupts_are_among_what_takes_the_cpu_from_oslat() {
    let test = "interrupts_are_among_what_takes_the_cpu_from_oslat";
    let place = Workplace::new();
    let cpu = machine::last_cpu();
    let outcome = place
        .tardy(&format!(
            "run --for 2s --load none --probe oslat --cpus {cpu} --quiet --json --out run"
        ))
        .ends_with(0);
    assert_each_gap_has_one_cause(&outcome);
    let summary = outcome.json();
    if !summary["series"]
        .as_array()
        .unwrap()
        .iter()
        .any(|series| series["probe"] == "oslat.interrupts")
    {
        return machine::left_out(test, "interrupts cannot be counted here");
    }
    // A CPU that computes gets its tick, or with nohz_full one tick per second.
    assert!(
        summary_of(&outcome, "oslat.interrupts")["counts"]["recorded"].as_u64() >= Some(1),
        "{}",
        summary["series"]
    );
}

fn summary_of(outcome: &support::workplace::Outcome, probe: &str) -> Value {
    let summary = outcome.json();
    summary["series"]
        .as_array()
        .unwrap()
        .iter()
        .find(|series| series["probe"] == probe)
        .unwrap()
        .clone()
}

#[test]
fn reads_of_the_clock_are_counted_one_by_one() {
    let place = Workplace::new();
    let outcome = place
        .tardy("run --for 500ms --load none --probe gtod --quiet --json --out run")
        .ends_with(0);
    for name in ["gtod", "gtod.monotonic"] {
        let series = summary_of(&outcome, name);
        let count = |name: &str| series["counts"][name].as_u64().unwrap();
        assert!(
            count("recorded") > 10_000,
            "half a second of reads: {series}"
        );
        assert!(
            count("unstored") < count("recorded") || series["gaps"]["count"] == 0,
            "long ones are stored: {series}"
        );
        assert_eq!(
            series["numbers"]["samples"],
            count("recorded"),
            "the numbers are those of all: {series}"
        );
        assert_eq!(
            series["gaps"]["count"],
            count("recorded") - count("unstored"),
            "{series}"
        );
    }
    let text = place.tardy("show run").ends_with(0).stdout;
    assert!(
        text.contains("gaps of at least 5us") && text.contains("% of the "),
        "{text}"
    );
}

#[test]
fn one_clock_is_read_at_a_time() {
    let place = Workplace::new();
    let cpu = machine::last_cpu();
    let outcome = place
        .tardy(&format!(
            "run --for 500ms --load none --probe gtod --cpus {cpu} --quiet --json --out run"
        ))
        .ends_with(0);
    let observed = |name: &str| {
        summary_of(&outcome, name)["gaps"]["observed_ns"]
            .as_i64()
            .unwrap()
    };
    let (of_day, monotonic, all) = (
        observed("gtod"),
        observed("gtod.monotonic"),
        outcome.json()["measured_ns"].as_i64().unwrap(),
    );
    // The two clocks are read in turn. If each clock were read all the time, the sum would be twice
    // the length of the run.
    assert!(
        of_day > 0 && monotonic > 0 && of_day + monotonic < all + all / 2,
        "{of_day} and {monotonic} of {all}"
    );
}

#[test]
fn cycles_are_reads_of_each_clock_and_intervals_between_reads() {
    let place = Workplace::new();
    let cpu = machine::last_cpu();
    let line = format!(
        "run --cycles 123456 --probe gtod --probe oslat:least=100ns --cpus {cpu} --quiet --json \
         --out run"
    );
    let outcome = place.tardy(&line).ends_with(0);
    for name in ["gtod", "gtod.monotonic"] {
        let counts = summary_of(&outcome, name)["counts"].clone();
        assert_eq!(
            (&counts["expected"], &counts["recorded"]),
            (&Value::from(123_456), &Value::from(123_456)),
            "{name}: {counts}"
        );
    }
    // Each gap is an interval between reads, but few intervals are gaps.
    let oslat = summary_of(&outcome, "oslat");
    assert!(
        oslat["counts"]["recorded"].as_u64() <= Some(123_456),
        "{oslat}"
    );
    // If a cycle took a period of 1 ms, the run would take two minutes.
    assert!(
        oslat["gaps"]["observed_ns"].as_i64() < Some(123_456_000_000),
        "{oslat}"
    );
}

#[test]
fn copies_share_the_measured_cpus_and_have_series_of_their_own() {
    let place = Workplace::new();
    let cpu = machine::last_cpu();
    let outcome = place
        .tardy(&format!(
            "run --cycles 50 --probe parallel:5 --cpus {cpu} --quiet --json --out run"
        ))
        .ends_with(0);
    let stored = series::all(&place.path("run"));
    let copies: Vec<_> = stored
        .iter()
        .map(|series| (series.descriptor.cpu, series.descriptor.copy))
        .collect();
    assert_eq!(
        copies,
        (0..5).map(|copy| (None, Some(copy))).collect::<Vec<_>>()
    );
    let summary = outcome.json();
    assert_eq!(
        summary["probes"][0]["counts"]["recorded"], 250,
        "{}",
        summary["probes"]
    );
}

#[test]
fn a_runtime_that_is_used_up_is_said() {
    let place = Workplace::new();
    // The kernel checks the runtime at ticks. Work that is longer than a tick at 100 Hz is seen to
    // exceed its runtime whenever a tick hits it. With a period of whole ticks, the work would
    // always have the same phase, which a tick may never hit.
    let outcome = place.tardy(
        "run --for 1s --load none --probe sched-deadline:runtime=1ms:work=12ms:period=40700us \
         --quiet --json --out run",
    );
    if !ran(&outcome, "a_runtime_that_is_used_up_is_said") {
        return;
    }
    assert!(
        outcome.json()["warnings"]
            .to_string()
            .contains("used up its runtime"),
        "{}",
        outcome.json()["warnings"]
    );
    let calm = place
        .tardy(
            "run --for 500ms --load none --probe sched-deadline:runtime=5ms:period=20ms --quiet \
             --json --out calm",
        )
        .ends_with(0);
    assert!(
        !calm.json()["warnings"]
            .to_string()
            .contains("used up its runtime"),
        "{}",
        calm.json()["warnings"]
    );
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let test = "a_device_that_is_not_there_is_named";
    if std::path::Path::new("/dev/rtc0").exists() || std::path::Path::new("/dev/rtc").exists() {
        return machine::left_out(test, "this machine has a real-time clock");
    }
    let place = Workplace::new();
    let refused = place.tardy("run --probe rtc --out run").ends_with(3);
    assert!(
        refused.stderr.contains("/dev/rtc0") && refused.stderr.contains("modprobe rtc-cmos"),
        "{}",
        refused.stderr
    );
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn numbers_of_loads_that_count_only_long_gaps_are_named() {
    let place = Workplace::new();
    let noted = |load: &str| {
        let cpu = machine::last_cpu();
        let summary = place
            .tardy(&format!(
                "run --for 400ms --load {load} --probe gtod --cpus {cpu} --quiet --json --out {load}"
            ))
            .json();
        let warnings = summary["warnings"].as_array().unwrap().clone();
        warnings
            .iter()
            .filter_map(|warning| warning["text"].as_str())
            .filter(|text| text.contains("cover only gaps of at least 5us"))
            .count()
    };
    assert_eq!((noted("fpu"), noted("none")), (2, 0));
}

#[test]
fn the_row_of_a_run_of_one_phase_counts_short_gaps_too() {
    let place = Workplace::new();
    let cpu = machine::last_cpu();
    let line = format!("run --cycles 20000 --load none --probe gtod --cpus {cpu} --quiet");
    let summary = place
        .tardy(&format!("{line} --json --out run"))
        .ends_with(0)
        .json();
    let whole = &summary["probes"][0]["numbers"];
    assert_eq!(whole["samples"], 20_000);
    assert_eq!(summary["loads"][0]["probes"][0][1], *whole);
}
