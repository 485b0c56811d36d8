//! Creates and opens folders that only this user can access, in places where every user may create
//! folders. Folders of other users are never used.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::{regular_file, user};

/// Makes a folder that only this user may use. The folder may exist already, for example after a
/// restart of the process. An existing folder must also be private.
///
/// # Errors
/// Returns an error if mkdir(2) fails, or if [`open`] does.
pub fn make(path: &Path) -> io::Result<()> {
    match make_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open(path).map(drop),
        made => made,
    }
}

/// Makes a folder that only this user may use. Nothing may exist at `path` yet.
///
/// # Errors
/// Returns the errors of mkdir(2).
pub fn make_new(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Opens a folder that only this user may use.
///
/// # Errors
/// Returns the errors of open(2), or `PermissionDenied` if the path is a link, or the folder
/// belongs to another user or is accessible to others.
pub fn open(path: &Path) -> io::Result<File> {
    let folder = open_itself(path)?;
    let found = folder.metadata()?;
    if found.uid() != user::user_and_group().0 {
        return Err(refused(&format!(
            "the folder belongs to user {}",
            found.uid()
        )));
    }
    if found.mode() & 0o077 != 0 {
        return Err(refused("other users may access the folder"));
    }
    Ok(folder)
}

/// Opens a folder of any owner, unless `path` is a link.
///
/// # Errors
/// Returns the errors of open(2), or `PermissionDenied` if the path is a link or not a folder.
pub fn open_itself(path: &Path) -> io::Result<File> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
        .open(path);
    opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOTDIR | libc::ELOOP) => refused("this is a link, or not a folder"),
        _ => error,
    })
}

/// Creates an empty file, or empties an existing one, and opens it for reading and writing. The
/// last part of `path` may not be a link.
///
/// # Errors
/// Returns the errors of open(2), such as ELOOP.
pub fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
}

/// Opens the file `name` in an open folder for reading. Neither opening the file nor reading it
/// waits.
///
/// # Errors
/// Returns the errors of open(2), or `PermissionDenied` if it is no regular file, such as a link.
pub fn open_file(folder: &File, name: &OsStr) -> io::Result<File> {
    let path = inside(folder).join(name);
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(&path);
    let is_link = |error: &io::Error| error.raw_os_error() == Some(libc::ELOOP);
    let what = match opened {
        Ok(file) => match regular_file::name(file.metadata()?.file_type()) {
            None => return Ok(file),
            Some(what) => what,
        },
        Err(error) if is_link(&error) => "a symbolic link",
        Err(error) => return Err(error),
    };
    Err(refused(&format!(
        "{} is {what}, not a file",
        name.display()
    )))
}

/// Returns a path to an open folder. The path leads to this folder even if another folder gets its
/// name.
#[must_use]
pub fn inside(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

fn refused(why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("{why}: check its content, and remove it"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn only_a_folder_of_this_user_alone_is_taken_for_ones_own() {
        let place = std::env::temp_dir().join(format!("tardy-private-{}", std::process::id()));
        fs::create_dir(&place).unwrap();
        let path = |name: &str| place.join(name);
        make(&path("own")).unwrap();
        make(&path("own")).unwrap();
        assert_eq!(fs::metadata(path("own")).unwrap().mode() & 0o777, 0o700);
        assert_eq!(
            make_new(&path("own")).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(
            make(&path("no/parent")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        fs::write(path("file"), "").unwrap();
        symlink(path("own"), path("link")).unwrap();
        fs::create_dir(path("open")).unwrap();
        fs::set_permissions(path("open"), fs::Permissions::from_mode(0o750)).unwrap();
        let mut others = vec!["file", "link", "open"];
        // Only root can make a folder that belongs to another user.
        fs::create_dir(path("foreign")).unwrap();
        fs::set_permissions(path("foreign"), fs::Permissions::from_mode(0o700)).unwrap();
        if user::is_root() {
            chown(path("foreign"), Some(65534), Some(65534)).unwrap();
            others.push("foreign");
        }
        for other in others {
            let error = make(&path(other)).unwrap_err();
            assert!(
                error.kind() == io::ErrorKind::PermissionDenied
                    && error.to_string().contains("remove it"),
                "{other}: {error}"
            );
        }
        open_itself(&path("open")).unwrap();
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn a_file_is_neither_written_nor_read_through_a_link() {
        let place = std::env::temp_dir().join(format!("tardy-private-file-{}", std::process::id()));
        fs::create_dir(&place).unwrap();
        fs::write(place.join("precious"), "kept").unwrap();
        symlink(place.join("precious"), place.join("link")).unwrap();
        assert_eq!(
            create_file(&place.join("link")).unwrap_err().raw_os_error(),
            Some(libc::ELOOP)
        );
        assert_eq!(fs::read(place.join("precious")).unwrap(), b"kept");
        let folder = File::open(&place).unwrap();
        open_file(&folder, "precious".as_ref()).unwrap();
        for (name, what) in [
            ("link", "link is a symbolic link"),
            ("..", ".. is a folder"),
        ] {
            let error = open_file(&folder, name.as_ref()).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        create_file(&place.join("precious")).unwrap();
        assert_eq!(fs::read(place.join("precious")).unwrap(), b"");
        fs::remove_dir_all(&place).unwrap();
    }
}
