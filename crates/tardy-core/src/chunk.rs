//! The file format of a series, version 1: a head, then chunks. Each chunk can be read alone.
//!
//! ```text
//! head    "TARDYSR1"  u32 length  descriptor (JSON)  u32 CRC-32 of the descriptor
//! chunk   "CHNK" or "ENDS"  u32 length of the body  u32 CRC-32 of the body  body
//! body    varints: samples, due time of the first sample (folded),
//!         cumulative expected, recorded, skipped, lost, unstored,
//!         columns, then for each: id, length in bytes, bytes
//! ```
//! Fixed-width integers are little-endian. Each column starts with its id. The columns are:
//!
//! 1. latency: the first value, then the difference of each value from the one before, as signed
//!    variable-length integers ([`crate::varint`]);
//! 2. skipped: a pair for each sample that skipped due times: (number of samples since the last
//!    pair, number of skipped due times);
//! 3. due time: for each run of successive samples whose due times deviate equally from the
//!    prediction: (deviation, as a signed variable-length integer; number of samples). The
//!    prediction is `previous due + period * (1 + skipped + gap)` on a grid,
//!    `previous wake-up + request` for events;
//! 4. gaps: a triple for each gap before a sample: (number of samples since the last triple, number
//!    of lost samples, number of due times that the lost samples skipped).
//!
//! A reader skips columns that it does not know. `ENDS` marks the last chunk of a file that was
//! closed properly. If a chunk is torn or damaged, its CRC does not match, and readers stop there.
//! The chunks before it stay valid, with their own cumulative counts.
//!
//! Due times are stored as run-length coded deviations from the prediction. The due times of a grid
//! take no space. The due times of events take a few bits per sample. On average, a sample takes
//! 2.0 to 2.5 bytes. A test in `chunk/tests.rs` requires at most 2 bytes per sample for a quiet
//! second.
//!
//! Every chunk contains the cumulative counts at its end, so the counts of a truncated file are
//! still exact up to its last whole chunk. These counts also give the positions of the chunk's
//! samples in the series, so parts of a file can be summarised in parallel.

use crate::accounting::{COUNT_MAX, Counts};
use crate::sample::{Gap, Record, Sample};
use crate::series::{Descriptor, Schedule};
use crate::units::Nanos;
use crate::varint::{self, Reader};

/// First bytes of a series file; the digit is the version of the format.
pub const FILE_MAGIC: [u8; 8] = *b"TARDYSR1";
const CHUNK_MAGIC: [u8; 4] = *b"CHNK";
const END_MAGIC: [u8; 4] = *b"ENDS";
/// Number of bytes before a chunk's body (magic, length and CRC-32).
pub const CHUNK_HEAD_BYTES: usize = 12;
/// Number of bytes before a head's descriptor (magic and length).
pub const HEAD_START_BYTES: usize = FILE_MAGIC.len() + 4;
/// Maximum size of a body in bytes, for writers and readers.
pub const BODY_BYTES_MAX: usize = 16 << 20;
/// Maximum size of a descriptor that readers accept, in bytes.
pub const DESCRIPTOR_BYTES_MAX: usize = 1 << 20;

const COLUMN_LATENCY: u64 = 1;
const COLUMN_SKIPPED: u64 = 2;
const COLUMN_DUE: u64 = 3;
const COLUMN_GAPS: u64 = 4;

/// The reason why bytes cannot be read as a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The file does not start like a series file.
    #[error("not a series file of this format (unknown header)")]
    NotASeries,
    /// The descriptor is damaged.
    #[error("the series' descriptor is damaged")]
    BadDescriptor,
    /// The bytes end before the chunk does.
    #[error("the last chunk is cut off")]
    Truncated,
    /// The checksum of the chunk does not match its bytes, or the chunk's structure is invalid.
    #[error("a chunk is damaged (checksum or structure)")]
    Damaged,
}

