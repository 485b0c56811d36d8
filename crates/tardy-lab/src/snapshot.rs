//! Snapshots: a snapshot is the state of a guest that has booted and settled. A run can start from
//! it without booting.
//!
//! The guest itself stops at an instruction that it chooses (`guest::pause`), rather than at an
//! arbitrary moment of the host's clock. The host then writes the machine's state to a file. Every
//! run starts by reading this file, even the run for which the snapshot was made. The guest gets
//! its job later, through the shared memory, so a snapshot does not depend on what is measured.
//!
//! The state from which a run starts is one of the run's inputs. Two runs from the same snapshot
//! with the same job give the same samples. A run that boots gives samples that differ from those
//! of a run from a snapshot, just as the samples of two replicas differ.
//!
//! While a guest boots for a snapshot, QEMU does not use the lock of record and replay, because a
//! recording machine cannot save its state.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use tardy_machine::journal::Scratch;

use super::digest::Digest;
use super::exchange;
use super::qemu::{
    Boot, BootEnd, ControlError, INITRAMFS_NAME, Plugin, Qemu, QemuError, QemuProcess, SHARED_NAME,
    STATE_NAME, Start,
};

/// QEMU's events for a guest that stopped itself, or ended early.
const STOPPED: [&str; 2] = ["GUEST_PANICKED", "SHUTDOWN"];
const PANICKED: [&str; 1] = ["GUEST_PANICKED"];

/// Disk budget for all snapshots together, in bytes. A snapshot of a default guest takes about 90
/// MB.
const BYTES_MAX: u64 = 4 << 30;
/// A snapshot that was used within this time is not removed, because a guest may still use it.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// The file that describes a snapshot. It is written last, so it exists only if the snapshot is
/// complete.
const DESCRIPTION_NAME: &str = "snapshot.json";

/// The folder in which snapshots are stored.
#[derive(Debug, Clone)]
pub struct Snapshots {
    folder: PathBuf,
}

/// A stored snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Digest of the machine's state.
    pub digest: Digest,
    state: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct Description {
    digest: Digest,
    bytes: u64,
}

/// Why a snapshot cannot be made, or cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The guest did not reach the point where it stops itself.
    #[error("the guest ended before it had booted and settled")]
    NotReached,
    /// Controlling QEMU failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Starting QEMU failed.
    #[error(transparent)]
    Qemu(#[from] QemuError),
    #[error("{path}: {error}")]
    File {
        path: PathBuf,
        /// The error that the system reported.
        error: io::Error,
    },
    /// The machine could not continue from the stored state.
    #[error(
        "the machine did not resume from its snapshot ({0}): remove the folder `snapshots` from \
         tardy's cache"
    )]
    NotRestored(String),
    /// The job does not fit into the shared memory.
    #[error(
        "the job does not fit into the memory shared with the guest: share more memory with --shared"
    )]
    PlanTooLong,
}

impl Snapshots {
    /// Returns the store in this folder, which must exist.
    #[must_use]
    pub fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the snapshot that belongs to these inputs. If there is none, boots `boot` and makes
    /// the snapshot. The folder of `boot` must contain the initial file system. If the guest fails
    /// before the snapshot, its output is in `console`.
    ///
    /// # Errors
    /// Returns [`SnapshotError`].
    pub fn of(
        &self,
        inputs: &Digest,
        qemu: &Qemu,
        boot: &Boot<'_>,
        wall_limit: Duration,
        console: &Path,
    ) -> Result<Snapshot, SnapshotError> {
        let folder = self.folder.join(inputs.as_str());
        if let Some(snapshot) = read(&folder) {
            return Ok(snapshot);
        }
        // The snapshot is made in a scratch folder, which gets its final name afterwards, so a
        // folder with the final name is complete.
        std::fs::create_dir_all(&self.folder).map_err(at(&self.folder))?;
        let beside = Scratch::make(&self.folder, "snapshot").map_err(at(&self.folder))?;
        let made = make(
            qemu,
            &Boot {
                folder: beside.path(),
                plugin: Plugin::None,
                ..boot.clone()
            },
            boot.folder,
            wall_limit,
        );
        if made.is_err() {
            // The copy of the console is for the user. If copying fails, the user still gets the
            // error of the guest.
            std::fs::copy(beside.path().join(super::qemu::CONSOLE_NAME), console).ok();
        }
        let description = made?;
        let text =
            serde_json::to_vec(&description).expect("a description can always be written as JSON");
        std::fs::write(beside.path().join(DESCRIPTION_NAME), text).map_err(at(beside.path()))?;
        if std::fs::rename(beside.path(), &folder).is_err() {
            // Another process was faster, or the existing snapshot is incomplete.
            if let Some(snapshot) = read(&folder) {
                return Ok(snapshot);
            }
            std::fs::remove_dir_all(&folder).map_err(at(&folder))?;
            std::fs::rename(beside.path(), &folder).map_err(at(&folder))?;
        }
        self.make_room(SystemTime::now());
        Ok(Snapshot {
            digest: description.digest,
            state: folder.join(STATE_NAME),
        })
    }

