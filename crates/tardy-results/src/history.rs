//! Builds of many boards over time: after which build numbers became worse, and whether somebody accepted that.

mod accepted;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;
use tardy_core::units::Nanos;
use tardy_run::record::RunRecord;
use tardy_statistics::regressions::{Alarm, Watch, alarms};
use tardy_statistics::tally::Tally;

pub use accepted::{AcceptedError, accept};

use crate::compare::changes::folders_once;
use crate::compare::facts::{self, FactDifference};
use crate::compare::group::{Key, groups};
use crate::compare::margin::Margin;
use crate::compare::model::Outcome;
use crate::compare::read::one_clock;
use crate::compare::side::{CompareError, RunSide};

/// Quantiles that are followed: the median, and the highest of the others that every run of a series has samples beyond.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
/// Samples beyond a quantile that every run needs for it.
const BEYOND_MIN: f64 = 10.0;
/// Labels that name a run's build and board.
const BUILD: &str = "build";
const BOARD: &str = "board";

/// Builds of boards, and what changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct History {
    /// Worse where a change for the worse is open.
    pub verdict: Outcome,
    /// The same in words.
    pub reason: String,
    /// Difference that does not matter.
    pub margin: Margin,
    /// In the order of names.
    pub boards: Vec<String>,
    /// In the order of their first runs.
    pub builds: Vec<Build>,
    /// One for each board, probe, quantity, load and quantile.
    pub series: Vec<Series>,
    /// In the order in which they were found.
    pub changes: Vec<LastingChange>,
}

/// What was built, and measured on any board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Build {
    /// The label `build`, or the day of the start.
    pub name: String,
    /// Wall-clock time of its first run, ns since 1970.
    pub started_realtime_ns: Nanos,
    /// Runs on all boards.
    pub runs: usize,
    /// Whether changes that begin with it are accepted.
    pub is_accepted: bool,
}

/// One number a build.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    pub board: String,
    /// Which probe, quantity and load.
    pub key: Key,
    pub quantile: f64,
    /// Geometric mean of the runs of each build; absent where the board did not run it.
    pub values_ns: Vec<Option<f64>>,
}

/// A change that lasted for two builds or more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LastingChange {
    /// What changed, in words.
    pub what: String,
    /// Places of its series.
    pub series: Vec<usize>,
    /// Place of the first build after it.
    pub from: usize,
    /// Place of the build with which it was found.
    pub found: usize,
    /// Share of the level before by which it is higher, on the mean of its series.
    pub share: f64,
    /// Of such a difference by chance, before it is shared out among all that were looked for.
    pub probability: f64,
    /// Whether it is for the worse, not accepted, and not made up for since.
    pub is_open: bool,
    /// What two runs of one board, before and after, say of their machines and plans that is not the same.
    pub changed: Vec<FactDifference>,
}

/// One run of a series: its build, and its quantiles where it has samples beyond them.
type Values = Vec<(usize, [Option<f64>; QUANTILES.len()])>;

/// Reads the runs at or below `paths`; those that somebody accepted stand in the first of them.
///
/// # Errors
/// [`CompareError`] where a run cannot be read; [`AcceptedError`] where the list of accepted builds cannot.
pub fn history(paths: &[PathBuf], margin: Margin) -> Result<History, HistoryError> {
    let accepted = accepted::read(paths)?;
    let mut runs = Vec::new();
    for folder in folders_once(paths) {
        runs.push(RunSide::read(&folder, None).map_err(CompareError::from)?);
    }
    runs.sort_by_key(|run| (run.record.started.realtime_ns, run.folder.clone()));
    one_clock(runs.iter())?;
    let (builds, build_of) = builds(&runs, &accepted);
    let mut of_series: BTreeMap<(String, Key), Values> = BTreeMap::new();
    for (run, &build) in runs.iter().zip(&build_of) {
        let groups = groups(run, None).map_err(CompareError::from)?;
        let has_loads = groups.keys().any(|key| key.load.is_some());
        for (key, group) in groups.into_iter().filter(|(key, _)| key.load.is_some() == has_loads) {
            let mut counts = Vec::new();
            group.exact.for_each(|value, count| counts.push((value as f64, count)));
            let tally = Tally::from_counts(counts);
            let value = |quantile: f64| {
                let is_known = tally.total() as f64 * (1.0 - quantile) >= BEYOND_MIN;
                is_known.then(|| tally.quantile(quantile)).flatten()
            };
            of_series.entry((board(&run.record), key)).or_default().push((build, QUANTILES.map(value)));
        }
    }
    let series: Vec<Series> =
        of_series.into_iter().flat_map(|((board, key), values)| series_of(&board, &key, &values, builds.len())).collect();
    let boards: Vec<String> = series.iter().map(|series| series.board.clone()).collect::<BTreeSet<_>>().into_iter().collect();
    let changes = changes(&series, &builds, &boards, &runs, &build_of, margin);
    let (verdict, reason) = verdict(&changes, &builds);
    Ok(History { verdict, reason, margin, boards, builds, series, changes })
}

