//! An atlas: measurements of several kernels under several loads. Each cell (a kernel under a load)
//! is measured in several replicas, and each replica is a separate guest that starts from a
//! snapshot.
//!
//! The result of each replica of a cell is a run folder below `cells`. The folder's name is the
//! digest of the run's inputs ([`index`]). A folder that exists is not made again. So if the
//! command is killed, its next start makes only the missing folders.
//!
//! If a failure would repeat with the same inputs, it counts as the result of the cell; examples
//! are a panic, and a load whose requirements the kernel does not meet. After a failure of the host
//! (the time limit passed, the disk is full), the replica is tried again.

pub mod index;
mod shard;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tardy_sys::scoped;

use super::boot::Guest;
use super::cache::{Cache, Lock, try_lock, write_whole};
use super::diagnosis::{Blame, Cause, Failure};
use super::digest::Digest;
use super::guest_job::{Ending, GuestJob};
use super::host_cpu::HostCpu;
use super::initramfs::AddedFile;
use super::machine::Machine;
use super::qemu::Qemu;
use super::snapshot::Snapshots;
use super::variant::Variant;

pub use index::Index;
pub use shard::Shard;

/// Name of the folder that contains the cells.
const CELLS: &str = "cells";
/// Folder of the locks with which several labs share the work on one atlas.
const LOCKS: &str = "locks";
/// Name of the file that stores a cell's failure, if its guest failed.
const FAILURE_NAME: &str = "failure.json";
/// Interval at which a lab checks whether another lab has made progress.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What the guests of all cells have in common.
pub struct Cells<'a> {
    pub machine: &'a Machine,
    /// Returns the guest's job for a load and a replica, with the replica's seed.
    pub job_of_cell: &'a (dyn Fn(&str, u32) -> GuestJob + Sync),
    /// The static program for the guests.
    pub binary: &'a Path,
    /// Further files for the guests of all cells.
    pub added: &'a [AddedFile],
    /// Time limit for each guest, on the host's clock.
    pub wall_limit: Duration,
    pub snapshots: &'a Snapshots,
    /// Returns the value by which replicas differ: see [`Guest::pad`].
    pub pad_of_replica: fn(u32) -> u32,
}

impl Cells<'_> {
    fn guest<'g>(&'g self, variant: &'g Variant, replica: u32, job: &'g GuestJob) -> Guest<'g> {
        Guest {
            variant,
            machine: self.machine,
            pad: (self.pad_of_replica)(replica),
            job,
            binary: self.binary,
            added: self.added,
            wall_limit: self.wall_limit,
            snapshots: Some(self.snapshots),
            watching: None,
        }
    }
}

/// Makes the missing cells of an index.
pub struct Maker<'a> {
    pub index: &'a Index,
    pub cells: &'a Cells<'a>,
    /// The atlas's folder.
    pub folder: &'a Path,
    /// Number of guests that run at the same time.
    pub jobs: usize,
    pub cache: &'a Cache,
    /// The part of the work that this lab does.
    pub shard: Shard,
}

/// A group consists of all cells of one kernel in one replica. The cells start from one snapshot,
/// and one worker makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    replica: u32,
    variant: usize,
}

/// A group that this lab has completed: how many cells it made, how many existed before, and which
/// guests failed.
#[derive(Debug, Clone)]
pub struct GroupEnd {
    /// Index of the variant.
    pub variant: usize,
    pub replica: u32,
    /// Number of cells that this lab has made.
    pub made: usize,
    /// Number of cells that existed before.
    pub there: usize,
    /// Loads whose guest failed, each with its failure.
    pub failures: Vec<(String, Failure)>,
    pub wall: Duration,
}

/// Why the atlas's folder cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {error}: check free space and the folder given with --out")]
pub struct AtlasError {
    path: PathBuf,
    error: io::Error,
}

/// What the folder of a cell contains.
#[derive(Debug, Clone)]
pub enum CellResult {
    /// The cell has no result.
    Absent,
    /// The run that is in this folder.
    Run(PathBuf),
    /// The guest failed, and would fail in the same way again.
    Failed(Failure),
}

/// Returns the path of the folder of the cell named `key`.
#[must_use]
pub fn cell_folder(folder: &Path, key: &Digest) -> PathBuf {
    folder.join(CELLS).join(key.as_str())
}

