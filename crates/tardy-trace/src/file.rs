//! Reads files `trace.dat` of trace-cmd, versions 6 and 7, from memory (trace-cmd.dat.v6(5),
//! trace-cmd.dat.v7(5)).
//!
//! Stores the event formats, the names of functions and threads, the clock, and where each CPU's
//! pages are. Pages are decompressed only when they are needed, one chunk at a time. Refuses
//! big-endian files.

mod compression;
mod flat;
mod head;
mod sections;

use std::borrow::Cow;
use std::collections::HashMap;

pub use self::compression::{CHUNK_BYTES_MAX, Compression, CompressionError, SECTION_BYTES_MAX};
pub use self::head::{TraceHead, page_bytes, with_lengths};
use crate::bytes::{Cursor, EndOfData};
use crate::format::{EventFormat, FormatError};
use crate::layout::{LayoutError, PAGE_BYTES_MAX, PageLayout};
use crate::symbols::Symbols;
use crate::text::Text;

const MAGIC: &[u8] = b"\x17\x08\x44tracing";
/// Maximum number of CPUs in a file.
const CPUS_MAX: u32 = 1 << 16;
/// Maximum number of instances in a file.
const BUFFERS_MAX: usize = 1000;

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file does not start with the magic bytes of trace.dat.
    #[error("this is not a trace.dat of trace-cmd")]
    Magic,
    /// The version is not supported.
    #[error(
        "trace.dat has version {0}, but only versions 6 and 7 can be read; `trace-cmd convert \
         --file-version 7` may help"
    )]
    Version(String),
    /// The machine is big-endian.
    #[error("trace.dat is from a big-endian machine: only little-endian traces can be read")]
    BigEndian,
    /// The file contains the text of a latency tracer instead of events.
    #[error(
        "trace.dat holds the text of a latency tracer, not events: record with `trace-cmd record`"
    )]
    Latency,
    /// A number in the file has an impossible value.
    #[error("trace.dat claims {what} {value}, which is impossible")]
    Unreasonable {
        /// What the number stands for.
        what: &'static str,
        /// The value that was found.
        value: u64,
    },
    /// Two CPUs have the same pages in the file. Without this check, a small file could claim any
    /// number of events.
    #[error("trace.dat gives the same pages to CPU {0} and CPU {1}: it is damaged")]
    Shared(u32, u32),
    /// A mark that should be here is missing.
    #[error("trace.dat has no {0} where one is expected")]
    Mark(&'static str),
    /// The file is truncated.
    #[error("trace.dat is truncated: {0}")]
    End(#[from] EndOfData),
    /// A part of the file cannot be decompressed.
    #[error(transparent)]
    Compression(#[from] CompressionError),
    /// The layout of pages in the file is unknown.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The format of an event in the file cannot be read.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// A parsed trace.dat.
#[derive(Debug)]
pub struct TraceFile<'a> {
    /// Version of the file's format: 6 or 7.
    pub version: u32,
    /// Page layout of the main buffer.
    pub layout: PageLayout,
    /// Formats of all events that may be in the trace.
    pub formats: Vec<EventFormat>,
    /// Names of functions.
    pub symbols: Symbols,
    /// Names of threads, by thread ID.
    pub commands: HashMap<i32, Text>,
    /// The output of `uname` on the traced machine.
    pub kernel: Option<String>,
    /// How times are converted to ns, if they are values of a CPU counter.
    pub counter: Option<CounterRate>,
    /// The main buffer, if the file has it, and the buffers of instances.
    pub buffers: Vec<Buffer<'a>>,
}

/// ns = (counter * multiplier) >> shift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterRate {
    /// The multiplier.
    pub multiplier: u32,
    /// Number of bits of the shift.
    pub shift: u32,
}

/// A ring buffer: either the main buffer, or the buffer of an instance.
#[derive(Debug)]
pub struct Buffer<'a> {
    /// Name of the instance; empty for the main buffer.
    pub name: String,
    /// Name of the clock on which the buffer's times are, such as `mono`; empty if the file does
    /// not name it.
    pub clock: String,
    /// Layout of the buffer's pages.
    pub layout: PageLayout,
    /// The pages of each CPU, in the order in which the file contains them.
    pub cpus: Vec<CpuPages<'a>>,
}

