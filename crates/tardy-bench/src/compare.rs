//! How often a comparison is right, on pairs of runs whose truth is known.
//!
//! The runs are made in memory and compared by the library's own functions; nothing is written to a
//! disk.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tardy_core::units::Nanos;
use tardy_results::compare::group::{Key, RunGroup};
use tardy_results::compare::judge::{settle, table};
use tardy_results::compare::margin::Margin;
use tardy_results::compare::model::{Outcome, Settings};
use tardy_results::compare::verdict;
use tardy_statistics::confidence::Confidence;

use super::figure::{Bench, Figure, FigureResult, row};
use crate::failure::Result;

/// Pairs of each case.
const PAIRS: usize = 400;
/// Where the promises are near to each other: 400 pairs know a share of 95 % to a standard error of
/// 1.1 %, these to 0.5 %.
const MANY_PAIRS: usize = 2000;
const QUICK_PAIRS: usize = 40;
const PERIOD: Nanos = Nanos::from_millis(1);
const MINUTE: usize = 60_000;

pub(crate) const FIGURE: Figure = Figure {
    name: "compare",
    promise: "At most 5 % of equal pairs are called different; in 95 % of pairs, `compare` finds a \
              change of +50 % with one run per side, and of +30 % with four runs per side",
    measure,
};

/// How latencies follow each other.
#[derive(Debug, Clone, Copy)]
enum Samples {
    /// Independent: 10 us and an exponential part of mean 5 us.
    Independent,
    /// The logarithm is a Gaussian autoregression of this coefficient.
    Correlated(f64),
    /// Two seconds each with and without a load that makes the exponential part three times as
    /// long.
    OnAndOff,
}

/// What is asked of the pairs of a case.
#[derive(Debug, Clone, Copy)]
enum Requirement {
    /// At most 5 % are called worse or better.
    WrongAtMost,
    /// At least so many per cent have this verdict.
    AtLeast(Outcome, usize),
}

#[derive(Debug, Clone, Copy)]
struct Case {
    samples: Samples,
    /// Standard deviation of the logarithm of a run's level.
    spread: f64,
    /// Runs per side, and samples of each.
    runs: usize,
    length: usize,
    /// How many times as long the candidate's latencies are.
    times: f64,
    margin: f64,
    /// As `--between-runs`.
    between_runs: Option<f64>,
    asked: Requirement,
    /// How many pairs are drawn.
    pairs: usize,
}

const EQUAL: Case = Case {
    samples: Samples::Independent,
    spread: 0.0,
    runs: 1,
    length: MINUTE,
    times: 1.0,
    margin: 0.05,
    between_runs: None,
    asked: Requirement::WrongAtMost,
    pairs: PAIRS,
};

const CASES: &[Case] = &[
    EQUAL,
    Case {
        spread: 0.05,
        ..EQUAL
    },
    Case {
        spread: 0.1,
        pairs: MANY_PAIRS,
        ..EQUAL
    },
    Case { runs: 4, ..EQUAL },
    Case {
        runs: 4,
        spread: 0.05,
        ..EQUAL
    },
    Case {
        runs: 4,
        spread: 0.1,
        ..EQUAL
    },
    Case {
        spread: 0.05,
        times: 1.5,
        pairs: MANY_PAIRS,
        asked: Requirement::AtLeast(Outcome::Worse, 95),
        ..EQUAL
    },
    Case {
        runs: 4,
        spread: 0.05,
        times: 1.3,
        asked: Requirement::AtLeast(Outcome::Worse, 95),
        ..EQUAL
    },
    Case {
        length: 10 * MINUTE,
        margin: 0.1,
        between_runs: Some(0.0),
        asked: Requirement::AtLeast(Outcome::Equivalent, 80),
        ..EQUAL
    },
    Case {
        runs: 4,
        length: 10 * MINUTE,
        margin: 0.1,
        asked: Requirement::AtLeast(Outcome::Equivalent, 80),
        pairs: PAIRS / 4,
        ..EQUAL
    },
    Case {
        samples: Samples::Correlated(0.99),
        between_runs: Some(0.0),
        ..EQUAL
    },
    Case {
        samples: Samples::OnAndOff,
        between_runs: Some(0.0),
        ..EQUAL
    },
];

fn measure(bench: &Bench) -> Result<FigureResult> {
    let mut table = vec![row([
        "samples",
        "between runs",
        "runs per side",
        "length",
        "truth",
        "margin",
        "--between-runs",
        "pairs",
        "worse",
        "better",
        "equivalent",
        "open",
        "asked",
        "holds",
    ])];
    let mut failed = 0;
    for (index, case) in CASES.iter().enumerate() {
        let pairs = if bench.is_quick {
            case.pairs * QUICK_PAIRS / PAIRS
        } else {
            case.pairs
        };
        let outcomes = outcomes(case, index, pairs);
        let count = |outcome: Outcome| outcomes.iter().filter(|&&found| found == outcome).count();
        let holds = match case.asked {
            Requirement::WrongAtMost => {
                (count(Outcome::Worse) + count(Outcome::Better)) * 100 <= pairs * 5
            }
            Requirement::AtLeast(outcome, percent) => count(outcome) * 100 >= pairs * percent,
        };
        failed += usize::from(!holds);
        table.push(cells(case, pairs, &count, holds));
    }
    let reached = format!("{} of {} cases hold", CASES.len() - failed, CASES.len());
    Ok(FigureResult {
        reached,
        tables: vec![table],
        commands: vec!["cargo xtask bench compare".to_owned()],
        notes: vec![
            "Runs are made in memory, one CPU at 1 kHz, and compared by the library's own \
             functions with the defaults of `tardy compare` and 1000 resamples, except where the \
             table differs."
                .to_owned(),
            "Independent samples are 10 us and an exponential part of mean 5 us; correlated ones \
             are 15 us times the exponential of 0.3 times a Gaussian autoregression of \
             coefficient 0.99; on and off: two seconds each with and without an exponential part \
             three times as long."
                .to_owned(),
            "Between runs: all latencies of a run are multiplied by the exponential of a Gaussian \
             number of this standard deviation, drawn for each run."
                .to_owned(),
            "One run per side at the default spread of 8.5 % can call nothing equivalent within 10 \
             %: only four runs per side, or a stated spread, can."
                .to_owned(),
        ],
    })
}

