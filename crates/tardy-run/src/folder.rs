//! Creates, opens and updates run folders.
//!
//! If a file has fewer samples than `run.json` states, the tool reports this and gives no verdict,
//! because a truncated file could seem to meet its deadline.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tardy_sys::regular_file;

use super::record::{FORMAT, RunRecord, State};
use tardy_samples::far_time::far_time;
use tardy_samples::harmless::harmless;
use tardy_samples::hours::{self, Hours};
use tardy_samples::read_series::is_without_head;
use tardy_samples::reserved_file::{self, ReservedFile};
use tardy_samples::segments::{segment_path, segments_behind};

/// Space reserved for the last `run.json`, in bytes. This space suffices for a machine with 1000
/// interrupts and 256 CPUs.
const RECORD_BYTES_RESERVED: usize = 1 << 20;
/// Maximum size of a `run.json` that is read, in bytes.
const RECORD_BYTES_MAX: u64 = 256 << 20;

/// How many levels below a folder runs are searched for. `lab run` puts the runs of a variant into
/// `VARIANT/replica-000`, and each shard has a folder.
const DEPTH: usize = 3;

/// Why a folder cannot be made or opened.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder exists already.
    #[error(
        "{0} exists already, and a run is never overwritten: give another folder with --out, or \
         remove it"
    )]
    Exists(PathBuf),
    /// The folder could not be made or written.
    #[error("cannot write {path}: {error}: give another folder with --out")]
    Unwritable {
        /// The path to write.
        path: PathBuf,
        /// The error that the system reported.
        error: io::Error,
    },
    /// The path is not a run.
    #[error("{path} is not a run folder ({error}): give a folder that `tardy run` made")]
    NotARun {
        /// The path to read.
        path: PathBuf,
        /// The error that the system reported.
        error: io::Error,
    },
    /// `run.json` is invalid.
    #[error("{path}: line {line}: {reason}: the file was damaged or written by hand")]
    Malformed {
        /// The `run.json` that was read.
        path: PathBuf,
        /// The line of the error.
        line: usize,
        /// The reason.
        reason: String,
    },
    /// `run.json` contains a time that no real run can have.
    #[error("{path}: {key} is an impossible time: the file was damaged or written by hand")]
    FarTime {
        /// The `run.json` that was read.
        path: PathBuf,
        /// The key in `run.json` whose value is that time.
        key: String,
    },
    /// A newer tool wrote the `run.json`.
    #[error("{path} has format {format}, this tool reads up to {FORMAT}: use a newer tardy")]
    TooNew {
        /// The `run.json` that was read.
        path: PathBuf,
        /// The format version that `run.json` states.
        format: u64,
    },
}

impl FolderError {
    /// Returns whether the error means that the path cannot be written. Such an error is caused by
    /// the machine, not by a mistake on the command line.
    #[must_use]
    pub fn is_unwritable(&self) -> bool {
        matches!(self, Self::Unwritable { .. })
    }
}

/// Identifies a folder, so that a different folder at the same path can be detected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderIdentity {
    path: PathBuf,
    device: u64,
    number: u64,
}

impl FolderIdentity {
    /// Returns the identity of the folder that is currently at `path`.
    ///
    /// # Errors
    /// Returns the errors of stat(2).
    pub fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self {
            path: path.to_owned(),
            device: metadata.dev(),
            number: metadata.ino(),
        })
    }

    /// Returns whether the same folder is still at its path.
    #[must_use]
    pub fn is_there(&self) -> bool {
        Self::of(&self.path).is_ok_and(|now| now == *self)
    }
}

/// A run folder that is being written.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    identity: FolderIdentity,
    reserved: Option<ReservedFile>,
    /// The folder, which is locked while this file is open.
    lock: File,
}