/// Returns the head of a series file, which contains `descriptor_json` unchanged.
#[must_use]
pub fn encode_head(descriptor_json: &[u8]) -> Vec<u8> {
    let mut out = FILE_MAGIC.to_vec();
    out.extend_from_slice(
        &u32::try_from(descriptor_json.len())
            .unwrap_or(u32::MAX)
            .to_le_bytes(),
    );
    out.extend_from_slice(descriptor_json);
    out.extend_from_slice(&crc32fast::hash(descriptor_json).to_le_bytes());
    out
}

/// Reads a head; returns the descriptor's bytes and the offset of the first chunk.
///
/// # Errors
/// Fails with [`FormatError::NotASeries`], or with [`FormatError::BadDescriptor`] if the head is
/// damaged or cut off.
pub fn decode_head(bytes: &[u8]) -> Result<(&[u8], usize), FormatError> {
    let rest = bytes
        .strip_prefix(&FILE_MAGIC)
        .ok_or(FormatError::NotASeries)?;
    let (length, rest) = rest
        .split_first_chunk::<4>()
        .ok_or(FormatError::BadDescriptor)?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > DESCRIPTOR_BYTES_MAX {
        return Err(FormatError::BadDescriptor);
    }
    let (json, rest) = rest
        .split_at_checked(length)
        .ok_or(FormatError::BadDescriptor)?;
    let (crc, _) = rest
        .split_first_chunk::<4>()
        .ok_or(FormatError::BadDescriptor)?;
    if u32::from_le_bytes(*crc) != crc32fast::hash(json) {
        return Err(FormatError::BadDescriptor);
    }
    Ok((json, FILE_MAGIC.len() + 4 + length + 4))
}

/// Returns whether a series file ends within its head. The file has `length` bytes and starts with
/// the bytes `start`. `start` must contain at least the first [`HEAD_START_BYTES`] bytes, or the
/// whole file if it is shorter.
#[must_use]
pub fn ends_within_head(start: &[u8], length: u64) -> bool {
    let magic = &start[..start.len().min(FILE_MAGIC.len())];
    if !FILE_MAGIC.starts_with(magic) {
        return false;
    }
    let descriptor = start
        .get(FILE_MAGIC.len()..)
        .and_then(|rest| rest.first_chunk::<4>())
        .map(|bytes| u32::from_le_bytes(*bytes) as usize);
    let head = HEAD_START_BYTES + descriptor.map_or(0, |bytes| bytes + 4);
    descriptor.is_none_or(|bytes| bytes <= DESCRIPTOR_BYTES_MAX) && length < head as u64
}

/// Encodes records into chunks; reuses its buffers.
#[derive(Debug)]
pub struct ChunkEncoder {
    schedule: Schedule,
    samples: u64,
    first_due: Nanos,
    previous: Option<Sample>,
    pending_gap: Gap,
    latency: Vec<u8>,
    skipped: Vec<u8>,
    skipped_last: u64,
    due: Vec<u8>,
    due_run: (i64, u64),
    gaps: Vec<u8>,
    gaps_last: u64,
    body: Vec<u8>,
}

impl ChunkEncoder {
    /// Creates an encoder for a series with this descriptor.
    #[must_use]
    pub fn new(descriptor: &Descriptor) -> Self {
        Self {
            schedule: descriptor.schedule,
            samples: 0,
            first_due: Nanos::ZERO,
            previous: None,
            pending_gap: Gap::default(),
            latency: Vec::new(),
            skipped: Vec::new(),
            skipped_last: 0,
            due: Vec::new(),
            due_run: (0, 0),
            gaps: Vec::new(),
            gaps_last: 0,
            body: Vec::new(),
        }
    }

    /// Returns the number of samples since the last finished chunk.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Adds a record to the chunk being built.
    pub fn push(&mut self, record: Record) {
        match record {
            Record::Sample(sample) => self.push_sample(sample),
            Record::Gap(gap) => {
                self.pending_gap.lost += gap.lost;
                self.pending_gap.skipped += gap.skipped;
            }
        }
    }

