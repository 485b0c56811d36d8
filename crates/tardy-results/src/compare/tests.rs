//! Tests comparisons of runs that are generated in memory with a known true difference. These tests
//! are a short form of the proof `compare` in docs/proof-archive.md.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;
use tardy_statistics::confidence::Confidence;

use super::group::{Key, RunGroup};
use super::judge::{settle, table};
use super::margin::Margin;
use super::model::{Outcome, Settings, SpreadSource, Table};
use super::verdict::of_tables;

const PAIRS: u64 = 60;
const SAMPLES: usize = 20_000;

fn settings(between_runs: Option<f64>, margin: f64) -> Settings {
    Settings {
        margin: Margin::Share(margin),
        confidence: Confidence::NINETY_FIVE,
        resamples: 200,
        seed: 1,
        window: None,
        quantiles: vec![0.5, 0.9, 0.99, 0.999],
        are_quantiles_given: false,
        between_runs,
        block: None,
        phase: None,
        is_across_clocks: false,
    }
}

/// Returns a run with a random level. The logarithm of the level is a sum of uniform random
/// numbers, so it is approximately normal. Its standard deviation is `spread`.
fn run(random: &mut Pcg64, spread: f64, times: f64) -> RunGroup {
    let gaussian = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
    let level = times * (spread * gaussian).exp();
    let samples: Vec<i64> = (0..SAMPLES)
        .map(|_| (level * (10_000.0 - 5_000.0 * f64::ln(1.0 - random.random::<f64>()))) as i64)
        .collect();
    RunGroup::of_samples(&samples, Nanos::from_millis(1), None)
}

fn compared(
    seed: u64,
    spread: f64,
    runs: usize,
    times: f64,
    settings: &Settings,
) -> (Outcome, Vec<Table>) {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut side = |times: f64| -> Vec<RunGroup> {
        (0..runs).map(|_| run(&mut random, spread, times)).collect()
    };
    let (base, candidate) = (side(1.0), side(times));
    judged(&base, &candidate, settings)
}

fn judged(base: &[RunGroup], candidate: &[RunGroup], settings: &Settings) -> (Outcome, Vec<Table>) {
    let key = Key {
        probe: "cyclic".into(),
        quantity: "latency".into(),
        unit: "ns".into(),
        load: None,
    };
    let mut tables: Vec<Table> = table(&key, base, candidate, settings, 1)
        .into_iter()
        .collect();
    settle(&mut tables, settings);
    (of_tables(&tables).0, tables)
}

fn count(
    outcome: impl Fn(Outcome) -> bool,
    spread: f64,
    runs: usize,
    times: f64,
    settings: &Settings,
) -> usize {
    (0..PAIRS)
        .filter(|&pair| outcome(compared(pair, spread, runs, times, settings).0))
        .count()
}

#[test]
fn equal_pairs_of_single_runs_are_hardly_ever_called_worse_or_better() {
    let is_wrong = |outcome| matches!(outcome, Outcome::Worse | Outcome::Better);
    for spread in [0.0, 0.05, 0.1] {
        // 3 wrong verdicts are expected (5 % of 60 pairs), with a standard deviation of 1.7.
        let wrong = count(is_wrong, spread, 1, 1.0, &settings(None, 0.05));
        assert!(wrong <= 6, "{wrong} of {PAIRS} at a spread of {spread}");
    }
}

#[test]
fn a_true_half_more_is_found_by_single_runs_and_a_true_third_by_four() {
    let found = count(
        |outcome| outcome == Outcome::Worse,
        0.05,
        1,
        1.5,
        &settings(None, 0.05),
    );
    assert!(found >= 54, "{found} of {PAIRS}");
    let four = (0..10)
        .filter(|&pair| compared(pair, 0.05, 4, 1.3, &settings(None, 0.05)).0 == Outcome::Worse)
        .count();
    assert!(four >= 9, "{four} of 10");
}

#[test]
fn equal_runs_are_equivalent_where_nothing_but_their_samples_counts() {
    let equivalent = count(
        |outcome| outcome == Outcome::Equivalent,
        0.0,
        1,
        1.0,
        &settings(Some(0.0), 0.1),
    );
    assert!(
        equivalent * 10 >= PAIRS as usize * 8,
        "{equivalent} of {PAIRS}"
    );
    let (outcome, tables) = compared(1, 0.0, 4, 1.0, &settings(None, 0.1));
    assert_eq!(
        outcome,
        Outcome::Equivalent,
        "four runs per side show by themselves that they do not differ"
    );
    let between = tables[0].between_runs.unwrap();
    assert!(
        between.source == SpreadSource::Runs && between.share < 0.02,
        "{between:?}"
    );
}

#[test]
fn two_runs_a_side_that_differ_more_than_is_assumed_are_believed() {
    let wide = (0..10).map(|pair| {
        compared(pair, 0.3, 2, 1.0, &settings(None, 0.05)).1[0]
            .between_runs
            .unwrap()
    });
    let seen = wide
        .filter(|between| between.source == SpreadSource::Runs && between.share > 0.085)
        .count();
    assert!(seen >= 8, "{seen} of 10");
    let narrow = compared(1, 0.0, 2, 1.0, &settings(None, 0.05)).1[0]
        .between_runs
        .unwrap();
    assert_eq!(
        (narrow.source, narrow.share),
        (SpreadSource::Documented, 0.085)
    );
}

