//! Reads a series file, whole or in parts, in constant memory.
//!
//! After damaged bytes, reading resumes at the next chunk with a valid checksum. The damaged bytes
//! are counted. The cumulative counts in each chunk show how many samples are missing. A truncated
//! end does not count as damage.
//!
//! A series of a run with `--disk` has several files ([`crate::rotation`]). These files are read as
//! one series, and [`SeriesFile::hours`] returns the folded samples.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tardy_core::chunk::{
    self, CHUNK_HEAD_BYTES, Chunk, ChunkHead, DESCRIPTOR_BYTES_MAX, FormatError, HEAD_START_BYTES,
};
use tardy_core::series::Descriptor;
use tardy_sys::{regular_file, scoped};

use crate::far_time::far_time;
use crate::harmless::harmless;
use crate::hours::{self, Hours};
use crate::segments::{segment_path, segments_behind};

/// Number of bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;
/// Size in bytes below which one thread reads the whole series. A series of n times this size is
/// read by up to n + 1 threads.
const PART_BYTES: u64 = 1 << 20;

/// Why a series cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum SeriesError {
    /// The file cannot be opened or read.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        /// The series file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The file is not a series.
    #[error("{path}: {error}: the file was not written by tardy, or its beginning is damaged")]
    Format {
        /// The series file.
        path: PathBuf,
        /// The format error.
        error: FormatError,
    },
    /// The file has the name of one series and the descriptor of another.
    #[error(
        "{path} holds another series, {name}: copy the folder again from its original location"
    )]
    Exchanged {
        /// The series file.
        path: PathBuf,
        /// The file name that belongs to the descriptor.
        name: String,
    },
}

/// An open series file.
#[derive(Debug)]
pub struct SeriesFile {
    path: PathBuf,
    descriptor: Descriptor,
    chunks_begin: u64,
    length: u64,
    segments: Option<SeriesSegments>,
}

/// The other files of a series with `--disk`.
#[derive(Debug)]
struct SeriesSegments {
    hours: Hours,
    /// Size in bytes of the hourly histograms if these are damaged; otherwise 0.
    damaged_bytes: u64,
    pieces: Vec<Piece>,
}

/// A segment. The file stays open, because another thread may delete it during reading.
#[derive(Debug)]
struct Piece {
    file: Arc<File>,
    /// Position of the segment's first byte among the bytes of all files.
    begin: u64,
    chunks_begin: u64,
    length: u64,
    /// Whether the segment belongs to another series, so that all its bytes count as damaged.
    is_foreign: bool,
}

/// Maximum number of attempts to open all segments. An attempt fails if a segment is deleted before
/// it can be opened.
const LOOKS_MAX: usize = 100;
/// Number of low bits of a position, which contain the offset in the segment; the high bits contain
/// the segment's number.
const PLACE_BITS: u32 = 40;

/// The result of reading a part of a series, without the chunks that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartEnd {
    /// Number of bytes that belong to no chunk.
    pub damaged_bytes: u64,
    /// Number of bytes of a truncated chunk at the end of the file.
    pub torn_bytes: u64,
    /// Whether the file was closed properly.
    pub is_closed: bool,
}

/// Returns whether the file's head is missing or incomplete, because the writer has not finished
/// it.
///
/// # Errors
/// Fails if the file cannot be opened or read.
pub fn is_without_head(path: &Path) -> io::Result<bool> {
    let file = regular_file::open(path)?;
    let length = file.metadata()?.len();
    let mut start = Vec::new();
    file.take(HEAD_START_BYTES as u64).read_to_end(&mut start)?;
    Ok(chunk::ends_within_head(&start, length))
}

impl SeriesFile {
    /// Opens the file and reads its head.
    ///
    /// # Errors
    /// Fails with a [`SeriesError`] if the file cannot be read, or is not a file of the series.
    pub fn open(path: &Path) -> Result<Self, SeriesError> {
        let mut series = Self::open_alone(path, path)?;
        // Even if the hourly histograms are missing, segments may exist.
        let is_head_alone = series.length <= series.chunks_begin;
        let has_segments = || segments_behind(path, 0).is_ok_and(|segments| !segments.is_empty());
        if hours::path(path).exists() || (is_head_alone && has_segments()) {
            let unreadable = |error| SeriesError::Unreadable {
                path: path.to_owned(),
                error,
            };
            let segments = SeriesSegments::open(path, series.length).map_err(unreadable)?;
            series.length = segments
                .pieces
                .last()
                .map_or(series.length, |piece| piece.begin + piece.length);
            series.segments = Some(segments);
        }
        Ok(series)
    }

