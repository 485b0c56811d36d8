//! The lab's folder in the user's cache. It contains kernel images (named by their digests),
//! package lists and snapshots. Users may delete the whole folder at any time.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tardy_machine::journal::Scratch;
use tardy_run::output_file;

use super::digest::Digest;

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The environment variables that name the folder are not set.
    #[error(
        "XDG_CACHE_HOME and HOME are not set, so kernels cannot be cached: set XDG_CACHE_HOME to a \
         folder"
    )]
    NoHome,
    /// A file operation failed.
    #[error("{path}: {error}: set XDG_CACHE_HOME to a folder that can be written")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error that the system reported.
        error: io::Error,
    },
}

/// The cache's folder. Subfolders are made when they are needed.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Returns the default cache of the user: `$XDG_CACHE_HOME/tardy`, or `~/.cache/tardy` (XDG
    /// Base Directory Specification 0.8).
    ///
    /// # Errors
    /// Returns [`CacheError::NoHome`].
    pub fn of_user() -> Result<Self, CacheError> {
        let absolute = |name| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let base = absolute("XDG_CACHE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
            .ok_or(CacheError::NoHome)?;
        Ok(Self::at(base.join("tardy")))
    }

    /// Returns the cache that is in this folder.
    #[must_use]
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Returns the path of a folder of the cache; makes the folder if it is missing.
    ///
    /// # Errors
    /// Returns [`CacheError::Io`].
    pub fn folder(&self, name: &str) -> Result<PathBuf, CacheError> {
        let path = self.root.join(name);
        match std::fs::create_dir_all(&path) {
            Ok(()) => Ok(path),
            Err(error) => Err(CacheError::Io { path, error }),
        }
    }

    /// Makes a folder that nothing else uses, and that is removed on drop. The journal lists the
    /// folder, so that it is removed even if the command is killed.
    ///
    /// # Errors
    /// Returns [`CacheError::Io`].
    pub fn scratch(&self, purpose: &str) -> Result<Scratch, CacheError> {
        let parent = self.folder(purpose)?;
        Scratch::make(&parent, purpose).map_err(|error| CacheError::Io {
            path: parent,
            error,
        })
    }

    /// Waits until no other thread or process holds the lock of this name, then takes it. The lock
    /// is released when the result is dropped.
    ///
    /// # Errors
    /// Returns [`CacheError::Io`].
    pub fn lock(&self, name: &str) -> Result<Lock, CacheError> {
        let path = self.folder("locks")?.join(name);
        let locked = File::create(&path).and_then(|file| file.lock().map(|()| file));
        locked
            .map(Lock)
            .map_err(|error| CacheError::Io { path, error })
    }

    /// Tries to take the lock of this name. Returns `None` if another thread or process holds it,
    /// or its file cannot be made.
    #[must_use]
    pub fn try_lock(&self, name: &str) -> Option<Lock> {
        try_lock(&self.folder("locks").ok()?.join(name))
            .ok()
            .flatten()
    }

    /// Stores a kernel image in a file that is named by the image's digest. Returns the image's
    /// path and digest. If the file exists, it is not written again.
    ///
    /// # Errors
    /// Returns [`CacheError::Io`].
    pub fn keep_image(&self, image: &[u8]) -> Result<(PathBuf, Digest), CacheError> {
        let digest = Digest::of_bytes(image);
        let path = self.folder("kernels")?.join(digest.as_str());
        if !path.exists() {
            write_whole(&path, image)?;
        }
        Ok((path, digest))
    }

    /// Returns the path of the image with this digest, if the cache contains it undamaged.
    #[must_use]
    pub fn image(&self, digest: &Digest) -> Option<PathBuf> {
        let path = self.root.join("kernels").join(digest.as_str());
        (Digest::of_file(&path).ok()? == *digest).then_some(path)
    }
}

/// Locks this file; makes the file if it is missing. Returns `None` while another thread or process
/// holds the lock.
///
/// # Errors
/// Returns an error if the file cannot be opened or locked.
pub fn try_lock(path: &Path) -> io::Result<Option<Lock>> {
    let file = File::create(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// A lock, which is released when the value is dropped. The kernel also releases the lock if the
/// process ends for any reason.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "closing the file releases the lock")] File);

/// Writes a file atomically: writes a temporary file in the same folder, then renames it.
///
/// # Errors
/// Returns [`CacheError::Io`].
pub fn write_whole(path: &Path, content: &[u8]) -> Result<(), CacheError> {
    let written = output_file::replace(path, |mut file| file.write_all(content));
    written.map_err(|error| CacheError::Io {
        path: path.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_found_by_its_digest_and_not_when_it_was_changed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("a/b"));
        let (path, digest) = cache.keep_image(b"kernel").unwrap();
        assert_eq!(cache.image(&digest), Some(path.clone()));
        std::fs::write(&path, b"other").unwrap();
        assert_eq!(cache.image(&digest), None);
    }

    #[test]
    fn each_use_has_a_folder_of_its_own_which_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().to_owned());
        let (one, other) = (
            cache.scratch("downloads").unwrap(),
            cache.scratch("downloads").unwrap(),
        );
        assert_ne!(one.path(), other.path());
        let path = one.path().to_owned();
        std::fs::write(path.join("package"), b"content").unwrap();
        drop(one);
        assert!(!path.exists() && other.path().exists());
    }

    #[test]
    fn threads_that_hold_the_same_lock_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().to_owned());
        let inside = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let _lock = cache.lock("lists").unwrap();
                    assert_eq!(
                        inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst),
                        0,
                        "two hold the lock"
                    );
                    std::thread::yield_now();
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                });
            }
        });
        let _other = cache.lock("one").unwrap();
        drop(cache.lock("two").unwrap());
    }
}
