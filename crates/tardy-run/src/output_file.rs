//! Writes output files to paths that a user names. A file is written either completely or not at
//! all, and only regular files are replaced.
//!
//! All files that users ask for are written by one function. The function refuses links. Writing
//! through a link could leave an incomplete file at its target, and replacing the link would remove
//! it.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use tardy_sys::{regular_file, unnamed_file};

use tardy_samples::reserved_file::sync_name;

/// The files of a run folder outside of its subfolders.
const FILES_OF_A_RUN: [&str; 8] = [
    "run.json",
    "state.jsonl",
    "lab.json",
    "guest.json",
    "stdout.log",
    "stderr.log",
    "console.log",
    "qemu.log",
];
const FOLDERS_OF_A_RUN: [&str; 3] = ["samples", "trace", "outside"];

/// Writes a file next to `path`, syncs it and renames it to `path`. Readers therefore never see an
/// incomplete file, and a full disk does not destroy an existing file. The new file gets the mode
/// of the replaced file, and also its owner and group if this process may set them.
///
/// # Errors
/// Returns an error if the file cannot be written or `write` fails, or `InvalidInput` if `path` is
/// not a regular file, or belongs to a run. After an error, nothing has changed.
pub fn replace<T, E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&File) -> Result<T, E>,
) -> Result<T, E> {
    refuse_of_run(path)?;
    replace_in_run(path, write)
}

/// Works like [`replace`], but also replaces files of a run.
///
/// # Errors
/// Fails as [`replace`] does.
pub fn replace_in_run<T, E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&File) -> Result<T, E>,
) -> Result<T, E> {
    refuse_no_file(path)?;
    let old = fs::symlink_metadata(path).ok();
    let mut name = path.file_name().unwrap_or_default().to_owned();
    // Two threads may write the same file at the same time, so each uses a different temporary
    // name.
    static WRITTEN: AtomicU32 = AtomicU32::new(0);
    name.push(format!(
        ".{}-{}.part",
        std::process::id(),
        WRITTEN.fetch_add(1, Ordering::Relaxed)
    ));
    let part: PathBuf = path.with_file_name(name);
    let written = (|| {
        // An unnamed temporary file disappears if the process is killed. Some file systems do not
        // support unnamed files.
        let unnamed = unnamed_file::create(
            part.parent()
                .filter(|parent| !parent.as_os_str().is_empty())
                .unwrap_or(Path::new(".")),
        );
        let is_unnamed = unnamed.is_ok();
        let mode = if old.is_some() { 0o600 } else { 0o666 };
        let file = unnamed.or_else(|_| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(&part)
        })?;
        if let Some(old) = &old {
            keep_rights(old, &file)?;
        }
        let value = write(&file)?;
        file.sync_all()?;
        if is_unnamed {
            // If there is no file to replace, a single call gives the unnamed file its final name.
            // If two calls were needed, a process killed between them would leave a file with the
            // temporary name.
            match unnamed_file::give_name(&file, path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    unnamed_file::give_name(&file, &part)?
                }
                named => {
                    named?;
                    sync_name(path);
                    return Ok(value);
                }
            }
        }
        fs::rename(&part, path)?;
        sync_name(path);
        Ok(value)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

/// Gives `file` the owner, group and mode of the file that it replaces. Must be called before
/// `file` has any content.
fn keep_rights(old: &Metadata, file: &File) -> io::Result<()> {
    let new = file.metadata()?;
    let mut mode = old.mode() & 0o777;
    if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
        let has_group = fchown(file, Some(old.uid()), Some(old.gid()))
            .or_else(|_| fchown(file, None, Some(old.gid())))
            .is_ok();
        // If the file gets another group than the old file, that group must not get the old group's
        // rights.
        mode &= if has_group { 0o777 } else { 0o707 };
    }
    // On a file system without modes, setting a mode fails.
    if mode == new.mode() & 0o777 {
        Ok(())
    } else {
        file.set_permissions(Permissions::from_mode(mode))
    }
}