    fn push_sample(&mut self, sample: Sample) {
        let index = self.samples;
        match self.previous {
            None => {
                self.first_due = sample.due;
                varint::put_signed(&mut self.latency, sample.latency.get());
            }
            Some(previous) => {
                varint::put_signed(
                    &mut self.latency,
                    sample.latency.get().wrapping_sub(previous.latency.get()),
                );
                let departure = sample.due.get().wrapping_sub(
                    predicted_due(&self.schedule, &previous, &self.pending_gap).get(),
                );
                if self.due_run.1 > 0 && self.due_run.0 != departure {
                    self.flush_due_run();
                }
                self.due_run = (departure, self.due_run.1 + 1);
            }
        }
        if sample.skipped > 0 {
            varint::put(&mut self.skipped, index - self.skipped_last);
            varint::put(&mut self.skipped, u64::from(sample.skipped));
            self.skipped_last = index;
        }
        if !self.pending_gap.is_empty() {
            varint::put(&mut self.gaps, index - self.gaps_last);
            varint::put(&mut self.gaps, self.pending_gap.lost);
            varint::put(&mut self.gaps, self.pending_gap.skipped);
            self.gaps_last = index;
            self.pending_gap = Gap::default();
        }
        self.previous = Some(sample);
        self.samples += 1;
    }

    fn flush_due_run(&mut self) {
        if self.due_run.1 > 0 {
            varint::put_signed(&mut self.due, self.due_run.0);
            varint::put(&mut self.due, self.due_run.1);
        }
        self.due_run = (0, 0);
    }

    /// Appends the current chunk to `out` and starts a new one. `last` marks the end of a properly
    /// closed file.
    pub fn finish(&mut self, counts: &Counts, last: bool, out: &mut Vec<u8>) {
        self.flush_due_run();
        self.body.clear();
        varint::put(&mut self.body, self.samples);
        varint::put_signed(&mut self.body, self.first_due.get());
        for count in [
            counts.expected,
            counts.recorded,
            counts.skipped,
            counts.lost,
            counts.unstored,
        ] {
            varint::put(&mut self.body, count);
        }
        let columns = [
            (COLUMN_LATENCY, &self.latency),
            (COLUMN_SKIPPED, &self.skipped),
            (COLUMN_DUE, &self.due),
            (COLUMN_GAPS, &self.gaps),
        ];
        varint::put(
            &mut self.body,
            columns
                .iter()
                .filter(|(_, bytes)| !bytes.is_empty())
                .count() as u64,
        );
        for (id, bytes) in columns.iter().filter(|(_, bytes)| !bytes.is_empty()) {
            varint::put(&mut self.body, *id);
            varint::put(&mut self.body, bytes.len() as u64);
            self.body.extend_from_slice(bytes);
        }
        out.extend_from_slice(if last { &END_MAGIC } else { &CHUNK_MAGIC });
        out.extend_from_slice(
            &u32::try_from(self.body.len())
                .expect("the recorder closes each chunk long before it reaches 4 GiB")
                .to_le_bytes(),
        );
        out.extend_from_slice(&crc32fast::hash(&self.body).to_le_bytes());
        out.extend_from_slice(&self.body);
        self.clear();
    }

    fn clear(&mut self) {
        (self.samples, self.skipped_last, self.gaps_last) = (0, 0, 0);
        self.previous = None;
        for column in [
            &mut self.latency,
            &mut self.skipped,
            &mut self.due,
            &mut self.gaps,
        ] {
            column.clear();
        }
    }
}

fn predicted_due(schedule: &Schedule, previous: &Sample, gap: &Gap) -> Nanos {
    match *schedule {
        Schedule::Grid { period, .. } => {
            let steps = 1_i64
                .wrapping_add(i64::from(previous.skipped))
                .wrapping_add((gap.lost as i64).wrapping_add(gap.skipped as i64));
            Nanos(
                previous
                    .due
                    .get()
                    .wrapping_add(period.get().wrapping_mul(steps)),
            )
        }
        Schedule::Event { request } => Nanos(
            previous
                .due
                .get()
                .wrapping_add(previous.latency.get())
                .wrapping_add(request.get()),
        ),
    }
}