/// Why there is no history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error(transparent)]
    Runs(#[from] CompareError),
    #[error(transparent)]
    Accepted(#[from] AcceptedError),
}

fn board(record: &RunRecord) -> String {
    let label = record.plan.labels.get(BOARD).cloned();
    label.or_else(|| record.machine.host_name.clone()).unwrap_or_else(|| "board without a name".to_owned())
}

/// All builds in the order of their first runs, and the place of each run's.
fn builds(runs: &[RunSide], accepted: &BTreeSet<String>) -> (Vec<Build>, Vec<usize>) {
    let mut builds: Vec<Build> = Vec::new();
    let place = |run: &RunSide| {
        let started = run.record.started.realtime_ns;
        let name = run.record.plan.labels.get(BUILD).cloned().unwrap_or_else(|| day(started));
        let known = builds.iter().position(|build| build.name == name).unwrap_or_else(|| {
            let is_accepted = accepted.contains(&name);
            builds.push(Build { name, started_realtime_ns: started, runs: 0, is_accepted });
            builds.len() - 1
        });
        builds[known].runs += 1;
        known
    };
    let places = runs.iter().map(place).collect();
    (builds, places)
}

/// The day of a time in UTC, as in 2026-11-23.
fn day(time: Nanos) -> String {
    Timestamp::from_nanosecond(i128::from(time.get())).unwrap_or_default().strftime("%Y-%m-%d").to_string()
}

/// The median, and the highest quantile that every run has.
fn series_of(board: &str, key: &Key, values: &Values, builds: usize) -> Vec<Series> {
    let is_whole = |place: &usize| values.iter().all(|(_, quantiles)| quantiles[*place].is_some());
    let highest = (0..QUANTILES.len()).rev().find(is_whole);
    let places: BTreeSet<usize> = highest.into_iter().chain(is_whole(&0).then_some(0)).collect();
    let series = |place: usize| {
        let mut sums = vec![(0.0, 0_u32); builds];
        for (build, quantiles) in values {
            if let Some(value) = quantiles[place] {
                sums[*build].0 += value.max(1.0).ln();
                sums[*build].1 += 1;
            }
        }
        let values_ns = sums.iter().map(|(sum, count)| (*count > 0).then(|| (sum / f64::from(*count)).exp())).collect();
        Series { board: board.to_owned(), key: key.clone(), quantile: QUANTILES[place], values_ns }
    };
    places.into_iter().map(series).collect()
}

/// Series that may change together, each family with its name: each alone, those of a load on a board and on all, of a board, and all.
fn families(series: &[Series], boards: &[String]) -> Vec<(String, Vec<usize>)> {
    let percent = |series: &Series| format!("{} % of {}", (series.quantile * 1e9).round() / 1e7, series.key);
    let of_all = |belongs: &dyn Fn(&Series) -> bool| -> Vec<usize> {
        series.iter().enumerate().filter(|(_, series)| belongs(series)).map(|(place, _)| place).collect()
    };
    let mut families: Vec<(String, Vec<usize>)> = Vec::new();
    families.push(("all numbers of all boards".to_owned(), of_all(&|_| true)));
    for board in boards {
        families.push((format!("all numbers of {board}"), of_all(&|series| series.board == *board)));
    }
    for one in series {
        families.push((format!("{} on all boards", one.key), of_all(&|other| other.key == one.key)));
    }
    for one in series {
        families.push((format!("{} on {}", one.key, one.board), of_all(&|other| other.key == one.key && other.board == one.board)));
        let members = of_all(&|other| other.key == one.key && other.quantile.total_cmp(&one.quantile).is_eq());
        families.push((format!("{} on all boards", percent(one)), members));
    }
    families.extend(series.iter().enumerate().map(|(place, one)| (format!("{} on {}", percent(one), one.board), vec![place])));
    // The last name of a set of series is the narrowest.
    let mut known = BTreeSet::new();
    families.reverse();
    families.retain(|(_, members)| known.insert(members.clone()));
    families
}

fn changes(
    series: &[Series],
    builds: &[Build],
    boards: &[String],
    runs: &[RunSide],
    build_of: &[usize],
    margin: Margin,
) -> Vec<LastingChange> {
    let families = families(series, boards);
    let difference_min = match margin {
        Margin::Share(share) => share.ln_1p(),
        Margin::Time(_) => 0.0,
    };
    let values: Vec<Vec<Option<f64>>> =
        series.iter().map(|series| series.values_ns.iter().map(|value| value.map(|value| value.max(1.0).ln())).collect()).collect();
    let members: Vec<Vec<usize>> = families.iter().map(|(_, members)| members.clone()).collect();
    let found = alarms(&values, &members, Watch { difference_min, ..Watch::default() });
    let is_open = |alarm: &Alarm, later: &[Alarm]| {
        let shares_series = |other: &Alarm| members[other.family].iter().any(|member| members[alarm.family].contains(member));
        alarm.difference > 0.0
            && !builds[alarm.from].is_accepted
            && !later.iter().any(|other| other.difference < 0.0 && shares_series(other))
    };
    let change = |(index, alarm): (usize, &Alarm)| {
        let series_of: &[usize] = &members[alarm.family];
        LastingChange {
            what: families[alarm.family].0.clone(),
            series: series_of.to_vec(),
            from: alarm.from,
            found: alarm.found,
            share: alarm.difference.exp_m1(),
            probability: alarm.probability,
            is_open: is_open(alarm, &found[index + 1..]),
            changed: changed(runs, build_of, &series[series_of[0]].board, alarm.from),
        }
    };
    let matters = |change: &LastingChange| match margin {
        Margin::Share(_) => true,
        Margin::Time(_) => change.series.iter().any(|&place| {
            let before = series[place].values_ns[..change.from].iter().flatten().last().copied().unwrap_or(0.0);
            (before * change.share).abs() > margin.of(before)
        }),
    };
    found.iter().enumerate().map(change).filter(matters).collect()
}

/// What differs between the last run of a board before a build and its first one from there on.
fn changed(runs: &[RunSide], build_of: &[usize], board_name: &str, from: usize) -> Vec<FactDifference> {
    let of_board = || runs.iter().zip(build_of).filter(|(run, _)| board(&run.record) == board_name);
    let before = of_board().rfind(|(_, build)| **build < from);
    let after = of_board().find(|(_, build)| **build >= from);
    before.zip(after).map_or_else(Vec::new, |((before, _), (after, _))| facts::differences(&before.record, &after.record))
}

fn verdict(changes: &[LastingChange], builds: &[Build]) -> (Outcome, String) {
    let words = |change: &LastingChange| format!("{} by {:+.0} % since {}", change.what, change.share * 100.0, builds[change.from].name);
    let open: Vec<&LastingChange> = changes.iter().filter(|change| change.is_open).collect();
    let needed = Watch::default().baseline_min + 2;
    match (open.first(), changes.last()) {
        (Some(first), _) => {
            let more = if open.len() > 1 { format!(", and {} more", open.len() - 1) } else { String::new() };
            (Outcome::Worse, format!("{}{more}", words(first)))
        }
        (None, Some(last)) if last.share < 0.0 => (Outcome::Better, words(last)),
        (None, None) if builds.len() < needed => {
            let few = if builds.len() == 1 { "1 build is".to_owned() } else { format!("{} builds are", builds.len()) };
            (Outcome::Inconclusive, format!("{few} too few to show a change: at least {needed} are needed"))
        }
        (None, Some(_)) => (Outcome::Equivalent, "every change is accepted".to_owned()),
        (None, None) => (Outcome::Equivalent, format!("no change in {} builds", builds.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_that_of_the_calendar() {
        let days = [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (1_795_392_000, "2026-11-23"), (-1, "1969-12-31")];
        for (seconds, expected) in days {
            assert_eq!(day(Nanos(seconds * 1_000_000_000)), expected);
        }
    }

    #[test]
    fn a_set_of_series_has_its_narrowest_name() {
        let key = |load: &str| Key { probe: "cyclic".into(), quantity: "latency".into(), unit: "ns".into(), load: Some(load.into()) };
        let series = |board: &str, load: &str| Series { board: board.into(), key: key(load), quantile: 0.999, values_ns: Vec::new() };
        let alone = families(&[series("a", "idle")], &["a".to_owned()]);
        assert_eq!(alone, [("99.9 % of cyclic latency under idle on a".to_owned(), vec![0])]);
        let boards = ["a".to_owned(), "b".to_owned()];
        let all = [series("a", "idle"), series("a", "io"), series("b", "idle"), series("b", "io")];
        let names: Vec<(String, Vec<usize>)> = families(&all, &boards);
        assert_eq!(names.len(), 4 + 2 + 2 + 1);
        assert!(names.contains(&("99.9 % of cyclic latency under io on all boards".to_owned(), vec![1, 3])));
        assert!(names.contains(&("all numbers of b".to_owned(), vec![2, 3])));
    }
}
