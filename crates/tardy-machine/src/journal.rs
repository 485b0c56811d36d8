//! Before tardy makes a change that would survive if tardy were killed, this module records the
//! change in a journal. After a SIGKILL or a power cut, the next start or `tardy restore` undoes
//! the change.
//!
//! Changes that are undone together share a journal file, which is removed after everything is
//! restored. The process locks the file as long as it runs. A process ID alone would not identify
//! the process: a process in another container or on another host may use the same folder, and have
//! the same ID. A reboot resets kernel settings, so from a journal of an earlier boot, only the
//! changes to folders are undone.
//!
//! All scratch folders are made by one function, which journals them first. A folder made in
//! another way would be in no journal. After a kill it would stay, perhaps with a guest's snapshot
//! of 90 MB in it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tardy_sys::{clock, private_folder, regular_file, user};

use crate::irq_affinity::{IrqMove, RestoreOutcome};
use crate::process;
use crate::root::Root;
use crate::undo::{self, Claim, FOLDER_PREFIX, Undo, UndoError, pin};

/// Maximum size of a journal file in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// The content of a journal file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entries {
    /// The boot in which the changes were made.
    pub boot_id: Option<String>,
    /// The process that made the changes.
    pub process: u32,
    /// Start time of that process, in clock ticks since boot. The start time distinguishes the
    /// process from a later one with the same number.
    pub process_start: Option<u64>,
    /// Interrupts that were moved.
    #[serde(default)]
    pub interrupts: Vec<IrqMove>,
    /// Changes that loads made, and folders that commands made. If the supervisor is alive, it
    /// undoes the changes of loads. The field keeps its name so that tardy can read older journals.
    #[serde(default)]
    pub loads: Vec<Undo>,
}

/// A journal of changes that are not undone yet.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    /// The journal file, which is locked as long as it is open.
    _file: File,
    entries: Entries,
    is_undone: bool,
}

/// The journal cannot be written.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot write a journal in {path} ({error}), and tardy changes settings only with a journal: \
     make the folder writable, or set TARDY_STATE_DIR to a writable folder"
)]
pub struct JournalError {
    path: PathBuf,
    error: io::Error,
}

/// What happened when one change was undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoResult {
    pub setting: String,
    /// The result.
    pub result: Result<String, String>,
}

/// Returns the folder of journals: `TARDY_STATE_DIR` if it is set, otherwise a folder below
/// /var/lib for root, otherwise a folder in the user's state folder.
#[must_use]
pub fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("TARDY_STATE_DIR").filter(|folder| !folder.is_empty()) {
        return folder.into();
    }
    let system = Path::new("/var/lib");
    if tardy_sys::user::is_root() && system.is_dir() {
        return system.join("tardy");
    }
    let home = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state")))
        .unwrap_or_else(std::env::temp_dir)
        .join("tardy")
}

impl Journal {
    /// Writes and syncs a journal of the moves in `interrupts`, and of the steps in `loads`. The
    /// steps describe how to undo changes. The caller makes the changes after this call.
    ///
    /// # Errors
    /// Returns a [`JournalError`] if the journal cannot be written.
    pub fn write(
        folder: &Path,
        root: &Root,
        interrupts: Vec<IrqMove>,
        loads: Vec<Undo>,
    ) -> Result<Self, JournalError> {
        let process = std::process::id();
        let entries = Entries {
            boot_id: root.text("proc/sys/kernel/random/boot_id"),
            process,
            process_start: process::start_time(root, process),
            interrupts,
            loads,
        };
        let (file, path) = create(folder, &entries).map_err(|error| JournalError {
            path: folder.to_owned(),
            error,
        })?;
        Ok(Self {
            path,
            _file: file,
            entries,
            is_undone: false,
        })
    }

    /// Restores everything and removes the journal. Returns the result of each change; changes that
    /// could not be undone stay in the journal.
    pub fn undo(mut self) -> Vec<UndoResult> {
        self.is_undone = true;
        undo(&self.path, &self.entries, Claim::Own)
    }