/// The start of a chunk, which has a fixed size. A reader decodes it first, because it states the
/// length of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHead {
    /// Length in bytes of the body that follows.
    pub body_bytes: usize,
    /// CRC-32 of the body.
    pub crc: u32,
    /// Whether this is the last chunk of a properly closed file.
    pub last: bool,
}

impl ChunkHead {
    /// Decodes the head that precedes a body.
    ///
    /// # Errors
    /// Fails with [`FormatError::Truncated`] if there are fewer than [`CHUNK_HEAD_BYTES`] bytes, or
    /// with [`FormatError::Damaged`] if the bytes are not a head.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let head = bytes
            .first_chunk::<CHUNK_HEAD_BYTES>()
            .ok_or(FormatError::Truncated)?;
        let [m0, m1, m2, m3, l0, l1, l2, l3, c0, c1, c2, c3] = *head;
        let last = match [m0, m1, m2, m3] {
            CHUNK_MAGIC => false,
            END_MAGIC => true,
            _ => return Err(FormatError::Damaged),
        };
        let body_bytes = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if body_bytes > BODY_BYTES_MAX {
            return Err(FormatError::Damaged);
        }
        Ok(Self {
            body_bytes,
            crc: u32::from_le_bytes([c0, c1, c2, c3]),
            last,
        })
    }
}

/// A decoded chunk, in columns. The memory is reused when the next chunk is decoded.
#[derive(Debug, Default, Clone)]
pub struct Chunk {
    /// Cumulative counts at the chunk's end.
    pub counts: Counts,
    /// Due time of the first sample.
    pub first_due: Nanos,
    /// Latency of each sample in ns.
    pub latency: Vec<i64>,
    /// For each sample that skipped due times: its index and the number of these due times. The
    /// list is in ascending order of the indices.
    pub skipped: Vec<(usize, u32)>,
    /// Runs of successive samples whose due times deviate equally from the prediction, from the
    /// second sample on: (deviation in ns, number of samples).
    pub due: Vec<(i64, usize)>,
    /// The gaps in ascending order: (index of the sample after the gap, gap).
    pub gaps: Vec<(usize, Gap)>,
}

impl Chunk {
    /// Decodes `body` into `self`. The caller checks the CRC, with [`verify`].
    ///
    /// # Errors
    /// Fails with [`FormatError::Damaged`] if the structure is invalid. Allocates no more memory
    /// than the samples in a body of this length can need.
    pub fn decode(&mut self, body: &[u8]) -> Result<(), FormatError> {
        self.decode_body(body).ok_or(FormatError::Damaged)
    }

    fn decode_body(&mut self, body: &[u8]) -> Option<()> {
        self.latency.clear();
        self.skipped.clear();
        self.due.clear();
        self.gaps.clear();
        let mut reader = Reader::new(body);
        // A latency takes at least one byte, so the body's length limits the number of samples.
        let samples = usize::try_from(reader.take()?)
            .ok()
            .filter(|&samples| samples <= body.len())?;
        self.first_due = Nanos(reader.take_signed()?);
        let mut count = || reader.take().filter(|&count| count <= COUNT_MAX);
        self.counts = Counts {
            expected: count()?,
            recorded: count()?,
            skipped: count()?,
            lost: count()?,
            unstored: count()?,
        };
        let columns = reader.take()?;
        for _ in 0..columns {
            let id = reader.take()?;
            let length = usize::try_from(reader.take()?).ok()?;
            let column = Reader::new(reader.take_bytes(length)?);
            match id {
                COLUMN_LATENCY => self.decode_latency(column, samples)?,
                COLUMN_SKIPPED => self.decode_skipped(column, samples)?,
                COLUMN_DUE => self.decode_due(column, samples)?,
                COLUMN_GAPS => self.decode_gaps(column, samples)?,
                _ => {}
            }
        }
        (self.latency.len() == samples).then_some(())
    }

