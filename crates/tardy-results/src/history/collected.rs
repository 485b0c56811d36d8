//! Collects the runs of a history. Because there may be many runs, only the numbers of each run and
//! its place in the history are in memory.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::path::{Path, PathBuf};

use tardy_core::series::ClockKind;
use tardy_core::units::Nanos;
use tardy_run::folder;

use super::run::{FACTS, HistoryRun, QUANTILES};
use super::{Build, Series};
use crate::compare::facts::{self, FactDifference};
use crate::compare::group::Key;
use crate::compare::side::CompareError;

/// Stores each distinct value once, and identifies it by a small number.
struct Interner<T> {
    values: Vec<T>,
    places: HashMap<T, u32>,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            places: HashMap::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Interner<T> {
    fn place(&mut self, value: &T) -> u32 {
        if let Some(&place) = self.places.get(value) {
            return place;
        }
        let place = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.values.push(value.clone());
        self.places.insert(value.clone(), place);
        place
    }
}

type Facts = [Option<String>; FACTS.len()];

/// The place of a run in the history.
struct RunPlace {
    board: u32,
    build: u32,
    facts: u32,
    started: Nanos,
    folder: Box<Path>,
}

/// The quantiles of one run in a series; a quantile is NaN if too few samples lie beyond it.
struct RunValues {
    build: u32,
    quantiles: [f64; QUANTILES.len()],
}

/// The collected runs of all boards and builds, in any order.
#[derive(Default)]
pub struct RunCollection {
    boards: Interner<String>,
    builds: Interner<String>,
    facts: Interner<Facts>,
    keys: Interner<Key>,
    runs: Vec<RunPlace>,
    /// For each run, a digest of its folder, start, board and build. The digests show whether a run
    /// has already been added. For example, a run may be read from its folder and again from a
    /// table.
    known: HashSet<u64>,
    values: HashMap<(u32, u32), Vec<RunValues>>,
    first: Option<(PathBuf, ClockKind)>,
}

impl RunCollection {
    /// Adds a run. Returns false if the run had already been added.
    ///
    /// # Errors
    /// Fails with [`CompareError::Clocks`] if the run uses another clock than the first run.
    pub fn add(&mut self, run: &HistoryRun) -> Result<bool, CompareError> {
        let (base, clock) = self
            .first
            .get_or_insert_with(|| (run.folder.clone(), run.clock));
        if *clock != run.clock {
            return Err(CompareError::clocks(
                (base, *clock),
                (&run.folder, run.clock),
            ));
        }
        if !self.known.insert(digest(&(
            &run.folder,
            run.started_realtime_ns,
            &run.board,
            &run.build,
        ))) {
            return Ok(false);
        }
        let (board, build) = (self.boards.place(&run.board), self.builds.place(&run.build));
        for numbers in &run.numbers {
            let key = self.keys.place(&numbers.key);
            let quantiles = numbers.quantiles.map(|value| value.unwrap_or(f64::NAN));
            self.values
                .entry((board, key))
                .or_default()
                .push(RunValues { build, quantiles });
        }
        let facts = self.facts.place(&run.facts);
        self.runs.push(RunPlace {
            board,
            build,
            facts,
            started: run.started_realtime_ns,
            folder: run.folder.as_path().into(),
        });
        Ok(true)
    }

    /// Returns all builds in the order of their first runs, and the position of each collected
    /// build in this order.
    pub(super) fn builds(&self, accepted: &BTreeSet<String>) -> (Vec<Build>, Vec<usize>) {
        let build = |name: &String| Build {
            name: name.clone(),
            started_realtime_ns: Nanos::MAX,
            runs: 0,
            is_accepted: accepted.contains(name),
        };
        let mut builds: Vec<(usize, Build)> =
            self.builds.values.iter().map(build).enumerate().collect();
        for run in &self.runs {
            let (_, build) = &mut builds[run.build as usize];
            build.runs += 1;
            build.started_realtime_ns = build.started_realtime_ns.min(run.started);
        }
        builds.sort_by(|(_, a), (_, b)| {
            (a.started_realtime_ns, &a.name).cmp(&(b.started_realtime_ns, &b.name))
        });
        let mut places = vec![0; builds.len()];
        builds
            .iter()
            .enumerate()
            .for_each(|(place, (collected, _))| places[*collected] = place);
        (builds.into_iter().map(|(_, build)| build).collect(), places)
    }

