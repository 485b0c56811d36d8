//! The folder below `--spool` that holds the samples during a run.

use std::path::{Path, PathBuf};
use std::{fs, io};

use tardy_sys::{clock, private_folder};

use crate::journal::{Journal, JournalError, UndoResult};
use crate::root::Root;
use crate::undo::{SPOOL_PREFIX, Undo};

/// A folder for the samples of one run. When it is dropped, the samples are moved to the run
/// folder. If the run is killed, the next start finds them through its journal.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    journal: Journal,
}

/// Why the folder for the samples cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The folder cannot be made.
    #[error(transparent)]
    Folder(#[from] io::Error),
}

impl Spool {
    /// Makes a folder in `parent` for files that will be moved to the existing folder `samples`,
    /// and journals it in `journals`.
    ///
    /// # Errors
    /// Returns [`SpoolError`] if the folder cannot be made; the system is then unchanged.
    pub fn make(
        journals: &Path,
        root: &Root,
        parent: &Path,
        samples: PathBuf,
    ) -> Result<Self, SpoolError> {
        // The process number alone would not be unique, because processes in two containers may
        // have the same one.
        let name = format!(
            "{SPOOL_PREFIX}{}-{}",
            std::process::id(),
            clock::monotonic()
        );
        Self::make_at(journals, root, parent.canonicalize()?.join(name), samples)
    }

    fn make_at(
        journals: &Path,
        root: &Root,
        path: PathBuf,
        samples: PathBuf,
    ) -> Result<Self, SpoolError> {
        let undo = Undo::StoreSamples {
            spool: path.clone(),
            samples,
        };
        let journal = Journal::write(journals, root, Vec::new(), vec![undo])?;
        // If the file system stores no owners, the check fails. A later start could not verify who
        // owns the folder, and would not move its samples.
        let check = || private_folder::open(&path).inspect_err(|_| drop(fs::remove_dir(&path)));
        match private_folder::make_new(&path).and_then(|()| check()) {
            Ok(_) => Ok(Self { path, journal }),
            Err(error) => {
                // If a folder with this name exists, it may belong to another run, so nothing is
                // undone.
                journal.withdraw();
                Err(error.into())
            }
        }
    }

    /// Returns the folder's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the samples to the run folder.
    pub fn store(self) -> Vec<UndoResult> {
        self.journal.undo()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn samples_of_another_run_are_not_touched_where_its_folder_has_the_name() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let foreign = path("tardy-spool-7");
        fs::create_dir(path("samples")).unwrap();
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("cyclic.cpu0.series"), "of another run").unwrap();
        let refused = Spool::make_at(
            &path("state"),
            &Root::system(),
            foreign.clone(),
            path("samples"),
        )
        .unwrap_err();
        assert!(
            matches!(refused, SpoolError::Folder(error) if error.kind() == io::ErrorKind::AlreadyExists)
        );
        assert_eq!(
            fs::read(foreign.join("cyclic.cpu0.series")).unwrap(),
            b"of another run"
        );
        for empty in ["samples", "state"] {
            assert_eq!(fs::read_dir(path(empty)).unwrap().count(), 0, "{empty}");
        }
    }

    #[test]
    fn each_run_has_a_folder_of_its_own_and_its_samples_move_to_it() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::create_dir(path("samples")).unwrap();
        let make = || {
            Spool::make(
                &path("state"),
                &Root::system(),
                place.path(),
                path("samples"),
            )
            .unwrap()
        };
        let (spool, other) = (make(), make());
        assert_ne!(spool.path(), other.path());
        assert_eq!(
            spool.path().metadata().unwrap().permissions().mode() & 0o777,
            0o700
        );
        fs::write(spool.path().join("cyclic.cpu0.series"), "samples").unwrap();
        assert!(spool.store().iter().all(|stored| stored.result.is_ok()));
        drop(other);
        assert_eq!(
            fs::read(path("samples/cyclic.cpu0.series")).unwrap(),
            b"samples"
        );
        assert_eq!(fs::read_dir(path("state")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
    }
}
