//! How often `tardy history` raises a false alarm, and how soon it finds a regression, on made
//! histories of many boards.
//!
//! The histories are made in memory and go through what the command uses
//! (`tardy_statistics::regressions`); the same seed gives the same numbers.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_statistics::regressions::{Watch, alarms};

use super::figure::{Bench, Figure, FigureResult, row};
use crate::failure::Result;

pub(crate) const FIGURE: Figure = Figure {
    name: "history",
    promise: "200 builds of noise give at most one false alarm; a change of 15 % on one board, under one load, or everywhere is found within 3 builds in 95 % of cases",
    measure,
};

const HISTORIES: u64 = 200;
const HISTORIES_QUICK: u64 = 10;
const BOARDS: usize = 20;
const LOADS: usize = 10;
const SERIES: usize = BOARDS * LOADS;
/// Builds of a history of noise.
const BUILDS: usize = 200;
/// The first build that is worse, and how many there are then.
const FROM: usize = 40;
const AFTER: usize = 20;
const NOISE: f64 = 0.05;
const WORSE: f64 = 1.15;
/// Smaller differences are none: the command's own margin.
const MARGIN: f64 = 0.05;
/// Builds within which a regression is found, one column each.
const WITHIN: [usize; 5] = [2, 3, 4, 5, 7];

/// What becomes worse: whether it is this board and load.
type CaseFilter = fn(usize, usize) -> bool;

const CASES: [(&str, CaseFilter); 4] = [
    ("all loads of one board", |board, _| board == 3),
    ("one load on all boards", |_, load| load == 7),
    ("everything", |_, _| true),
    ("one load on one board", |board, load| {
        (board, load) == (3, 7)
    }),
];

fn watch() -> Watch {
    Watch {
        difference_min: (1.0 + MARGIN).ln(),
        ..Watch::default()
    }
}

fn measure(bench: &Bench) -> Result<FigureResult> {
    let histories = bench
        .runs
        .unwrap_or(if bench.is_quick {
            HISTORIES_QUICK
        } else {
            HISTORIES
        })
        .max(1);
    let families = families();
    let false_alarms = of_each(histories, |seed| {
        alarms(&made(seed, BUILDS, |_, _| false), &families, watch()).len()
    });
    let mut of_noise = vec![row([
        "200 builds of noise",
        "histories",
        "without a false alarm",
        "one",
        "two or more",
        "false alarms per build",
    ])];
    let with =
        |count: fn(usize) -> bool| false_alarms.iter().filter(|&&alarms| count(alarms)).count();
    let several = with(|alarms| alarms > 1);
    of_noise.push(vec![
        "20 boards, 10 loads".to_owned(),
        histories.to_string(),
        with(|alarms| alarms == 0).to_string(),
        with(|alarms| alarms == 1).to_string(),
        several.to_string(),
        format!(
            "{:.5}",
            false_alarms.iter().sum::<usize>() as f64 / (histories as usize * BUILDS) as f64
        ),
    ]);
    let mut head = row(["15 % worse", "histories"]);
    head.extend(WITHIN.map(|builds| format!("found within {builds} builds, %")));
    let mut found = vec![head];
    let mut within_three = Vec::new();
    for (name, changed) in CASES {
        eprintln!("  {name}");
        let delays = of_each(histories, |seed| delay(seed, changed, &families));
        let share = |builds: usize| {
            delays
                .iter()
                .filter(|delay| delay.is_some_and(|delay| delay <= builds))
                .count() as f64
                / delays.len() as f64
        };
        let mut cells = vec![name.to_owned(), histories.to_string()];
        cells.extend(WITHIN.map(|builds| format!("{:.1}", 100.0 * share(builds))));
        found.push(cells);
        within_three.push(share(3));
    }
    let holds = |is_reached: bool| if is_reached { "holds" } else { "NOT reached" };
    let families_found = within_three[..3].iter().copied().fold(1.0, f64::min);
    Ok(FigureResult {
        reached: format!(
            "more than one false alarm in {several} of {histories} histories: {}; within 3 builds \
             at least {:.1} % of the regressions of a board, a load or everything: {}; {:.1} % of \
             those of one load on one board: {}",
            holds(several == 0),
            100.0 * families_found,
            holds(families_found >= 0.95),
            100.0 * within_three[3],
            holds(within_three[3] >= 0.95),
        ),
        commands: vec!["cargo xtask bench history".to_owned()],
        tables: vec![of_noise, found],
        notes: vec![
            format!(
                "Generated histories of {BOARDS} boards with {LOADS} loads each, and {} % of noise \
                 per build; the margin is the command's default, 5 %. Regressions begin at build \
                 {FROM}.",
                100.0 * NOISE
            ),
            "The command spreads one false alarm in 1000 builds over all families. Families overlap and small differences are ignored, so fewer occur."
                .to_owned(),
            "One load on one board cannot be found within 3 builds as often: one false alarm in 1000 builds, spread over 231 families, takes 5.0 standard deviations, and three \
             builds at 15 % with 5 % of noise (2.8 each) give 4.7 against a baseline that has \
             noise itself."
                .to_owned(),
            "Exact: the same seeds give the same numbers on every machine.".to_owned(),
        ],
    })
}