const DEADLINE: Nanos = Nanos::from_micros(200);

/// Makes a run of a minute with bursts of 200 ms, in which 30 % of the samples miss the deadline.
/// `bursts` draws a random number of bursts, about ten on average.
fn run_with_bursts(random: &mut Pcg64, bursts: impl Fn(&mut Pcg64) -> usize) -> RunGroup {
    let count = 60_000;
    let mut samples: Vec<i64> = (0..count)
        .map(|_| (10_000.0 - 3_000.0 * f64::ln(1.0 - random.random::<f64>())) as i64)
        .collect();
    for _ in 0..bursts(random) {
        let begin = random.random_range(0..count - 200);
        samples[begin..begin + 200]
            .iter_mut()
            .filter(|_| random.random_bool(0.3))
            .for_each(|sample| *sample = 300_000);
    }
    RunGroup::of_samples(
        &samples,
        Nanos::from_millis(1),
        Some(Window::deadline(DEADLINE)),
    )
}

/// Draws a number from the Poisson distribution with this mean.
fn poisson(random: &mut Pcg64, mean: f64) -> usize {
    let (mut left, mut count) = (random.random::<f64>(), 0);
    while left > (-mean).exp() {
        left *= random.random::<f64>();
        count += 1;
    }
    count
}

#[test]
fn misses_in_bursts_of_equal_runs_are_hardly_ever_worse_or_better() {
    let settings = Settings {
        window: Some(Window::deadline(DEADLINE)),
        ..settings(None, 0.05)
    };
    let outcome = |pair: u64, of_candidate: f64| {
        let mut random = Pcg64::seed_from_u64(pair);
        let mut side = |mean: f64| [run_with_bursts(&mut random, |random| poisson(random, mean))];
        let (base, candidate) = (side(10.0), side(of_candidate));
        judged(&base, &candidate, &settings).1[0]
            .misses
            .unwrap()
            .verdict
            .unwrap()
    };
    let wrong = (0..40)
        .filter(|&pair| matches!(outcome(pair, 10.0), Outcome::Worse | Outcome::Better))
        .count();
    // 2 wrong verdicts are expected (5 % of 40 pairs), with a standard deviation of 1.4.
    assert!(wrong <= 4, "{wrong} of 40");
    let found = (0..20)
        .filter(|&pair| outcome(pair, 60.0) == Outcome::Worse)
        .count();
    assert!(found >= 18, "{found} of 20");
}

#[test]
fn four_runs_a_side_that_overlap_in_misses_decide_nothing() {
    let settings = Settings {
        window: Some(Window::deadline(DEADLINE)),
        ..settings(None, 0.05)
    };
    let run = |misses: usize| {
        let samples: Vec<i64> = (0..20_000)
            .map(|place| {
                if place * misses / 20_000 != (place + 1) * misses / 20_000 {
                    300_000
                } else {
                    10_000
                }
            })
            .collect();
        RunGroup::of_samples(&samples, Nanos::from_millis(1), settings.window)
    };
    let found = |base: [usize; 4], candidate: [usize; 4]| {
        judged(&base.map(run), &candidate.map(run), &settings).1[0]
            .misses
            .unwrap()
    };
    let overlapping = found([508, 362, 664, 506], [794, 837, 585, 859]);
    assert_eq!(
        (
            overlapping.base.0,
            overlapping.candidate.0,
            overlapping.verdict
        ),
        (2040, 3075, Some(Outcome::Inconclusive))
    );
    assert!(overlapping.probability > 0.02, "{overlapping:?}");
    let apart = found([508, 362, 664, 506], [1794, 1837, 1585, 1859]);
    assert_eq!(apart.verdict, Some(Outcome::Worse), "{apart:?}");
    let none = found([0; 4], [0; 4]);
    assert_eq!((none.verdict, none.ratio), (None, None));
}

#[test]
fn the_overview_marks_what_a_summary_of_either_side_marks() {
    let settings = settings(None, 0.05);
    let mut random = Pcg64::seed_from_u64(3);
    let (base, candidate) = (
        run_with_bursts(&mut random, |_| 4),
        run_with_bursts(&mut random, |_| 0),
    );
    let marked = |side: &RunGroup, quantile: f64| {
        let percentiles = &side.numbers.as_ref().unwrap().percentiles;
        percentiles
            .iter()
            .any(|percentile| percentile.probability == quantile && !percentile.is_bounded())
    };
    assert!(marked(&base, 0.999) && !marked(&base, 0.5) && !marked(&candidate, 0.999));
    let overview = judged(&[base], &[candidate], &settings).1[0].overview;
    assert!(
        overview.median.is_bounded && !overview.high.is_bounded,
        "{overview:?}"
    );
}
