//! A file for metrics of mappings and of rereading, all of it in the page cache.

use std::fs::File;
use std::io::{self, Write};

use crate::metric::{Place, Unavailable};

/// As long as the blocks of the metrics of memory, so that rereading a file is comparable with
/// reading memory.
pub(super) const FILE_BYTES: usize = super::memory::BLOCK_BYTES;
/// Bytes per write and read.
pub(super) const PORTION_BYTES: usize = 64 << 10;

/// Returns the file, opened for reading and writing; the first metric that asks for it writes it.
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
            // Lets the disk become idle again before the timing.
            file.sync_all()?;
        }
        Ok(file)
    };
    open().map_err(Unavailable::system(
        "write a 64 MiB file (set TMPDIR to a folder with enough free space)",
    ))
}