fn cells(case: &Case, pairs: usize, count: &dyn Fn(Outcome) -> usize, holds: bool) -> Vec<String> {
    let percent = |share: f64| format!("{} %", (share * 1000.0).round() / 10.0);
    let samples = match case.samples {
        Samples::Independent => "independent",
        Samples::Correlated(_) => "correlated",
        Samples::OnAndOff => "on and off",
    };
    let asked = match case.asked {
        Requirement::WrongAtMost => "worse or better at most 5 %".to_owned(),
        Requirement::AtLeast(outcome, least) => format!("{} at least {least} %", outcome.word()),
    };
    let truth = if case.times > 1.0 {
        format!("+{}", percent(case.times - 1.0))
    } else {
        "equal".to_owned()
    };
    let outcomes = [
        Outcome::Worse,
        Outcome::Better,
        Outcome::Equivalent,
        Outcome::Inconclusive,
    ]
    .map(|outcome| count(outcome).to_string());
    let setting = [
        samples.to_owned(),
        percent(case.spread),
        case.runs.to_string(),
        format!("{} min", case.length / MINUTE),
        truth,
        percent(case.margin),
        case.between_runs
            .map_or_else(|| "default".to_owned(), percent),
        pairs.to_string(),
    ];
    setting
        .into_iter()
        .chain(outcomes)
        .chain([asked, if holds { "yes" } else { "no" }.to_owned()])
        .collect()
}

/// The verdict of each pair, the same for ever.
fn outcomes(case: &Case, index: usize, pairs: usize) -> Vec<Outcome> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let of_pair = |pair: usize| outcome(case, (index * 1_000_000 + pair) as u64);
    let mut all: Vec<(usize, Outcome)> = std::thread::scope(|scope| {
        let part = |first: usize| {
            move || {
                (first..pairs)
                    .step_by(threads)
                    .map(|pair| (pair, of_pair(pair)))
                    .collect::<Vec<_>>()
            }
        };
        let running: Vec<_> = (0..threads).map(|first| scope.spawn(part(first))).collect();
        running
            .into_iter()
            .flat_map(|thread| thread.join().expect("a comparison does not panic"))
            .collect()
    });
    all.sort_unstable_by_key(|(pair, _)| *pair);
    all.into_iter().map(|(_, outcome)| outcome).collect()
}

fn outcome(case: &Case, seed: u64) -> Outcome {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut side = |times: f64| -> Vec<RunGroup> {
        (0..case.runs)
            .map(|_| RunGroup::of_samples(&latencies(case, times, &mut random), PERIOD, None))
            .collect()
    };
    let (base, candidate) = (side(1.0), side(case.times));
    let settings = Settings {
        margin: Margin::Share(case.margin),
        confidence: Confidence::NINETY_FIVE,
        resamples: 1000,
        seed: 1,
        window: None,
        quantiles: vec![0.5, 0.9, 0.99, 0.999, 0.9999, 0.999_99],
        are_quantiles_given: false,
        between_runs: case.between_runs,
        block: None,
        phase: None,
        is_across_clocks: false,
    };
    let key = Key {
        probe: "cyclic".to_owned(),
        quantity: "latency".to_owned(),
        unit: "ns".to_owned(),
        load: None,
    };
    let mut tables: Vec<_> = table(&key, &base, &candidate, &settings, 1)
        .into_iter()
        .collect();
    settle(&mut tables, &settings);
    verdict::of_tables(&tables).0
}

/// The samples of one run.
fn latencies(case: &Case, times: f64, random: &mut Pcg64) -> Vec<i64> {
    let level = times * (case.spread * gaussian(random)).exp();
    let mut state = gaussian(random);
    let sample = |index: usize| {
        let exponential = |random: &mut Pcg64| -f64::ln(1.0 - random.random::<f64>());
        let latency = match case.samples {
            Samples::Independent => 10_000.0 + 5_000.0 * exponential(random),
            Samples::OnAndOff if index % 4_000 < 2_000 => 10_000.0 + 15_000.0 * exponential(random),
            Samples::OnAndOff => 10_000.0 + 5_000.0 * exponential(random),
            Samples::Correlated(coefficient) => {
                state = coefficient * state
                    + (1.0 - coefficient * coefficient).sqrt() * gaussian(random);
                15_000.0 * (0.3 * state).exp()
            }
        };
        (level * latency) as i64
    };
    (0..case.length).map(sample).collect()
}

/// By Box and Muller's way.
fn gaussian(random: &mut Pcg64) -> f64 {
    let (radius, angle) = (1.0 - random.random::<f64>(), random.random::<f64>());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}