    /// Opens one file of the series in `series`, without its segments.
    pub(crate) fn open_alone(path: &Path, series: &Path) -> Result<Self, SeriesError> {
        let unreadable = |error| SeriesError::Unreadable {
            path: path.to_owned(),
            error,
        };
        let file = regular_file::open(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        let mut head = Vec::new();
        file.take(DESCRIPTOR_BYTES_MAX as u64 + 16)
            .read_to_end(&mut head)
            .map_err(unreadable)?;
        let format = |error| SeriesError::Format {
            path: path.to_owned(),
            error,
        };
        let (json, chunks_begin) = chunk::decode_head(&head).map_err(format)?;
        let bad = |_| format(FormatError::BadDescriptor);
        let mut value: serde_json::Value = serde_json::from_slice(json).map_err(bad)?;
        if far_time(&value).is_some() {
            return Err(format(FormatError::BadDescriptor));
        }
        let cleaned = harmless(&mut value).then(|| value.to_string());
        let descriptor: Descriptor =
            serde_json::from_slice(cleaned.as_ref().map_or(json, String::as_bytes)).map_err(bad)?;
        // In an imported series of events, the interval is 0 if the other tool did not state it.
        let least = i64::from(descriptor.schedule.is_grid());
        if descriptor.schedule.period().get() < least {
            return Err(format(FormatError::BadDescriptor));
        }
        if cleaned.is_none() && !is_of(&descriptor, series) {
            return Err(SeriesError::Exchanged {
                path: path.to_owned(),
                name: descriptor.file_name(),
            });
        }
        Ok(Self {
            path: path.to_owned(),
            descriptor,
            chunks_begin: chunks_begin as u64,
            length,
            segments: None,
        })
    }

    /// Opens a segment of the series in `series`. If the head of the segment is damaged, the head
    /// of the series is used instead, and the reader searches for the first chunk.
    pub(crate) fn open_segment(path: &Path, series: &Path) -> Result<Self, SeriesError> {
        match Self::open_alone(path, series) {
            Err(SeriesError::Format { .. }) => {}
            opened => return opened,
        }
        let unreadable = |error| SeriesError::Unreadable {
            path: path.to_owned(),
            error,
        };
        let length = regular_file::open(path)
            .and_then(|file| file.metadata())
            .map_err(unreadable)?
            .len();
        Ok(Self {
            path: path.to_owned(),
            chunks_begin: 0,
            length,
            ..Self::open_alone(series, series)?
        })
    }

    /// Returns the folded samples; only a run with `--disk` has any.
    #[must_use]
    pub fn hours(&self) -> Option<&Hours> {
        self.segments.as_ref().map(|segments| &segments.hours)
    }

    /// Returns the descriptor of the series.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Returns the size of the series' files in bytes, without the hourly histograms.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.length
    }

    /// Divides the file into ranges of bytes that can be read independently. Each range gives the
    /// chunks that start in it.
    #[must_use]
    pub fn parts(&self, count: u64) -> Vec<Range<u64>> {
        let total = self.length.saturating_sub(self.chunks_begin);
        let edge = |index: u64| {
            self.chunks_begin
                + (u128::from(total) * u128::from(index) / u128::from(count.max(1))) as u64
        };
        (0..count.max(1))
            .map(|index| edge(index)..edge(index + 1))
            .collect()
    }

    /// Calls `visit` with each chunk that starts in `part`, in order.
    ///
    /// # Errors
    /// Fails with [`SeriesError::Unreadable`] if the file cannot be opened or read. Damage to the
    /// file is not an error; [`PartEnd`] reports it.
    pub fn read_part(
        &self,
        part: Range<u64>,
        visit: &mut dyn FnMut(&Chunk),
    ) -> Result<PartEnd, SeriesError> {
        let unreadable = |error| SeriesError::Unreadable {
            path: self.path.clone(),
            error,
        };
        if let Some(segments) = &self.segments {
            return segments.read_part(part, visit).map_err(unreadable);
        }
        let mut file = regular_file::open(&self.path).map_err(unreadable)?;
        file.seek(SeekFrom::Start(part.start)).map_err(unreadable)?;
        let is_first = part.start == self.chunks_begin;
        let mut walk = Walk {
            window: Window::new(file),
            place: part.start,
            is_synchronised: is_first,
            end: PartEnd::default(),
        };
        walk.run(part.end, visit).map_err(unreadable)?;
        Ok(walk.end)
    }