/// Of each seed, on all CPUs of this machine, in the order of the seeds.
fn of_each<T: Send>(histories: u64, one: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let some = |thread: u64| {
        (thread..histories)
            .step_by(threads as usize)
            .map(|seed| (seed, one(seed)))
            .collect::<Vec<_>>()
    };
    let mut all: Vec<(u64, T)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || some(thread)))
            .collect();
        running
            .into_iter()
            .flat_map(|thread| thread.join().expect("making histories does not panic"))
            .collect()
    });
    all.sort_by_key(|(seed, _)| *seed);
    all.into_iter().map(|(_, one)| one).collect()
}

/// Builds from the regression to its alarm, which names no series that did not change.
fn delay(seed: u64, changed: CaseFilter, families: &[Vec<usize>]) -> Option<usize> {
    let found = alarms(&made(seed, FROM + AFTER, changed), families, watch());
    let is_of_change = |family: usize| {
        families[family]
            .iter()
            .all(|&index| changed(index / LOADS, index % LOADS))
    };
    found
        .iter()
        .find(|alarm| alarm.found >= FROM && alarm.difference > 0.0 && is_of_change(alarm.family))
        .map(|alarm| alarm.found + 1 - FROM)
}

/// Logarithms of a quantile of each board under each load, over builds.
fn made(seed: u64, builds: usize, changed: CaseFilter) -> Vec<Vec<Option<f64>>> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut one = |index: usize| {
        let level = random.random_range(2.0..6.0);
        let shift = if changed(index / LOADS, index % LOADS) {
            WORSE.ln()
        } else {
            0.0
        };
        (0..builds)
            .map(|build| {
                Some(level + NOISE * normal(&mut random) + if build >= FROM { shift } else { 0.0 })
            })
            .collect()
    };
    (0..SERIES).map(&mut one).collect()
}

/// A normal number (Box and Muller).
fn normal(random: &mut Pcg64Mcg) -> f64 {
    let (one, other): (f64, f64) = (
        random.random_range(1e-12..1.0),
        random.random_range(0.0..1.0),
    );
    (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
}

/// Each load of each board, each board, each load, and all: those of the command.
fn families() -> Vec<Vec<usize>> {
    let boards =
        (0..BOARDS).map(|board| (0..SERIES).filter(|index| index / LOADS == board).collect());
    let loads = (0..LOADS).map(|load| (0..SERIES).filter(|index| index % LOADS == load).collect());
    (0..SERIES)
        .map(|index| vec![index])
        .chain(boards)
        .chain(loads)
        .chain([(0..SERIES).collect()])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_that_of_its_seed_and_worse_from_one_build_on() {
        assert_eq!(made(5, 50, |_, _| false), made(5, 50, |_, _| false));
        let (noise, worse) = (
            made(5, 50, |_, _| false),
            made(5, 50, |board, _| board == 3),
        );
        let differences: Vec<f64> = (0..50)
            .map(|build| worse[30][build].unwrap() - noise[30][build].unwrap())
            .collect();
        assert!(
            differences[..FROM].iter().all(|&one| one == 0.0)
                && differences[FROM..]
                    .iter()
                    .all(|&one| (one - WORSE.ln()).abs() < 1e-12)
        );
        assert_eq!(worse[29], noise[29]);
        assert_eq!(families().len(), 231);
        assert_eq!(of_each(5, |seed| seed), [0, 1, 2, 3, 4]);
    }
}
