//! The files `trace/SERIES.delays`. They contain, for each explained sample of a series, the
//! holders of the CPU from the due time to the probe's clock read. The due time identifies a
//! sample.
//!
//! ```text
//! head    "TARDYDL1"
//! chunk   "DLYS"  u32 length of the body  u32 CRC-32 of the body  body
//! body    varints:
//!         texts, then for each: length in bytes, bytes
//!         holders, then for each: cause, certainty (0 seen, 1 inferred, 2 + the alternative cause), name, priority (0 none, else folded + 1),
//!           work (0 none, else the index of its text + 1)
//!         shapes, then for each: waker (0 none, 1 timer, 2 interrupt, 3 softirq, 4 thread), its name, 1 if the switch was seen,
//!           pieces, then for each: component, holder, CPU (0 the sample's, else the CPU number + 1)
//!         samples, then for each: change of the distance of due times (folded), CPU, shape, then for each piece its length in ns
//!         if stacks or senders are known: stacks, then for each: functions, then for each the index of its text; then for each holder: the stack that was
//!           interrupted, the stack that gave up the CPU, the sender's text (each 0 none, else its index + 1)
//! ```
//! Fixed-width integers are little-endian. Causes and components are indices in `Cause::ALL` and
//! `Component::ALL` of tardy-trace. Each chunk can be read on its own, so a damaged chunk does not
//! affect others. The latency of a sample is not stored, because the lengths of its pieces add up
//! to it.
//!
//! In a run with `--disk`, the size of the files is limited ([`DelayWriter::bounded`]).
//!
//! Version 1 dates from 2026-11. Stacks and senders were added later in 2026-11; older readers skip
//! them.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldhash::HashMap;
use tardy_core::units::Nanos;
use tardy_core::varint::{Reader, fold, put, put_signed, unfold};
use tardy_sys::regular_file;
use tardy_trace::explain::{Cause, Certainty, Component};

mod bounded;

use self::bounded::Bound;

/// First bytes of a file; the digit is the format's version.
pub const FILE_MAGIC: [u8; 8] = *b"TARDYDL1";
const CHUNK_MAGIC: [u8; 4] = *b"DLYS";
const CHUNK_HEAD_BYTES: usize = 12;
/// Maximum size of a body in bytes, for writers and readers.
const BODY_BYTES_MAX: usize = 16 << 20;
/// Maximum number of stack frames of all holders in a chunk; a chunk of 4,096 samples has far
/// fewer.
const FRAMES_MAX: usize = 1 << 20;
/// Maximum number of samples in a chunk.
const CHUNK_SAMPLES: usize = 4096;

/// The holder of the CPU, in a form that is also valid on other machines.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DelayHolder {
    /// Why the thread had to wait.
    pub cause: Cause,
    /// How certain the cause is.
    pub known: Certainty,
    /// Name of the interrupt, softirq or thread; empty if there is none.
    pub name: String,
    /// The thread's priority in the kernel's notation.
    pub priority: Option<i32>,
    /// The function that a kernel worker ran, or that an interrupt from another CPU ran on this
    /// CPU.
    pub work: Option<String>,
    /// The functions that were executing when the interrupt that woke the thread arrived, innermost
    /// first; empty if no stack was recorded.
    pub stack: Vec<Arc<str>>,
    /// The functions in which the holder finally gave up the CPU.
    pub ended: Vec<Arc<str>>,
    /// If the holder is an interrupt that another CPU sent, the thread that ran on the sending CPU.
    pub sender: Option<String>,
}

/// What woke the thread.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DelayWaker {
    /// Nothing woke the thread, because it was awake.
    Nobody,
    /// A timer, named by its function.
    Timer(Arc<str>),
    /// A hard interrupt, whose name is not stored.
    Interrupt,
    /// A softirq, whose name is not stored.
    Softirq,
    /// A thread, with its name.
    Thread(Arc<str>),
}

/// A part of a sample's delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayPiece {
    /// The component of the delay.
    pub component: Component,
    /// Index in the list of holders.
    pub holder: usize,
    /// The CPU that the holder occupied.
    pub cpu: u32,
    /// Length of the part in ns.
    pub length: u64,
}

