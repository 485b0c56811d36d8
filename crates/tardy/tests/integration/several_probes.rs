//! Tests several probes of one kind in a run, and the settings of their threads.

use std::collections::BTreeSet;

use crate::support;

use support::machine;
use support::workplace::Workplace;

#[test]
fn probes_of_one_kind_have_priorities_periods_offsets_and_names_of_their_own() {
    let (place, cpu) = (Workplace::new(), machine::last_cpu());
    let probes = "--probe cyclic:priority=95:period=5ms --probe \
                  cyclic:priority=90:period=20ms:name=slow --probe cyclic:period=5ms:offset=3ms";
    place
        .tardy(&format!(
            "run {probes} --cpus {cpu} --load none --for 500ms --quiet --out run"
        ))
        .ends_with(0);
    let record = place.record("run");
    let plan = &record["plan"];
    let of_plan = |key: &str| {
        plan["probes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|probe| probe[key].to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of_plan("name"),
        [r#""cyclic""#, r#""slow""#, r#""cyclic-2""#]
    );
    assert_eq!(of_plan("kind"), ["null", r#""cyclic""#, r#""cyclic""#]);
    assert_eq!(of_plan("priority"), ["95", "90", "95"]);
    assert_eq!(
        plan["threads"][2]["schedule"]["start_ns"], 3_000_000,
        "{}",
        plan["threads"][2]
    );
    let expected = |series: &serde_json::Value| series["counts"]["expected"].as_u64().unwrap();
    let series = record["series"].as_array().unwrap();
    assert_eq!(
        series.iter().map(expected).collect::<Vec<_>>(),
        [100, 25, 100]
    );
    let names: Vec<&str> = series
        .iter()
        .map(|series| series["probe"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["cyclic", "slow", "cyclic-2"]);
    let shown = place.tardy("show run").ends_with(0).stdout;
    for name in names {
        assert!(shown.contains(&format!("{name} every ")), "{shown}");
    }
}

#[test]
fn probes_that_would_be_in_each_others_way_are_refused() {
    let place = Workplace::new();
    for (probes, said) in [
        (
            "--probe itimer --probe itimer",
            "--probe itimer is given twice",
        ),
        (
            "--probe cyclic --probe nanosleep:name=cyclic",
            "two probes are called cyclic",
        ),
        (
            "--probe cyclic:name=timerfd",
            "two probes are called timerfd",
        ),
        (
            "--probe cyclic:period=1ms:offset=1ms",
            "is not shorter than the period",
        ),
        (
            "--probe sched-deadline:deadline=50us",
            "does not lie between the runtime of 100us",
        ),
        (
            "--probe sched-deadline:deadline=2ms",
            "and the period of 1ms",
        ),
    ] {
        let outcome = place
            .tardy(&format!("run --dry-run --load none {probes}"))
            .ends_with(2);
        assert!(
            outcome.stderr.contains(said),
            "{probes}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn the_watchdogs_priority_needs_force_and_a_cpu_left_out() {
    let (place, last) = (Workplace::new(), machine::last_cpu());
    for flags in [format!("--cpus {last}"), "--force --cpus all".to_owned()] {
        let outcome = place
            .tardy(&format!("run --dry-run --load none --priority 99 {flags}"))
            .ends_with(2);
        assert!(
            outcome
                .stderr
                .contains("--priority 99 is reserved for the watchdog"),
            "{}",
            outcome.stderr
        );
    }
    if machine::cpus().len() > 1 {
        place
            .tardy(&format!(
                "run --dry-run --load none --priority 99 --force --cpus {last}"
            ))
            .ends_with(0);
    }
}

#[test]
fn a_probe_keeps_to_the_cpus_that_it_is_given_and_to_measured_ones() {
    let place = Workplace::new();
    let last = machine::last_cpu();
    place
        .tardy(&format!(
            "run --for 300ms --load none --probe cyclic --probe nanosleep:cpus={last} --quiet \
             --out run"
        ))
        .ends_with(0);
    let summary = place.summary("run");
    let cpus = |probe: &str| {
        let series = summary["series"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|series| series["probe"] == probe);
        series
            .map(|series| series["cpu"].as_u64().unwrap())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(
        cpus("cyclic"),
        machine::cpus().iter().map(|cpu| u64::from(cpu.0)).collect()
    );
    assert_eq!(cpus("nanosleep"), [u64::from(last)].into());
    let refused = place
        .tardy(&format!(
            "run --cpus {last} --probe cyclic:cpus={} --out other",
            machine::absent_cpu()
        ))
        .ends_with(2);
    assert!(
        refused
            .stderr
            .contains("are not measured: add them to --cpus"),
        "{}",
        refused.stderr
    );
    let refused = place
        .tardy("run --probe parallel:cpus=0 --out other")
        .ends_with(2);
    assert!(
        refused
            .stderr
            .contains("--probe parallel: the probe does not run one thread per measured CPU"),
        "{}",
        refused.stderr
    );
}
