//! Calls on files: stat(2), open(2), write(2), close(2), unlinkat(2), renameat2(2), fcntl(2). The
//! calls that are measured take their path as a `CStr`, so that they consist only of the system
//! call, without a conversion of the path.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};

/// Reads a file's attributes, and returns its size in bytes.
///
/// # Errors
/// Returns the errors of stat(2), such as ENOENT.
#[inline]
pub fn stat(path: &CStr) -> io::Result<i64> {
    let mut attributes = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `path` ends with a zero byte, and the kernel fills one stat at the pointer, which is
    // valid for writing.
    crate::check(unsafe { libc::stat(path.as_ptr(), attributes.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it filled `attributes`.
    #[allow(clippy::unnecessary_cast, reason = "off_t has 32 bits on some targets")]
    Ok(unsafe { attributes.assume_init() }.st_size as i64)
}

/// Opens a file for reading and closes it.
///
/// # Errors
/// Returns the errors of open(2), such as ENOENT, and of close(2).
#[inline]
pub fn open_and_close(path: &CStr) -> io::Result<()> {
    // SAFETY: `path` ends with a zero byte.
    let descriptor =
        crate::check(unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) })?;
    // SAFETY: the descriptor was opened above, and nothing else owns it.
    crate::check(unsafe { libc::close(descriptor) }).map(drop)
}

/// Exchanges two files or folders atomically.
///
/// # Errors
/// Returns the errors of renameat2(2), such as EINVAL if the file system cannot exchange files.
pub fn exchange(one: &std::path::Path, other: &std::path::Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let path = |path: &std::path::Path| {
        std::ffi::CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)
    };
    let (one, other) = (path(one)?, path(other)?);
    // SAFETY: both paths end with a zero byte. The C library of some targets lacks this function,
    // but every kernel since 3.15 has the call.
    let exchanged = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            one.as_ptr(),
            libc::AT_FDCWD,
            other.as_ptr(),
            libc::RENAME_EXCHANGE,
        )
    };
    crate::check(exchanged as libc::c_int).map(drop)
}

/// Opens a file for reads that do not wait. If there is nothing to read, a read returns
/// `WouldBlock`.
///
/// # Errors
/// Returns the errors of open(2).
pub fn open_without_waiting(path: &std::path::Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
}

/// Opens only the path, not the file itself: open(2) with O_PATH and `flags`. This needs no
/// permission to read the file, and has no effect on a device.
///
/// `OpenOptions` cannot do this with musl: there, O_ACCMODE includes O_PATH, and `custom_flags`
/// ignores the flags in O_ACCMODE.
///
/// # Errors
/// Returns the errors of open(2), or `InvalidInput` if the path contains a zero byte.
pub(crate) fn open_path(path: &std::path::Path, flags: libc::c_int) -> io::Result<File> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    let flags = libc::O_PATH | libc::O_CLOEXEC | flags;
    // SAFETY: `path` ends with a zero byte.
    let descriptor = crate::check(unsafe { libc::open(path.as_ptr(), flags) })?;
    // SAFETY: the descriptor was just opened, and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Creates or empties the file `name` in `folder`, writes `contents` to it and closes it.
///
/// # Errors
/// Returns the errors of openat(2), write(2) and close(2), or `WriteZero` if a part was not
/// written.
#[inline]
pub fn create(folder: BorrowedFd<'_>, name: &CStr, contents: &[u8]) -> io::Result<()> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
    let mode: libc::c_uint = 0o600;
    // SAFETY: `name` ends with a zero byte, and the folder's descriptor is open.
    let descriptor =
        crate::check(unsafe { libc::openat(folder.as_raw_fd(), name.as_ptr(), flags, mode) })?;
    let written = if contents.is_empty() {
        Ok(0)
    } else {
        // SAFETY: the kernel reads at most the length of `contents`.
        let written = unsafe { libc::write(descriptor, contents.as_ptr().cast(), contents.len()) };
        usize::try_from(written).map_err(|_| io::Error::last_os_error())
    };
    // SAFETY: the descriptor was opened above, and nothing else owns it.
    crate::check(unsafe { libc::close(descriptor) })?;
    if written? == contents.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

/// Removes the file `name` from `folder`.
///
/// # Errors
/// Returns the errors of unlinkat(2).
#[inline]
pub fn remove(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    // SAFETY: `name` ends with a zero byte, and the folder's descriptor is open.
    crate::check(unsafe { libc::unlinkat(folder.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
}

/// Sets whether reads and writes of `file` block.
///
/// # Errors
/// Returns the errors of fcntl(2), which does not fail for an open file.
pub fn set_blocking(file: &File, is_blocking: bool) -> io::Result<()> {
    // SAFETY: F_GETFL takes no argument.
    let flags = crate::check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) })?;
    let flags = if is_blocking {
        flags & !libc::O_NONBLOCK
    } else {
        flags | libc::O_NONBLOCK
    };
    // SAFETY: F_SETFL takes an integer.
    crate::check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_and_a_missing_one_reported() {
        assert!(stat(c"/proc/self/exe").unwrap() > 0);
        open_and_close(c"/proc/self/exe").unwrap();
        assert_eq!(
            stat(c"/nonexistent").unwrap_err().raw_os_error(),
            Some(libc::ENOENT)
        );
        assert_eq!(
            open_and_close(c"/nonexistent").unwrap_err().raw_os_error(),
            Some(libc::ENOENT)
        );
    }

    #[test]
    fn a_file_is_made_with_its_contents_and_removed() {
        use std::os::fd::AsFd;
        let path = std::env::temp_dir().join(format!("tardy-file-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let folder = std::fs::File::open(&path).unwrap();
        create(folder.as_fd(), c"full", b"contents").unwrap();
        create(folder.as_fd(), c"empty", b"").unwrap();
        assert_eq!(std::fs::read(path.join("full")).unwrap(), b"contents");
        assert_eq!(std::fs::read(path.join("empty")).unwrap(), b"");
        remove(folder.as_fd(), c"full").unwrap();
        remove(folder.as_fd(), c"empty").unwrap();
        assert_eq!(
            remove(folder.as_fd(), c"full").unwrap_err().raw_os_error(),
            Some(libc::ENOENT)
        );
        std::fs::remove_dir(&path).unwrap();
        assert_eq!(
            create(folder.as_fd(), c"late", b"")
                .unwrap_err()
                .raw_os_error(),
            Some(libc::ENOENT)
        );
    }
}