/// The delay of a sample, from the due time to the clock read, divided into pieces without gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleDelay {
    /// Due time of the sample, which identifies it.
    pub due: Nanos,
    /// The CPU on which the sample was taken.
    pub cpu: u32,
    /// What woke the thread.
    pub waker: DelayWaker,
    /// Whether the trace contains the switch to the thread.
    pub is_switch_seen: bool,
    /// The pieces, in chronological order.
    pub pieces: Vec<DelayPiece>,
}

impl SampleDelay {
    /// Returns the sum of all pieces.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.pieces
            .iter()
            .map(|piece| piece.length)
            .fold(0, u64::saturating_add)
    }
}

/// The content of a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DelayChunk {
    /// The holders, to which the pieces refer by index.
    pub holders: Vec<DelayHolder>,
    /// The samples, in chronological order.
    pub samples: Vec<SampleDelay>,
}

/// Returns the path of the file of delays for a series file of the run in `folder`.
#[must_use]
pub fn path(folder: &Path, series_file: &str) -> PathBuf {
    folder
        .join("trace")
        .join(Path::new(series_file).with_extension("delays"))
}

/// The shape of a sample's pieces: all their properties except their lengths.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Shape {
    /// The kind of [`DelayWaker`], and the index of its name.
    waker: (u64, u64),
    is_switch_seen: bool,
    pieces: Vec<ShapePiece>,
}

/// Component, index of the holder, and CPU. The CPU is 0 if it is the sample's CPU; for any other
/// CPU, it is the CPU's number plus 1.
type ShapePiece = (Component, usize, u32);

/// A holder in a chunk. Texts are stored as their indices; stacks and the sender are stored as
/// their indices plus 1, or as 0 if there is none.
type ChunkHolder = (
    Cause,
    Certainty,
    usize,
    Option<i32>,
    Option<usize>,
    [usize; 3],
);
/// Functions of a stack, as indices of their texts.
type ChunkStack = Vec<usize>;

/// Builds chunks.
#[derive(Debug, Default)]
struct Encoder {
    texts: Table<Arc<str>>,
    holders: Table<ChunkHolder>,
    stacks: Table<ChunkStack>,
    shapes: Table<Shape>,
    /// The shape of the current sample. Its memory is reused, so a sample needs no allocation.
    shape: Shape,
    /// Index of the previous sample's shape. It is compared first, because most samples have the
    /// same shape as the sample before.
    last_shape: usize,
    /// Name and index of the previous waker.
    last_name: Option<(Arc<str>, usize)>,
    /// For each of the caller's holders, its index in this chunk.
    known: Vec<Option<usize>>,
    samples: usize,
    entries: Vec<u8>,
    due: i64,
    step: i64,
}

/// Distinct values, each with an index.
#[derive(Debug)]
struct Table<T> {
    places: HashMap<T, usize>,
    values: Vec<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            places: HashMap::default(),
            values: Vec::new(),
        }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Table<T> {
    /// Returns the index of a value. If the value is new, `owned` makes the stored copy of it.
    fn place<Q: Eq + std::hash::Hash + ?Sized>(
        &mut self,
        value: &Q,
        owned: impl FnOnce(&Q) -> T,
    ) -> usize
    where
        T: std::borrow::Borrow<Q>,
    {
        if let Some(&place) = self.places.get(value) {
            return place;
        }
        let value = owned(value);
        self.places.insert(value.clone(), self.values.len());
        self.values.push(value);
        self.values.len() - 1
    }
}

