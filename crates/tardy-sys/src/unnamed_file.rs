//! Files without a name: open(2) with O_TMPFILE, and linkat(2). If the process ends, for whatever
//! reason, before it has given the file a name, the kernel removes the file.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Creates a file without a name on the file system of `folder`.
///
/// # Errors
/// Returns EOPNOTSUPP, EISDIR or EINVAL if that file system does not support such files, or the
/// errors of open(2).
pub fn create(folder: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o666)
        .custom_flags(libc::O_TMPFILE | libc::O_CLOEXEC)
        .open(folder)
}

/// Gives the file a name, which must not exist yet.
///
/// # Errors
/// Returns EEXIST; ENOENT if /proc is not mounted; ENOSPC; or the errors of linkat(2).
pub fn give_name(file: &File, path: &Path) -> io::Result<()> {
    let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let to = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: both paths end with a zero byte; absolute paths, and paths relative to the working
    // folder, need no descriptor.
    let result = unsafe {
        libc::linkat(
            libc::AT_FDCWD,
            from.as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            libc::AT_SYMLINK_FOLLOW,
        )
    };
    crate::check(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_has_no_name_until_it_is_given_one() {
        let folder = std::env::temp_dir().join(format!("tardy-unnamed-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let names = || std::fs::read_dir(&folder).unwrap().count();
        let mut file = match create(&folder) {
            Ok(file) => file,
            // If the file system lacks support, the call must return an error, and must not leave a
            // name behind.
            Err(error) => {
                return assert!(
                    names() == 0
                        && matches!(
                            error.raw_os_error(),
                            Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)
                        )
                );
            }
        };
        file.write_all(b"room").unwrap();
        assert_eq!(names(), 0);
        give_name(&file, &folder.join("name")).unwrap();
        assert_eq!(std::fs::read(folder.join("name")).unwrap(), b"room");
        assert_eq!(
            give_name(&file, &folder.join("name"))
                .unwrap_err()
                .raw_os_error(),
            Some(libc::EEXIST)
        );
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            create(&folder).unwrap_err().raw_os_error(),
            Some(libc::ENOENT)
        );
    }
}
