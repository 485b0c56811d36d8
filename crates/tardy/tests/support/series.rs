//! Reads the series files of a run.

use std::path::{Path, PathBuf};

use tardy_core::accounting::Counts;
use tardy_core::sample::Sample;
use tardy_core::series::Descriptor;
use tardy_samples::read_series::SeriesFile;

/// A series as read from its file.
pub(crate) struct Series {
    pub(crate) descriptor: Descriptor,
    pub(crate) samples: Vec<Sample>,
    /// The counts in the last complete chunk.
    pub(crate) counts: Counts,
}

/// Series files of a run, sorted by name.
pub(crate) fn files(run: &Path) -> Vec<PathBuf> {
    let samples = run.join("samples");
    if !samples.is_dir() {
        return Vec::new();
    }
    let files = std::fs::read_dir(samples)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|ending| ending == "series"))
        .collect();
    files.sort();
    files
}

/// Reads a file, which must not be damaged.
pub(crate) fn read(file: &Path) -> Series {
    let series = SeriesFile::open(file).unwrap();
    let (mut samples, mut counts) = (Vec::new(), Counts::default());
    let descriptor = series.descriptor().clone();
    let end = series.read_part(series.parts(1).remove(0), &mut |chunk| {
        samples.extend(
            chunk
                .samples(&descriptor.schedule)
                .map(|(_, sample)| sample),
        );
        counts = chunk.counts;
    });
    assert_eq!(end.unwrap().damaged_bytes, 0, "{}", file.display());
    Series {
        descriptor,
        samples,
        counts,
    }
}

/// All series of a run.
pub(crate) fn all(run: &Path) -> Vec<Series> {
    files(run).iter().map(|file| read(file)).collect()
}
