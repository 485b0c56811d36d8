//! The history of many boards over their builds. Finds the build at which a number became worse,
//! and whether the user accepted this change.

mod accepted;
mod collected;
pub mod run;

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Serialize;
use tardy_core::units::Nanos;
use tardy_statistics::regressions::{Alarm, Watch, alarms};

pub use accepted::{AcceptedError, accept, accepted};
pub use collected::RunCollection;

use crate::compare::facts::FactDifference;
use crate::compare::group::Key;
use crate::compare::margin::Margin;
use crate::compare::model::Outcome;

/// The builds of all boards, with their numbers and changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct History {
    /// The verdict: worse if any change for the worse is neither accepted nor reversed.
    pub verdict: Outcome,
    /// The reason for the verdict.
    pub reason: String,
    /// Largest difference that does not matter to the user.
    pub margin: Margin,
    /// The boards in the order of their names.
    pub boards: Vec<String>,
    /// The builds in the order of their first runs.
    pub builds: Vec<Build>,
    /// A series for each board, probe, quantity, load and quantile.
    pub series: Vec<Series>,
    /// The changes in the order in which they were found.
    pub changes: Vec<LastingChange>,
}

/// A build that ran on at least one board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Build {
    /// The value of the label `build`, or, without this label, the day on which the run started.
    pub name: String,
    /// Wall-clock time at which the build's first run started, in ns since 1970.
    pub started_realtime_ns: Nanos,
    /// Number of runs on all boards.
    pub runs: usize,
    /// Whether changes that start with this build are accepted.
    pub is_accepted: bool,
}

/// One number for each build, such as a quantile of a probe on one board.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    pub board: String,
    /// The probe, quantity and load.
    pub key: Key,
    pub quantile: f64,
    /// For each build, the geometric mean of the values from its runs; `None` if the board did not
    /// run the build.
    pub values_ns: Vec<Option<f64>>,
}

/// A change that lasted for at least two builds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LastingChange {
    /// A text that describes the change.
    pub what: String,
    /// Indices of the series in which the number changed.
    pub series: Vec<usize>,
    /// Index of the first build with the change.
    pub from: usize,
    /// Index of the build whose runs gave enough evidence for the change.
    pub found: usize,
    /// Relative increase over the previous level, averaged over the series.
    pub share: f64,
    /// Probability that chance alone causes a difference of this size, before the correction for
    /// the number of tests.
    pub probability: f64,
    /// Whether the change is for the worse, and has been neither accepted nor reversed.
    pub is_open: bool,
    /// Facts about machine and plan that differ between the last run before the change and the
    /// first run after it; both runs are from the same board.
    pub changed: Vec<FactDifference>,
}

/// Computes the history of the collected runs. A change that starts with one of the `accepted`
/// builds is accepted: the numbers after it are the new level.
#[must_use]
pub fn history(runs: &RunCollection, accepted: &BTreeSet<String>, margin: Margin) -> History {
    let (builds, places) = runs.builds(accepted);
    let series = runs.series(&places);
    let boards: Vec<String> = series
        .iter()
        .map(|series| &series.board)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .cloned()
        .collect();
    let changed = |board: &str, from: usize| runs.changed(board, &places, from);
    let changes = changes(&series, &builds, changed, margin);
    let (verdict, reason) = verdict(&changes, &builds);
    History {
        verdict,
        reason,
        margin,
        boards,
        builds,
        series,
        changes,
    }
}

/// Returns the groups of series that may change together, each with its name. There are six kinds
/// of groups: all series; the series of one board; the series of one key, on all boards or on one
/// board; the series of one quantile of a key on all boards; and a single series.
fn families(series: &[Series]) -> Vec<(String, Vec<usize>)> {
    let percent = |series: &Series| {
        format!(
            "{} % of {}",
            (series.quantile * 1e9).round() / 1e7,
            series.key
        )
    };
    let mut families: Vec<(String, Vec<usize>)> = Vec::new();
    let mut add = |name: &dyn Fn(&Series) -> String| {
        let mut places: HashMap<String, usize> = HashMap::new();
        for (place, one) in series.iter().enumerate() {
            let family = *places.entry(name(one)).or_insert_with_key(|name| {
                families.push((name.clone(), Vec::new()));
                families.len() - 1
            });
            families[family].1.push(place);
        }
    };
    add(&|_| "all numbers of all boards".to_owned());
    add(&|one| format!("all numbers of {}", one.board));
    add(&|one| format!("{} on all boards", one.key));
    add(&|one| format!("{} on {}", one.key, one.board));
    add(&|one| format!("{} on all boards", percent(one)));
    add(&|one| format!("{} on {}", percent(one), one.board));
    // If a group has several names, the last one is used, because it is the most specific.
    let mut known = BTreeSet::new();
    families.reverse();
    families.retain(|(_, members)| known.insert(members.clone()));
    families
}