    /// Removes the journal without restoring anything. Call this if the changes were never made.
    pub fn withdraw(mut self) {
        self.is_undone = true;
        let _ = fs::remove_file(&self.path);
    }
}

/// Restores the changes if a run ends with an error or a panic.
impl Drop for Journal {
    fn drop(&mut self) {
        if !self.is_undone {
            undo(&self.path, &self.entries, Claim::Own);
        }
    }
}

/// Writes a journal atomically under a unique name. The process number alone would not be unique,
/// because a command in another container that shares the folder can have the same one.
fn create(folder: &Path, entries: &Entries) -> io::Result<(File, PathBuf)> {
    static WRITTEN: AtomicU32 = AtomicU32::new(0);
    fs::create_dir_all(folder)?;
    loop {
        let name = format!(
            "journal-{}-{}",
            entries.process,
            WRITTEN.fetch_add(1, Ordering::Relaxed)
        );
        let (part, path) = (
            folder.join(format!("{name}{PART}")),
            folder.join(format!("{name}.json")),
        );
        let mut file = match File::create_new(&part) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            file => file?,
        };
        // If the file system does not support locks, the process number decides whether the
        // journal's process lives.
        let _ = file.try_lock();
        // The process that creates the temporary file owns the name, so only this process creates
        // the journal.
        let written = if path.exists() {
            None
        } else {
            Some(fill(&mut file, &part, &path, entries))
        };
        if let Some(Ok(())) = written {
            return Ok((file, path));
        }
        let _ = fs::remove_file(&part);
        if matches!(written, Some(Err(_))) {
            // `fill` may have failed after it renamed the file.
            let _ = fs::remove_file(&path);
        }
        written.transpose()?;
    }
}

/// Writes and syncs the journal under its temporary name, then renames it.
fn fill(file: &mut File, part: &Path, path: &Path, entries: &Entries) -> io::Result<()> {
    file.write_all(&serde_json::to_vec_pretty(entries)?)?;
    file.sync_all()?;
    fs::rename(part, path)?;
    File::open(path.parent().unwrap_or(path))?.sync_all()
}

/// Restores settings and removes them from the journal, so that the next start does not overwrite
/// later changes by others.
fn undo(path: &Path, entries: &Entries, claim: Claim) -> Vec<UndoResult> {
    let mut undone = Vec::new();
    let mut left = Entries {
        interrupts: Vec::new(),
        loads: Vec::new(),
        ..entries.clone()
    };
    for to in &entries.interrupts {
        let restored = match pin(&to.path, claim) {
            Ok(Some(file)) => IrqMove {
                path: private_folder::inside(&file),
                ..to.clone()
            }
            .restore()
            .map_err(|refusal| refusal.to_string()),
            Ok(None) => Err(UndoError::NotASetting(to.path.clone()).to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(RestoreOutcome::Gone),
            Err(error) => Err(error.to_string()),
        };
        let result = match restored {
            Ok(RestoreOutcome::Done) => Ok(format!("restored to {}", to.old)),
            Ok(RestoreOutcome::Over(found)) => Ok(format!(
                "restored to {}; another program had set it to {found}",
                to.old
            )),
            Ok(RestoreOutcome::Gone) => Ok("the interrupt no longer exists".to_owned()),
            Err(refusal) => Err(refusal),
        };
        if result.is_err() {
            left.interrupts.push(to.clone());
        }
        undone.push(UndoResult {
            setting: to.path.display().to_string(),
            result,
        });
    }
    for undo in entries.loads.iter().rev() {
        let result = undo.run_as(claim);
        if result.is_err() {
            left.loads.insert(0, undo.clone());
        }
        let result = result
            .map(|()| "done".to_owned())
            .map_err(|error| error.to_string());
        undone.push(UndoResult {
            setting: undo.to_string(),
            result,
        });
    }
    if left.interrupts.is_empty() && left.loads.is_empty() {
        let _ = fs::remove_file(path);
    } else if undone.iter().any(|undone| undone.result.is_ok()) {
        // A new journal's temporary file has another name, so two commands never write to the same
        // file.
        let part = path.with_added_extension(PART.trim_start_matches('.'));
        let _ = (|| -> io::Result<()> {
            let mut file = File::create(&part)?;
            // The file is locked before it gets its name, so no process takes it for the journal of
            // a killed command.
            let _ = file.try_lock();
            fill(&mut file, &part, path, &left)
        })();
    }
    undone
}

/// A folder for a command's temporary files, removed on drop. If the command is killed, the next
/// start finds the folder in the journal.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// The journal; `None` if none could be written. The folder is usable anyway.
    journal: Option<Journal>,
}