    /// Calls `visit` with each complete chunk from position `place` on. These include chunks that
    /// were appended after the file was opened. Returns the position at which to resume; the first
    /// call uses 0.
    ///
    /// # Errors
    /// Fails as [`Self::read_part`] does.
    pub fn read_on(&self, place: u64, visit: &mut dyn FnMut(&Chunk)) -> Result<u64, SeriesError> {
        let unreadable = |error| SeriesError::Unreadable {
            path: self.path.clone(),
            error,
        };
        if let Some(segments) = &self.segments {
            return segments
                .read_on(&self.path, place, visit)
                .map_err(unreadable);
        }
        let place = place.max(self.chunks_begin);
        let mut file = regular_file::open(&self.path).map_err(unreadable)?;
        file.seek(SeekFrom::Start(place)).map_err(unreadable)?;
        let mut walk = Walk {
            window: Window::new(file),
            place,
            is_synchronised: true,
            end: PartEnd::default(),
        };
        walk.run(u64::MAX, visit).map_err(unreadable)?;
        // If the next chunk is incomplete because it is still being written, a later call reads it.
        Ok(walk.place - walk.end.torn_bytes)
    }

    /// Adds all chunks to accumulators made by `new`, on up to `threads_max` threads. Each thread
    /// reads one part of the file, and `merge` joins the accumulators in file order.
    ///
    /// # Errors
    /// Fails as [`Self::read_part`] does.
    pub fn fold<T: Send>(
        &self,
        threads_max: u64,
        new: impl Fn() -> T + Sync,
        add: impl Fn(&mut T, &Chunk) + Sync,
        mut merge: impl FnMut(&mut T, T),
    ) -> Result<(T, PartEnd), SeriesError> {
        let read_part = |part| -> Result<(T, PartEnd), SeriesError> {
            let mut read = new();
            let end = self.read_part(part, &mut |chunk| add(&mut read, chunk))?;
            Ok((read, end))
        };
        // A small file is read by one thread.
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

    /// Returns the number of reading threads, which is the number of CPUs.
    #[must_use]
    pub fn threads() -> u64 {
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64
    }

    /// Calls `visit` with each chunk of the file.
    ///
    /// # Errors
    /// Fails as [`Self::read_part`] does.
    pub fn read(&self, visit: &mut dyn FnMut(&Chunk)) -> Result<PartEnd, SeriesError> {
        self.read_part(self.chunks_begin..self.length, visit)
    }
}

/// Returns whether `descriptor` belongs to the series file `series`.
fn is_of(descriptor: &Descriptor, series: &Path) -> bool {
    series
        .file_name()
        .is_some_and(|name| *name == *descriptor.file_name())
}

impl SeriesSegments {
    /// Opens the hourly histograms and a consistent set of the later segments, even while the run
    /// writes them. `head` is the length of the series' main file.
    fn open(series: &Path, head: u64) -> io::Result<Self> {
        let path = hours::path(series);
        for _ in 0..LOOKS_MAX {
            let (hours, damaged_bytes) = match Hours::read(&path) {
                Ok(Some(hours)) => (hours, 0),
                // Even if the histograms are damaged, the individually stored samples can be read.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    (Hours::unknown(), std::fs::metadata(&path)?.len().max(1))
                }
                Ok(None) => (Hours::unknown(), 0),
                Err(error) => return Err(error),
            };
            let Some(pieces) = Self::pieces(series, hours.through, head)? else {
                continue;
            };
            let is_same = damaged_bytes > 0
                || Hours::read(&path)?.map_or(0, |now| now.through) == hours.through;
            if is_same {
                return Ok(Self {
                    hours,
                    damaged_bytes,
                    pieces,
                });
            }
        }
        Err(io::Error::other(
            "samples were folded into histograms faster than they could be opened: try again",
        ))
    }

