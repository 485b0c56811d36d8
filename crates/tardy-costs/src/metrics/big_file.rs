//! Makes a file for metrics that map or reread a file. The whole file is in the page cache.

use std::fs::File;
use std::io::{self, Write};

use crate::metric::{Place, Unavailable};

/// Length of the file. The blocks of the memory metrics have the same length, so that rereading a
/// file can be compared with reading memory.
pub(super) const FILE_BYTES: usize = super::memory::BLOCK_BYTES;
/// Number of bytes that each write or read transfers.
pub(super) const PORTION_BYTES: usize = 64 << 10;

/// Returns the file, opened for reading and writing. The first metric that needs the file writes
/// it.
pub(super) fn big_file(place: &Place) -> Result<File, Unavailable> {
    let path = place.scratch.join("big");
    let open = || -> io::Result<File> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)?;
        if file.metadata()?.len() < FILE_BYTES as u64 {
            let portion = vec![1; PORTION_BYTES];
            for _ in 0..FILE_BYTES / PORTION_BYTES {
                file.write_all(&portion)?;
            }
            // After this sync, the disk is idle before the timing starts.
            file.sync_all()?;
        }
        Ok(file)
    };
    open().map_err(Unavailable::system(
        "write a 64 MiB file (set TMPDIR to a folder with enough free space)",
    ))
}
