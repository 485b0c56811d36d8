//! A comparison over time: takes any number of runs, in chronological order, and finds the changes
//! in their numbers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tardy_core::units::three_digits;
use tardy_statistics::compare::equal_length::median_maximum;
use tardy_statistics::tally::Tally;

use super::alike::all_alike;
use super::changes::{self, Change, Step};
use super::group::{Key, RunGroup, groups};
use super::model::{Outcome, RunFacts, Settings, SideSummary};
use super::read::{load_of_phase, one_clock, summary};
use super::side::{CompareError, RunSide, Side};

/// A quantile is followed only if every run has at least this many samples beyond it.
const BEYOND_MIN: f64 = 10.0;

/// The result of a comparison over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverTime {
    /// The verdict on the latest change of any number.
    pub verdict: Outcome,
    /// The reason for the verdict.
    pub reason: String,
    /// The settings of the comparison.
    pub settings: Settings,
    /// The runs, oldest first.
    pub runs: Vec<RunFacts>,
    /// The tracks of each probe and quantity that occur in all runs: one track for the median and,
    /// if there are enough samples, one for a higher quantile.
    pub tracks: Vec<Track>,
    /// The runs at which any number changed, each with the facts that changed at the same time.
    pub changes: Vec<Change>,
}

/// A quantile of one probe and quantity, followed over all runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Track {
    /// The probe and quantity.
    pub key: Key,
    pub quantile: f64,
    /// Value of the quantile in each run.
    pub values_ns: Vec<f64>,
    /// An estimate for each run: the largest value that it would have if it were as short as the
    /// shortest run. These maxima are shown but not tested, because they vary too much.
    pub maxima_ns: Vec<f64>,
    /// The number of samples in the shortest run, for which the values in `maxima_ns` are
    /// estimated.
    pub maxima_of: u64,
    /// Changes of the value that exceed the margin.
    pub steps: Vec<Step>,
}

/// Reads the runs at or below `paths`, in the order of their starts, and looks for changes.
///
/// # Errors
/// Fails with a [`CompareError`] if a run cannot be read, or if the runs have no series in common.
pub fn over_time(paths: &[PathBuf], settings: &Settings) -> Result<OverTime, CompareError> {
    let folders = changes::folders_once(paths);
    let mut runs = folders
        .iter()
        .map(|folder| RunSide::read(folder, settings.window))
        .collect::<Result<Vec<_>, _>>()?;
    runs.sort_by_key(|run| (run.record.started.realtime_ns, run.folder.clone()));
    if !settings.is_across_clocks {
        one_clock(runs.iter())?;
    }
    let names: Vec<String> = paths
        .iter()
        .take(2)
        .map(|path| path.display().to_string())
        .collect();
    let side = Side {
        name: names.join(", "),
        runs,
    };
    all_alike(&side.name, &side.runs, false)?;
    let tracks = tracks(&side, settings)?;
    let (verdict, reason) = verdict(&tracks, side.runs.len());
    let records: Vec<_> = side.runs.iter().map(|run| &run.record).collect();
    let changes = changes::changes(tracks.iter().flat_map(|track| &track.steps), &records);
    let SideSummary { runs, .. } = summary(&side);
    Ok(OverTime {
        verdict,
        reason,
        settings: settings.clone(),
        runs,
        tracks,
        changes,
    })
}

fn tracks(side: &Side, settings: &Settings) -> Result<Vec<Track>, CompareError> {
    let load = load_of_phase(side, settings)?;
    let runs = &side.runs;
    let mut of_key: BTreeMap<Key, Vec<Tally>> = BTreeMap::new();
    let mut names: Vec<String> = Vec::new();
    for run in runs {
        let mut of_run = Vec::new();
        for (key, group) in groups(run, settings.block)?
            .into_iter()
            .filter(|(key, _)| key.load.as_deref() == load)
        {
            let tally = tally(&group);
            if tally.total() > 0 {
                of_run.push(key.to_string());
                of_key.entry(key).or_default().push(tally);
            }
        }
        names.push(of_run.join(", "));
    }
    of_key.retain(|_, tallies| tallies.len() == runs.len());
    if of_key.is_empty() {
        let folder = |run: Option<&RunSide>| {
            run.map(|run| run.folder.display().to_string())
                .unwrap_or_default()
        };
        // No series of the first run occurs in all other runs, so another run differs from the
        // first.
        let other = names.iter().position(|has| *has != names[0]);
        let other = other.unwrap_or(names.len() - 1);
        return Err(CompareError::NothingShared {
            base: folder(runs.first()),
            base_has: names[0].clone(),
            other: folder(runs.get(other)),
            other_has: names[other].clone(),
        });
    }
    let mut tracks: Vec<Track> = of_key
        .iter()
        .flat_map(|(key, tallies)| tracks_of(key, tallies, settings))
        .collect();
    let search = changes::search(tracks.len());
    for track in &mut tracks {
        track.steps = changes::steps(&track.values_ns, settings.margin, search);
    }
    Ok(tracks)
}

fn tally(group: &RunGroup) -> Tally {
    let mut counts = Vec::new();
    group
        .exact
        .for_each(|value, count| counts.push((value as f64, count)));
    Tally::from_counts(counts)
}

/// Returns a track for the median, and one for the highest quantile beyond which every run has
/// enough samples.
fn tracks_of(key: &Key, tallies: &[Tally], settings: &Settings) -> Vec<Track> {
    let shortest = tallies.iter().map(Tally::total).min().unwrap_or(0);
    let maxima_ns: Vec<f64> = tallies
        .iter()
        .filter_map(|tally| median_maximum(tally, shortest))
        .collect();
    let highest = settings
        .quantiles
        .iter()
        .copied()
        .filter(|quantile| shortest as f64 * (1.0 - quantile) >= BEYOND_MIN)
        .reduce(f64::max);
    let mut quantiles = vec![0.5];
    quantiles.extend(highest.filter(|&quantile| quantile > 0.5));
    quantiles
        .into_iter()
        .map(|quantile| {
            let values_ns: Vec<f64> = tallies
                .iter()
                .filter_map(|tally| tally.quantile(quantile))
                .collect();
            Track {
                key: key.clone(),
                quantile,
                values_ns,
                maxima_ns: maxima_ns.clone(),
                maxima_of: shortest,
                steps: Vec::new(),
            }
        })
        .collect()
}

fn verdict(tracks: &[Track], runs: usize) -> (Outcome, String) {
    let latest = |track: &Track| {
        let step = *track.steps.last()?;
        let percent = (track.quantile * 1e9).round() / 1e7;
        let (before, after) = (
            three_digits(step.before_ns.round()),
            three_digits(step.after_ns.round()),
        );
        Some((
            step,
            format!(
                "{percent} % quantile of {}: {before} -> {after} since run {}",
                track.key,
                step.run + 1
            ),
        ))
    };
    changes::verdict(tracks.iter().filter_map(latest), runs)
}
