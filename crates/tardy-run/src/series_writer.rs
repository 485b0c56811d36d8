//! Appends chunks to a series file, and survives a disk that fills up.
//!
//! A chunk that cannot be written whole is cut off again, so that what stands in the file stays readable; the next one is tried anew,
//! because room may have been made.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use tardy_core::chunk;
use tardy_core::series::Descriptor;
use tardy_core::units::Nanos;

/// How often rings are emptied and chunks written: a killed run loses at most this, and a stalled recorder less than 250 ms in all.
pub const FLUSH_INTERVAL: Nanos = Nanos::from_millis(125);

/// An open series file.
#[derive(Debug)]
pub struct SeriesWriter {
    file: File,
    length: u64,
}

impl SeriesWriter {
    /// Creates the file and writes its head.
    ///
    /// # Errors
    /// AlreadyExists where there is such a file, and those of writing.
    pub fn create(path: &Path, descriptor: &Descriptor) -> io::Result<Self> {
        let mut writer = Self::without_head(path)?;
        writer.write_head(descriptor)?;
        Ok(writer)
    }

    /// Creates the file, whose head is to come.
    ///
    /// # Errors
    /// AlreadyExists where there is such a file.
    pub fn without_head(path: &Path) -> io::Result<Self> {
        Ok(Self { file: OpenOptions::new().write(true).create_new(true).open(path)?, length: 0 })
    }

    /// Writes the head, before anything else.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_head(&mut self, descriptor: &Descriptor) -> io::Result<()> {
        self.append(&chunk::encode_head(&serde_json::to_vec(descriptor)?))
    }

    /// Appends a whole chunk, or nothing.
    ///
    /// # Errors
    /// Those of writing, such as ENOSPC; the file then ends where it ended before.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.file.write_all(bytes) {
            Ok(()) => {
                self.length += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.file.set_len(self.length)?;
                io::Seek::seek(&mut self.file, io::SeekFrom::Start(self.length))?;
                Err(error)
            }
        }
    }

    /// Brings the file to the disk.
    ///
    /// # Errors
    /// Those of fsync(2).
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Bytes written.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.length
    }
}
