//! The names of the segments of a series in a run with `--disk`: see [`crate::rotation`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the path of segment `number` of the series in `series`.
#[must_use]
pub fn segment_path(series: &Path, number: u64) -> PathBuf {
    let mut name = series.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// Returns the path at which a resumed series' new head is stored until it is synced. Until then,
/// the file `series` contains the old head.
pub(crate) fn new_head_path(series: &Path) -> PathBuf {
    series.with_extension("series.new")
}

/// Returns, in ascending order, the numbers of the segments that come after number `through`. These
/// are the segments of the series in `series`.
///
/// # Errors
/// Fails if the folder cannot be read.
pub fn segments_behind(series: &Path, through: u64) -> io::Result<Vec<u64>> {
    let folder = series
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let name = series
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
        + ".";
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?.file_name();
        let number = entry
            .to_str()
            .and_then(|entry| entry.strip_prefix(&name))
            .and_then(|number| number.parse::<u64>().ok());
        numbers.extend(number.filter(|&number| number > through));
    }
    numbers.sort_unstable();
    Ok(numbers)
}
