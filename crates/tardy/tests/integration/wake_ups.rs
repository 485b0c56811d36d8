//! Tests threads that wake each other, and work of known length that a timer starts: accounting,
//! order, and verdicts that do not depend on the machine. The tests do not check the size of a
//! latency.

use crate::support;

use serde_json::Value;
use support::machine;
use support::series;
use support::workplace::Workplace;
use tardy_core::units::Nanos;

const PAIRS: [&str; 5] = ["futex", "eventfd", "pipe", "signal", "mqueue"];

/// The series with this name in a summary.
fn of<'a>(summary: &'a Value, name: &str) -> Vec<&'a Value> {
    let found: Vec<&Value> = summary["series"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|series| series["probe"] == name)
        .collect();
    assert!(!found.is_empty(), "no series `{name}` in {summary}");
    found
}

fn count(series: &Value, name: &str) -> u64 {
    series["counts"][name].as_u64().unwrap()
}

#[track_caller]
fn assert_exact(series: &Value) {
    assert_eq!(
        count(series, "expected"),
        count(series, "recorded") + count(series, "skipped") + count(series, "lost"),
        "{series}"
    );
    assert!(count(series, "recorded") > 0, "{series}");
}

/// Checks that the loops had no page faults. A machine that does not allow locking memory is
/// excepted.
#[track_caller]
fn assert_no_faults(summary: &Value) {
    let warns_of = |name: &str| {
        summary["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|warning| warning["warning"] == name)
    };
    assert!(
        warns_of("memory-not-locked") || !warns_of("faults-in-loop"),
        "{}",
        summary["warnings"]
    );
}

/// Runs a pair of threads, and checks that each timer wake-up corresponds to a wake-up of the other
/// thread or to a skipped one. The kernel may lack message queues.
#[track_caller]
fn check_pair(place: &Workplace, name: &str, parameters: &str, cpus: &str, out: &str) {
    let line = format!(
        "run --probe {name}{parameters} --cycles 200 --period 1ms --cpus {cpus} --json --out {out}"
    );
    let outcome = place.tardy(&line);
    if name == "mqueue" && outcome.code() == 3 {
        assert!(
            outcome.stderr.contains("POSIX message queues"),
            "{}",
            outcome.stderr
        );
        return machine::left_out(&line, "this kernel has no POSIX message queues");
    }
    let summary = outcome.ends_with(0).json();
    assert_no_faults(&summary);
    let (wakes, timers) = (of(&summary, name), of(&summary, &format!("{name}.timer")));
    assert_eq!(wakes.len(), timers.len());
    for wake in wakes {
        let timer = *timers
            .iter()
            .find(|timer| timer["cpu"] == wake["cpu"])
            .unwrap();
        assert_exact(wake);
        assert_exact(timer);
        // Due times that the last wake-up skipped may lie after the end.
        assert!(count(timer, "expected") >= 200, "{timer}");
        assert_eq!(
            count(wake, "expected"),
            count(timer, "recorded"),
            "each recorded timer wake-up expects one wake-up of the other thread: {wake}"
        );
    }
    for series in series::all(&place.path(out)) {
        assert!(
            series
                .samples
                .iter()
                .all(|sample| sample.latency >= Nanos::ZERO),
            "{}: woken before it was",
            series.descriptor.probe
        );
        assert!(
            series.samples.is_sorted_by_key(|sample| sample.due),
            "{}",
            series.descriptor.probe
        );
    }
}

#[test]
fn each_way_to_wake_a_thread_accounts_for_every_period() {
    let place = Workplace::new();
    let cpu = machine::last_cpu().to_string();
    for name in PAIRS {
        check_pair(&place, name, "", &cpu, &format!("{name}-same"));
        check_pair(&place, name, ":pace=woken", &cpu, &format!("{name}-asked"));
    }
}

#[test]
fn the_waker_may_be_on_another_cpu() {
    let place = Workplace::new();
    let cpus = machine::cpus();
    let cpu = machine::last_cpu().to_string();
    if cpus.len() < 2 {
        let refused = place
            .tardy("run --probe futex:waker=other --cycles 20 --out run")
            .ends_with(3);
        assert!(refused.stderr.contains("second CPU"), "{}", refused.stderr);
        return machine::left_out("the_waker_may_be_on_another_processor", "there is one CPU");
    }
    for name in PAIRS {
        check_pair(&place, name, ":waker=other", &cpu, &format!("{name}-other"));
    }
    check_pair(&place, "futex", ":waker=other:pace=woken", &cpu, "asked");
    check_pair(&place, "futex", ":waker=other", &cpus.to_string(), "all");
}

#[test]
fn pairs_of_threads_run_beside_each_other_and_beside_a_timer_on_one_clock() {
    let place = Workplace::new();
    let line = "run --probe cyclic --probe futex --probe eventfd --probe pipe --probe signal \
                --probe work --for 1s --load none --json --out run";
    let summary = place.tardy(line).ends_with(0).json();
    for series in summary["series"].as_array().unwrap() {
        assert_exact(series);
    }
    let once: std::collections::BTreeSet<&str> = summary["probes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|probe| probe["probe"].as_str().unwrap())
        .collect();
    assert_eq!(
        once.len(),
        summary["probes"].as_array().unwrap().len(),
        "each name stands once"
    );
    for name in [
        "cyclic",
        "futex",
        "futex.timer",
        "signal",
        "work",
        "work.done",
    ] {
        of(&summary, name);
    }
}

#[test]
fn a_pair_without_room_below_it_is_refused_and_nothing_is_written() {
    let place = Workplace::new();
    let refused = place
        .tardy("run --probe futex:priority=1 --cycles 20 --out run")
        .ends_with(2);
    assert!(refused.stderr.contains("priority 2"), "{}", refused.stderr);
    let wrong = place
        .tardy("run --probe futex:waker=elsewhere --cycles 20 --out run")
        .ends_with(2);
    assert!(wrong.stderr.contains("same, other"), "{}", wrong.stderr);
    assert!(!place.path("run").exists());
}

#[test]
fn work_of_every_kind_is_done_after_it_began_and_both_series_account_for_every_period() {
    let place = Workplace::new();
    let cpu = machine::last_cpu();
    for kind in ["compute", "syscalls", "memory"] {
        let line = format!(
            "run --probe work:length=100us:kind={kind}:area=1MiB --period 2ms --cycles 200 --cpus \
             {cpu} --json --out {kind}"
        );
        let summary = place.tardy(&line).ends_with(0).json();
        assert_no_faults(&summary);
        let (start, done) = (of(&summary, "work")[0], of(&summary, "work.done")[0]);
        assert_exact(start);
        assert_exact(done);
        assert!(
            count(start, "expected") >= 200 && count(start, "expected") == count(done, "expected"),
            "{start} {done}"
        );
        let quantity = |name: &str| {
            summary["probes"]
                .as_array()
                .unwrap()
                .iter()
                .find(|probe| probe["probe"] == name)
                .unwrap()["quantity"]
                .clone()
        };
        assert_eq!(
            (quantity("work"), quantity("work.done")),
            ("latency".into(), "completion".into())
        );
        let note = summary["warnings"].to_string();
        assert!(note.contains(&format!("steps of {kind} take ")), "{note}");
        let all = series::all(&place.path(kind));
        let samples = |name: &str| {
            all.iter()
                .find(|series| series.descriptor.probe == name)
                .unwrap()
                .samples
                .clone()
        };
        let (starts, ends) = (samples("work"), samples("work.done"));
        assert_eq!(starts.len(), ends.len());
        for (start, end) in starts.iter().zip(&ends) {
            assert_eq!((start.due, start.skipped), (end.due, end.skipped));
            assert!(
                end.latency > start.latency,
                "done before it began: {start:?} {end:?}"
            );
        }
    }
}

/// Work that takes at least 1 ms always misses a deadline of 200 us.
#[test]
fn work_that_is_longer_than_its_deadline_fails_however_early_it_starts() {
    let place = Workplace::new();
    let line = format!(
        "run --probe work:length=1ms --period 5ms --cycles 50 --cpus {} --deadline 200us --json \
         --out run",
        machine::last_cpu()
    );
    let summary = place.tardy(&line).ends_with(1).json();
    let done = of(&summary, "work.done")[0];
    assert_eq!(
        done["numbers"]["misses"].as_u64().unwrap(),
        count(done, "recorded") + count(done, "skipped"),
        "{done}"
    );
}

#[test]
fn work_that_leaves_nothing_of_its_period_is_refused() {
    let place = Workplace::new();
    let refused = place
        .tardy("run --probe work:length=900us --period 1ms --cycles 20 --out run")
        .ends_with(2);
    assert!(
        refused.stderr.contains("at most 800us"),
        "{}",
        refused.stderr
    );
    assert!(!place.path("run").exists());
}
