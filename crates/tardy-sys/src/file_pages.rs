//! The page cache of a file: sync_file_range(2), posix_fadvise(2).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Starts to write the dirty pages of a part of the file to the device. The part starts at offset
/// `from` and has `bytes` bytes; if `bytes` is 0, it extends to the end of the file. Does not wait
/// for the device.
///
/// # Errors
/// Returns ESPIPE if the file is not a regular one; EIO, ENOSPC.
pub fn start_writing(file: &File, from: i64, bytes: i64) -> io::Result<()> {
    // SAFETY: sync_file_range takes integers, and the descriptor is open while `file` is borrowed.
    crate::check(unsafe {
        libc::sync_file_range(file.as_raw_fd(), from, bytes, libc::SYNC_FILE_RANGE_WRITE)
    })
    .map(drop)
}

/// Drops the clean pages of a part of the file from memory, so that the next read of these pages
/// goes to the device. The part starts at offset `from` and has `bytes` bytes; if `bytes` is 0, it
/// extends to the end of the file.
///
/// # Errors
/// Returns ESPIPE if the file is not a regular one.
pub fn forget(file: &File, from: i64, bytes: i64) -> io::Result<()> {
    // SAFETY: posix_fadvise takes integers, and the descriptor is open while `file` is borrowed.
    match unsafe { libc::posix_fadvise64(file.as_raw_fd(), from, bytes, libc::POSIX_FADV_DONTNEED) }
    {
        0 => Ok(()),
        // The call returns the error instead of setting `errno`.
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    #[test]
    fn pages_that_were_written_and_forgotten_are_read_again() {
        let mut file = crate::memory_file::create_unnamed(&std::env::temp_dir())
            .or_else(|_| crate::memory_file::create("tardy-test"))
            .unwrap();
        file.write_all(&[7; 8192]).unwrap();
        start_writing(&file, 0, 8192).unwrap();
        file.sync_data().unwrap();
        forget(&file, 0, 0).unwrap();
        file.rewind().unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, [7; 8192]);
    }

    #[test]
    fn a_pipe_has_no_pages() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(reader));
        assert_eq!(
            forget(&file, 0, 0).unwrap_err().raw_os_error(),
            Some(libc::ESPIPE)
        );
        assert_eq!(
            start_writing(&file, 0, 0).unwrap_err().raw_os_error(),
            Some(libc::ESPIPE)
        );
    }
}