    /// Opens the segments; `None` if one of them was folded during the call.
    fn pieces(series: &Path, through: u64, head: u64) -> io::Result<Option<Vec<Piece>>> {
        let (mut pieces, mut begin) = (Vec::new(), head);
        for number in segments_behind(series, through)? {
            let file = match regular_file::open(&segment_path(series, number)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let piece = Piece::new(file, begin, series)?;
            begin += piece.length;
            pieces.push(piece);
        }
        Ok(Some(pieces))
    }

    fn read_part(&self, part: Range<u64>, visit: &mut dyn FnMut(&Chunk)) -> io::Result<PartEnd> {
        let mut end = PartEnd::default();
        for piece in &self.pieces {
            let (from, to) = (
                part.start.max(piece.begin),
                part.end.min(piece.begin + piece.length),
            );
            if from < to {
                let read = piece.read(from - piece.begin, to - piece.begin, visit)?.0;
                end.damaged_bytes += read.damaged_bytes;
                end.torn_bytes += read.torn_bytes;
                end.is_closed |= read.is_closed;
            }
            if piece.is_foreign && part.contains(&piece.begin) {
                end.damaged_bytes += piece.length;
            }
        }
        if part.start <= self.pieces.first().map_or(u64::MAX, |piece| piece.begin) {
            end.damaged_bytes += self.damaged_bytes;
        }
        Ok(end)
    }

    /// Works like [`SeriesFile::read_on`]. The upper bits of a position contain the number of the
    /// segment. Samples that were folded before they could be read are skipped.
    fn read_on(&self, series: &Path, place: u64, visit: &mut dyn FnMut(&Chunk)) -> io::Result<u64> {
        let (open, offset) = (place >> PLACE_BITS, place & ((1 << PLACE_BITS) - 1));
        let mut reached = place;
        for number in segments_behind(series, open.max(self.hours.through + 1) - 1)? {
            let file = match regular_file::open(&segment_path(series, number)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file?,
            };
            let piece = Piece::new(file, 0, series)?;
            let from = if number == open { offset } else { 0 };
            let (end, at) = piece.read(from, u64::MAX, visit)?;
            reached = (number << PLACE_BITS) | (at - end.torn_bytes);
        }
        Ok(reached)
    }
}

impl Piece {
    fn new(file: File, begin: u64, series: &Path) -> io::Result<Self> {
        let (file, length) = (Arc::new(file), 0);
        let mut head = Vec::new();
        OpenFile {
            file: Arc::clone(&file),
            place: 0,
        }
        .take(DESCRIPTOR_BYTES_MAX as u64 + 16)
        .read_to_end(&mut head)?;
        // If the segment's head is damaged, the reader searches for the first chunk.
        let (json, chunks_begin) =
            chunk::decode_head(&head).map_or((&[][..], length), |(json, at)| (json, at as u64));
        let is_foreign =
            serde_json::from_slice(json).is_ok_and(|descriptor| !is_of(&descriptor, series));
        let length = file.metadata()?.len();
        Ok(Self {
            file,
            begin,
            chunks_begin: if is_foreign { length } else { chunks_begin },
            length,
            is_foreign,
        })
    }

    /// Calls the visitor with the chunks that start in the bytes `from..to`. Also returns the
    /// position at which the reading stopped.
    fn read(
        &self,
        from: u64,
        to: u64,
        visit: &mut dyn FnMut(&Chunk),
    ) -> io::Result<(PartEnd, u64)> {
        let is_synchronised = from <= self.chunks_begin || to == u64::MAX;
        let place = from.max(self.chunks_begin);
        let window = Window::new(OpenFile {
            file: Arc::clone(&self.file),
            place,
        });
        let mut walk = Walk {
            window,
            place,
            is_synchronised,
            end: PartEnd::default(),
        };
        walk.run(to, visit)?;
        Ok((walk.end, walk.place))
    }
}

/// A file shared by several readers, each with its own position.
struct OpenFile {
    file: Arc<File>,
    place: u64,
}

impl Read for OpenFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.place)?;
        self.place += read as u64;
        Ok(read)
    }
}

/// A buffered range of the file.
struct Window<R> {
    file: R,
    bytes: Vec<u8>,
    begin: usize,
    is_at_end: bool,
}

impl<R: Read> Window<R> {
    fn new(file: R) -> Self {
        Self {
            file,
            bytes: Vec::with_capacity(BUFFER_BYTES * 2),
            begin: 0,
            is_at_end: false,
        }
    }

    /// Returns at least `wanted` bytes from the current position on. Returns fewer only at the end
    /// of the file.
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

struct Walk<R> {
    window: Window<R>,
    place: u64,
    /// Whether a chunk is known to start at `place`. If not, the reader searches for the next
    /// start.
    is_synchronised: bool,
    end: PartEnd,
}

impl<R: Read> Walk<R> {
    fn run(&mut self, end: u64, visit: &mut dyn FnMut(&Chunk)) -> io::Result<()> {
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

    /// Decodes the chunk at the current position; `None` if no valid chunk starts there.
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
        Ok(is_whole.then_some(ChunkSpan {
            bytes,
            is_last: head.last,
        }))
    }

    /// Skips at least one byte, to the next possible start of a chunk.
    fn skip_to_next_magic(&mut self) -> io::Result<()> {
        let window = self.window.fill(BUFFER_BYTES)?;
        let found = window
            .windows(4)
            .skip(1)
            .position(|four| four == b"CHNK" || four == b"ENDS")
            .map(|position| position + 1);
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

    /// Returns whether the remaining bytes look like the start of a truncated chunk.
    fn looks_torn(&mut self) -> io::Result<bool> {
        let window = self.window.fill(CHUNK_HEAD_BYTES)?;
        Ok(match ChunkHead::decode(window) {
            Ok(head) => window.len() < CHUNK_HEAD_BYTES + head.body_bytes,
            Err(FormatError::Truncated) => {
                b"CHNK".starts_with(&window[..window.len().min(4)])
                    || b"ENDS".starts_with(&window[..window.len().min(4)])
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
