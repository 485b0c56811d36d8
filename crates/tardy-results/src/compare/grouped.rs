//! Compares the runs of one folder. Runs that repeat one measurement form a side. Sides are
//! compared with each other if they made the same measurement on different kernels. All other runs
//! are omitted and listed.

use std::path::Path;

use super::alike::{aspects, is_same_measurement};
use super::model::{Comparison, Settings};
use super::read::compare_sides;
use super::side::{CompareError, RunSide, Side};

/// A comparison of groups of runs.
#[derive(Debug)]
pub struct GroupedComparison {
    pub comparison: Comparison,
    /// Descriptions of the groups whose measurement differs from that of the baseline.
    pub left_out: Vec<String>,
}

/// Compares the groups of runs at or below `path`. Only groups that have a counterpart are
/// compared. Of these, the group with the earliest run is the baseline.
///
/// # Errors
/// Fails with a [`CompareError`] if nothing can be compared, and otherwise fails as
/// [`super::read::compare`] does.
pub fn compare_within(path: &Path, settings: &Settings) -> Result<GroupedComparison, CompareError> {
    let all = Side::read(path, settings.window)?;
    let count = all.runs.len();
    let mut groups: Vec<Vec<RunSide>> = Vec::new();
    let mut runs = all.runs;
    runs.sort_by_key(|run| run.summary.started_realtime_ns);
    for run in runs {
        match groups
            .iter_mut()
            .find(|group| aspects(&group[0].record) == aspects(&run.record))
        {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    if groups.len() < 2 {
        return Err(CompareError::OneGroup {
            folder: path.to_owned(),
            runs: count,
        });
    }
    let counterparts = |group: &[RunSide]| {
        groups
            .iter()
            .filter(|other| is_same_measurement(&group[0].record, &other[0].record))
            .count()
    };
    let Some(base) = groups.iter().position(|group| counterparts(group) > 1) else {
        return Err(CompareError::NoCounterpart {
            folder: path.to_owned(),
            groups: groups
                .iter()
                .map(|group| named(group))
                .collect::<Vec<_>>()
                .join("; "),
        });
    };
    let base = groups.remove(base);
    let (beside, others): (Vec<_>, Vec<_>) = groups
        .into_iter()
        .partition(|group| is_same_measurement(&base[0].record, &group[0].record));
    let left_out = others.iter().map(|group| named(group)).collect();
    let side = |runs: Vec<RunSide>| Side {
        name: named(&runs),
        runs,
    };
    let comparison = compare_sides(
        &side(base),
        beside.into_iter().map(side).collect(),
        settings,
    )?;
    Ok(GroupedComparison {
        comparison,
        left_out,
    })
}

/// Returns the name of a group: its kernel, its first run, and its number of runs.
fn named(group: &[RunSide]) -> String {
    let kernel = group[0]
        .record
        .machine
        .kernel
        .release
        .clone()
        .unwrap_or_else(|| "unknown kernel".to_owned());
    let more = if group.len() > 1 {
        format!(" and {} more", group.len() - 1)
    } else {
        String::new()
    };
    format!("{kernel} ({}{more})", group[0].folder.display())
}
