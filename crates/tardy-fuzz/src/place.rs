//! Temporary folders for those readers that need files.

use std::path::Path;

use tempfile::TempDir;

/// A folder in memory, on machines that have one.
const IN_MEMORY: &str = "/dev/shm";

/// Makes an empty folder, which is removed on drop.
pub(crate) fn folder() -> TempDir {
    let in_memory = Path::new(IN_MEMORY);
    let made = if in_memory.is_dir() {
        tempfile::tempdir_in(in_memory)
    } else {
        tempfile::tempdir()
    };
    made.expect("a test needs a folder for temporary files")
}

/// Writes a file for a reader.
pub(crate) fn write(path: &Path, bytes: &[u8]) {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).expect("the folder is the test's own");
    }
    std::fs::write(path, bytes).expect("the folder is the test's own");
}
