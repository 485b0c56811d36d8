//! Appends chunks to a series file, which stays readable even if the disk becomes full.
//!
//! If a chunk cannot be written completely, the part that was written is removed. The writer tries
//! to write the next chunk nevertheless, because space may have been freed.
//!
//! In a run with `--disk`, the chunks go to segments: see [`crate::rotation`].

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use tardy_core::chunk;
use tardy_core::series::Descriptor;
use tardy_core::units::Nanos;

use crate::rotation::Rotation;
use crate::segments::new_head_path;

/// Interval at which the recorder empties the rings and writes chunks. If the run is killed, it
/// loses at most the samples of one interval. If the recorder also stalls, the run loses the
/// samples of less than 250 ms in total.
pub const FLUSH_INTERVAL: Nanos = Nanos::from_millis(125);

/// An open series file.
#[derive(Debug)]
pub struct SeriesWriter {
    file: File,
    length: u64,
    segments: Option<Segments>,
}

/// The segment that is being written.
#[derive(Debug)]
struct Segments {
    rotation: Arc<Rotation>,
    head: Vec<u8>,
    number: u64,
}

impl SeriesWriter {
    /// Creates the file and writes its head.
    ///
    /// # Errors
    /// Fails if writing fails, or with `AlreadyExists` if the file exists.
    pub fn create(path: &Path, descriptor: &Descriptor) -> io::Result<Self> {
        let mut writer = Self::without_head(path)?;
        writer.write_head(descriptor)?;
        Ok(writer)
    }

    /// Creates the file without its head, which is written later.
    ///
    /// # Errors
    /// Fails with `AlreadyExists` if the file exists.
    pub fn without_head(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: OpenOptions::new().write(true).create_new(true).open(path)?,
            length: 0,
            segments: None,
        })
    }

    /// Opens a file that has a head, to append chunks.
    ///
    /// # Errors
    /// Fails with `NotFound` if there is no file.
    pub fn reopen(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).open(path)?;
        let length = file.metadata()?.len();
        Ok(Self {
            file,
            length,
            segments: None,
        })
    }

    /// Works like [`SeriesWriter::without_head`], for a series whose chunks go to segments.
    ///
    /// # Errors
    /// Fails with `AlreadyExists` if the file exists.
    pub fn without_head_in(rotation: Arc<Rotation>) -> io::Result<Self> {
        let number = rotation.through();
        // The head of a resumed series is replaced only after the new head was synced.
        let writer = if number == 0 {
            Self::without_head(rotation.series())?
        } else {
            Self::without_head(&new_head_path(rotation.series()))?
        };
        Ok(Self {
            segments: Some(Segments {
                rotation,
                head: Vec::new(),
                number,
            }),
            ..writer
        })
    }

    /// Writes the head; this must be done before anything else is written.
    ///
    /// # Errors
    /// Fails if writing fails.
    pub fn write_head(&mut self, descriptor: &Descriptor) -> io::Result<()> {
        let head = chunk::encode_head(&serde_json::to_vec(descriptor)?);
        // The hourly histograms are written before the head. Therefore, if a series has a head but
        // no histograms, the histograms were lost.
        if let Some(segments) = &self.segments {
            segments.rotation.begin()?;
        }
        self.write_whole(&head)?;
        if let Some(segments) = &mut self.segments {
            if segments.number > 0 {
                segments.rotation.note_new_head();
            }
            segments.head = head;
            self.begin_segment()?;
        }
        Ok(())
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        if let Some(segments) = &mut self.segments {
            self.file = segments
                .rotation
                .create(segments.number + 1, &segments.head)?;
            self.length = segments.head.len() as u64;
            segments.number += 1;
        }
        Ok(())
    }

    /// Appends a whole chunk. If this fails, appends nothing.
    ///
    /// # Errors
    /// Fails if writing fails, for example with ENOSPC; the file is then as long as before.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(segments) = &self.segments else {
            return self.write_whole(bytes);
        };
        let (rotation, more, head) = (
            Arc::clone(&segments.rotation),
            bytes.len() as u64,
            segments.head.len() as u64,
        );
        rotation.take_room(more + head)?;
        if rotation.is_full(self.length, more) && self.length > head {
            self.begin_segment()?;
        }
        let written = self.write_whole(bytes);
        if let Some(segments) = &self.segments {
            rotation.note_length(segments.number, self.length);
        }
        written
    }

    fn write_whole(&mut self, bytes: &[u8]) -> io::Result<()> {
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

    /// Syncs the file to disk; the caller does this before it closes the file.
    ///
    /// # Errors
    /// Returns the error if fsync(2) fails.
    pub fn sync(&self) -> io::Result<()> {
        if let Some(segments) = &self.segments {
            segments.rotation.place_head()?;
        }
        self.file.sync_all()
    }

    /// Returns the number of bytes that were written to the file, or to the current segment.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.length
    }
}