/// The pages of one CPU.
#[derive(Debug, Clone, Copy)]
pub struct CpuPages<'a> {
    /// Number of the CPU.
    pub cpu: u32,
    bytes: &'a [u8],
    compression: Compression,
}

impl<'a> CpuPages<'a> {
    /// Returns how many bytes the pages take in the file.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whole consecutive pages, chunk by chunk as the file stores them.
    pub fn chunks(
        &self,
    ) -> impl Iterator<Item = Result<Cow<'a, [u8]>, CompressionError>> + use<'a> {
        self.compression.chunks(self.bytes)
    }
}

impl<'a> TraceFile<'a> {
    /// Parses everything in the file except the pages.
    ///
    /// # Errors
    /// Returns an error if `bytes` are not a trace.dat, are damaged, or are of a kind that is not
    /// supported.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FileError> {
        let mut cursor = Cursor::at(bytes, 0);
        if cursor.take(MAGIC.len()) != Ok(MAGIC) {
            return Err(FileError::Magic);
        }
        let version = cursor.terminated()?;
        let is_sectioned = match version {
            b"6" => false,
            b"7" => true,
            other => return Err(FileError::Version(Text::new(other).to_string())),
        };
        if cursor.u8()? != 0 {
            return Err(FileError::BigEndian);
        }
        let _user_long = cursor.u8()?;
        let page_bytes = cursor.u32()?;
        if page_bytes < 64 || page_bytes as usize > PAGE_BYTES_MAX {
            return Err(FileError::Unreasonable {
                what: "a page size of",
                value: page_bytes.into(),
            });
        }
        if is_sectioned {
            sections::read(bytes, cursor)
        } else {
            flat::read(bytes, cursor)
        }
    }

    /// Returns the buffer with this name. Without a name, returns the main buffer if it has pages,
    /// otherwise the first buffer that has pages, otherwise the first buffer.
    #[must_use]
    pub fn buffer(&self, name: Option<&str>) -> Option<&Buffer<'a>> {
        let filled = || {
            self.buffers
                .iter()
                .filter(|buffer| buffer.cpus.iter().any(|cpu| !cpu.bytes.is_empty()))
        };
        match name {
            Some(name) => self.buffers.iter().find(|buffer| buffer.name == name),
            None => filled()
                .find(|buffer| buffer.name.is_empty())
                .or_else(|| filled().next())
                .or(self.buffers.first()),
        }
    }
}

/// The parts that files of both versions contain, wherever they are in the file.
#[derive(Debug, Default)]
struct Parts {
    layout: Option<PageLayout>,
    formats: Vec<EventFormat>,
    symbols: Symbols,
    commands: HashMap<i32, Text>,
    options: Options,
}

/// The numbers and contents of options in a file. Versions 6 and 7 use the same numbers.
#[derive(Debug, Default)]
struct Options {
    kernel: Option<String>,
    clock: Option<String>,
    counter: Option<CounterRate>,
    buffers: Vec<Vec<u8>>,
}

impl Options {
    const BUFFER: u16 = 3;
    const TRACE_CLOCK: u16 = 4;
    const UNAME: u16 = 5;
    const COUNTER: u16 = 14;

    /// Reads an option if its content is used.
    fn take(&mut self, id: u16, data: &[u8]) -> Result<(), FileError> {
        match id {
            Self::BUFFER if self.buffers.len() == BUFFERS_MAX => {
                return Err(FileError::Unreasonable {
                    what: "more buffers than",
                    value: BUFFERS_MAX as u64,
                });
            }
            Self::BUFFER => self.buffers.push(data.to_vec()),
            Self::TRACE_CLOCK => self.clock = Some(chosen_clock(data)),
            Self::UNAME => self.kernel = Some(printable(data)),
            Self::COUNTER => {
                let mut cursor = Cursor::at(data, 0);
                self.counter = Some(CounterRate {
                    multiplier: cursor.u32()?,
                    shift: cursor.u32()?,
                });
            }
            _ => {}
        }
        Ok(())
    }
}