/// Returns the result of the cell named `key`.
#[must_use]
pub fn cell(folder: &Path, key: &Digest) -> CellResult {
    let cell = cell_folder(folder, key);
    match std::fs::read(cell.join(FAILURE_NAME))
        .ok()
        .and_then(|bytes| serde_json::from_slice::<KeptFailure>(&bytes).ok())
    {
        Some(kept) => CellResult::Failed(kept.failure),
        None if cell.is_dir() => CellResult::Run(cell),
        None => CellResult::Absent,
    }
}

#[derive(Serialize, Deserialize)]
struct KeptFailure {
    failure: Failure,
}

impl Maker<'_> {
    /// Makes the missing cells in this lab's part of the atlas. Calls `done` once for each
    /// completed group, from several threads.
    ///
    /// # Errors
    /// Returns [`AtlasError`] if the folder cannot be used; failures of guests are passed to `done`
    /// instead.
    pub fn run(&self, qemu: &Qemu, done: &(dyn Fn(&GroupEnd) + Sync)) -> Result<(), AtlasError> {
        for name in [CELLS, LOCKS] {
            let path = self.folder.join(name);
            std::fs::create_dir_all(&path).map_err(at(&path))?;
        }
        let groups = Mutex::new(self.groups());
        let worker = AtomicUsize::new(0);
        let failed: Mutex<Option<AtlasError>> = Mutex::new(None);
        let work = || {
            let _cpu = HostCpu::take(self.cache, worker.fetch_add(1, Ordering::Relaxed));
            while let Some(group) = next(&groups) {
                match self.make_group(qemu, group) {
                    Ok(Some(end)) => done(&end),
                    Ok(None) => {
                        // Another lab makes this group, because it holds the group's lock. If that
                        // lab stops before the group is complete, this lab makes the rest.
                        let is_last = give_back(&groups, group);
                        if is_last {
                            std::thread::sleep(LOOK_EVERY);
                        }
                    }
                    Err(error) => {
                        groups
                            .lock()
                            .expect("threads do not panic while they hold this lock")
                            .clear();
                        failed
                            .lock()
                            .expect("threads do not panic while they hold this lock")
                            .get_or_insert(error);
                    }
                }
            }
        };
        let jobs = self.jobs.clamp(1, self.groups().len().max(1));
        scoped::share(jobs, work);
        failed
            .into_inner()
            .expect("threads do not panic while they hold this lock")
            .map_or(Ok(()), Err)
    }

    /// Returns the groups that this lab makes. All kernels of one replica come before the next
    /// replica, so that an interrupted atlas has comparable cells of all kernels.
    fn groups(&self) -> VecDeque<Group> {
        let variants = self.index.grid.variants.len();
        let of_replica = |replica| (0..variants).map(move |variant| Group { replica, variant });
        let all = (0..self.index.grid.replicas)
            .flat_map(of_replica)
            .enumerate();
        all.filter(|(place, _)| self.shard.has(*place))
            .map(|(_, group)| group)
            .collect()
    }

    /// Makes the missing cells of a group. Returns `None` while another lab holds the group's lock.
    fn make_group(&self, qemu: &Qemu, group: Group) -> Result<Option<GroupEnd>, AtlasError> {
        let started = Instant::now();
        let Group { replica, variant } = group;
        let mut end = GroupEnd {
            variant,
            replica,
            made: 0,
            there: 0,
            failures: Vec::new(),
            wall: Duration::ZERO,
        };
        let name = format!("{}-{replica:03}", self.index.grid.variants[variant].name);
        let Some(_turn) = self.turn(&name)? else {
            return Ok(None);
        };
        let mut has_booted = true;
        for (load, key) in self.index.cells_of(variant, replica) {
            match cell(self.folder, key) {
                CellResult::Run(_) => end.there += 1,
                CellResult::Failed(failure) => {
                    end.there += 1;
                    end.failures.push((load.to_owned(), failure));
                }
                // If the kernel did not boot for one load, it will not boot for another load
                // either.
                CellResult::Absent if !has_booted => {}
                CellResult::Absent => match self.make(qemu, group, load, key, &name)? {
                    Ok(()) => end.made += 1,
                    Err(failure) => {
                        has_booted = failure.has_booted || !failure.says_of_the_kernel();
                        end.failures.push((load.to_owned(), failure));
                    }
                },
            }
        }
        end.wall = started.elapsed();
        Ok(Some(end))
    }

    /// Makes one cell in a folder beside the final ones, and renames the folder at the end. So a
    /// folder with the name of a cell is always complete.
    fn make(
        &self,
        qemu: &Qemu,
        group: Group,
        load: &str,
        key: &Digest,
        name: &str,
    ) -> Result<Result<(), Failure>, AtlasError> {
        let part = self.folder.join(CELLS).join(format!(".part-{name}"));
        // If this folder exists, a killed lab has left it, because only this process now holds the
        // lock of the name.
        remove(&part)?;
        let job = (self.cells.job_of_cell)(load, group.replica);
        let guest = self.cells.guest(
            &self.index.grid.variants[group.variant],
            group.replica,
            &job,
        );
        let result = guest.run(qemu, &part).map(|_| ());
        if let Err(failure) = &result {
            if !failure.is_kept() {
                remove(&part)?;
                return Ok(result);
            }
            let text = serde_json::to_vec_pretty(&KeptFailure {
                failure: failure.clone(),
            })
            .expect("a failure can always be written as JSON");
            write_whole(&part.join(FAILURE_NAME), &text).map_err(|error| AtlasError {
                path: part.clone(),
                error: io::Error::other(error),
            })?;
        }
        std::fs::rename(&part, cell_folder(self.folder, key)).map_err(at(&part))?;
        Ok(result)
    }

    fn turn(&self, name: &str) -> Result<Option<Lock>, AtlasError> {
        let path = self.folder.join(LOCKS).join(name);
        try_lock(&path).map_err(at(&path))
    }
}