impl Scratch {
    /// Makes a new folder in `parent`, whose name contains `purpose`.
    ///
    /// # Errors
    /// Returns the errors of mkdir(2).
    pub fn make(parent: &Path, purpose: &str) -> io::Result<Self> {
        let scratch = Self::plan(parent, purpose)?;
        fs::create_dir(&scratch.path)?;
        Ok(scratch)
    }

    /// Works like [`Scratch::make`], but the caller makes the folder at the returned path.
    ///
    /// # Errors
    /// Returns an error if `parent` is not a folder.
    pub fn plan(parent: &Path, purpose: &str) -> io::Result<Self> {
        let path = parent.canonicalize()?.join(format!(
            "{FOLDER_PREFIX}{purpose}-{}-{}",
            std::process::id(),
            clock::monotonic()
        ));
        let journal = Journal::write(
            &folder(),
            &Root::system(),
            Vec::new(),
            vec![Undo::RemoveFolder(path.clone())],
        )
        .ok();
        Ok(Self { path, journal })
    }

    /// Returns the folder's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the purpose of the scratch folder that is `path` or contains it; `None` if there is
    /// none.
    #[must_use]
    pub fn purpose(path: &Path) -> Option<&str> {
        let rest = path
            .components()
            .find_map(|part| part.as_os_str().to_str()?.strip_prefix(FOLDER_PREFIX))?;
        rest.rsplitn(3, '-').nth(2)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        match self.journal.take() {
            Some(journal) => drop(journal.undo()),
            None => drop(undo::remove_folder(&self.path)),
        }
    }
}

/// Suffix of a journal file that is being written.
const PART: &str = ".part";

/// A journal whose process has ended.
#[derive(Debug)]
pub struct LeftBehind {
    path: PathBuf,
    entries: Entries,
    is_of_this_boot: bool,
    claim: Claim,
}

/// The journals whose processes have ended.
#[derive(Debug, Default)]
pub struct Leftovers {
    pub journals: Vec<LeftBehind>,
    /// Journals that cannot be read, each with the reason. What such a journal contains is unknown.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// Returns the journals in `folder` whose process has ended.
///
/// # Errors
/// Fails if the folder cannot be read.
pub fn left_behind(folder: &Path, root: &Root) -> io::Result<Leftovers> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Leftovers::default()),
        entries => entries?,
    };
    // Tests use ordinary files instead of kernel settings.
    let claim = if *root == Root::system() {
        Claim::File
    } else {
        Claim::Own
    };
    let mut found = Leftovers::default();
    for entry in entries {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let Some(rest) = name.strip_prefix("journal-") else {
            continue;
        };
        if rest.ends_with(PART) {
            // A process makes its changes only after it has renamed its journal. So if the process
            // has ended, it made no changes, and its temporary file can be removed.
            let writer = rest
                .split('-')
                .next()
                .and_then(|process| process.parse().ok());
            if writer.is_some_and(|process| process::start_time(root, process).is_none())
                && !is_locked(&path)
            {
                let _ = fs::remove_file(&path);
            }
            continue;
        }
        if !rest.ends_with(".json") {
            continue;
        }
        match read(&path) {
            Ok(entries) => {
                let is_of_this_boot =
                    entries.boot_id == root.text("proc/sys/kernel/random/boot_id");
                let is_running = is_of_this_boot
                    && process::start_time(root, entries.process).is_some_and(|start| {
                        entries.process_start.is_none_or(|noted| noted == start)
                    });
                if !is_running && !is_locked(&path) {
                    found.journals.push(LeftBehind {
                        path,
                        entries,
                        is_of_this_boot,
                        claim,
                    });
                }
            }
            // The process removed its journal while this function was reading the folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => found.unreadable.push((path, error.to_string())),
        }
    }
    found.journals.sort_by(|a, b| a.path.cmp(&b.path));
    found.unreadable.sort();
    Ok(found)
}

