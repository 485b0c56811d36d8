//! Explains the cycles of a program that `tardy attach` recorded, from its run folder.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde::Serialize;
use tardy_core::units::Nanos;
use tardy_run::folder;
use tardy_samples::cycles::FILE;
pub use tardy_samples::cycles::chains::{ChainLink, WakeUpChain};
pub use tardy_samples::cycles::{
    Cycle, CycleRow, Cycles, IDLE, OtherPlaces, PlaceRow, Shares, Stretch, StretchKind, WaitPlace,
};

use super::LoopRow;
use super::run::RunError;

/// The explanation of a program's cycles.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct CycleExplanation {
    /// Start of the recording on the monotonic clock.
    pub begin_ns: Nanos,
    /// The response time above which cycles are listed; absent if the user gave none.
    pub above_ns: Option<Nanos>,
    /// Number of cycles of all threads.
    pub cycles: u64,
    /// Number of cycles whose start was recorded but whose end was not measured.
    pub cut_off: u64,
    /// The folder contains all cycles that are longer than this time.
    pub complete_above_ns: Nanos,
    /// The threads, sorted by their longest cycle, longest first.
    pub threads: Vec<CycleRow>,
    /// The listed cycles, longest first.
    pub worst: Vec<Cycle>,
    /// The slowest chains of wake-ups, slowest first.
    pub chains: Vec<WakeUpChain>,
    /// The threads to which the rules for real-time loops apply, with the violations of the rules.
    pub loops: Vec<LoopRow>,
}

/// Explains the cycles of the run in `folder` that are longer than `above`. Without `above`,
/// explains the longest cycles, at most `worst`. Returns `None` if the run was not made by
/// `tardy attach`.
///
/// # Errors
/// Fails with a [`RunError`] if the run cannot be explained.
pub fn explain_cycles(
    folder: &Path,
    above: Option<Nanos>,
    worst: usize,
) -> Result<Option<CycleExplanation>, RunError> {
    if !folder.join(FILE).exists() {
        return Ok(None);
    }
    let begin = folder::open(folder)?.started.monotonic_ns;
    let read = Cycles::read(folder).map_err(|error| RunError::Unreadable {
        path: folder.join(FILE),
        error,
    })?;
    Ok(read.map(|cycles| explained(cycles, begin, above, worst)))
}

fn explained(cycles: Cycles, begin: Nanos, above: Option<Nanos>, worst: usize) -> CycleExplanation {
    let complete_above_ns = complete_above(&cycles);
    let loops = loops(&cycles);
    let mut listed = cycles.worst;
    match above {
        Some(above) => listed.retain(|cycle| cycle.response_ns > above),
        None => listed.truncate(worst),
    }
    CycleExplanation {
        begin_ns: begin,
        above_ns: above,
        cycles: cycles.threads.iter().map(|row| row.cycles).sum(),
        cut_off: cycles.cut_off,
        complete_above_ns,
        threads: cycles.threads,
        worst: listed,
        chains: cycles.chains,
        loops,
    }
}

/// Returns the real-time threads whose cycles were measured, the thread with the longest cycle
/// first. If there are no such threads, returns the thread with the longest cycle.
pub(crate) fn loops(cycles: &Cycles) -> Vec<LoopRow> {
    let of_thread = |row: &CycleRow| {
        let mut rules = cycles.rules.iter();
        rules
            .find(|rules| rules.id == Some(row.thread))
            .map(LoopRow::of)
    };
    let mut loops: Vec<LoopRow> = cycles.threads.iter().filter_map(of_thread).collect();
    // If a thread has several rows, only the first is used.
    let mut seen = HashSet::new();
    loops.retain(|looped| seen.insert(looped.id));
    if loops.iter().any(LoopRow::is_real_time) {
        loops.retain(LoopRow::is_real_time);
    } else {
        loops.truncate(1);
    }
    loops
}

/// Returns the response time above which the folder contains all cycles. The folder contains only
/// the longest cycles of each thread.
fn complete_above(cycles: &Cycles) -> Nanos {
    let mut kept: HashMap<i32, (u64, Nanos)> = HashMap::new();
    for cycle in &cycles.worst {
        let (count, shortest) = kept.entry(cycle.thread).or_insert((0, cycle.response_ns));
        *count += 1;
        *shortest = cycle.response_ns.min(*shortest);
    }
    // A resumed recording has one row per thread for each of its parts.
    let all = |thread: i32| {
        let rows = cycles.threads.iter().filter(|row| row.thread == thread);
        rows.map(|row| row.cycles).sum::<u64>()
    };
    let of_thread = |row: &CycleRow| match kept.get(&row.thread) {
        Some(&(count, shortest)) if count < all(row.thread) => shortest,
        Some(_) => Nanos::ZERO,
        None => row.max_ns,
    };
    cycles
        .threads
        .iter()
        .map(of_thread)
        .max()
        .unwrap_or(Nanos::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(thread: i32, response: i64) -> Cycle {
        Cycle {
            thread,
            name: "loop".to_owned(),
            begin_ns: Nanos(0),
            response_ns: Nanos(response),
            shares: Shares::default(),
            stretches: Vec::new(),
            left_out: 0,
            left_out_ns: Nanos::ZERO,
        }
    }

    fn row(thread: i32, cycles: u64) -> CycleRow {
        CycleRow {
            thread,
            name: "loop".to_owned(),
            cycles,
            ends_in: None,
            median_ns: Nanos(1),
            p99_ns: Nanos(1),
            max_ns: Nanos(90),
            sum: Shares::default(),
            blocked_in: Vec::new(),
            other_places: OtherPlaces::default(),
        }
    }

    #[test]
    fn cycles_above_a_time_are_listed_and_it_is_known_which_are_missing() {
        let cycles = Cycles {
            marks: None,
            threads: vec![row(1, 3), row(2, 1)],
            worst: vec![cycle(1, 90), cycle(1, 50), cycle(2, 20)],
            chains: Vec::new(),
            rules: Vec::new(),
            cut_off: 4,
            has_more_threads: false,
        };
        let found = explained(cycles.clone(), Nanos(7), Some(Nanos(50)), 0);
        assert_eq!((found.cycles, found.worst.len()), (4, 1));
        assert_eq!(found.complete_above_ns, Nanos(50));
        let found = explained(cycles, Nanos(7), None, 2);
        assert_eq!(found.worst.len(), 2);
    }
}
