//! Files without a name: memfd_create(2), open(2) with O_TMPFILE.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Creates a file on the kernel's internal tmpfs. The file exists until its last descriptor is
/// closed.
///
/// # Errors
/// Returns EMFILE, ENFILE, ENOMEM; EINVAL if `name` is longer than 249 bytes. Only /proc shows the
/// name.
pub fn create(name: &str) -> io::Result<File> {
    let name = CString::new(name)?;
    // SAFETY: `name` is a C string that outlives the call.
    let fd = crate::check(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: the descriptor was just opened, and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Creates a file on the file system of `folder`. The file never has a name, so the kernel removes
/// it when its last descriptor is closed.
///
/// # Errors
/// Returns EOPNOTSUPP or EISDIR if the file system does not support such files; ENOENT, EACCES,
/// EROFS.
pub fn create_unnamed(folder: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE)
        .open(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    #[test]
    fn what_is_written_to_a_memory_file_is_read_back() {
        let mut file = create("tardy-test").unwrap();
        file.write_all(b"on time").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "on time");
        assert_eq!(
            create(&"n".repeat(300)).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }

    #[test]
    fn an_unnamed_file_shows_in_no_folder() {
        let folder = std::env::temp_dir().join(format!("tardy-unnamed-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        match create_unnamed(&folder) {
            Ok(mut file) => file.write_all(&[1; 4096]).unwrap(),
            Err(error) => assert!(
                matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)),
                "{error}"
            ),
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir(&folder).unwrap();
        assert_eq!(
            create_unnamed(&folder).unwrap_err().raw_os_error(),
            Some(libc::ENOENT)
        );
    }
}