impl Failure {
    /// Returns whether the failure is a result about the kernel: the kernel itself failed, or it
    /// lacks a requirement.
    #[must_use]
    pub fn says_of_the_kernel(&self) -> bool {
        self.blame() != Blame::Host
    }

    /// Returns whether to store the failure. A failure is stored if the same guest would fail in
    /// the same way again. A failure at the host's time limit is not stored, because it depends on
    /// the host.
    fn is_kept(&self) -> bool {
        let is_refused = matches!(
            &self.cause,
            Cause::Program {
                ending: Ending::Exited(_),
                ..
            }
        );
        self.has_booted
            && (self.says_of_the_kernel() || is_refused)
            && !matches!(self.cause, Cause::WallLimit { .. })
    }
}

fn next(groups: &Mutex<VecDeque<Group>>) -> Option<Group> {
    groups
        .lock()
        .expect("threads do not panic while they hold this lock")
        .pop_front()
}

/// Moves a group to the end of the queue. Returns whether the queue contains only this group.
fn give_back(groups: &Mutex<VecDeque<Group>>, group: Group) -> bool {
    let mut groups = groups
        .lock()
        .expect("threads do not panic while they hold this lock");
    groups.push_back(group);
    groups.len() == 1
}

fn remove(folder: &Path) -> Result<(), AtlasError> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(folder)(error)),
        _ => Ok(()),
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> AtlasError + use<> {
    let path = path.to_owned();
    move |error| AtlasError { path, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_same_guest_does_again_is_kept_and_what_the_host_did_is_not() {
        let is_kept = |cause: Cause, has_booted| {
            Failure {
                cause,
                console_tail: vec![],
                has_booted,
            }
            .is_kept()
        };
        assert!(is_kept(Cause::Panic("x".into()), true));
        assert!(is_kept(
            Cause::Program {
                ending: Ending::Exited(3),
                stderr: "huge pages missing".into()
            },
            true
        ));
        for cause in [
            Cause::WallLimit { limit_s: 1 },
            Cause::Host("a full disk".into()),
            Cause::Qemu("gone".into()),
            Cause::Torn("x".into()),
        ] {
            assert!(!is_kept(cause.clone(), true), "{cause}");
        }
        assert!(
            !is_kept(Cause::Panic("x".into()), false),
            "it may be the host's QEMU that cannot boot it"
        );
    }
}
