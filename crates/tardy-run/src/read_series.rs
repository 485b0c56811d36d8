//! Reading a series file, whole or in parts, in constant memory.
//!
//! A damaged stretch is left out and counted; reading goes on at the next chunk whose checksum holds. A cut-off end is no damage.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use tardy_core::chunk::{self, CHUNK_HEAD_BYTES, Chunk, ChunkHead, DESCRIPTOR_BYTES_MAX, FormatError};
use tardy_core::series::Descriptor;
use tardy_sys::{regular_file, scoped};

use super::harmless::harmless;

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Bytes of a file for which a further thread is worth while.
const PART_BYTES: u64 = 1 << 20;

/// Why a series cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum SeriesError {
    /// The file cannot be opened or read.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        /// The series file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The file is not a series.
    #[error("{path}: {error}: it was not written by tardy, or its beginning is damaged")]
    Format {
        /// The series file.
        path: PathBuf,
        /// What is wrong.
        error: FormatError,
    },
}

/// An open series file.
#[derive(Debug)]
pub struct SeriesFile {
    path: PathBuf,
    descriptor: Descriptor,
    chunks_begin: u64,
    length: u64,
}

/// What reading a part came to, beside its chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartEnd {
    /// Bytes between chunks that are no chunk.
    pub damaged_bytes: u64,
    /// Bytes at the file's end that are the beginning of a chunk, cut off.
    pub torn_bytes: u64,
    /// Whether the file was closed in order.
    pub is_closed: bool,
}

impl SeriesFile {
    /// Opens the file and reads its head.
    ///
    /// # Errors
    /// [`SeriesError`].
    pub fn open(path: &Path) -> Result<Self, SeriesError> {
        let unreadable = |error| SeriesError::Unreadable { path: path.to_owned(), error };
        let file = regular_file::open(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        let mut head = Vec::new();
        file.take(DESCRIPTOR_BYTES_MAX as u64 + 16).read_to_end(&mut head).map_err(unreadable)?;
        let format = |error| SeriesError::Format { path: path.to_owned(), error };
        let (json, chunks_begin) = chunk::decode_head(&head).map_err(format)?;
        let bad = |_| format(FormatError::BadDescriptor);
        let mut value: serde_json::Value = serde_json::from_slice(json).map_err(bad)?;
        let cleaned = harmless(&mut value).then(|| value.to_string());
        let descriptor: Descriptor = serde_json::from_slice(cleaned.as_ref().map_or(json, String::as_bytes)).map_err(bad)?;
        // 0 is an interval that the tool which took the samples did not say.
        let least = i64::from(descriptor.schedule.is_grid());
        if descriptor.schedule.period().get() < least {
            return Err(format(FormatError::BadDescriptor));
        }
        Ok(Self { path: path.to_owned(), descriptor, chunks_begin: chunks_begin as u64, length })
    }

    /// What the series is.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.length
    }

    /// Ranges of bytes that together are all chunks; each can be read alone, and gives the chunks that begin in it.
    #[must_use]
    pub fn parts(&self, count: u64) -> Vec<Range<u64>> {
        let total = self.length.saturating_sub(self.chunks_begin);
        let edge = |index: u64| self.chunks_begin + (u128::from(total) * u128::from(index) / u128::from(count.max(1))) as u64;
        (0..count.max(1)).map(|index| edge(index)..edge(index + 1)).collect()
    }

    /// Calls `visit` with each chunk that begins in `part`, in order.
    ///
    /// # Errors
    /// [`SeriesError::Unreadable`] for errors of the disk; damage is no error, and is told by [`PartEnd`].
    pub fn read_part(&self, part: Range<u64>, visit: impl FnMut(&Chunk)) -> Result<PartEnd, SeriesError> {
        let unreadable = |error| SeriesError::Unreadable { path: self.path.clone(), error };
        let mut file = regular_file::open(&self.path).map_err(unreadable)?;
        file.seek(SeekFrom::Start(part.start)).map_err(unreadable)?;
        let is_first = part.start == self.chunks_begin;
        let mut walk = Walk { window: Window::new(file), place: part.start, is_synchronised: is_first, end: PartEnd::default() };
        walk.run(part.end, visit).map_err(unreadable)?;
        Ok(walk.end)
    }

    /// Calls `visit` with each whole chunk from byte `place` on, of a file that may have grown since it was opened. Returns the byte to go on from: 0 is the
    /// first one to begin at.
    ///
    /// # Errors
    /// As [`Self::read_part`].
    pub fn read_on(&self, place: u64, visit: impl FnMut(&Chunk)) -> Result<u64, SeriesError> {
        let unreadable = |error| SeriesError::Unreadable { path: self.path.clone(), error };
        let place = place.max(self.chunks_begin);
        let mut file = regular_file::open(&self.path).map_err(unreadable)?;
        file.seek(SeekFrom::Start(place)).map_err(unreadable)?;
        let mut walk = Walk { window: Window::new(file), place, is_synchronised: true, end: PartEnd::default() };
        walk.run(u64::MAX, visit).map_err(unreadable)?;
        // A chunk that is just being written is read when it is whole.
        Ok(walk.place - walk.end.torn_bytes)
    }

