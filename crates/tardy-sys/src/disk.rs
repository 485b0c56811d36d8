//! Space on a file system: statvfs(3).

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Size of the file system in bytes.
    pub total: u64,
    /// Number of bytes that an unprivileged user may still write.
    pub free: u64,
}

/// Space that tardy keeps free for other users of the disk: [`BYTES_LEFT_MAX`] bytes or, on a small
/// file system, its size divided by [`SHARE_LEFT`].
const BYTES_LEFT_MAX: u64 = 16 << 20;
const SHARE_LEFT: u64 = 10;

impl Room {
    fn of(stat: &libc::statvfs) -> Self {
        #[allow(clippy::unnecessary_cast, reason = "the types differ between targets")]
        let block = stat.f_frsize as u64;
        #[allow(clippy::unnecessary_cast, reason = "the types differ between targets")]
        let (total, free) = (stat.f_blocks as u64, stat.f_bavail as u64);
        Self {
            total: total.saturating_mul(block),
            free: free.saturating_mul(block),
        }
    }

    /// Returns the number of bytes that tardy keeps free for other users of the disk.
    #[must_use]
    pub fn reserve(&self) -> u64 {
        BYTES_LEFT_MAX.min(self.total / SHARE_LEFT)
    }
}

/// Returns the number of bytes that an unprivileged user may still write below `path`.
///
/// # Errors
/// Returns ENOENT if the path does not exist; EINVAL for a path with a NUL byte.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    room(path).map(|room| room.free)
}

/// Returns the space of the file system of `path`.
///
/// # Errors
/// Fails as [`free_bytes`] does.
pub fn room(path: &Path) -> io::Result<Room> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut stat = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` is a C string and `stat` is valid for writing one statvfs.
    crate::check(unsafe { libc::statvfs(path.as_ptr(), stat.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it filled `stat`.
    Ok(Room::of(&unsafe { stat.assume_init() }))
}

/// Returns the space of the file system of an open file.
///
/// # Errors
/// Returns the errors of fstatvfs(3). The call cannot fail for an open file of a local file system.
pub fn room_of(file: &File) -> io::Result<Room> {
    let mut stat = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the descriptor is open, and `stat` is valid for writing one statvfs.
    crate::check(unsafe { libc::fstatvfs(file.as_raw_fd(), stat.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it filled `stat`.
    Ok(Room::of(&unsafe { stat.assume_init() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_has_a_size_and_a_missing_path_is_an_error() {
        assert!(free_bytes(Path::new("/")).is_ok());
        let room = room(Path::new("/")).unwrap();
        assert!(room.free <= room.total && room.total > 0);
        assert_eq!(
            free_bytes(Path::new("/no/such/path"))
                .unwrap_err()
                .raw_os_error(),
            Some(libc::ENOENT)
        );
    }
}
