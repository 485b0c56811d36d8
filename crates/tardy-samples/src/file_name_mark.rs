//! A file that contains the counts of a series but not its descriptor has a mark. The mark shows to
//! which series the file belongs. A reader refuses a file with the mark of another series.

use std::path::Path;

/// Returns the mark for the file at `path`: the CRC-32 of its name.
pub(crate) fn mark(path: &Path) -> u64 {
    let name = path.file_name().unwrap_or_default();
    u64::from(crc32fast::hash(name.as_encoded_bytes()))
}