    /// Returns the snapshot of these inputs, if one is stored.
    pub(super) fn stored(&self, inputs: &Digest) -> Option<Snapshot> {
        read(&self.folder.join(inputs.as_str()))
    }

    /// Removes the least recently used snapshots, until the others fit into the disk budget.
    fn make_room(&self, now: SystemTime) {
        let entries = std::fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .flatten();
        let mut all: Vec<(SystemTime, u64, PathBuf)> =
            entries.filter_map(|entry| use_of(&entry.path())).collect();
        all.sort();
        let mut sum: u64 = all.iter().map(|(_, bytes, _)| bytes).sum();
        for (used, bytes, folder) in all {
            if sum <= BYTES_MAX || now.duration_since(used).unwrap_or_default() < KEPT_FOR {
                return;
            }
            // If this fails, the next attempt comes after the next snapshot is made.
            std::fs::remove_dir_all(&folder).ok();
            sum -= bytes;
        }
    }
}

/// Returns when a snapshot was last used, its size in bytes, and its folder.
fn use_of(folder: &Path) -> Option<(SystemTime, u64, PathBuf)> {
    let used = std::fs::metadata(folder.join(DESCRIPTION_NAME))
        .ok()?
        .modified()
        .ok()?;
    Some((
        used,
        std::fs::metadata(folder.join(STATE_NAME)).ok()?.len(),
        folder.to_owned(),
    ))
}

/// Reads the description of the snapshot in a folder, and marks the snapshot as used now. Returns
/// `None` if the snapshot is not complete.
fn read(folder: &Path) -> Option<Snapshot> {
    let path = folder.join(DESCRIPTION_NAME);
    let description: Description = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
    let state = folder.join(STATE_NAME);
    if std::fs::metadata(&state).ok()?.len() != description.bytes {
        return None;
    }
    File::options()
        .append(true)
        .open(&path)
        .and_then(|file| file.set_modified(SystemTime::now()))
        .ok();
    Some(Snapshot {
        digest: description.digest,
        state,
    })
}

/// Boots the guest, waits until it stops itself, and writes the machine's state to a file in the
/// boot's folder. Then removes all other files from this folder.
fn make(
    qemu: &Qemu,
    boot: &Boot<'_>,
    prepared: &Path,
    wall_limit: Duration,
) -> Result<Description, SnapshotError> {
    link(
        &prepared.join(INITRAMFS_NAME),
        &boot.folder.join(INITRAMFS_NAME),
    )?;
    let mut machine =
        boot.start_controlled(qemu, Start::BootsForSnapshot, Instant::now() + wall_limit)?;
    machine.wait_for_event(&STOPPED)?;
    let shared = boot.folder.join(SHARED_NAME);
    if !exchange::is_paused(&beginning(&shared)?) {
        return Err(SnapshotError::NotReached);
    }
    let unlimited = serde_json::json!({"max-bandwidth": 1_u64 << 40});
    machine.execute("migrate-set-parameters", unlimited)?;
    machine.execute(
        "migrate",
        serde_json::json!({"uri": format!("exec:cat > {STATE_NAME}")}),
    )?;
    let status = machine.wait_while(
        "query-migrate",
        "status",
        &[
            "none",
            "setup",
            "active",
            "device",
            "pre-switchover",
            "wait-unplug",
        ],
    )?;
    if status != "completed" {
        return Err(SnapshotError::NotRestored(format!("saving it {status}")));
    }
    drop(machine);
    let state = boot.folder.join(STATE_NAME);
    let digest = Digest::of_file(&state).map_err(at(&state))?;
    let bytes = std::fs::metadata(&state).map_err(at(&state))?.len();
    for entry in std::fs::read_dir(boot.folder)
        .map_err(at(boot.folder))?
        .flatten()
    {
        if entry.file_name() != STATE_NAME {
            std::fs::remove_file(entry.path()).map_err(at(&entry.path()))?;
        }
    }
    Ok(Description { digest, bytes })
}