impl Encoder {
    fn push(&mut self, sample: &SampleDelay, holders: &[DelayHolder]) {
        let mut shape = std::mem::take(&mut self.shape);
        shape.pieces.clear();
        for piece in &sample.pieces {
            let holder = self.holder(piece.holder, holders);
            let cpu = if piece.cpu == sample.cpu {
                0
            } else {
                piece.cpu.saturating_add(1)
            };
            shape.pieces.push((piece.component, holder, cpu));
        }
        let mut named = |kind, name: &Arc<str>| {
            let place = match &self.last_name {
                Some((last, place)) if Arc::ptr_eq(last, name) => *place,
                _ => self.texts.place(&**name, |_| Arc::clone(name)),
            };
            self.last_name = Some((Arc::clone(name), place));
            (kind, place as u64)
        };
        shape.waker = match &sample.waker {
            DelayWaker::Nobody => (0, 0),
            DelayWaker::Timer(name) => named(1, name),
            DelayWaker::Interrupt => (2, 0),
            DelayWaker::Softirq => (3, 0),
            DelayWaker::Thread(name) => named(4, name),
        };
        shape.is_switch_seen = sample.is_switch_seen;
        let is_last = self
            .shapes
            .values
            .get(self.last_shape)
            .is_some_and(|last| *last == shape);
        let place = if is_last {
            self.last_shape
        } else {
            self.shapes.place(&shape, Shape::clone)
        };
        self.last_shape = place;
        self.shape = shape;
        let step = sample.due.get().wrapping_sub(self.due);
        put_signed(&mut self.entries, step.wrapping_sub(self.step));
        (self.due, self.step) = (sample.due.get(), step);
        put(&mut self.entries, sample.cpu.into());
        put(&mut self.entries, place as u64);
        sample
            .pieces
            .iter()
            .for_each(|piece| put(&mut self.entries, piece.length));
        self.samples += 1;
    }

    fn holder(&mut self, place: usize, holders: &[DelayHolder]) -> usize {
        if let Some(&Some(known)) = self.known.get(place) {
            return known;
        }
        let holder = &holders[place];
        let name = self.texts.place(&*holder.name, |name| name.into());
        let work = holder
            .work
            .as_ref()
            .map(|work| self.texts.place(&**work, |work| work.into()));
        let sender = holder.sender.as_ref().map_or(0, |sender| {
            self.texts.place(&**sender, |sender| sender.into()) + 1
        });
        let more = [self.stack(&holder.stack), self.stack(&holder.ended), sender];
        let found = self.holders.place(
            &(
                holder.cause,
                holder.known,
                name,
                holder.priority,
                work,
                more,
            ),
            |holder| *holder,
        );
        self.known.resize(self.known.len().max(place + 1), None);
        self.known[place] = Some(found);
        found
    }

    /// Returns the index of a stack plus 1, or 0 for no stack.
    fn stack(&mut self, frames: &[Arc<str>]) -> usize {
        let texts: ChunkStack = frames
            .iter()
            .map(|frame| self.texts.place(&**frame, |_| Arc::clone(frame)))
            .collect();
        if texts.is_empty() {
            0
        } else {
            self.stacks.place(&texts, ChunkStack::clone) + 1
        }
    }

    /// Returns the chunk's bytes, and empties the encoder.
    fn finish(&mut self) -> Vec<u8> {
        let Self {
            texts,
            holders,
            stacks,
            shapes,
            samples,
            entries,
            ..
        } = std::mem::take(self);
        let mut body = Vec::with_capacity(entries.len() + 1024);
        put(&mut body, texts.values.len() as u64);
        for text in &texts.values {
            put(&mut body, text.len() as u64);
            body.extend_from_slice(text.as_bytes());
        }
        put(&mut body, holders.values.len() as u64);
        for &(cause, known, name, priority, work, _) in &holders.values {
            put(&mut body, code(&Cause::ALL, cause));
            put(
                &mut body,
                match known {
                    Certainty::Seen => 0,
                    Certainty::Inferred => 1,
                    Certainty::CannotTell(other) => 2 + code(&Cause::ALL, other),
                },
            );
            put(&mut body, name as u64);
            put(
                &mut body,
                priority.map_or(0, |priority| fold(priority.into()) + 1),
            );
            put(&mut body, work.map_or(0, |work| work as u64 + 1));
        }
        put(&mut body, shapes.values.len() as u64);
        for Shape {
            waker: (kind, name),
            is_switch_seen,
            pieces,
        } in &shapes.values
        {
            put(&mut body, *kind);
            put(&mut body, *name);
            put(&mut body, u64::from(*is_switch_seen));
            put(&mut body, pieces.len() as u64);
            for &(component, holder, cpu) in pieces {
                put(&mut body, code(&Component::ALL, component));
                put(&mut body, holder as u64);
                put(&mut body, cpu.into());
            }
        }
        put(&mut body, samples as u64);
        body.extend_from_slice(&entries);
        if holders.values.iter().any(|holder| holder.5 != [0; 3]) {
            put(&mut body, stacks.values.len() as u64);
            for stack in &stacks.values {
                put(&mut body, stack.len() as u64);
                stack.iter().for_each(|&text| put(&mut body, text as u64));
            }
            holders
                .values
                .iter()
                .flat_map(|holder| holder.5)
                .for_each(|place| put(&mut body, place as u64));
        }
        let mut out = CHUNK_MAGIC.to_vec();
        out.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
        out.extend_from_slice(&body);
        out
    }
}