impl RunFolder {
    /// Makes the folder, and reserves space for its last `run.json`.
    ///
    /// # Errors
    /// Returns [`FolderError::Exists`] or [`FolderError::Unwritable`].
    pub fn create(path: &Path) -> Result<Self, FolderError> {
        let unwritable = |error| FolderError::Unwritable {
            path: path.to_owned(),
            error,
        };
        if let Some(parent) = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            fs::create_dir_all(parent).map_err(unwritable)?;
        }
        fs::create_dir(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => FolderError::Exists(path.to_owned()),
            _ => unwritable(error),
        })?;
        let folder = || -> io::Result<Self> {
            let lock = lock(path)?.ok_or(io::ErrorKind::ResourceBusy)?;
            fs::create_dir(path.join("samples"))?;
            let reserved = ReservedFile::new(&path.join("run.json"), RECORD_BYTES_RESERVED)?;
            Ok(Self {
                path: path.to_owned(),
                identity: FolderIdentity::of(path)?,
                reserved: Some(reserved),
                lock,
            })
        };
        folder().map_err(|error| {
            let _ = fs::remove_dir_all(path);
            unwritable(error)
        })
    }

    /// Returns this folder after it was moved to `path`.
    ///
    /// # Errors
    /// Returns [`FolderError::Unwritable`].
    pub(crate) fn moved_to(self, path: &Path) -> Result<Self, FolderError> {
        let reopened = || -> io::Result<Self> {
            let reserved = ReservedFile::new(&path.join("run.json"), RECORD_BYTES_RESERVED)?;
            Ok(Self {
                path: path.to_owned(),
                identity: FolderIdentity::of(path)?,
                reserved: Some(reserved),
                lock: self.lock,
            })
        };
        reopened().map_err(|error| FolderError::Unwritable {
            path: path.to_owned(),
            error,
        })
    }

    /// Returns the folder's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the identity of the folder; a later folder at the same path has a different one.
    #[must_use]
    pub fn identity(&self) -> &FolderIdentity {
        &self.identity
    }

    /// Returns the path of the folder's series.
    #[must_use]
    pub fn samples(&self) -> PathBuf {
        self.path.join("samples")
    }

    /// Replaces `run.json`.
    ///
    /// # Errors
    /// Returns [`FolderError::Unwritable`] if `run.json` cannot be written; the old one then stays.
    pub fn update(&self, record: &RunRecord) -> Result<(), FolderError> {
        self.put(&encode(record), reserved_file::replace)
    }

    /// Replaces `run.json` without waiting for the disk. Readers see the new record at once. It
    /// survives if the tool is killed, but may be lost in a power failure.
    ///
    /// # Errors
    /// Returns [`FolderError::Unwritable`] if `run.json` cannot be written; the old one then stays.
    pub fn publish(&self, record: &RunRecord) -> Result<(), FolderError> {
        self.put(&encode(record), reserved_file::replace_in_memory)
    }

    fn put(
        &self,
        json: &[u8],
        replace: impl FnOnce(&Path, &[u8]) -> io::Result<()>,
    ) -> Result<(), FolderError> {
        let path = self.path.join("run.json");
        // Another folder may have been put at the path meanwhile.
        let gone = || {
            io::Error::new(
                io::ErrorKind::NotFound,
                "the folder was removed, moved or replaced",
            )
        };
        let replaced = if self.identity.is_there() {
            replace(&path, json)
        } else {
            Err(gone())
        };
        replaced.map_err(|error| FolderError::Unwritable { path, error })
    }

    /// Returns the path and the content of `run.json`, for a caller that replaces it later.
    #[must_use]
    pub fn encoded(&self, record: &RunRecord) -> (PathBuf, Vec<u8>) {
        (self.path.join("run.json"), encode(record))
    }

    /// Replaces `run.json` for the last time, in the space reserved at the start.
    ///
    /// # Errors
    /// Returns [`FolderError::Unwritable`].
    pub fn finish(&mut self, record: &RunRecord) -> Result<(), FolderError> {
        self.put_last(&encode(record))
    }

    fn put_last(&mut self, json: &[u8]) -> Result<(), FolderError> {
        match self.reserved.take() {
            Some(reserved) => self.put(json, |_, json| reserved.commit(json)),
            None => self.put(json, reserved_file::replace),
        }
    }
}

/// Locks the folder at `path` until the returned file is closed. Returns `None` if another tool
/// holds the lock.
pub(crate) fn lock(path: &Path) -> io::Result<Option<File>> {
    let folder = File::open(path)?;
    // On a file system without locks, the process number decides whether a run is in progress.
    Ok((!matches!(folder.try_lock(), Err(TryLockError::WouldBlock))).then_some(folder))
}

fn encode(record: &RunRecord) -> Vec<u8> {
    let mut json = serde_json::to_vec_pretty(record)
        .expect("keys are text and numbers finite or null, as JSON requires");
    json.push(b'\n');
    json
}

