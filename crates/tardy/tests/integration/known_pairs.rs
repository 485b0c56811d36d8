//! Checks `compare` on pairs of runs whose difference is known. `TARDY_TEST_PAIRS` sets the number
//! of pairs.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde_json::json;

use crate::support::made_run::MadeRun;
use crate::support::random_cases::{found_in, wanted};
use crate::support::workplace::Workplace;

const SEED: u64 = 40;

/// Number of pairs that every change checks.
const PAIRS: usize = 20;
/// Runs per side.
const REPLICAS: usize = 4;
const SAMPLES: usize = 10_000;
/// The default margin of `compare`.
const MARGIN: f64 = 0.05;
/// `compare` may miss one of this many pairs that differ by more than twice the margin.
const UNNAMED_ONE_IN: usize = 20;

/// A run whose latencies are about `usual` times `factor`. Like real runs, it deviates from this by
/// a small random error.
fn scaled(random: &mut Pcg64Mcg, usual: f64, factor: f64) -> MadeRun {
    let run = factor * random.random_range(0.99..1.01);
    let draw = |_| {
        let late = if random.random_range(0..200) == 0 {
            5.0
        } else {
            1.0
        };
        let noise = -random.random_range(1e-9..1.0_f64).ln() * 0.1;
        (usual * late * (1.0 + noise) * run) as i64
    };
    MadeRun {
        phases: vec![("io", 0, SAMPLES as i64 / 1_000)],
        machine: json!({"host_name": "board7", "kernel": {"release": "6.12.0"}}),
        ..MadeRun::new(vec![(0..SAMPLES).map(draw).collect()])
    }
}

/// Compares one pair. Returns a line if the verdict of `compare` is wrong.
fn of_a_pair(random: &mut Pcg64Mcg) -> Vec<String> {
    let factor = match random.random_range(0..10) {
        0..3 => 1.0,
        3..6 => random.random_range(0.5..1.0 - 2.0 * MARGIN - 0.01),
        _ => random.random_range(1.0 + 2.0 * MARGIN + 0.01..2.0),
    };
    let place = Workplace::new();
    // The margin is at least one microsecond, so latencies are at least 30 us.
    let usual = random.random_range(30_000.0..200_000.0);
    for replica in 0..REPLICAS {
        scaled(random, usual, 1.0).write(&place.path(&format!("base/{replica}")));
        scaled(random, usual, factor).write(&place.path(&format!("new/{replica}")));
    }
    let found = place.tardy("compare base new --format json").json();
    let verdict = found["candidates"][0]["verdict"].as_str().unwrap();
    let truth = if factor == 1.0 {
        "equal"
    } else if factor < 1.0 {
        "better"
    } else {
        "worse"
    };
    let what = match (truth, verdict) {
        ("equal", "equivalent" | "inconclusive") => return Vec::new(),
        (_, _) if truth == verdict => return Vec::new(),
        ("better" | "worse", "equivalent" | "inconclusive") => "unnamed",
        _ => "contradicted",
    };
    vec![format!(
        "{what}: {factor} is {truth}, and compare says {verdict}"
    )]
}

#[test]
fn pairs_of_known_truth_are_named_and_never_contradicted() {
    let pairs = wanted("TARDY_TEST_PAIRS", PAIRS);
    let found = found_in(pairs, SEED << 40, of_a_pair);
    let of = |what: &str| found.iter().filter(|found| found.starts_with(what)).count();
    assert_eq!(of("contradicted"), 0, "{found:#?}");
    assert!(of("unnamed") <= pairs / UNNAMED_ONE_IN, "{found:#?}");
}
