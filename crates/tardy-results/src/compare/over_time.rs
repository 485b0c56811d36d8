//! Then and now: any number of runs in the order of time, and where their numbers changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tardy_core::units::three_digits;
use tardy_run::folder::folders;
use tardy_statistics::change_point::{Search, change_points};
use tardy_statistics::compare::equal_length::median_maximum;
use tardy_statistics::tally::Tally;

use super::alike::all_alike;
use super::facts::{self, FactDifference};
use super::group::{Key, RunGroup, groups};
use super::margin::Margin;
use super::model::{Outcome, RunFacts, Settings, SideSummary};
use super::read::{one_clock, summary};

use super::side::{CompareError, RunSide, Side};

/// Fewer runs cannot show a change: the test wants several on each side of it.
pub(super) const RUNS_MIN: usize = 8;
/// Samples beyond a quantile that every run needs for it.
const BEYOND_MIN: f64 = 10.0;

/// Runs in the order of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverTime {
    /// What the latest change of any number was.
    pub verdict: Outcome,
    /// The same in words.
    pub reason: String,
    /// How it was made.
    pub settings: Settings,
    /// The runs, oldest first.
    pub runs: Vec<RunFacts>,
    /// One for each probe and quantity that all runs have.
    pub tracks: Vec<Track>,
    /// Where any number changed: the place of the first run after it, and what else changed there.
    pub changes: Vec<Change>,
}

/// One number a run, over all runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Track {
    /// Which probe and quantity.
    pub key: Key,
    pub quantile: f64,
    /// Its value in each run.
    pub values_ns: Vec<f64>,
    /// The largest value of each run at the length of the shortest, for the eye: it is too wild to be tested.
    pub maxima_ns: Vec<f64>,
    /// Samples that those are the largest of.
    pub maxima_of: u64,
    /// Changes of the value that matter.
    pub steps: Vec<Step>,
}

/// A change of one number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Place of the first run after it.
    pub run: usize,
    /// Geometric mean of the runs since the change before.
    pub before_ns: f64,
    /// Geometric mean of the runs up to the next change.
    pub after_ns: f64,
    /// Of such a difference by chance.
    pub probability: f64,
}

/// What changed with a number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Place of the first run after it.
    pub run: usize,
    /// What the two runs say of their machines and plans that is not the same.
    pub changed: Vec<FactDifference>,
}

/// Reads the runs at or below `paths` and looks for changes; the order is that of their starts.
///
/// # Errors
/// [`CompareError`] where a run cannot be read, or the runs share nothing.
pub fn over_time(paths: &[PathBuf], settings: &Settings) -> Result<OverTime, CompareError> {
    let mut runs: Vec<RunSide> = Vec::new();
    let mut known = BTreeSet::new();
    for folder in paths.iter().flat_map(|path| folders(path)) {
        // A run that is named twice would look like a level that lasted.
        if known.insert(folder.canonicalize().unwrap_or_else(|_| folder.clone())) {
            runs.push(RunSide::read(&folder, settings.window)?);
        }
    }
    runs.sort_by_key(|run| (run.record.started.realtime_ns, run.folder.clone()));
    if !settings.is_across_clocks {
        one_clock(runs.iter())?;
    }
    let names: Vec<String> = paths.iter().take(2).map(|path| path.display().to_string()).collect();
    all_alike(&names.join(", "), &runs, false)?;
    let tracks = tracks(&runs, settings)?;
    let (verdict, reason) = verdict(&tracks, runs.len());
    let mut places: Vec<usize> = tracks.iter().flat_map(|track| track.steps.iter().map(|step| step.run)).collect();
    places.sort_unstable();
    places.dedup();
    let change = |run: usize| Change { run, changed: facts::differences(&runs[run - 1].record, &runs[run].record) };
    let changes = places.into_iter().map(change).collect();
    let SideSummary { runs, .. } = summary(&Side { name: String::new(), runs });
    Ok(OverTime { verdict, reason, settings: settings.clone(), runs, tracks, changes })
}

