//! A separate thread for slow changes to files while the run lasts: it replaces, extends, folds or
//! syncs them.
//!
//! A new file is synced before it takes the old file's place. On a busy disk this can take half a
//! minute, and meanwhile the file system's journal also delays every other write. The threads that
//! end phases or empty rings must not wait for this, because then phases would last longer than
//! planned, and samples would be lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use tardy_core::cpu::CpuList;
use tardy_run::folder::FolderIdentity;
use tardy_run::thinned_log;
use tardy_samples::reserved_file;
use tardy_samples::rotation::Rotation;
use tardy_sys::{affinity, scoped};

const STACK_BYTES: usize = 256 << 10;

/// A handle for submitting files to the thread. All clones submit to the same thread.
#[derive(Debug, Clone)]
pub struct BackgroundWriter(Arc<SharedQueue>);

/// The background thread, which ends when this value is dropped or finished.
#[derive(Debug)]
pub struct KeeperThread {
    keeper: BackgroundWriter,
    handle: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct SharedQueue {
    queue: Mutex<Queue>,
    has_changed: Condvar,
    /// Whether the run's folder is no longer at its path.
    is_folder_gone: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    /// For each file to be replaced, its newest content.
    replaced: BTreeMap<PathBuf, Vec<u8>>,
    /// For each growing file, the lines to append.
    appended: BTreeMap<PathBuf, Vec<u8>>,
    /// Files to sync.
    synced: BTreeSet<PathBuf>,
    /// Series whose oldest samples must be folded.
    full: Vec<Arc<Rotation>>,
    /// Series whose newest segment must be synced.
    unsettled: Vec<Arc<Rotation>>,
    /// Maximum lengths of growing files.
    lengths_max: BTreeMap<PathBuf, u64>,
    is_ending: bool,
}

/// A task for the thread.
#[derive(Debug, Clone)]
enum Job {
    Replace(PathBuf, Vec<u8>),
    /// Appends lines to the file. The number is the maximum length of the file in bytes.
    Append(PathBuf, Vec<u8>, Option<u64>),
    MakeRoom(Arc<Rotation>),
    Settle(Arc<Rotation>),
    Sync(PathBuf),
}

/// Maximum number of bytes that may wait to be appended to a file. Further lines are dropped.
const APPENDED_BYTES_MAX: usize = 1 << 20;

impl BackgroundWriter {
    /// Replaces the file at `path` by `content` later, unless newer content arrives first. Returns
    /// at once. On a full disk the older file stays. After the thread has ended, calls have no
    /// effect.
    pub fn replace(&self, path: &Path, content: Vec<u8>) {
        let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if !queue.is_ending {
            queue.replaced.insert(path.to_owned(), content);
            self.0.has_changed.notify_one();
        }
    }

    /// Adds `content` to the existing file at `path` later. Returns at once. If an append fails,
    /// nothing more is appended, so that no line follows an incomplete one.
    pub fn append(&self, path: &Path, content: &[u8]) {
        let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.is_ending {
            return;
        }
        let waiting = queue.appended.entry(path.to_owned()).or_default();
        if waiting.len() + content.len() <= APPENDED_BYTES_MAX {
            waiting.extend_from_slice(content);
            self.0.has_changed.notify_one();
        }
    }

    /// Limits the length of the file at `path`, which [`Self::append`] extends. Above the limit,
    /// every second old line is dropped.
    pub fn bound(&self, path: &Path, bytes_max: u64) {
        self.0
            .queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .lengths_max
            .insert(path.to_owned(), bytes_max);
    }

    /// Requests that the oldest samples of a series be folded; this is done before all other tasks.
    /// Returns at once.
    pub fn make_room(&self, rotation: Arc<Rotation>) {
        let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if !queue.is_ending {
            queue.full.push(rotation);
            self.0.has_changed.notify_one();
        }
    }

    /// Requests that the head and the name of a series' newest segment be synced later. Returns at
    /// once.
    pub fn settle(&self, rotation: Arc<Rotation>) {
        let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if !queue.is_ending {
            queue.unsettled.push(rotation);
            self.0.has_changed.notify_one();
        }
    }

