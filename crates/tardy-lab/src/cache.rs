//! The lab's folder in the user's cache: kernel images by content, package lists, snapshots. All of it can be deleted at any time.

use std::io;
use std::path::{Path, PathBuf};

use super::digest::Digest;

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// No variable says where it is.
    #[error("neither XDG_CACHE_HOME nor HOME is set, so there is no place to keep kernels: set XDG_CACHE_HOME to a folder")]
    NoHome,
    /// The system refused.
    #[error("{path}: {error}: set XDG_CACHE_HOME to a folder that can be written")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// The folder; parts of it are made when they are needed.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// `$XDG_CACHE_HOME/tardy`, or `~/.cache/tardy` (XDG Base Directory Specification 0.8).
    ///
    /// # Errors
    /// [`CacheError::NoHome`].
    pub fn of_user() -> Result<Self, CacheError> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache"))).ok_or(CacheError::NoHome)?;
        Ok(Self::at(base.join("tardy")))
    }

    /// The cache in this folder.
    #[must_use]
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// A folder of it, made when missing.
    ///
    /// # Errors
    /// [`CacheError::Io`].
    pub fn folder(&self, name: &str) -> Result<PathBuf, CacheError> {
        let path = self.root.join(name);
        match std::fs::create_dir_all(&path) {
            Ok(()) => Ok(path),
            Err(error) => Err(CacheError::Io { path, error }),
        }
    }

    /// Keeps a kernel image under its digest and returns both; what is there already stays.
    ///
    /// # Errors
    /// [`CacheError::Io`].
    pub fn keep_image(&self, image: &[u8]) -> Result<(PathBuf, Digest), CacheError> {
        let digest = Digest::of_bytes(image);
        let path = self.folder("kernels")?.join(digest.as_str());
        if !path.exists() {
            write_whole(&path, image)?;
        }
        Ok((path, digest))
    }

    /// The kept image with this digest, if it is there and still has it.
    #[must_use]
    pub fn image(&self, digest: &Digest) -> Option<PathBuf> {
        let path = self.root.join("kernels").join(digest.as_str());
        (Digest::of_file(&path).ok()? == *digest).then_some(path)
    }
}

/// Writes a file so that others see all of it or nothing: beside it first, then renamed.
///
/// # Errors
/// [`CacheError::Io`].
pub fn write_whole(path: &Path, content: &[u8]) -> Result<(), CacheError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    let result = std::fs::write(&beside, content).and_then(|()| std::fs::rename(&beside, path));
    result.map_err(|error| CacheError::Io { path: path.to_owned(), error })
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
}