fn code<T: PartialEq>(all: &[T], value: T) -> u64 {
    all.iter()
        .position(|known| *known == value)
        .expect("the list contains every possible value") as u64
}

/// Appends delays to a file.
#[derive(Debug)]
pub struct DelayWriter {
    file: File,
    encoder: Encoder,
    bytes: u64,
    samples: u64,
    /// The limits on the files, and the size of the newest file in bytes; absent if the files have
    /// no limit.
    bound: Option<(Bound, u64)>,
}

impl DelayWriter {
    /// Creates the file.
    ///
    /// # Errors
    /// Fails if writing fails, or with `AlreadyExists` if the file exists.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: new_file(path)?,
            encoder: Encoder::default(),
            bytes: FILE_MAGIC.len() as u64,
            samples: 0,
            bound: None,
        })
    }

    /// Creates files that together take at most `bytes`. When they reach this size, the oldest
    /// explanations are dropped, except the worst ones.
    ///
    /// # Errors
    /// Fails as [`Self::create`] does.
    pub fn bounded(path: &Path, bytes: u64) -> io::Result<Self> {
        let bound = Some((Bound::new(path, bytes), FILE_MAGIC.len() as u64));
        Ok(Self {
            bound,
            ..Self::create(path)?
        })
    }

    /// Adds a sample, and writes a chunk when it is full. The sample's pieces refer to `holders` by
    /// index. Between two calls, entries may be appended to this list, but not changed or removed.
    ///
    /// # Errors
    /// Fails if writing fails.
    pub fn push(&mut self, sample: &SampleDelay, holders: &[DelayHolder]) -> io::Result<()> {
        self.encoder.push(sample, holders);
        self.samples += 1;
        let bytes_max = match &self.bound {
            Some((bound, _)) => bound.file_bytes() / 2,
            None => BODY_BYTES_MAX as u64 / 4,
        };
        if self.encoder.samples >= CHUNK_SAMPLES || self.encoder.entries.len() as u64 > bytes_max {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Writes the samples that were added but not yet written.
    ///
    /// # Errors
    /// Fails if writing fails.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.encoder.samples > 0 {
            let chunk = self.encoder.finish();
            if let Some((bound, newest)) = &mut self.bound {
                if *newest + chunk.len() as u64 > bound.file_bytes() {
                    bound.turn()?;
                    self.file = new_file(bound.path())?;
                    *newest = FILE_MAGIC.len() as u64;
                }
                *newest += chunk.len() as u64;
            }
            self.file.write_all(&chunk)?;
            self.bytes += chunk.len() as u64;
        }
        Ok(())
    }

    /// Returns the number of old explanations that were dropped to make space.
    #[must_use]
    pub fn given_way(&self) -> u64 {
        self.bound.as_ref().map_or(0, |(bound, _)| bound.given_way)
    }

    /// Returns the number of added samples, and the number of written bytes.
    #[must_use]
    pub fn written(&self) -> (u64, u64) {
        (self.samples, self.bytes)
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)?;
    file.write_all(&FILE_MAGIC)?;
    Ok(file)
}

fn open_file(path: &Path) -> io::Result<io::BufReader<File>> {
    let mut file = io::BufReader::with_capacity(1 << 18, regular_file::open(path)?);
    let mut magic = [0; 8];
    file.read_exact(&mut magic)?;
    if magic != FILE_MAGIC {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "not a file of delays (unknown header)",
        ));
    }
    Ok(file)
}

