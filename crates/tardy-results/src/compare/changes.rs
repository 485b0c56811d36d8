//! Shared code for changes of one number per run, for latencies and costs over time.
//!
//! Numbers over time share the probability of a change. If many probes, quantiles and metrics are
//! tested separately, some change by chance.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tardy_run::folder::folders;
use tardy_run::record::RunRecord;
use tardy_statistics::change_point::{Search, change_points};

use super::facts::{self, FactDifference};
use super::margin::Margin;
use super::model::Outcome;

/// Minimum number of runs that can show a change: the test needs several on each side of it.
pub(super) const RUNS_MIN: usize = 8;

/// A change of one number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Index of the first run after the change.
    pub run: usize,
    /// Geometric mean of the runs since the previous change, in the unit of the runs despite `_ns`.
    pub before_ns: f64,
    /// Geometric mean of the runs up to the next change.
    pub after_ns: f64,
    /// Probability of such a difference by chance.
    pub probability: f64,
}

/// A change of a number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Index of the first run after the change.
    pub run: usize,
    /// Differences between the machines and plans of the two runs.
    pub changed: Vec<FactDifference>,
}

/// Returns the runs at or below `paths`, each once: a repeated run would look like a lasting level.
pub fn folders_once(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut known = BTreeSet::new();
    let mut is_new =
        |folder: &PathBuf| known.insert(folder.canonicalize().unwrap_or_else(|_| folder.clone()));
    paths
        .iter()
        .flat_map(|path| folders(path))
        .filter(|folder| is_new(folder))
        .collect()
}

/// Returns the parameters of the search in each of `tracks`: some of many numbers change by chance,
/// so they share the probability.
pub(super) fn search(tracks: usize) -> Search {
    let one = Search::default();
    Search {
        probability_max: one.probability_max / tracks.max(1) as f64,
        ..one
    }
}

/// Returns the test needs numbers that are about normal: the logarithms of high quantiles and of
/// costs are.
pub(super) fn steps(values: &[f64], margin: Margin, search: Search) -> Vec<Step> {
    let logarithms: Vec<f64> = values.iter().map(|value| value.max(1.0).ln()).collect();
    let difference_min = match margin {
        Margin::Share(share) => share.ln_1p(),
        Margin::Time(_) => 0.0,
    };
    let found = change_points(
        &logarithms,
        Search {
            difference_min,
            ..search
        },
    );
    let steps = found.into_iter().map(|change| Step {
        run: change.index,
        before_ns: change.mean_before.exp(),
        after_ns: change.mean_after.exp(),
        probability: change.probability,
    });
    steps
        .filter(|step| (step.after_ns - step.before_ns).abs() > margin.of(step.before_ns))
        .collect()
}

/// Returns what else changed wherever any number did.
pub(super) fn changes<'a>(
    steps: impl Iterator<Item = &'a Step>,
    records: &[&RunRecord],
) -> Vec<Change> {
    let places: BTreeSet<usize> = steps.map(|step| step.run).collect();
    places
        .into_iter()
        .map(|run| Change {
            run,
            changed: facts::differences(records[run - 1], records[run]),
        })
        .collect()
}

/// Returns the verdict on the latest change of each number, with its text: the worst if one is
/// worse, otherwise the best.
pub(super) fn verdict(
    latest: impl Iterator<Item = (Step, String)>,
    runs: usize,
) -> (Outcome, String) {
    let factor = |step: &Step| step.after_ns / step.before_ns;
    let latest: Vec<(f64, String)> = latest.map(|(step, words)| (factor(&step), words)).collect();
    let worst = latest.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    let best = latest.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    match (worst, best) {
        (Some((factor, words)), _) if *factor > 1.0 => (Outcome::Worse, words.clone()),
        (_, Some((_, words))) => (Outcome::Better, words.clone()),
        _ if runs >= RUNS_MIN => (Outcome::Equivalent, format!("no change in {runs} runs")),
        _ => (
            Outcome::Inconclusive,
            format!("{runs} runs are too few to show a change: at least {RUNS_MIN} are needed"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(before: f64, after: f64) -> (Step, String) {
        (
            Step {
                run: 4,
                before_ns: before,
                after_ns: after,
                probability: 0.0,
            },
            format!("{before} -> {after}"),
        )
    }

    #[test]
    fn one_number_that_became_worse_outweighs_all_that_became_better() {
        let latest = [step(10.0, 5.0), step(10.0, 12.0), step(10.0, 11.0)];
        assert_eq!(
            verdict(latest.into_iter(), 10),
            (Outcome::Worse, "10 -> 12".to_owned())
        );
        let latest = [step(10.0, 8.0), step(10.0, 5.0)];
        assert_eq!(
            verdict(latest.into_iter(), 10),
            (Outcome::Better, "10 -> 5".to_owned())
        );
        assert_eq!(verdict(std::iter::empty(), RUNS_MIN).0, Outcome::Equivalent);
        assert_eq!(
            verdict(std::iter::empty(), RUNS_MIN - 1).0,
            Outcome::Inconclusive
        );
    }

    #[test]
    fn many_numbers_share_the_probability_of_one() {
        let alone = search(1).probability_max;
        assert!((search(4).probability_max * 4.0 - alone).abs() < 1e-12);
        assert!((search(0).probability_max - alone).abs() < 1e-12);
    }
}
