//! Finds changes over time in series that have one number per run. Comparisons of latencies over
//! time and of costs over time share this code.
//!
//! The allowed probability of a false change is divided among all numbers. If many probes,
//! quantiles and metrics were each tested with the full probability, some of them would seem to
//! change by chance.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tardy_run::folder::folders;
use tardy_run::record::RunRecord;
use tardy_statistics::change_point::{Search, change_points};

use super::facts::{self, FactDifference};
use super::margin::Margin;
use super::model::Outcome;

/// Minimum number of runs that can show a change. The test needs several runs before and after the
/// change.
pub(super) const RUNS_MIN: usize = 8;

/// A change of one number, such as a quantile or a cost, from one run to the next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Index of the first run after the change.
    pub run: usize,
    /// Geometric mean of the runs since the previous change. Its unit is the unit of the runs,
    /// although the name ends in `_ns`.
    pub before_ns: f64,
    /// Geometric mean of the runs from this change to the next one.
    pub after_ns: f64,
    /// Probability that chance alone causes a difference of this size.
    pub probability: f64,
}

/// A run at which at least one number changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Index of the first run after the change.
    pub run: usize,
    /// The facts about machine and plan that differ from the previous run.
    pub changed: Vec<FactDifference>,
}

/// Returns the folders of the runs at or below `paths`, without duplicates. A run that is given
/// twice would look like a constant level.
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

/// Returns the parameters of the search for changes in each of `tracks` numbers. The allowed
/// probability of a false change is divided among the numbers, because if there are many numbers,
/// some change by chance.
pub(super) fn search(tracks: usize) -> Search {
    let one = Search::default();
    Search {
        probability_max: one.probability_max / tracks.max(1) as f64,
        ..one
    }
}

/// Returns the changes in `values`, one value per run, that exceed `margin`. The test uses
/// logarithms, because the logarithms of high quantiles and of costs are approximately normal.
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

/// Returns, for each run at which any number changed, the facts that changed at the same time.
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

/// Returns the verdict on the latest changes, and the text that states it. If any numbers got
/// worse, the one that got worse most decides the verdict. If no number got worse, the one that
/// improved most decides it.
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
        _ if runs >= RUNS_MIN => (Outcome::Equivalent, format!("{runs} runs show no change")),
        _ => (
            Outcome::Inconclusive,
            format!("too few to show a change: at least {RUNS_MIN} runs are needed"),
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