    fn decode_latency(&mut self, mut column: Reader<'_>, samples: usize) -> Option<()> {
        self.latency.reserve(samples);
        let mut latency = 0_i64;
        for _ in 0..samples {
            latency = latency.wrapping_add(column.take_signed()?);
            self.latency.push(latency);
        }
        Some(())
    }

    fn decode_skipped(&mut self, mut column: Reader<'_>, samples: usize) -> Option<()> {
        let mut index = 0_usize;
        while !column.is_empty() {
            index = index
                .checked_add(usize::try_from(column.take()?).ok()?)
                .filter(|&index| index < samples)?;
            self.skipped
                .push((index, u32::try_from(column.take()?).ok()?));
        }
        Some(())
    }

    fn decode_due(&mut self, mut column: Reader<'_>, samples: usize) -> Option<()> {
        let mut total = 0_usize;
        while !column.is_empty() {
            let departure = column.take_signed()?;
            // Writers never write an empty run, so a length of 0 means that the chunk is damaged.
            let run = usize::try_from(column.take()?)
                .ok()
                .filter(|&run| run > 0)?;
            total = total.checked_add(run).filter(|&total| total < samples)?;
            self.due.push((departure, run));
        }
        Some(())
    }

    fn decode_gaps(&mut self, mut column: Reader<'_>, samples: usize) -> Option<()> {
        let (mut index, mut left) = (0_usize, COUNT_MAX);
        while !column.is_empty() {
            index = index
                .checked_add(usize::try_from(column.take()?).ok()?)
                .filter(|&index| index < samples)?;
            let gap = Gap {
                lost: column.take()?,
                skipped: column.take()?,
            };
            left = left.checked_sub(gap.lost)?.checked_sub(gap.skipped)?;
            self.gaps.push((index, gap));
        }
        Some(())
    }

    /// Returns the chunk's samples, each with its due time and with the gap before it.
    pub fn samples<'a>(&'a self, schedule: &'a Schedule) -> Samples<'a> {
        Samples {
            chunk: self,
            schedule,
            index: 0,
            previous: Sample::default(),
            skipped: 0,
            due: 0,
            due_left: 0,
            gaps: 0,
        }
    }
}

/// Iterator over a chunk's samples.
#[derive(Debug)]
pub struct Samples<'a> {
    chunk: &'a Chunk,
    schedule: &'a Schedule,
    index: usize,
    previous: Sample,
    skipped: usize,
    due: usize,
    due_left: usize,
    gaps: usize,
}

impl Iterator for Samples<'_> {
    type Item = (Gap, Sample);

    fn next(&mut self) -> Option<(Gap, Sample)> {
        let latency = Nanos(*self.chunk.latency.get(self.index)?);
        let gap = match self.chunk.gaps.get(self.gaps) {
            Some(&(index, gap)) if index == self.index => {
                self.gaps += 1;
                gap
            }
            _ => Gap::default(),
        };
        let due = if self.index == 0 {
            self.chunk.first_due
        } else {
            if self.due_left == 0 {
                self.due_left = self
                    .chunk
                    .due
                    .get(self.due)
                    .map_or(usize::MAX, |&(_, run)| run);
                self.due += 1;
            }
            self.due_left -= 1;
            let departure = self
                .chunk
                .due
                .get(self.due - 1)
                .map_or(0, |&(departure, _)| departure);
            Nanos(
                predicted_due(self.schedule, &self.previous, &gap)
                    .get()
                    .wrapping_add(departure),
            )
        };
        let skipped = match self.chunk.skipped.get(self.skipped) {
            Some(&(index, skipped)) if index == self.index => {
                self.skipped += 1;
                skipped
            }
            _ => 0,
        };
        let sample = Sample {
            due,
            latency,
            skipped,
        };
        self.previous = sample;
        self.index += 1;
        Some((gap, sample))
    }
}

/// Returns whether the CRC and the length in `head` match `body`.
#[must_use]
pub fn verify(head: &ChunkHead, body: &[u8]) -> bool {
    head.body_bytes == body.len() && crc32fast::hash(body) == head.crc
}

#[cfg(test)]
mod tests;