    /// Adds all chunks to what `new` makes, on up to `threads_max` threads: each has a part of the file of its own, and `merge` takes the parts together in the
    /// order of the file.
    ///
    /// # Errors
    /// As [`Self::read_part`].
    pub fn fold<T: Send>(
        &self,
        threads_max: u64,
        new: impl Fn() -> T + Sync,
        add: impl Fn(&mut T, &Chunk) + Sync,
        mut merge: impl FnMut(&mut T, T),
    ) -> Result<(T, PartEnd), SeriesError> {
        let read_part = |part| -> Result<(T, PartEnd), SeriesError> {
            let mut read = new();
            let end = self.read_part(part, |chunk| add(&mut read, chunk))?;
            Ok((read, end))
        };
        // Small files are not worth a thread.
        let parts = self.parts(threads_max.min(self.bytes() / PART_BYTES + 1));
        let count = parts.len();
        let (mut whole, mut end) = (new(), PartEnd::default());
        for result in scoped::map(parts, count, read_part) {
            let (part, part_end) = result?;
            merge(&mut whole, part);
            end.damaged_bytes += part_end.damaged_bytes;
            end.torn_bytes += part_end.torn_bytes;
            end.is_closed |= part_end.is_closed;
        }
        Ok((whole, end))
    }

    /// As many threads as there are CPUs to read with.
    #[must_use]
    pub fn threads() -> u64 {
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64
    }

    /// Calls `visit` with each chunk of the file.
    ///
    /// # Errors
    /// As [`Self::read_part`].
    pub fn read(&self, visit: impl FnMut(&Chunk)) -> Result<PartEnd, SeriesError> {
        self.read_part(self.chunks_begin..self.length, visit)
    }
}

/// A stretch of the file in memory.
struct Window {
    file: File,
    bytes: Vec<u8>,
    begin: usize,
    is_at_end: bool,
}

impl Window {
    fn new(file: File) -> Self {
        Self { file, bytes: Vec::with_capacity(BUFFER_BYTES * 2), begin: 0, is_at_end: false }
    }

    /// At least `wanted` bytes from the current place on, or all that there are.
    fn fill(&mut self, wanted: usize) -> io::Result<&[u8]> {
        while self.bytes.len() - self.begin < wanted && !self.is_at_end {
            self.bytes.drain(..self.begin);
            self.begin = 0;
            let old = self.bytes.len();
            let room = BUFFER_BYTES.max(wanted.saturating_sub(old));
            self.bytes.resize(old + room, 0);
            let read = self.file.read(&mut self.bytes[old..])?;
            self.bytes.truncate(old + read);
            self.is_at_end = read == 0;
        }
        Ok(&self.bytes[self.begin..])
    }

    fn skip(&mut self, bytes: usize) {
        self.begin += bytes;
    }
}

struct Walk {
    window: Window,
    place: u64,
    /// Whether `place` is where a chunk should begin; the middle of a file is found only by looking for one.
    is_synchronised: bool,
    end: PartEnd,
}

impl Walk {
    fn run(&mut self, end: u64, mut visit: impl FnMut(&Chunk)) -> io::Result<()> {
        let mut chunk = Chunk::default();
        while self.place < end {
            match self.next(&mut chunk)? {
                Some(ChunkSpan { bytes, is_last }) => {
                    visit(&chunk);
                    self.end.is_closed |= is_last;
                    self.is_synchronised = true;
                    self.advance(bytes);
                }
                None if self.window.fill(1)?.is_empty() => break,
                None => self.skip_to_next_magic()?,
            }
        }
        Ok(())
    }

    fn advance(&mut self, bytes: usize) {
        self.window.skip(bytes);
        self.place += bytes as u64;
    }

    /// Decodes the chunk at the current place; `None` where there is none.
    fn next(&mut self, chunk: &mut Chunk) -> io::Result<Option<ChunkSpan>> {
        let Ok(head) = ChunkHead::decode(self.window.fill(CHUNK_HEAD_BYTES)?) else {
            return Ok(None);
        };
        let bytes = CHUNK_HEAD_BYTES + head.body_bytes;
        let window = self.window.fill(bytes)?;
        let Some(body) = window.get(CHUNK_HEAD_BYTES..bytes) else {
            return Ok(None);
        };
        let is_whole = chunk::verify(&head, body) && chunk.decode(body).is_ok();
        Ok(is_whole.then_some(ChunkSpan { bytes, is_last: head.last }))
    }

    /// Leaves out at least one byte, up to the next place where a chunk may begin.
    fn skip_to_next_magic(&mut self) -> io::Result<()> {
        let window = self.window.fill(BUFFER_BYTES)?;
        let found = window.windows(4).skip(1).position(|four| four == b"CHNK" || four == b"ENDS").map(|position| position + 1);
        let is_all = window.len() < BUFFER_BYTES;
        let skipped = match found {
            Some(position) => position,
            None if is_all => window.len(),
            None => window.len() - 3,
        };
        if self.is_synchronised {
            if found.is_none() && is_all && self.looks_torn()? {
                self.end.torn_bytes += skipped as u64;
            } else {
                self.end.damaged_bytes += skipped as u64;
            }
        }
        self.advance(skipped);
        Ok(())
    }

    /// Whether the bytes up to the file's end are the beginning of a chunk.
    fn looks_torn(&mut self) -> io::Result<bool> {
        let window = self.window.fill(CHUNK_HEAD_BYTES)?;
        Ok(match ChunkHead::decode(window) {
            Ok(head) => window.len() < CHUNK_HEAD_BYTES + head.body_bytes,
            Err(FormatError::Truncated) => {
                b"CHNK".starts_with(&window[..window.len().min(4)]) || b"ENDS".starts_with(&window[..window.len().min(4)])
            }
            Err(_) => false,
        })
    }
}

struct ChunkSpan {
    bytes: usize,
    is_last: bool,
}

#[cfg(test)]
mod tests;
