//! A file whose space is reserved in advance, so that it can be written even if the disk is full.
//!
//! Space for the last `run.json` and the last histograms is reserved at the start, so a run on a
//! full disk can still report that the disk was full. The file has no name (O_TMPFILE) until its
//! content is written, so a killed tool leaves no file behind.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use tardy_sys::unnamed_file;

/// A file that replaces another one atomically. If the file system supports files without a name,
/// the new file has no name until it is complete, so a killed tool leaves no temporary file.
#[derive(Debug)]
pub struct ReservedFile {
    file: File,
    place: PathBuf,
    /// The file's temporary path, if the file system does not support files without a name.
    waiting: Option<PathBuf>,
}

impl ReservedFile {
    /// Reserves `bytes` in the folder of `place`.
    ///
    /// # Errors
    /// Fails if a file cannot be created or written.
    pub fn new(place: &Path, bytes: usize) -> io::Result<Self> {
        let folder = place
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let (mut file, waiting) = match unnamed_file::create(folder) {
            Ok(file) => (file, None),
            Err(_) => {
                let waiting = beside(place, "reserved");
                (File::create(&waiting)?, Some(waiting))
            }
        };
        let zeros = vec![0; 64 << 10];
        let mut left = bytes;
        while left > 0 {
            let part = left.min(zeros.len());
            file.write_all(&zeros[..part])?;
            left -= part;
        }
        Ok(Self {
            file,
            place: place.to_owned(),
            waiting,
        })
    }

    /// Writes `content` into the reserved space and moves the file to its final path.
    ///
    /// # Errors
    /// Fails if `content` exceeds the reserved space, and with the errors of fsync(2) and
    /// rename(2).
    pub fn commit(mut self, content: &[u8]) -> io::Result<()> {
        self.file.rewind()?;
        self.file.write_all(content)?;
        self.file.set_len(content.len() as u64)?;
        self.file.sync_all()?;
        let named = match self.waiting.take() {
            Some(waiting) => waiting,
            None => {
                let name = beside(&self.place, "reserved");
                // Removes a file that remains from a tool that was killed between `give_name` and
                // `rename`.
                let _ = fs::remove_file(&name);
                if let Err(error) = unnamed_file::give_name(&self.file, &name) {
                    // The disk may have no space for one more file name. In this case, the reserved
                    // file is dropped to free its space, and the existing file is overwritten.
                    let place = std::mem::take(&mut self.place);
                    drop(self);
                    return fs::write(place, content).map_err(|_| error);
                }
                name
            }
        };
        fs::rename(&named, &self.place).inspect_err(|_| {
            let _ = fs::remove_file(&named);
        })?;
        sync_name(&self.place);
        Ok(())
    }
}

impl Drop for ReservedFile {
    fn drop(&mut self) {
        if let Some(waiting) = &self.waiting {
            let _ = fs::remove_file(waiting);
        }
    }
}

/// Replaces the file at `place` by `content` atomically: a reader sees either the old or the new
/// content.
///
/// # Errors
/// If writing, fsync(2) or rename(2) fails, returns the error, and the old file stays.
pub fn replace(place: &Path, content: &[u8]) -> io::Result<()> {
    replace_with(place, content, File::sync_all)?;
    sync_name(place);
    Ok(())
}

/// Works like [`replace`], but also calls `behind` when the new content has been synced to disk and
/// has not yet replaced the old content. If `behind` fails, the new content stays in the temporary
/// file.
///
/// # Errors
/// Fails as [`replace`] or `behind` does.
pub(crate) fn replace_watched(
    place: &Path,
    content: &[u8],
    behind: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let waiting = beside(place, "new");
    let written = File::create(&waiting).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    let or_nothing = |result: io::Result<()>| {
        result.inspect_err(|_| {
            let _ = fs::remove_file(&waiting);
        })
    };
    or_nothing(written)?;
    behind()?;
    or_nothing(fs::rename(&waiting, place))?;
    sync_name(place);
    Ok(())
}

/// Syncs the folder of a file, if the file system supports this, so that the file keeps its name
/// after a power failure.
pub fn sync_name(file: &Path) {
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}

/// Works like [`replace`], but does not wait for the disk.
///
/// # Errors
/// If writing or rename(2) fails, returns the error, and the old file stays.
pub fn replace_in_memory(place: &Path, content: &[u8]) -> io::Result<()> {
    replace_with(place, content, |_| Ok(()))
}

fn replace_with(
    place: &Path,
    content: &[u8],
    sync: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let waiting = beside(place, "new");
    let written = File::create(&waiting).and_then(|mut file| {
        file.write_all(content)?;
        sync(&file)
    });
    let result = written.and_then(|()| fs::rename(&waiting, place));
    if result.is_err() {
        let _ = fs::remove_file(&waiting);
    }
    result
}

fn beside(place: &Path, ending: &str) -> PathBuf {
    let mut name = place.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    place.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_reserved_takes_its_place_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("run.json");
        fs::write(&place, "old").unwrap();
        let reserved = ReservedFile::new(&place, 100_000).unwrap();
        let is_unnamed = unnamed_file::create(folder.path()).is_ok();
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            if is_unnamed { 1 } else { 2 }
        );
        assert_eq!(fs::read(&place).unwrap(), b"old");
        reserved.commit(b"new").unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"new");
        drop(ReservedFile::new(&place, 10).unwrap());
        replace(&place, b"newer").unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"newer");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
