//! A machine with many CPUs needs more file descriptors than shells allow, and readers whose cost
//! does not grow with the number of series.

use crate::support;

use support::machine;
use support::workplace::{Outcome, Workplace, finish};

/// Runs `tardy` with limits of open files, set by `ulimit`.
fn limited(place: &Workplace, limits: &str, line: &str) -> Outcome {
    let script = format!("{limits}; exec \"$0\" {line}");
    finish(place.prepared(
        machine::program("sh", "dash"),
        ["-c", &script, env!("CARGO_BIN_EXE_tardy")],
    ))
}

#[test]
fn a_soft_limit_of_descriptors_is_raised_to_the_hard_one() {
    let place = Workplace::new();
    let run =
        "run --probe parallel:copies=40:period=50ms --load none --for 500ms --quiet --out run";
    limited(&place, "ulimit -Sn 48", run).ends_with(0);
    assert_eq!(place.record("run")["series"].as_array().unwrap().len(), 40);
}

#[test]
fn a_want_of_descriptors_names_the_limit_to_raise() {
    let place = Workplace::new();
    let run =
        "run --probe parallel:copies=40:period=50ms --load none --for 500ms --quiet --out run";
    let outcome = limited(&place, "ulimit -n 48", run);
    assert_eq!(outcome.code(), 3, "{outcome:?}");
    assert!(
        outcome
            .stderr
            .contains("raise the hard limit of open files"),
        "{outcome:?}"
    );
}