    /// Requests that the file at `path` be synced later, so that its current content survives a
    /// power failure. Returns at once.
    pub fn sync(&self, path: &Path) {
        let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if !queue.is_ending && queue.synced.insert(path.to_owned()) {
            self.0.has_changed.notify_one();
        }
    }

    /// Returns whether the run's folder was removed, moved, or replaced by another one. If so,
    /// tardy stops writing the files.
    pub fn is_folder_gone(&self) -> bool {
        self.0.is_folder_gone.load(Ordering::Acquire)
    }

    /// Returns the next task. Waits if there is none; returns `None` when all are done and no more
    /// can come.
    fn next(&self) -> Option<Job> {
        let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if !queue.full.is_empty() {
                return Some(Job::MakeRoom(queue.full.remove(0)));
            }
            if let Some(rotation) = queue.unsettled.pop() {
                return Some(Job::Settle(rotation));
            }
            let replaced = queue
                .replaced
                .pop_first()
                .map(|(path, content)| Job::Replace(path, content));
            let appended = |queue: &mut Queue| {
                let (path, content) = queue.appended.pop_first()?;
                let length_max = queue.lengths_max.get(&path).copied();
                Some(Job::Append(path, content, length_max))
            };
            let job = replaced
                .or_else(|| appended(&mut queue))
                .or_else(|| queue.synced.pop_first().map(Job::Sync));
            match job {
                Some(job) => return Some(job),
                None if queue.is_ending => return None,
                None => {
                    queue = self
                        .0
                        .has_changed
                        .wait(queue)
                        .unwrap_or_else(PoisonError::into_inner)
                }
            }
        }
    }
}

impl KeeperThread {
    /// Starts the thread on `cpus`, for files of `folder`.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn start(cpus: &CpuList, folder: FolderIdentity) -> io::Result<Self> {
        let cpus: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
        let mut broken = BTreeSet::new();
        let write = move |job| match job {
            Job::Replace(path, content) => {
                let _ = reserved_file::replace(&path, &content);
            }
            Job::Append(path, content, length_max) => {
                let add = || match length_max {
                    Some(length_max) => thinned_log::append(&path, &content, length_max),
                    None => append(&path, &content),
                };
                if !broken.contains(&path) && add().is_err() {
                    broken.insert(path);
                }
            }
            // If folding fails, the old samples stay, and new samples that do not fit are counted
            // as lost.
            Job::MakeRoom(rotation) => {
                let _ = rotation.make_room();
            }
            // If the disk fails, the thread that writes the samples reports the error.
            Job::Settle(rotation) => {
                let _ = rotation.settle();
            }
            Job::Sync(path) => {
                let _ = File::open(&path).and_then(|file| file.sync_data());
            }
        };
        Self::start_with(cpus, move || folder.is_there(), write)
    }

    fn start_with(
        cpus: Vec<u32>,
        is_folder_there: impl Fn() -> bool + Send + 'static,
        mut write: impl FnMut(Job) + Send + 'static,
    ) -> io::Result<Self> {
        let keeper = BackgroundWriter(Arc::default());
        let own = keeper.clone();
        let handle = std::thread::Builder::new()
            .name("tardy-keeper".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let _ = affinity::set(0, &cpus);
                while let Some(job) = own.next() {
                    // Another folder may have been put at the path meanwhile.
                    if !own.is_folder_gone() && is_folder_there() {
                        write(job);
                    } else {
                        own.0.is_folder_gone.store(true, Ordering::Release);
                    }
                }
            });
        let handle = handle.map_err(scoped::refused)?;
        Ok(Self {
            keeper,
            handle: Some(handle),
        })
    }

    /// Returns a handle for submitting files.
    pub fn keeper(&self) -> BackgroundWriter {
        self.keeper.clone()
    }

    /// Waits until all tasks are done. Afterwards the caller may write the same files.
    pub fn finish(self) {
        drop(self);
    }
}