/// Reads the files of a series, chunk by chunk.
#[derive(Debug)]
pub struct DelayReader {
    file: io::BufReader<File>,
    /// The files that are not yet read, in reverse order.
    later: Vec<PathBuf>,
    /// The due time of the latest sample read so far. Samples of later files that are due at or
    /// before this time are skipped. This is necessary because after the tool was killed, a sample
    /// may be in two files: in the file of the worst samples, and in the older file.
    last: Nanos,
    floor: Nanos,
    damaged: u64,
}

impl DelayReader {
    /// Opens the file at `path`, and the additional files of a bounded series.
    ///
    /// # Errors
    /// Fails if the files cannot be read, or with `InvalidData` if a file is of another kind.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut files: Vec<PathBuf> = bounded::files(path).into();
        files.reverse();
        files.retain(|file| file == path || file.exists());
        Self::of(files)
    }

    /// Opens the files in `later`. The last file in the list is read first.
    fn of(mut later: Vec<PathBuf>) -> io::Result<Self> {
        let first = later.pop().ok_or(io::ErrorKind::NotFound)?;
        Ok(Self {
            file: open_file(&first)?,
            later,
            last: Nanos(i64::MIN),
            floor: Nanos(i64::MIN),
            damaged: 0,
        })
    }

    /// Returns the next chunk, or `None` at the end. A truncated end, such as that of a killed run,
    /// is not an error, because the counts in run.json show how much is missing.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn next_chunk(&mut self) -> io::Result<Option<DelayChunk>> {
        loop {
            if let Some(mut chunk) = self.chunk_of_file()? {
                chunk.samples.retain(|sample| sample.due > self.floor);
                let dues = chunk.samples.iter().map(|sample| sample.due);
                self.last = dues.max().unwrap_or(self.last).max(self.last);
                return Ok(Some(chunk));
            }
            let Some(next) = self.later.pop() else {
                return Ok(None);
            };
            self.file = open_file(&next)?;
            self.floor = self.last;
        }
    }

    fn chunk_of_file(&mut self) -> io::Result<Option<DelayChunk>> {
        loop {
            let mut head = [0; CHUNK_HEAD_BYTES];
            match self.file.read_exact(&mut head) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                result => result?,
            }
            let word = |at: usize| {
                u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
            };
            let length = word(4) as usize;
            if head[..4] != CHUNK_MAGIC || length > BODY_BYTES_MAX {
                // It is unknown where the next chunk starts, so the rest of the file counts as
                // damaged.
                let rest = io::copy(&mut self.file, &mut io::sink())?;
                self.damaged += head.len() as u64 + rest;
                return Ok(None);
            }
            let mut body = Vec::new();
            if self
                .file
                .by_ref()
                .take(length as u64)
                .read_to_end(&mut body)?
                < length
            {
                return Ok(None);
            }
            match (crc32fast::hash(&body) == word(8))
                .then(|| decode(&body))
                .flatten()
            {
                Some(chunk) => return Ok(Some(chunk)),
                None => self.damaged += (head.len() + length) as u64,
            }
        }
    }

    /// Returns the number of damaged bytes that have been read so far.
    #[must_use]
    pub fn damaged_bytes(&self) -> u64 {
        self.damaged
    }
}

