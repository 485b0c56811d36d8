//! Makes scratch files, which are always removed, and keeps some space free on their file system.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tardy_machine::host::disk_floor;
use tardy_sys::{disk, memory_file, private_folder, user};

use super::Unsupported;
use super::info::{ErrorContext, WorkError};
use super::worker::Worker;

/// The folder, inside a worker's own folder, in which the worker works as the user `nobody`.
const WORK: &str = "work";

/// Makes a file without a name on the file system of `folder`. If the file system has no such
/// files, makes a named file and removes its name at once.
///
/// # Errors
/// Returns the errors of open(2).
pub fn file(folder: &Path) -> io::Result<File> {
    if let Ok(file) = memory_file::create_unnamed(folder) {
        return Ok(file);
    }
    // Some file systems have no unnamed files (nfs, vfat, old kernels).
    let path = folder.join(format!(
        ".tardy-scratch-{}-{}",
        std::process::id(),
        tardy_sys::clock::monotonic()
    ));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Makes this worker's own folder inside the load's folder. The guardian removes the load's folder.
/// A restarted worker finds its previous folder again.
///
/// # Errors
/// Returns the errors of mkdir(2), and an error if the folder does not belong to this user alone.
pub fn own_folder(worker: &Worker) -> Result<PathBuf, WorkError> {
    let load =
        worker.plan.load.scratch.as_ref().ok_or_else(|| {
            WorkError::Bound("the load's plan names no scratch folder".to_owned())
        })?;
    make_below(load, worker.plan.index).doing("make the scratch folder")
}

/// Makes the folder of worker `index`, and checks that it belongs to this user alone. Any user may
/// read the folder's name in the plan, and could make the folder first.
fn make_below(load: &Path, index: usize) -> io::Result<PathBuf> {
    let own = load.join(index.to_string());
    for folder in [load, &own] {
        private_folder::make(folder).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", folder.display()))
        })?;
    }
    Ok(own)
}

/// Makes a folder inside this worker's own folder, and enters it. Only root can access the outer
/// folder. Any user may write into the inner folder, so the worker can write there after it has
/// become the user `nobody`.
///
/// # Errors
/// Fails as [`own_folder`] does; also returns an error if the file system has no permissions.
pub fn enter_own_folder(worker: &Worker) -> Result<(), WorkError> {
    let own = own_folder(worker)?.join(WORK);
    match std::fs::create_dir(&own) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
    .doing("make the scratch folder")?;
    if user::is_root() {
        let open = std::fs::set_permissions(&own, Permissions::from_mode(0o777));
        let is_open = || {
            own.metadata()
                .is_ok_and(|found| found.mode() & 0o777 == 0o777)
        };
        if open.is_err() || !is_open() {
            return Err(WorkError::Absent(Unsupported::new(
                format!("support for file permissions below {}", own.display()),
                "choose a folder on another file system",
            )));
        }
    }
    std::env::set_current_dir(&own).doing("enter the scratch folder")
}

/// Works like [`check_floor`], for an existing folder.
///
/// # Errors
/// Fails as [`check_floor`] and open(2) do.
pub fn check_floor_of(folder: &Path, bytes: u64) -> Result<(), WorkError> {
    let opened = File::open(folder).doing("open the scratch folder")?;
    check_floor(&opened, folder, bytes)
}

/// Checks that the file system of `file`, in `folder`, keeps its reserve after `bytes` more are
/// written.
///
/// # Errors
/// Returns [`WorkError::Bound`] with the free space and the reserve if it does not.
pub fn check_floor(file: &File, folder: &Path, bytes: u64) -> Result<(), WorkError> {
    let room = disk::room_of(file).doing("ask for free space")?;
    let floor = disk_floor(room.total);
    if room.free >= floor.saturating_add(bytes) {
        return Ok(());
    }
    let print = tardy_core::bytes::format_bytes;
    Err(WorkError::Bound(format!(
        "{} has {} free, and {} must stay free: make room or set another folder",
        folder.display(),
        print(room.free),
        print(floor)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_file_leaves_nothing_in_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let _file = file(folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_others_may_have_filled_is_not_worked_in() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let load = folder.path().join("tardy-scratch-fs-1");
        let own = make_below(&load, 3).unwrap();
        for made in [&load, &own] {
            assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
        std::fs::write(own.join("kept-0"), "").unwrap();
        assert_eq!(
            make_below(&load, 3).unwrap(),
            own,
            "of a worker that is started again"
        );
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(
            make_below(&load, 3).unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
        make_below(&load, 4).unwrap();
        let planted = folder.path().join("tardy-scratch-fs-2");
        std::os::unix::fs::symlink(&load, &planted).unwrap();
        assert_eq!(
            make_below(&planted, 4).unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
        std::fs::set_permissions(&load, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(
            make_below(&load, 4).unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
    }

    #[test]
    fn a_file_system_is_not_filled() {
        let folder = tempfile::tempdir().unwrap();
        check_floor_of(folder.path(), 0).unwrap();
        let refused = check_floor_of(folder.path(), u64::MAX / 2)
            .unwrap_err()
            .to_string();
        assert!(refused.contains("stay free"), "{refused}");
    }
}
