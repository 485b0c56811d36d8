//! The parts of a run that a history stores: the run's board, facts about its machine, and its
//! numbers.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tardy_core::series::ClockKind;
use tardy_core::units::Nanos;
use tardy_statistics::tally::Tally;

use crate::compare::facts;
use crate::compare::group::{Key, RunGroup, groups};
use crate::compare::side::{CompareError, RunSide};

/// Quantiles that a history may follow. Of these, it follows the median and the highest quantile
/// beyond which every run of a series has enough samples.
pub const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
/// Facts about machine and plan that are stored, with their paths in `run.json`.
pub const FACTS: [&str; 7] = [
    "machine.kernel.release",
    "machine.kernel.version",
    "machine.kernel.preemption.compiled",
    "machine.kernel.preemption.mode",
    "machine.kernel.command_line",
    "machine.processors.model",
    "tool.version",
];
/// A quantile of a run is stored only if the run has at least this many samples beyond it.
const BEYOND_MIN: f64 = 10.0;
/// Names of the labels that give the build and the board of a run.
const BUILD: &str = "build";
const BOARD: &str = "board";

/// One run of one build on one board.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryRun {
    /// The absolute path of the run's folder, which may no longer exist.
    pub folder: PathBuf,
    pub board: String,
    pub build: String,
    /// Wall-clock time of the start, in ns since 1970.
    pub started_realtime_ns: Nanos,
    pub clock: ClockKind,
    /// The values of the facts in [`FACTS`]; `None` if unknown.
    pub facts: [Option<String>; FACTS.len()],
    /// Numbers for each probe, quantity and load.
    pub numbers: Vec<RunNumbers>,
}

/// The numbers of a run for one probe and quantity, under one load or over the whole run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunNumbers {
    pub key: Key,
    pub samples: u64,
    /// Smallest value, in the key's unit.
    pub min: i64,
    /// The arithmetic mean; absent if a series lacks it.
    pub mean: Option<f64>,
    /// The values of [`QUANTILES`]; `None` for a quantile beyond which fewer than ten samples lie.
    pub quantiles: [Option<f64>; QUANTILES.len()],
    /// Largest value, in the key's unit.
    pub max: i64,
    /// Number of skipped periods; absent if a series lacks the count.
    pub skipped: Option<u64>,
    /// Number of due times that missed the deadline; absent if the run had no deadline.
    pub misses: Option<u64>,
}

impl HistoryRun {
    /// Reads the run in `folder`.
    ///
    /// # Errors
    /// Fails with a [`CompareError`] if the run cannot be read.
    pub fn read(folder: &Path) -> Result<Self, CompareError> {
        let run = RunSide::read(folder, None)?;
        let groups = groups(&run, None)?;
        let has_loads = groups.keys().any(|key| key.load.is_some());
        let record = &run.record;
        let started = record.started.realtime_ns;
        let label = |name: &str| record.plan.labels.get(name).cloned();
        Ok(Self {
            folder: folder.canonicalize().unwrap_or_else(|_| folder.to_owned()),
            board: label(BOARD)
                .or_else(|| record.machine.host_name.clone())
                .unwrap_or_else(|| "board without a name".to_owned()),
            build: label(BUILD).unwrap_or_else(|| day(started)),
            started_realtime_ns: started,
            clock: record.clock,
            facts: facts::of_names(record, FACTS),
            numbers: groups
                .into_iter()
                .filter(|(key, _)| key.load.is_some() == has_loads)
                .filter_map(|(key, group)| numbers(key, &group))
                .collect(),
        })
    }
}

/// Returns the numbers of a group; `None` if it has no samples.
fn numbers(key: Key, group: &RunGroup) -> Option<RunNumbers> {
    let mut counts = Vec::new();
    group
        .exact
        .for_each(|value, count| counts.push((value as f64, count)));
    let tally = Tally::from_counts(counts);
    let quantile = |quantile: f64| {
        let is_known = tally.total() as f64 * (1.0 - quantile) >= BEYOND_MIN;
        is_known.then(|| tally.quantile(quantile)).flatten()
    };
    let stated = group.numbers.as_ref();
    Some(RunNumbers {
        key,
        samples: group.exact.count(),
        min: group.exact.min()?,
        mean: stated.map(|numbers| numbers.mean_ns),
        quantiles: QUANTILES.map(quantile),
        max: group.exact.max()?,
        skipped: stated.map(|numbers| numbers.skipped),
        misses: stated.and_then(|numbers| numbers.misses),
    })
}

/// Returns the day of a time in UTC, for example 2026-11-23.
fn day(time: Nanos) -> String {
    Timestamp::from_nanosecond(i128::from(time.get()))
        .unwrap_or_default()
        .strftime("%Y-%m-%d")
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_that_of_the_calendar() {
        let days = [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_795_392_000, "2026-11-23"),
            (-1, "1969-12-31"),
        ];
        for (seconds, expected) in days {
            assert_eq!(day(Nanos(seconds * 1_000_000_000)), expected);
        }
    }
}