impl Parts {
    /// Reads `header_page` and `header_event`, which are at the start of a file of either version.
    fn headers(&mut self, cursor: &mut Cursor<'_>) -> Result<(), FileError> {
        if cursor.take(12)? != b"header_page\0" {
            return Err(FileError::Mark("header_page"));
        }
        let page = long_text(cursor)?;
        if cursor.take(13)? != b"header_event\0" {
            return Err(FileError::Mark("header_event"));
        }
        long_text(cursor)?;
        self.layout = Some(PageLayout::parse(&page)?);
        Ok(())
    }

    /// Reads the formats of the events that tracers write, including `print`.
    fn tracer_formats(&mut self, cursor: &mut Cursor<'_>) -> Result<(), FileError> {
        self.some_formats("ftrace", cursor)
    }

    fn event_formats(&mut self, cursor: &mut Cursor<'_>) -> Result<(), FileError> {
        for _ in 0..cursor.u32()? {
            let system = printable(cursor.terminated()?);
            self.some_formats(&system, cursor)?;
        }
        Ok(())
    }

    /// Reads the formats of events. The loop ends whatever count the file states, because every
    /// round consumes bytes of the file.
    fn some_formats(&mut self, system: &str, cursor: &mut Cursor<'_>) -> Result<(), FileError> {
        for _ in 0..cursor.u32()? {
            self.formats
                .push(EventFormat::parse(system, &long_text(cursor)?)?);
        }
        Ok(())
    }

    fn symbols(&mut self, cursor: &mut Cursor<'_>) -> Result<(), FileError> {
        let length = cursor.u32()? as usize;
        self.symbols = Symbols::parse(&String::from_utf8_lossy(cursor.take(length)?));
        Ok(())
    }

    fn commands(&mut self, cursor: &mut Cursor<'_>) -> Result<(), FileError> {
        let line = |line: &str| {
            let (pid, name) = line.trim_start().split_once(' ')?;
            Some((pid.parse().ok()?, Text::from(name)))
        };
        self.commands = long_text(cursor)?.lines().filter_map(line).collect();
        Ok(())
    }

    fn into_file<'a>(
        self,
        version: u32,
        buffers: Vec<Buffer<'a>>,
    ) -> Result<TraceFile<'a>, FileError> {
        no_shared_pages(&buffers)?;
        Ok(TraceFile {
            version,
            layout: self.layout.ok_or(FileError::Mark("header_page"))?,
            formats: self.formats,
            symbols: self.symbols,
            commands: self.commands,
            kernel: self.options.kernel,
            counter: self.options.counter,
            buffers,
        })
    }
}

/// Refuses a file in which two CPUs have the same pages.
fn no_shared_pages(buffers: &[Buffer<'_>]) -> Result<(), FileError> {
    /// Size of the word that counts a CPU's chunks. Some versions of trace-cmd count this word as
    /// part of a CPU's data, so the data of two CPUs may seem to overlap by this size.
    const COUNT_BYTES: usize = 4;
    let cpus = buffers.iter().flat_map(|buffer| &buffer.cpus);
    let mut filled: Vec<_> = cpus.filter(|cpu| !cpu.bytes.is_empty()).collect();
    filled.sort_by_key(|cpu| cpu.bytes.as_ptr());
    for pair in filled.windows(2) {
        let (first, second) = (pair[0].bytes.as_ptr_range(), pair[1].bytes.as_ptr());
        if second.addr() + COUNT_BYTES < first.end.addr() {
            return Err(FileError::Shared(pair[0].cpu, pair[1].cpu));
        }
    }
    Ok(())
}

/// Reads a text that is preceded by its length, a number of eight bytes.
fn long_text<'a>(cursor: &mut Cursor<'a>) -> Result<Cow<'a, str>, FileError> {
    let length = cursor.u64()?;
    let length = usize::try_from(length).map_err(|_| FileError::Unreasonable {
        what: "a text of",
        value: length,
    })?;
    Ok(String::from_utf8_lossy(cursor.take(length)?))
}

/// Returns at most 300 characters of a text, up to its zero and without characters that could act
/// on a terminal.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or_default());
    text.chars()
        .filter(|character| !character.is_control())
        .take(300)
        .collect()
}

/// Returns the clock in brackets, as in `local [mono] boot`; without brackets, the whole text.
fn chosen_clock(bytes: &[u8]) -> String {
    let text = printable(bytes);
    text.split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or_else(|| text.clone(), |(clock, _)| clock.to_owned())
}