fn tracks(runs: &[RunSide], settings: &Settings) -> Result<Vec<Track>, CompareError> {
    let mut of_key: BTreeMap<Key, Vec<Tally>> = BTreeMap::new();
    for run in runs {
        for (key, group) in groups(run, settings.block)?.into_iter().filter(|(key, _)| key.load == settings.phase) {
            of_key.entry(key).or_default().push(tally(&group));
        }
    }
    let (whole, partial): (BTreeMap<_, _>, BTreeMap<_, _>) =
        of_key.into_iter().partition(|(_, tallies)| tallies.len() == runs.len() && tallies.iter().all(|tally| tally.total() > 0));
    if whole.is_empty() {
        let names: Vec<String> = partial.keys().map(Key::to_string).collect();
        let first = runs.first().map(|run| run.folder.display().to_string()).unwrap_or_default();
        return Err(CompareError::NothingShared {
            base: first,
            base_has: names.join(", "),
            other: "all others together".into(),
            other_has: "nothing that every run has".into(),
        });
    }
    Ok(whole.iter().flat_map(|(key, tallies)| tracks_of(key, tallies, settings)).collect())
}

fn tally(group: &RunGroup) -> Tally {
    let mut counts = Vec::new();
    group.exact.for_each(|value, count| counts.push((value as f64, count)));
    Tally::from_counts(counts)
}

/// The median, and the highest quantile that every run has samples beyond.
fn tracks_of(key: &Key, tallies: &[Tally], settings: &Settings) -> Vec<Track> {
    let shortest = tallies.iter().map(Tally::total).min().unwrap_or(0);
    let maxima_ns: Vec<f64> = tallies.iter().filter_map(|tally| median_maximum(tally, shortest)).collect();
    let highest = settings.quantiles.iter().copied().filter(|quantile| shortest as f64 * (1.0 - quantile) >= BEYOND_MIN).reduce(f64::max);
    let mut quantiles = vec![0.5];
    quantiles.extend(highest.filter(|&quantile| quantile > 0.5));
    quantiles
        .into_iter()
        .map(|quantile| {
            let values_ns: Vec<f64> = tallies.iter().filter_map(|tally| tally.quantile(quantile)).collect();
            let steps = steps(&values_ns, settings.margin, Search::default());
            Track { key: key.clone(), quantile, values_ns, maxima_ns: maxima_ns.clone(), maxima_of: shortest, steps }
        })
        .collect()
}

/// The test wants numbers that are about normal: those of a high quantile's logarithm are.
pub(super) fn steps(values_ns: &[f64], margin: Margin, search: Search) -> Vec<Step> {
    let logarithms: Vec<f64> = values_ns.iter().map(|value| value.max(1.0).ln()).collect();
    let difference_min = match margin {
        Margin::Share(share) => share.ln_1p(),
        Margin::Time(_) => 0.0,
    };
    let found = change_points(&logarithms, Search { difference_min, ..search });
    let steps = found.into_iter().map(|change| Step {
        run: change.index,
        before_ns: change.mean_before.exp(),
        after_ns: change.mean_after.exp(),
        probability: change.probability,
    });
    steps.filter(|step| (step.after_ns - step.before_ns).abs() > margin.of(step.before_ns)).collect()
}

fn verdict(tracks: &[Track], runs: usize) -> (Outcome, String) {
    let latest = |track: &Track| track.steps.last().map(|&step| (track.clone(), step));
    let mut latest: Vec<(Track, Step)> = tracks.iter().filter_map(latest).collect();
    latest.sort_by(|a, b| (b.1.after_ns / b.1.before_ns).total_cmp(&(a.1.after_ns / a.1.before_ns)));
    let words = |(track, step): &(Track, Step)| {
        let percent = (track.quantile * 1e9).round() / 1e7;
        let (before, after) = (three_digits(step.before_ns.round()), three_digits(step.after_ns.round()));
        format!("{percent} % quantile of {}: {before} -> {after} with run {}", track.key, step.run + 1)
    };
    match latest.first() {
        Some(worst) if worst.1.after_ns > worst.1.before_ns => (Outcome::Worse, words(worst)),
        Some(best) => (Outcome::Better, latest.last().map_or_else(|| words(best), words)),
        None if runs >= RUNS_MIN => (Outcome::Equivalent, format!("no change in {runs} runs")),
        None => (Outcome::Inconclusive, format!("{runs} runs are too few to show a change: at least {RUNS_MIN} are needed")),
    }
}
