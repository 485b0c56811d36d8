//! Opens data files that a user names. FIFOs, which can block, and devices, which can be endless,
//! are refused.
//!
//! Files are opened without blocking. The caller states how many bytes a file of its kind may
//! contain, and a longer file is refused. The length that a file reports is not trusted, because
//! /dev/zero, for example, reports a length of zero. The length of unpacked data is limited as
//! well, because a few kB of a package can expand to any length.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a regular file for reading, without waiting.
///
/// # Errors
/// Returns the errors of stat(2) and open(2), or `InvalidInput` if the file is not a regular one.
pub fn open(path: &Path) -> io::Result<File> {
    // A device is not even opened, because opening a device can have an effect. If another file
    // replaces this one after the check, that file is opened without waiting, and then checked in
    // turn.
    refuse(fs::metadata(path)?.file_type())?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    refuse(file.metadata()?.file_type())?;
    Ok(file)
}

/// Reads a whole file of at most `bytes_max` bytes, without relying on its reported length.
///
/// # Errors
/// Fails as [`open`] does or if reading fails; returns `InvalidData` if the file is longer.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open(path)?
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut content)?;
    if content.len() as u64 > bytes_max {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "the file is larger than the {} MiB allowed for such a file",
                bytes_max >> 20
            ),
        ));
    }
    Ok(content)
}

fn refuse(kind: FileType) -> io::Result<()> {
    match name(kind) {
        None => Ok(()),
        Some(name) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("this is {name}, not a file"),
        )),
    }
}

/// Returns the name of a kind of file; `None` for regular files.
#[must_use]
pub fn name(kind: FileType) -> Option<&'static str> {
    Some(match kind {
        _ if kind.is_file() => return None,
        _ if kind.is_dir() => "a folder",
        _ if kind.is_symlink() => "a symbolic link",
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let folder = std::env::temp_dir().join(format!("tardy-regular-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("file");
        fs::write(&file, [7; 100]).unwrap();
        assert_eq!(read(&file, 100).unwrap().len(), 100);
        assert_eq!(
            read(&file, 99).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
        for (path, name) in [
            (folder.join("socket"), "a socket"),
            (folder.clone(), "a folder"),
            ("/dev/zero".into(), "a device"),
        ] {
            let error = open(&path).unwrap_err();
            assert_eq!(error.to_string(), format!("this is {name}, not a file"));
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