/// Decodes the body of a chunk; `None` if it is damaged. Every count in it is limited by the length
/// of the body, because each counted item takes at least one byte.
#[must_use]
pub fn decode(body: &[u8]) -> Option<DelayChunk> {
    let mut reader = Reader::new(body);
    let count = |reader: &mut Reader<'_>| {
        usize::try_from(reader.take()?)
            .ok()
            .filter(|&count| count <= body.len())
    };
    let mut texts: Vec<Arc<str>> = Vec::new();
    for _ in 0..count(&mut reader)? {
        let length = count(&mut reader)?;
        let text = std::str::from_utf8(reader.take_bytes(length)?).ok()?;
        texts.push(Arc::from(
            text.chars()
                .filter(|character| !character.is_control())
                .collect::<String>(),
        ));
    }
    let mut holders = Vec::new();
    for _ in 0..count(&mut reader)? {
        let cause = *Cause::ALL.get(count(&mut reader)?)?;
        let known = match reader.take()? {
            0 => Certainty::Seen,
            1 => Certainty::Inferred,
            other => Certainty::CannotTell(*Cause::ALL.get(usize::try_from(other - 2).ok()?)?),
        };
        let name = texts.get(count(&mut reader)?)?.to_string();
        let priority = match reader.take()? {
            0 => None,
            folded => Some(i32::try_from(unfold(folded - 1)).ok()?),
        };
        let work = match count(&mut reader)? {
            0 => None,
            place => Some(texts.get(place - 1)?.to_string()),
        };
        holders.push(DelayHolder {
            cause,
            known,
            name,
            priority,
            work,
            stack: Vec::new(),
            ended: Vec::new(),
            sender: None,
        });
    }
    let mut shapes: Vec<(DelayWaker, bool, Vec<ShapePiece>)> = Vec::new();
    let mut pieces_left = body.len();
    for _ in 0..count(&mut reader)? {
        let (kind, name) = (reader.take()?, count(&mut reader)?);
        let name = || texts.get(name).cloned();
        let waker = match kind {
            0 => DelayWaker::Nobody,
            1 => DelayWaker::Timer(name()?),
            2 => DelayWaker::Interrupt,
            3 => DelayWaker::Softirq,
            4 => DelayWaker::Thread(name()?),
            _ => return None,
        };
        let is_switch_seen = reader.take()? != 0;
        let length = count(&mut reader)?;
        pieces_left = pieces_left.checked_sub(length)?;
        let mut pieces = Vec::with_capacity(length);
        for _ in 0..length {
            let component = *Component::ALL.get(count(&mut reader)?)?;
            let holder = count(&mut reader)?;
            holders.get(holder)?;
            pieces.push((component, holder, u32::try_from(reader.take()?).ok()?));
        }
        shapes.push((waker, is_switch_seen, pieces));
    }
    let (mut due, mut step) = (0_i64, 0_i64);
    let mut samples = Vec::new();
    for _ in 0..count(&mut reader)? {
        step = step.wrapping_add(unfold(reader.take()?));
        due = due.wrapping_add(step);
        let cpu = u32::try_from(reader.take()?).ok()?;
        let (waker, is_switch_seen, shape) = shapes.get(count(&mut reader)?)?;
        let mut pieces = Vec::with_capacity(shape.len());
        for &(component, holder, other) in shape {
            pieces.push(DelayPiece {
                component,
                holder,
                cpu: other.checked_sub(1).unwrap_or(cpu),
                length: reader.take()?,
            });
        }
        samples.push(SampleDelay {
            due: Nanos(due),
            cpu,
            waker: waker.clone(),
            is_switch_seen: *is_switch_seen,
            pieces,
        });
    }
    if reader.is_empty() {
        return Some(DelayChunk { holders, samples });
    }
    let mut stacks: Vec<Vec<Arc<str>>> = Vec::new();
    let mut frames_left = body.len();
    for _ in 0..count(&mut reader)? {
        let length = count(&mut reader)?;
        frames_left = frames_left.checked_sub(length)?;
        stacks.push(
            (0..length)
                .map(|_| texts.get(count(&mut reader)?).cloned())
                .collect::<Option<_>>()?,
        );
    }
    // Without this limit, a large stack that many holders share could need memory that is quadratic
    // in the body's length.
    let mut frames_left = FRAMES_MAX;
    for holder in &mut holders {
        for frames in [&mut holder.stack, &mut holder.ended] {
            if let Some(place) = count(&mut reader)?.checked_sub(1) {
                *frames = stacks.get(place)?.clone();
                frames_left = frames_left.checked_sub(frames.len())?;
            }
        }
        if let Some(place) = count(&mut reader)?.checked_sub(1) {
            holder.sender = Some(texts.get(place)?.to_string());
        }
    }
    Some(DelayChunk { holders, samples })
}

#[cfg(test)]
mod tests;
