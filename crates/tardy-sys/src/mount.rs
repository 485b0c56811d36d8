//! Mounting of kernel file systems (mount(2)).

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Mounts a file system of type `kind` with no source and no options on the folder `target`, without device files or set-user-id programs unless
/// `kind` is devtmpfs, whose purpose they are.
///
/// # Errors
/// What mount(2) reports: `EPERM` without `CAP_SYS_ADMIN`, `ENODEV` for a type that the kernel does not have, `ENOENT` for a missing folder.
pub fn mount_kernel_file_system(kind: &str, target: &Path) -> io::Result<()> {
    let kind_c = CString::new(kind)?;
    let target = CString::new(target.as_os_str().as_bytes())?;
    let flags = if kind == "devtmpfs" { libc::MS_NOSUID } else { libc::MS_NOSUID | libc::MS_NODEV };
    // SAFETY: the three strings are NUL-terminated and outlive the call; null data means no options, which every file system accepts.
    let result = unsafe { libc::mount(kind_c.as_ptr(), target.as_ptr(), kind_c.as_ptr(), flags, std::ptr::null()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Success needs a machine of its own: the guests of the lab mount eight file systems at every boot, and their tests fail without them.
    #[test]
    fn an_unknown_type_is_reported_by_the_kernel() {
        let error = mount_kernel_file_system("no-such-type", Path::new("/")).unwrap_err();
        assert!(matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EPERM)), "{error}");
    }

    #[test]
    fn a_name_with_a_nul_byte_is_refused() {
        assert_eq!(mount_kernel_file_system("a\0b", Path::new("/")).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