fn changes(
    series: &[Series],
    builds: &[Build],
    changed: impl Fn(&str, usize) -> Vec<FactDifference>,
    margin: Margin,
) -> Vec<LastingChange> {
    let families = families(series);
    let difference_min = match margin {
        Margin::Share(share) => share.ln_1p(),
        Margin::Time(_) => 0.0,
    };
    let values: Vec<Vec<Option<f64>>> = series
        .iter()
        .map(|series| {
            series
                .values_ns
                .iter()
                .map(|value| value.map(|value| value.max(1.0).ln()))
                .collect()
        })
        .collect();
    let members: Vec<Vec<usize>> = families
        .iter()
        .map(|(_, members)| members.clone())
        .collect();
    let found = alarms(
        &values,
        &members,
        Watch {
            difference_min,
            ..Watch::default()
        },
    );
    let is_open = |alarm: &Alarm, later: &[Alarm]| {
        let own: HashSet<usize> = members[alarm.family].iter().copied().collect();
        let shares_series = |other: &Alarm| {
            members[other.family]
                .iter()
                .any(|member| own.contains(member))
        };
        alarm.difference > 0.0
            && !builds[alarm.from].is_accepted
            && !later
                .iter()
                .any(|other| other.difference < 0.0 && shares_series(other))
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
            changed: changed(&series[series_of[0]].board, alarm.from),
        }
    };
    let matters = |change: &LastingChange| match margin {
        Margin::Share(_) => true,
        Margin::Time(_) => change.series.iter().any(|&place| {
            let before = series[place].values_ns[..change.from]
                .iter()
                .flatten()
                .last()
                .copied()
                .unwrap_or(0.0);
            (before * change.share).abs() > margin.of(before)
        }),
    };
    found
        .iter()
        .enumerate()
        .map(change)
        .filter(matters)
        .collect()
}

fn verdict(changes: &[LastingChange], builds: &[Build]) -> (Outcome, String) {
    let words = |change: &LastingChange| {
        format!(
            "{} by {:+.0} % since {}",
            change.what,
            change.share * 100.0,
            builds[change.from].name
        )
    };
    let open: Vec<&LastingChange> = changes.iter().filter(|change| change.is_open).collect();
    let needed = Watch::default().baseline_min + 2;
    match (open.first(), changes.last()) {
        (Some(first), _) => {
            let more = if open.len() > 1 {
                format!(", and {} more", open.len() - 1)
            } else {
                String::new()
            };
            (Outcome::Worse, format!("{}{more}", words(first)))
        }
        (None, Some(last)) if last.share < 0.0 => (Outcome::Better, words(last)),
        (None, None) if builds.len() < needed => {
            let few = if builds.len() == 1 {
                "1 build is".to_owned()
            } else {
                format!("{} builds are", builds.len())
            };
            (
                Outcome::Inconclusive,
                format!("{few} too few to show a change: at least {needed} are needed"),
            )
        }
        (None, Some(_)) => (Outcome::Equivalent, "every change is accepted".to_owned()),
        (None, None) => (
            Outcome::Equivalent,
            format!("{} builds show no change", builds.len()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_series_has_its_narrowest_name() {
        let key = |load: &str| Key {
            probe: "cyclic".into(),
            quantity: "latency".into(),
            unit: "ns".into(),
            load: Some(load.into()),
        };
        let series = |board: &str, load: &str| Series {
            board: board.into(),
            key: key(load),
            quantile: 0.999,
            values_ns: Vec::new(),
        };
        let alone = families(&[series("a", "idle")]);
        assert_eq!(
            alone,
            [(
                "99.9 % of cyclic latency under idle on a".to_owned(),
                vec![0]
            )]
        );
        let all = [
            series("a", "idle"),
            series("a", "io"),
            series("b", "idle"),
            series("b", "io"),
        ];
        let names: Vec<(String, Vec<usize>)> = families(&all);
        assert_eq!(names.len(), 4 + 2 + 2 + 1);
        assert!(names.contains(&(
            "99.9 % of cyclic latency under io on all boards".to_owned(),
            vec![1, 3]
        )));
        assert!(names.contains(&("all numbers of b".to_owned(), vec![2, 3])));
    }
}