/// Writes `bytes` as [`replace`] does. If the path is `-`, writes to standard output, which its
/// reader may close early.
///
/// # Errors
/// Returns an error if [`replace`] fails, or if writing to standard output fails.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if !is_standard_output(path) {
        return replace(path, |mut file| file.write_all(bytes));
    }
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Returns whether the path means standard output.
#[must_use]
pub fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

fn refused(words: &str) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::InvalidInput, words))
}

fn refuse_no_file(path: &Path) -> io::Result<()> {
    // Renaming a file to the path of a device would replace the device. Renaming it to the path of
    // a link would replace the link, while the link's target would stay unchanged.
    if let Ok(there) = fs::symlink_metadata(path)
        && let Some(name) = regular_file::name(there.file_type())
    {
        return refused(&format!("the path names {name}: give the name of a file"));
    }
    if path.file_name().is_none() {
        refused("the path does not name a file")
    } else {
        Ok(())
    }
}

fn refuse_of_run(path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name() else {
        return refused("the path does not name a file");
    };
    let folder = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let folder = folder.canonicalize()?;
    let is_run = |folder: &Path| folder.join("run.json").exists();
    let is_of_run = is_run(&folder) && FILES_OF_A_RUN.iter().any(|own| name == *own)
        || folder.parent().is_some_and(is_run)
            && folder
                .file_name()
                .is_some_and(|own| FOLDERS_OF_A_RUN.iter().any(|name| own == *name));
    if is_of_run {
        return refused(
            "this path is reserved for the files of the run in that folder: give \
                        another name",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path) -> io::Result<()> {
        replace(path, |mut file| file.write_all(b"new"))
    }

    #[test]
    fn only_a_file_is_replaced_and_only_by_a_whole_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "old").unwrap();
        let failed: io::Result<()> = replace(&path("file"), |mut file| {
            file.write_all(b"ne")?;
            Err(io::Error::other("full"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(path("file")).unwrap(), b"old");
        write(&path("file")).unwrap();
        assert_eq!(fs::read(path("file")).unwrap(), b"new");
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        for (name, kind) in [("link", "a symbolic link"), ("folder", "a folder")] {
            let error = write(&path(name)).unwrap_err().to_string();
            assert!(error.contains(kind), "{error}");
        }
        let names = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(names, 3, "temporary files are removed");
    }

    #[test]
    fn a_file_that_is_replaced_keeps_its_owner_and_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("private.html");
        write(&path).unwrap();
        let of_new = fs::metadata(&path).unwrap().mode();
        for mode in [0o600, 0o640, 0o400, 0o666] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            replace(&path, |mut file| {
                assert_eq!(file.metadata()?.mode() & 0o777, mode, "while it is written");
                file.write_all(b"newer")
            })
            .unwrap();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, mode);
        }
        assert_eq!(fs::read(&path).unwrap(), b"newer");
        // Only root can change the owner of a file.
        if tardy_sys::user::is_root() {
            std::os::unix::fs::chown(&path, Some(65534), Some(65533)).unwrap();
            write(&path).unwrap();
            let kept = fs::metadata(&path).unwrap();
            assert_eq!(
                (kept.uid(), kept.gid(), kept.mode() & 0o777),
                (65534, 65533, 0o666)
            );
        }
        let other = folder.path().join("other.html");
        write(&other).unwrap();
        assert_eq!(fs::metadata(&other).unwrap().mode(), of_new);
    }

    #[test]
    fn a_runs_own_files_stay_and_others_may_lie_beside_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("samples")).unwrap();
        fs::write(path("run.json"), "{}").unwrap();
        for own in [
            "run.json",
            "state.jsonl",
            "samples/cyclic.cpu0.series",
            "samples/../run.json",
        ] {
            assert_eq!(
                write(&path(own)).unwrap_err().kind(),
                io::ErrorKind::InvalidInput,
                "{own}"
            );
        }
        assert_eq!(fs::read(path("run.json")).unwrap(), b"{}");
        write(&path("report.html")).unwrap();
        fs::remove_file(path("run.json")).unwrap();
        write(&path("run.json")).unwrap();
    }
}
