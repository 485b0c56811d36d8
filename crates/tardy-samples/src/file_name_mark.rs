//! The mark in files that have the counts of a series but not its descriptor. It lets a reader
//! refuse the file of another series.

use std::path::Path;

/// CRC-32 of the name of the file at `path`.
pub(crate) fn mark(path: &Path) -> u64 {
    let name = path.file_name().unwrap_or_default();
    u64::from(crc32fast::hash(name.as_encoded_bytes()))
}
