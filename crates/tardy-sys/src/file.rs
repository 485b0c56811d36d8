//! Calls on files as cheap as the kernel makes them: stat(2), open(2) and close(2) on a path that needs no conversion.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;

/// Asks for a file's attributes; returns its size in bytes.
///
/// # Errors
/// Those of stat(2), such as ENOENT.
#[inline]
pub fn stat(path: &CStr) -> io::Result<i64> {
    let mut attributes = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `path` ends with a zero byte, and the kernel fills one stat at the pointer, which is valid for writing.
    crate::check(unsafe { libc::stat(path.as_ptr(), attributes.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so that it filled `attributes`.
    #[allow(clippy::unnecessary_cast, reason = "off_t has 32 bits on some targets")]
    Ok(unsafe { attributes.assume_init() }.st_size as i64)
}

/// Opens a file for reading and closes it.
///
/// # Errors
/// Those of open(2), such as ENOENT, and of close(2).
#[inline]
pub fn open_and_close(path: &CStr) -> io::Result<()> {
    // SAFETY: `path` ends with a zero byte.
    let descriptor = crate::check(unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) })?;
    // SAFETY: the descriptor was opened just above, and nothing else has its number.
    crate::check(unsafe { libc::close(descriptor) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_and_a_missing_one_reported() {
        assert!(stat(c"/proc/self/exe").unwrap() > 0);
        open_and_close(c"/proc/self/exe").unwrap();
        assert_eq!(stat(c"/nonexistent").unwrap_err().raw_os_error(), Some(libc::ENOENT));
        assert_eq!(open_and_close(c"/nonexistent").unwrap_err().raw_os_error(), Some(libc::ENOENT));
    }
}