impl Snapshot {
    /// Resumes the machine and gives it the job. QEMU runs in the boot's folder, which contains the
    /// initial file system that the snapshot was made from. Returns how the machine ended, and the
    /// time until the guest resumed.
    ///
    /// # Errors
    /// Returns [`SnapshotError`].
    pub fn run(
        &self,
        qemu: &Qemu,
        boot: &Boot<'_>,
        job: &[u8],
        wall_limit: Duration,
    ) -> Result<(BootEnd, Duration), SnapshotError> {
        let started = Instant::now();
        let machine = self.resume(qemu, boot, job, started + wall_limit)?;
        let restored = started.elapsed();
        Ok((machine.wait_for_end(&PANICKED)?, restored))
    }

    /// Resumes the machine in the boot's folder and gives it the job. The folder contains the
    /// initial file system that the snapshot was made from.
    pub(super) fn resume(
        &self,
        qemu: &Qemu,
        boot: &Boot<'_>,
        job: &[u8],
        deadline: Instant,
    ) -> Result<QemuProcess, SnapshotError> {
        let block = exchange::job_block(job);
        if block.len() as u64 > u64::from(boot.machine.shared_mib) << 20 {
            return Err(SnapshotError::PlanTooLong);
        }
        link(&self.state, &boot.folder.join(STATE_NAME))?;
        let mut machine = boot.start_controlled(qemu, Start::Resumes(STATE_NAME), deadline)?;
        let status = machine.wait_while("query-status", "status", &["inmigrate"])?;
        // The job can only be written after QEMU has read the state, because reading overwrites the
        // shared memory.
        let shared = boot.folder.join(SHARED_NAME);
        if !exchange::is_paused(&beginning(&shared)?) {
            return Err(SnapshotError::NotRestored(status));
        }
        let file = File::options()
            .write(true)
            .open(&shared)
            .map_err(at(&shared))?;
        file.write_all_at(&block, 0).map_err(at(&shared))?;
        machine.execute("cont", serde_json::json!({}))?;
        Ok(machine)
    }
}

fn beginning(shared: &Path) -> Result<[u8; 8], SnapshotError> {
    let mut bytes = [0; 8];
    File::open(shared)
        .and_then(|file| file.read_exact_at(&mut bytes, 0))
        .map_err(at(shared))?;
    Ok(bytes)
}

/// Makes a link to a file. The link is in the folder in which QEMU starts, so QEMU's options
/// contain only names without a path, and are the same for all users.
fn link(original: &Path, link: &Path) -> Result<(), SnapshotError> {
    let original = original.canonicalize().map_err(at(original))?;
    symlink(&original, link).map_err(at(link))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> SnapshotError + use<> {
    let path = path.to_owned();
    move |error| SnapshotError::File { path, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, name: &str, bytes: u64, age: Duration) -> PathBuf {
        let folder = folder.join(name);
        std::fs::create_dir(&folder).unwrap();
        // The file is sparse: only its length matters here.
        File::create(folder.join(STATE_NAME))
            .unwrap()
            .set_len(bytes)
            .unwrap();
        let description = Description {
            digest: Digest::of_bytes(name.as_bytes()),
            bytes,
        };
        let path = folder.join(DESCRIPTION_NAME);
        std::fs::write(&path, serde_json::to_vec(&description).unwrap()).unwrap();
        File::options()
            .append(true)
            .open(&path)
            .unwrap()
            .set_modified(SystemTime::now() - age)
            .unwrap();
        folder
    }

    #[test]
    fn the_longest_unused_make_room_and_those_in_use_stay() {
        let folder = tempfile::tempdir().unwrap();
        let day = Duration::from_secs(86_400);
        let oldest = put(folder.path(), "a", BYTES_MAX / 2, day * 3);
        let older = put(folder.path(), "b", BYTES_MAX / 2, day * 2);
        let recent = put(folder.path(), "c", BYTES_MAX / 2, Duration::ZERO);
        Snapshots::at(folder.path().to_owned()).make_room(SystemTime::now());
        assert!(!oldest.exists() && older.exists() && recent.exists());
    }

    #[test]
    fn a_snapshot_that_was_cut_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let whole = put(folder.path(), "a", 1000, Duration::ZERO);
        assert_eq!(read(&whole).unwrap().digest, Digest::of_bytes(b"a"));
        File::options()
            .write(true)
            .open(whole.join(STATE_NAME))
            .unwrap()
            .set_len(999)
            .unwrap();
        assert_eq!(read(&whole), None);
        assert_eq!(read(folder.path()), None);
    }
}