impl Drop for KeeperThread {
    fn drop(&mut self) {
        self.keeper
            .0
            .queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_ending = true;
        self.keeper.0.has_changed.notify_one();
        if let Some(handle) = self.handle.take() {
            // If the thread panicked, the panic was printed, and some files were not written. This
            // does no harm, because the caller writes the final version of these files.
            let _ = handle.join();
        }
    }
}

fn append(path: &Path, content: &[u8]) -> io::Result<()> {
    OpenOptions::new()
        .append(true)
        .open(path)?
        .write_all(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn whoever_hands_over_a_file_does_not_wait_for_the_disk_and_only_the_newest_is_written() {
        let (begun, is_begun) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let (written, all_written) = mpsc::channel();
        let thread = KeeperThread::start_with(
            Vec::new(),
            || true,
            move |job| {
                begun.send(()).unwrap();
                may_go_on.recv().unwrap();
                written.send(job).unwrap();
            },
        )
        .unwrap();
        let keeper = thread.keeper();
        let (record, log) = (Path::new("run.json"), Path::new("state.jsonl"));
        keeper.replace(record, b"1".to_vec());
        is_begun.recv().unwrap();
        // The disk is still busy with the first file. The calls must return at once, otherwise the
        // test would not end.
        for content in [b"2", b"3", b"4"] {
            keeper.replace(record, content.to_vec());
            keeper.append(log, content);
        }
        (0..3).for_each(|_| go_on.send(()).unwrap());
        thread.finish();
        keeper.replace(record, b"late".to_vec());
        keeper.append(log, b"late");
        let told = |job| match job {
            Job::Replace(path, content) => (path, content),
            Job::Append(path, content, None) => (path, content),
            other => unreachable!("{other:?}"),
        };
        let all: Vec<(PathBuf, Vec<u8>)> = all_written.try_iter().map(told).collect();
        let of = |path: &Path, content: &[u8]| (path.to_owned(), content.to_vec());
        assert_eq!(all, [of(record, b"1"), of(record, b"4"), of(log, b"234")]);
    }

    #[test]
    fn what_waits_is_on_the_disk_when_the_thread_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        let thread = KeeperThread::start(
            &CpuList::default(),
            FolderIdentity::of(folder.path()).unwrap(),
        )
        .unwrap();
        let log = folder.path().join("state.jsonl");
        std::fs::write(&log, "1\n").unwrap();
        thread.keeper().replace(&path, b"all of it".to_vec());
        thread.keeper().append(&log, b"2\n");
        thread
            .keeper()
            .append(&folder.path().join("not-there"), b"3\n");
        thread.keeper().sync(&log);
        thread.keeper().sync(&folder.path().join("not-there"));
        thread.finish();
        assert_eq!(std::fs::read(&path).unwrap(), b"all of it");
        assert_eq!(std::fs::read(&log).unwrap(), b"1\n2\n");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn nothing_is_written_into_a_folder_that_took_the_place_of_the_runs_own() {
        let folder = tempfile::tempdir().unwrap();
        let (run, moved) = (folder.path().join("run"), folder.path().join("moved"));
        std::fs::create_dir(&run).unwrap();
        let thread =
            KeeperThread::start(&CpuList::default(), FolderIdentity::of(&run).unwrap()).unwrap();
        let keeper = thread.keeper();
        std::fs::rename(&run, &moved).unwrap();
        std::fs::create_dir(&run).unwrap();
        std::fs::write(run.join("state.jsonl"), "mine\n").unwrap();
        keeper.replace(&run.join("run.json"), b"of the run".to_vec());
        keeper.append(&run.join("state.jsonl"), b"of the run\n");
        thread.finish();
        assert!(keeper.is_folder_gone());
        assert_eq!(std::fs::read(run.join("state.jsonl")).unwrap(), b"mine\n");
        assert_eq!(std::fs::read_dir(&run).unwrap().count(), 1);
        assert_eq!(std::fs::read_dir(&moved).unwrap().count(), 0);
    }
}