/// Returns whether a process that is alive uses the journal.
fn is_locked(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Maximum number of attempts to lock a journal, and the pause between them. Another command that
/// scans the folder holds the lock briefly; one that undoes the journal holds it longer.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Locks the journal; `None` if another process has locked, removed or replaced it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = File::open(path)?;
    let mut tries = 1;
    while matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        if tries == LOCK_TRIES {
            return Ok(None);
        }
        tries += 1;
        thread::sleep(LOCK_PAUSE);
    }
    // Any other error means that the file system has no locks. The journal is then undone without a
    // lock.
    let (locked, there) = (file.metadata()?, fs::symlink_metadata(path)?);
    let is_same = (locked.dev(), locked.ino()) == (there.dev(), there.ino());
    Ok(is_same.then_some(file))
}

/// Reads a journal. A journal tells tardy which folders to remove and which files to write, so
/// tardy trusts only journals of the same user.
fn read(path: &Path) -> io::Result<Entries> {
    let owner = fs::symlink_metadata(path)?.uid();
    if owner != user::user_and_group().0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("the journal belongs to user {owner}: run as that user"),
        ));
    }
    parse(&regular_file::read(path, BYTES_MAX)?)
}

/// Parses a journal, and changes nothing.
///
/// # Errors
/// Returns `InvalidData`.
pub fn parse(text: &[u8]) -> io::Result<Entries> {
    serde_json::from_slice(text).map_err(|error| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{error}: remove the journal by hand"),
        )
    })
}

impl LeftBehind {
    /// Returns the changes that [`Self::undo`] would undo, as text.
    #[must_use]
    pub fn settings(&self) -> Vec<String> {
        let describe = |to: &IrqMove| format!("{}: {} -> {}", to.path.display(), to.new, to.old);
        let interrupts = self
            .entries
            .interrupts
            .iter()
            .filter(|_| self.is_of_this_boot)
            .map(describe);
        interrupts
            .chain(
                self.changes_of_loads(&self.entries)
                    .iter()
                    .map(Undo::to_string),
            )
            .collect()
    }

    /// Returns the journal's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Undoes the journal's changes and removes it. Settings are restored only if they were changed
    /// in this boot. Scratch folders and samples survive a reboot, so they are always removed or
    /// moved. Does nothing if another command is undoing the journal, or has undone it.
    #[must_use]
    pub fn undo(&self) -> Vec<UndoResult> {
        let (_file, entries) = match self.locked() {
            Ok(Some(locked)) => locked,
            Ok(None) => return Vec::new(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                return vec![UndoResult {
                    setting: self.path.display().to_string(),
                    result: Err(format!("{error}; `tardy restore` tries again")),
                }];
            }
        };
        let interrupts = if self.is_of_this_boot {
            entries.interrupts.clone()
        } else {
            Vec::new()
        };
        let loads = self.changes_of_loads(&entries);
        undo(
            &self.path,
            &Entries {
                interrupts,
                loads,
                ..entries
            },
            self.claim,
        )
    }

    fn locked(&self) -> io::Result<Option<(File, Entries)>> {
        let Some(file) = lock(&self.path)? else {
            return Ok(None);
        };
        Ok(Some((file, read(&self.path)?)))
    }

    fn changes_of_loads(&self, entries: &Entries) -> Vec<Undo> {
        entries
            .loads
            .iter()
            .filter(|undo| self.is_of_this_boot || undo.survives_restart())
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests;
