//! The parts of a run that a history stores: its board, facts of its machine, and its numbers.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tardy_core::series::ClockKind;
use tardy_core::units::Nanos;
use tardy_statistics::tally::Tally;

use crate::compare::facts;
use crate::compare::group::{Key, RunGroup, groups};
use crate::compare::side::{CompareError, RunSide};

/// Quantiles that are followed: the median, and the highest of the others that every run of a
/// series has samples beyond.
pub const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
/// Facts of machine and plan that are stored, named as in `run.json`.
pub const FACTS: [&str; 7] = [
    "machine.kernel.release",
    "machine.kernel.version",
    "machine.kernel.preemption.compiled",
    "machine.kernel.preemption.mode",
    "machine.kernel.command_line",
    "machine.processors.model",
    "tool.version",
];
/// Samples beyond a quantile that every run needs for it.
const BEYOND_MIN: f64 = 10.0;
/// Labels that name a run's build and board.
const BUILD: &str = "build";
const BOARD: &str = "board";

/// One run of a board and build.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryRun {
    /// Its current or former absolute path.
    pub folder: PathBuf,
    pub board: String,
    pub build: String,
    /// Wall-clock time of its start, ns since 1970.
    pub started_realtime_ns: Nanos,
    pub clock: ClockKind,
    /// The values of [`FACTS`]; absent if unknown.
    pub facts: [Option<String>; FACTS.len()],
    /// One for each probe, quantity and load.
    pub numbers: Vec<RunNumbers>,
}

/// Numbers of a run for one probe and quantity, under one load or over all.
#[derive(Debug, Clone, PartialEq)]
pub struct RunNumbers {
    pub key: Key,
    pub samples: u64,
    /// The smallest, in the key's unit.
    pub min: i64,
    /// The arithmetic mean; absent if a series lacks it.
    pub mean: Option<f64>,
    /// The values of [`QUANTILES`] with at least ten samples beyond.
    pub quantiles: [Option<f64>; QUANTILES.len()],
    /// The largest, in the key's unit.
    pub max: i64,
    /// Due times skipped; absent if a series lacks the count.
    pub skipped: Option<u64>,
    /// Due times that missed the deadline; absent if the run had none.
    pub misses: Option<u64>,
}

impl HistoryRun {
    /// Reads the run in `folder`.
    ///
    /// # Errors
    /// Returns [`CompareError`] if it cannot be read.
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

/// Returns `None` if there are no samples.
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

/// Returns the day of a time in UTC, as in 2026-11-23.
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
