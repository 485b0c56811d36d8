//! Reads the samples of a run, grouped by intervals of time.
//!
//! A comparison by time blocks is inconclusive if samples depend on each other over more than a
//! block's length. Without this rule, a second run on the same machine can appear to be worse, even
//! if it starts seconds after the first. A comparison that is inconclusive for this reason needs
//! longer runs, or at least four runs per side.

use tardy_core::units::Nanos;
use tardy_run::record::{RunRecord, SeriesRecord};
use tardy_samples::blocks::{BlockGrid, SeriesBlocks};
use tardy_samples::read_series::SeriesError;

/// Reads all series of a run in intervals of `length`.
///
/// # Errors
/// Fails with a [`SeriesError`] if a series cannot be read.
pub fn read(
    folder: &std::path::Path,
    record: &RunRecord,
    length: Nanos,
) -> Result<Vec<SeriesBlocks>, SeriesError> {
    let phases = |cpu| {
        (0..record.phases.len())
            .map(|index| record.under_load(index, cpu))
            .collect()
    };
    let samples = record
        .samples_folder
        .clone()
        .unwrap_or_else(|| folder.join("samples"));
    let read = |entry: &SeriesRecord| {
        let grid = BlockGrid {
            start: record.started.monotonic_ns,
            length,
            phases: phases(entry.cpu),
        };
        SeriesBlocks::read(&samples.join(&entry.file), &grid)
    };
    record.series.iter().map(read).collect()
}
