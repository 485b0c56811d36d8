//! Tests `tardy compare` of simulated runs, and of runs that measure different things.

use tardy_core::series::ClockKind;

use crate::compare::{compare, latencies, run};
use crate::support::made_run::MadeRun;
use crate::support::workplace::Workplace;

#[test]
fn virtual_time_is_compared_exactly_by_pads() {
    let place = Workplace::new();
    // Latencies that rise all the time, on which a bootstrap by blocks of time would be useless.
    let rising = |level: f64| {
        let latencies = latencies(1, 4_000, 5_000.0).into_iter().enumerate();
        let latencies = latencies
            .map(|(index, latency)| (level * (latency as f64 + 20.0 * index as f64)) as i64)
            .collect();
        MadeRun {
            clock: ClockKind::Virtual,
            ..MadeRun::new(vec![latencies])
        }
    };
    for (side, level) in [("none", 8.0), ("rt", 0.5)] {
        for (replica, factor) in [1.0, 1.02, 0.97].into_iter().enumerate() {
            std::fs::create_dir_all(place.path(side)).unwrap();
            rising(level * factor).write(&place.path(&format!("{side}/replica-{replica:03}")));
        }
    }
    let one = place
        .tardy("compare none/replica-000 rt/replica-000 --full")
        .ends_with(0);
    assert!(
        one.stdout.contains("BETTER") && one.stdout.contains("exact for these command lines"),
        "{}",
        one.stdout
    );
    assert!(!one.stdout.contains("inconclusive"), "{}", one.stdout);
    // The difference of one pair of replicas is exact and has no interval. Only the margin
    // determines the verdict.
    let json = place
        .tardy("compare none/replica-000 none/replica-001 --format json --margin 1.9%")
        .ends_with(1)
        .json();
    let row = &json["candidates"][0]["tables"][0]["rows"][0];
    assert_eq!(
        (&row["interval_ns"]["lower"], &row["interval_ns"]["upper"]),
        (&row["difference_ns"], &row["difference_ns"])
    );
    place
        .tardy("compare none/replica-000 none/replica-001 --margin 2.1%")
        .ends_with(0);
    let replicas = place.tardy("compare none rt --full").ends_with(0);
    assert!(
        replicas.stdout.contains("BETTER") && replicas.stdout.contains("one value per replica"),
        "{}",
        replicas.stdout
    );
    place.tardy("compare none none").ends_with(4);
}

#[test]
fn virtual_and_real_time_are_refused_unless_told_otherwise() {
    let new = MadeRun {
        clock: ClockKind::Virtual,
        ..run(2, 5_000.0)
    };
    let refused = compare(&run(1, 5_000.0), &new, "").ends_with(2);
    assert!(
        refused.stdout.is_empty() && refused.stderr.contains("--across-clocks"),
        "{refused:?}"
    );
    let told = compare(&run(1, 5_000.0), &new, "--across-clocks --margin 100us").ends_with(0);
    assert!(
        told.stdout.contains("! one side has virtual time"),
        "{}",
        told.stdout
    );
}

#[test]
fn interval_errors_and_latencies_never_stand_in_one_table() {
    let new = MadeRun {
        probe: ("cyclic", "interval error"),
        ..run(2, 5_000.0)
    };
    let refused = compare(&run(1, 5_000.0), &new, "").ends_with(2);
    assert!(
        refused.stderr.contains("cyclic latency")
            && refused.stderr.contains("cyclic interval error"),
        "{refused:?}"
    );
}

#[test]
fn two_ways_of_measuring_the_same_stand_beside_each_other_with_a_warning() {
    let other = MadeRun {
        probe: ("cyclictest", "latency"),
        ..run(3, 20_000.0)
    };
    let outcome = compare(&other, &run(4, 20_000.0), "");
    assert!(
        outcome
            .stdout
            .contains("cyclic is compared with cyclictest"),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
}
