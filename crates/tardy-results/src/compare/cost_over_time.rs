//! Costs over time: any number of runs in chronological order, and the changes in the cost of each
//! service.

use std::path::PathBuf;

use serde::Serialize;
use tardy_core::units::Nanos;
use tardy_run::cost::Group;

use super::changes::{self, Change, Step};
use super::cost::{CostCompareError, Side};
use super::margin::Margin;
use super::model::Outcome;
use crate::cost::shown::DisplayUnit;

/// Runs that measured costs, in chronological order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostsOverTime {
    /// The verdict on the latest change of any cost.
    pub verdict: Outcome,
    /// The reason for the verdict.
    pub reason: String,
    /// Largest change that does not matter to the user.
    pub margin: Margin,
    /// Unit of the costs: `ns`, or `instructions` if emulated machines were measured.
    pub unit: &'static str,
    /// The runs, oldest first.
    pub runs: Vec<CostRunFacts>,
    /// A track for each metric that all runs have.
    pub tracks: Vec<CostTrack>,
    /// The runs at which any cost changed, each with the facts that changed at the same time.
    pub changes: Vec<Change>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostRunFacts {
    pub folder: String,
    /// Wall-clock time of the start, in ns since 1970.
    pub started_realtime_ns: Nanos,
    /// The machine in one line.
    pub machine: String,
}

/// The cost of one metric over all runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostTrack {
    pub metric: String,
    /// Number of bytes that one operation moves, for bandwidths.
    pub bytes: Option<u64>,
    /// Whether the metric is a program, which is compared by its average.
    pub is_program: bool,
    /// The cost of one operation in each run.
    pub values: Vec<f64>,
    /// Changes that exceed the margin.
    pub steps: Vec<Step>,
}

/// Reads the runs at or below `paths`, in the order of their starts, and looks for changes.
///
/// # Errors
/// Fails with a [`CostCompareError`] if a run cannot be read, or if the runs have no metric in
/// common.
pub fn over_time(paths: &[PathBuf], margin: Margin) -> Result<CostsOverTime, CostCompareError> {
    let folders = changes::folders_once(paths);
    let mut sides = folders
        .iter()
        .map(|folder| Side::of_one(folder))
        .collect::<Result<Vec<_>, _>>()?;
    sides.sort_by_key(|side| (side.record.started.realtime_ns, side.name.clone()));
    let first = &sides[0];
    if let Some(other) = sides.iter().find(|side| side.unit() != first.unit()) {
        return Err(CostCompareError::Units {
            base: first.name.clone(),
            base_unit: first.unit(),
            other: other.name.clone(),
            other_unit: other.unit(),
        });
    }
    let tracks = tracks(&sides, margin);
    if tracks.is_empty() {
        return Err(CostCompareError::NothingShared(
            first.name.clone(),
            "the other runs".to_owned(),
        ));
    }
    let records: Vec<_> = sides.iter().map(|side| &side.record).collect();
    let changes = changes::changes(tracks.iter().flat_map(|track| &track.steps), &records);
    let (verdict, reason) = verdict(&tracks, sides.len(), first.unit());
    Ok(CostsOverTime {
        verdict,
        reason,
        margin,
        unit: first.unit(),
        changes,
        runs: sides
            .iter()
            .map(|side| CostRunFacts {
                folder: side.name.clone(),
                started_realtime_ns: side.record.started.realtime_ns,
                machine: side.record.machine.one_line(),
            })
            .collect(),
        tracks,
    })
}

fn tracks(sides: &[Side], margin: Margin) -> Vec<CostTrack> {
    let mut tracks = Vec::new();
    for metric in &sides[0].runs[0].metrics {
        let is_program = metric.group == Group::Program;
        let figures = sides
            .iter()
            .flat_map(|side| side.metrics(&metric.name))
            .map(|found| if is_program { found.mean } else { found.cost });
        let values: Vec<f64> = figures.filter(|value| *value > 0.0).collect();
        if values.len() == sides.len() {
            tracks.push(CostTrack {
                metric: metric.name.clone(),
                bytes: metric.bytes,
                is_program,
                values,
                steps: Vec::new(),
            });
        }
    }
    let search = changes::search(tracks.len());
    for track in &mut tracks {
        track.steps = changes::steps(&track.values, margin, search);
    }
    tracks
}

impl CostTrack {
    /// Returns the unit in which the cost is printed.
    #[must_use]
    pub fn shown(&self, unit: &str) -> DisplayUnit {
        DisplayUnit::of(unit, self.bytes, self.is_program)
    }
}

fn verdict(tracks: &[CostTrack], runs: usize, unit: &str) -> (Outcome, String) {
    let latest = |track: &CostTrack| {
        let (step, shown) = (*track.steps.last()?, track.shown(unit));
        let (before, after) = (shown.text(step.before_ns), shown.text(step.after_ns));
        Some((
            step,
            format!(
                "{}: {before} {} -> {after} {} since run {}",
                track.metric,
                shown.unit,
                shown.unit,
                step.run + 1
            ),
        ))
    };
    changes::verdict(tracks.iter().filter_map(latest), runs)
}