    /// Returns the numbers of each board, in the order of boards and keys. `places` contains the
    /// positions of the builds, as returned by [`Self::builds`].
    pub(super) fn series(&self, places: &[usize]) -> Vec<Series> {
        let mut all: Vec<(&String, &Key, &Vec<RunValues>)> = Vec::with_capacity(self.values.len());
        all.extend(self.values.iter().map(|(&(board, key), values)| {
            (
                &self.boards.values[board as usize],
                &self.keys.values[key as usize],
                values,
            )
        }));
        all.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
        all.into_iter()
            .flat_map(|(board, key, values)| series_of(board, key, values, places))
            .collect()
    }

    /// Returns the facts that differ between two runs of a board: the last run before build `from`,
    /// and the first run of `from` or of a later build.
    pub(super) fn changed(
        &self,
        board: &str,
        places: &[usize],
        from: usize,
    ) -> Vec<FactDifference> {
        let Some(&board) = self.boards.places.get(board) else {
            return Vec::new();
        };
        let of_board = || self.runs.iter().filter(|run| run.board == board);
        let order = |run: &&RunPlace| (run.started, run.folder.clone());
        let before = of_board()
            .filter(|run| places[run.build as usize] < from)
            .max_by_key(order);
        let after = of_board()
            .filter(|run| places[run.build as usize] >= from)
            .min_by_key(order);
        before
            .zip(after)
            .map_or_else(Vec::new, |(before, after)| self.differences(before, after))
    }

    /// If the folders of both runs still exist, all recorded facts are compared. Otherwise, only
    /// the facts that were collected are compared.
    fn differences(&self, before: &RunPlace, after: &RunPlace) -> Vec<FactDifference> {
        let record = |run: &RunPlace| {
            folder::open(&run.folder)
                .ok()
                .filter(|record| record.started.realtime_ns == run.started)
        };
        if let Some((before, after)) = record(before).zip(record(after)) {
            return facts::differences(&before, &after);
        }
        let facts = |run: &RunPlace| &self.facts.values[run.facts as usize];
        let both = facts(before).iter().zip(facts(after));
        let differ = FACTS
            .iter()
            .zip(both)
            .filter(|(_, (base, candidate))| base != candidate);
        differ
            .map(|(fact, (base, candidate))| FactDifference {
                fact: (*fact).to_owned(),
                base: base.clone(),
                candidate: candidate.clone(),
            })
            .collect()
    }
}

fn digest(value: &impl Hash) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns the series of the median, and the series of the highest quantile that all runs have.
fn series_of(board: &str, key: &Key, values: &[RunValues], places: &[usize]) -> Vec<Series> {
    let is_whole = |quantile: &usize| values.iter().all(|run| !run.quantiles[*quantile].is_nan());
    let highest = (0..QUANTILES.len()).rev().find(is_whole);
    let quantiles: BTreeSet<usize> = highest
        .into_iter()
        .chain(is_whole(&0).then_some(0))
        .collect();
    let series = |quantile: usize| {
        let mut sums = vec![(0.0, 0_u32); places.len()];
        for run in values {
            let (sum, count) = &mut sums[places[run.build as usize]];
            *sum += run.quantiles[quantile].max(1.0).ln();
            *count += 1;
        }
        let values_ns = sums
            .into_iter()
            .map(|(sum, count)| (count > 0).then(|| (sum / f64::from(count)).exp()))
            .collect();
        Series {
            board: board.to_owned(),
            key: key.clone(),
            quantile: QUANTILES[quantile],
            values_ns,
        }
    };
    quantiles.into_iter().map(series).collect()
}