/// Reads the `run.json` of a folder.
///
/// # Errors
/// Returns [`FolderError::NotARun`], [`FolderError::Malformed`], [`FolderError::FarTime`] or
/// [`FolderError::TooNew`].
pub fn open(folder: &Path) -> Result<RunRecord, FolderError> {
    let path = folder.join("run.json");
    let not_a_run = |error| FolderError::NotARun {
        path: folder.to_owned(),
        error,
    };
    let text = regular_file::read(&path, RECORD_BYTES_MAX).map_err(not_a_run)?;
    let malformed = |error: serde_json::Error| FolderError::Malformed {
        path: path.clone(),
        line: error.line(),
        reason: error.to_string(),
    };
    let mut value: serde_json::Value = serde_json::from_slice(&text).map_err(malformed)?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) if format > u64::from(FORMAT) => {
            return Err(FolderError::TooNew { path, format });
        }
        _ => {}
    }
    if let Some(key) = far_time(&value) {
        return Err(FolderError::FarTime {
            key: key.to_owned(),
            path,
        });
    }
    // If possible, the original text is parsed, so that an error names the line.
    let text = if harmless(&mut value) {
        serde_json::to_vec_pretty(&value).map_err(malformed)?
    } else {
        text
    };
    let mut record: RunRecord = serde_json::from_slice(&text).map_err(malformed)?;
    // If the samples folder is gone, `tardy restore` has moved the samples of a killed run into the
    // run's folder.
    record.samples_folder = record.samples_folder.filter(|spool| spool.is_dir());
    if record.state == State::Running {
        // The tool creates the file of each series before it chooses the start of the run, and
        // writes the head of the file only afterwards. If the head is missing, the run has not
        // started, or it was killed before its start. So the series has no samples and is left out,
        // unless other files of the series contain samples.
        let samples = record
            .samples_folder
            .clone()
            .unwrap_or_else(|| folder.join("samples"));
        record.series.retain(|series| {
            let path = samples.join(&series.file);
            // If the file cannot be read, the reader of the series reports the error.
            !is_without_head(&path).unwrap_or(false) || has_samples(&path)
        });
    }
    Ok(record)
}

/// Changes the `run.json` of a folder to which no process writes.
///
/// # Errors
/// Fails as [`open`] does; returns [`FolderError::Unwritable`] if the new record cannot be written.
pub fn rewrite(folder: &Path, change: impl FnOnce(&mut RunRecord)) -> Result<(), FolderError> {
    let mut record = open(folder)?;
    change(&mut record);
    let path = folder.join("run.json");
    reserved_file::replace(&path, &encode(&record))
        .map_err(|error| FolderError::Unwritable { path, error })
}

/// Returns whether a series whose first file lacks a head has samples in other files.
fn has_samples(series: &Path) -> bool {
    let gave_way = Hours::read(&hours::path(series))
        .is_ok_and(|hours| hours.is_some_and(|hours| hours.through > 0));
    let is_written = |number: u64| {
        fs::metadata(segment_path(series, number)).is_ok_and(|segment| segment.len() > 0)
    };
    gave_way || segments_behind(series, 0).is_ok_and(|numbers| numbers.into_iter().any(is_written))
}

/// Returns the run folders at or below `path`. If there are none, returns `path` itself, so that
/// opening it reports the error.
#[must_use]
pub fn folders(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    find(path, DEPTH, &mut HashSet::new(), &mut found);
    if found.is_empty() {
        vec![path.to_owned()]
    } else {
        found
    }
}

/// Adds run folders at or below `path` to `found`. `seen` contains the device and inode of each
/// visited folder, so that a folder with several links is found only once.
fn find(path: &Path, depth: usize, seen: &mut HashSet<(u64, u64)>, found: &mut Vec<PathBuf>) {
    if let Ok(metadata) = fs::metadata(path)
        && !seen.insert((metadata.dev(), metadata.ino()))
    {
        return;
    }
    if path.join("run.json").exists() {
        found.push(path.to_owned());
    } else if depth > 0
        && let Ok(entries) = std::fs::read_dir(path)
    {
        let mut children: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.is_dir())
            .collect();
        // Folders are visited before links, so that a run is shown under its own name and not under
        // that of a link.
        children.sort_by_key(|child| (child.is_symlink(), child.clone()));
        children
            .iter()
            .for_each(|child| find(child, depth - 1, seen, found));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_goes_into_no_folder_but_its_own() {
        let place = tempfile::tempdir().unwrap();
        let (run, moved) = (place.path().join("run"), place.path().join("moved"));
        let mut folder = RunFolder::create(&run).unwrap();
        folder.put(b"first", reserved_file::replace).unwrap();
        fs::rename(&run, &moved).unwrap();
        fs::create_dir(&run).unwrap();
        let put = folder.put(b"second", reserved_file::replace);
        for error in [put.unwrap_err(), folder.put_last(b"third").unwrap_err()] {
            assert!(
                error.to_string().contains("removed, moved or replaced"),
                "{error}"
            );
        }
        assert_eq!(fs::read_dir(&run).unwrap().count(), 0);
        assert_eq!(fs::read(moved.join("run.json")).unwrap(), b"first");
    }
}
