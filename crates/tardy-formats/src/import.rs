//! Imports runs from other tools' output; each format is one file and one line in [`FORMATS`].
//!
//! If a file lacks information, the reader adds a warning to the run. The reader requires a flag if
//! a guess could make numbers wrong, as for the unit of a .hgrm file, or the interval of
//! `cyclictest -v`.
//!
//! An import stores the most detailed data of its file: samples, otherwise a histogram, otherwise
//! the totals that the tool stated (`imported` in `run.json`). Samples that are in no bucket are
//! counted at the maximum, so no percentile looks better than it was. Samples without any value
//! count as lost. Skipped periods are unknown if the tool does not count them
//! (`StatedTotals::skipped` is absent); reports then leave them out instead of printing 0.
//!
//! Unreadable input causes an error that states the file, the line and the expected content. The
//! folder is written under another name and then renamed, so an error leaves nothing behind.
//! Readers never panic on any input (`tests/integration/import_damage.rs`, and the fuzz target
//! `import`: `fuzz/README.md`). The crate `hdrhistogram` is not used, because it allocates as many
//! bytes as a file claims to contain.

mod cyclicdeadline;
mod cyclictest_histogram;
mod cyclictest_json;
mod cyclictest_summary;
mod cyclictest_verbose;
pub mod folder_sink;
mod hdr_log;
mod hdr_percentiles;
mod hdr_v2;
mod hwlatdetect;
mod in_order;
mod jitterdebugger_json;
mod jitterdebugger_samples;
mod jitterdebugger_text;
mod latency_columns;
mod linuxcnc_latency;
mod npy;
mod osadl_dataset;
mod oslat;
mod parts;
mod pasted;
mod refused;
mod rt_tests_pairs;
mod rteval;
mod rteval_text;
mod rtla_end;
mod rtla_hist;
mod rtla_top;
mod signaltest;
pub mod sink;
mod text;
mod tool_json;
mod unit_told;
mod values;
mod xenomai_latency;
mod xenomai_plot;
mod zyclictest;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tardy_core::units::Nanos;
use tardy_run::folder::FolderError;
use tardy_sys::regular_file;

use self::parts::{Cut, Parts};
use self::sink::{ImportedRun, Sink};
use self::text::{NEAR_TIME, is_near};

/// How many of a file's first bytes are used to recognise its format.
const HEAD_BYTES: u64 = 64 << 10;

/// All import formats, in the order in which detection tries them.
pub const FORMATS: &[Format] = &[
    osadl_dataset::FORMAT,
    signaltest::JSON,
    rt_tests_pairs::JSON,
    cyclicdeadline::JSON,
    cyclictest_json::FORMAT,
    oslat::JSON,
    jitterdebugger_json::FORMAT,
    rteval::FORMAT,
    rteval_text::FORMAT,
    rtla_hist::TIMERLAT,
    rtla_hist::OSNOISE,
    rtla_top::FORMAT,
    hwlatdetect::FORMAT,
    xenomai_plot::FORMAT,
    xenomai_latency::FORMAT,
    xenomai_latency::RTAI,
    linuxcnc_latency::FORMAT,
    zyclictest::FORMAT,
    rt_tests_pairs::TEXT,
    jitterdebugger_text::FORMAT,
    cyclicdeadline::TEXT,
    signaltest::TEXT,
    cyclictest_verbose::FORMAT,
    cyclictest_histogram::FORMAT,
    cyclictest_summary::FORMAT,
    oslat::TEXT,
    hdr_log::FORMAT,
    hdr_percentiles::FORMAT,
    jitterdebugger_samples::CSV,
    npy::FORMAT,
    values::FORMAT,
    jitterdebugger_samples::RAW,
];

#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// Name of the format on the command line.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// Whether a file that starts with these bytes has this format. The bytes of a text are first
    /// cleaned of paste artefacts ([`pasted`]).
    detect: fn(&[u8]) -> bool,
    /// Reads a non-empty file.
    reader: fn(&mut Source, &Settings, &mut dyn Sink) -> Result<ImportedRun, ImportError>,
    /// Finds the starts of measurements in a text that holds several.
    parts: Parts,
    /// Whether files of the format are binary.
    is_binary: bool,
}

impl Format {
    /// Returns the tool that wrote the text. `None` if other tools write similar text.
    fn family(&self) -> Option<&'static str> {
        let name = self.name;
        [
            "cyclictest",
            "rtla",
            "xenomai",
            "rtai",
            "linuxcnc",
            "oslat",
            "hwlatdetect",
            "zyclictest",
        ]
        .into_iter()
        .find(|tool| name.starts_with(tool) && !name.ends_with("json"))
    }

    /// Reads the file.
    ///
    /// # Errors
    /// Returns an [`ImportError`] if the file cannot be imported; the sink's content is then
    /// invalid.
    pub fn read(
        &self,
        source: &mut Source,
        settings: &Settings,
        sink: &mut dyn Sink,
    ) -> Result<ImportedRun, ImportError> {
        if source.head().is_empty() {
            return Err(ImportError::Empty {
                path: source.path.clone(),
            });
        }
        if !self.is_binary && pasted::is_wrapped(source.head()) {
            source.unwrap_text()?;
        }
        source.cut = Some(Cut {
            parts: self.parts,
            wanted: settings.part,
        });
        let imported = (self.reader)(source, settings, sink)?;
        if source.cut.is_some() && settings.part.is_some() {
            return Err(ImportError::SinglePart {
                path: source.path.clone(),
                format: self.name,
            });
        }
        match [imported.started, imported.length]
            .into_iter()
            .flatten()
            .find(|time| !is_near(time.get() as f64))
        {
            Some(far) => Err(source.expected(
                1,
                format!("a start and a length of the run, each {NEAR_TIME}"),
                &far.exact(),
            )),
            None => Ok(imported),
        }
    }
}

/// A file to import.
#[derive(Debug)]
pub struct Source {
    /// The path from the command line, for messages.
    pub path: PathBuf,
    input: Input,
    /// Selects one measurement of a text that holds several. Set to `None` when the text is read.
    cut: Option<Cut>,
}

/// The bytes of a file. The head is kept in memory, so that the format of a pipe can be detected
/// before the rest is read.
#[derive(Debug)]
struct Input {
    head: io::Cursor<Vec<u8>>,
    /// The data after the head; absent if all of it is in memory.
    rest: Option<File>,
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.head.read(buffer)?;
        match &mut self.rest {
            Some(file) if read == 0 => file.read(buffer),
            _ => Ok(read),
        }
    }
}

/// The user's settings, for information that a file lacks.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Unit of the file's values.
    pub unit: Option<Unit>,
    /// Time between two due times.
    pub period: Option<Nanos>,
    /// The column that holds the values: its name, or its number, counted from 1.
    pub column: Option<String>,
    /// The selected measurement in the file, counted from 1.
    pub part: Option<usize>,
}

/// The unit of a file's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds
    Ns,
    /// Microseconds
    Us,
    /// Milliseconds
    Ms,
    S,
}

impl Unit {
    pub const ALL: [Self; 4] = [Self::Ns, Self::Us, Self::Ms, Self::S];

    /// Returns the unit's length in ns.
    #[must_use]
    pub fn nanos(self) -> i64 {
        match self {
            Self::Ns => 1,
            Self::Us => 1_000,
            Self::Ms => 1_000_000,
            Self::S => 1_000_000_000,
        }
    }

    /// Returns the unit's name on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ns => "ns",
            Self::Us => "us",
            Self::Ms => "ms",
            Self::S => "s",
        }
    }
}

/// The reason why a file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        path: PathBuf,
        /// The error that the system returned.
        error: io::Error,
    },
    /// The file is empty.
    #[error("{path}: the file is empty: there is nothing to import")]
    Empty { path: PathBuf },
    /// The format is unknown.
    #[error(
        "{path}: the format is not recognised: if it is one of the following, name it with \
         --as: {known}"
    )]
    Unknown {
        path: PathBuf,
        /// All formats.
        known: String,
    },
    /// The file is output of a known tool that cannot be imported.
    #[error("{path}: this is {tool}: {why}")]
    Refused {
        path: PathBuf,
        tool: &'static str,
        why: &'static str,
    },
    /// The file mixes output of several tools.
    #[error("{path}: holds output of {tools}: name one with --as")]
    Mixed {
        path: PathBuf,
        /// Names of the tools' formats.
        tools: String,
    },
    /// The file holds several measurements and none was selected, or the selected number does not
    /// exist.
    #[error("{path}: holds {parts} measurements, at lines {lines}: choose one, as in --part 1")]
    Several {
        path: PathBuf,
        parts: usize,
        /// Numbers of the lines at which the measurements start.
        lines: String,
    },
    /// A measurement was selected, but files of this format hold only one.
    #[error("{path}: a file of {format} holds only one measurement: leave out --part")]
    SinglePart { path: PathBuf, format: &'static str },
    /// The text is not what the format requires.
    #[error("{path}: line {line}: expected {expected}, found {found}")]
    Expected {
        path: PathBuf,
        /// Line number, counted from 1.
        line: u64,
        /// The expected content.
        expected: String,
        /// The content that was found instead.
        found: String,
    },
    /// The data of a binary file are not what the format requires.
    #[error("{path}: byte {byte}: expected {expected}, found {found}")]
    ExpectedAt {
        path: PathBuf,
        /// Byte offset, counted from 0.
        byte: u64,
        /// The expected content.
        expected: String,
        /// The content that was found instead.
        found: String,
    },
    /// The file lacks information without which its numbers mean nothing.
    #[error("{path}: {format} does not state {what}: give {flag}")]
    Ask {
        path: PathBuf,
        format: &'static str,
        /// The missing information.
        what: &'static str,
        /// The flag that supplies it.
        flag: String,
    },
    /// The folder cannot be made.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A series cannot be written.
    #[error("cannot write {path}: {error}")]
    Unwritable {
        /// The path that could not be written.
        path: PathBuf,
        /// The error that the system returned.
        error: io::Error,
    },
}

impl Source {
    /// Opens the file.
    ///
    /// # Errors
    /// Returns [`ImportError::Unreadable`].
    pub fn open(path: &Path) -> Result<Self, ImportError> {
        let unreadable = |error| ImportError::Unreadable {
            path: path.to_owned(),
            error,
        };
        let is_standard_input = path == Path::new("/dev/stdin");
        let file = if is_standard_input {
            File::open(path)
        } else {
            regular_file::open(path)
        }
        .map_err(unreadable)?;
        let mut head = Vec::new();
        (&file)
            .take(HEAD_BYTES)
            .read_to_end(&mut head)
            .map_err(unreadable)?;
        Ok(Self {
            path: path.to_owned(),
            input: Input {
                head: io::Cursor::new(head),
                rest: Some(file),
            },
            cut: None,
        })
    }

    /// Makes a source from bytes in memory.
    #[must_use]
    pub fn of_bytes(bytes: Vec<u8>) -> Self {
        Self {
            path: "input".into(),
            input: Input {
                head: io::Cursor::new(bytes),
                rest: None,
            },
            cut: None,
        }
    }

    /// Detects the format from the first bytes.
    ///
    /// # Errors
    /// Returns [`ImportError::Empty`], [`ImportError::Refused`], [`ImportError::Mixed`],
    /// [`ImportError::Unknown`].
    pub fn detect(&self) -> Result<&'static Format, ImportError> {
        let head = self.head();
        if head.is_empty() {
            return Err(ImportError::Empty {
                path: self.path.clone(),
            });
        }
        let unknown = || ImportError::Unknown {
            path: self.path.clone(),
            known: names().join(", "),
        };
        let text = pasted::cleaned(head);
        let is_known = |format: &&Format| {
            (format.detect)(if format.is_binary {
                head
            } else {
                text.as_bytes()
            })
        };
        let refused = |(tool, why)| ImportError::Refused {
            path: self.path.clone(),
            tool,
            why,
        };
        if let Some(known) = refused::find(head, &text) {
            return Err(refused(known));
        }
        let found = FORMATS.iter().find(is_known);
        let is_general = found.is_none_or(|found| found.name == values::FORMAT.name);
        if let Some(incomplete) = is_general
            .then(|| refused::find_incomplete(&text))
            .flatten()
        {
            return Err(refused(incomplete));
        }
        let found = found.ok_or_else(unknown)?;
        if found.name == values::FORMAT.name && values::is_histogram(&text) {
            return Err(refused(refused::HISTOGRAM));
        }
        let mut tools: Vec<&str> = vec![found.name];
        let text_of_tools = FORMATS.iter().filter(|format| format.family().is_some());
        if let Some(family) = found.family() {
            let others = text_of_tools.filter(|format| format.family() != Some(family));
            tools.extend(others.filter(is_known).map(|format| format.name));
        }
        if tools.len() > 1 {
            return Err(ImportError::Mixed {
                path: self.path.clone(),
                tools: tools.join(" and of "),
            });
        }
        Ok(found)
    }

    /// Reads the whole text into memory, cleaned of paste artefacts.
    fn unwrap_text(&mut self) -> Result<(), ImportError> {
        let text = self.text()?;
        self.input = Input {
            head: io::Cursor::new(text.into_bytes()),
            rest: None,
        };
        Ok(())
    }

    /// Returns the first bytes, whether or not they were read already.
    fn head(&self) -> &[u8] {
        let head = self.input.head.get_ref();
        &head[..head.len().min(HEAD_BYTES as usize)]
    }

    pub(crate) fn unreadable(&self, error: io::Error) -> ImportError {
        ImportError::Unreadable {
            path: self.path.clone(),
            error,
        }
    }

    pub(crate) fn ask(
        &self,
        format: &'static str,
        what: &'static str,
        flag: impl Into<String>,
    ) -> ImportError {
        ImportError::Ask {
            path: self.path.clone(),
            format,
            what,
            flag: flag.into(),
        }
    }

    /// Returns a copy that has only the path, for error messages while the bytes are being read.
    fn name_only(&self) -> Self {
        Self {
            path: self.path.clone(),
            ..Self::of_bytes(Vec::new())
        }
    }

    /// Makes the error for unexpected text at a line.
    pub(crate) fn expected(
        &self,
        line: u64,
        expected: impl Into<String>,
        found: &str,
    ) -> ImportError {
        ImportError::Expected {
            path: self.path.clone(),
            // An empty text has no lines; its error names line 1.
            line: line.max(1),
            expected: expected.into(),
            found: quoted(found),
        }
    }

    /// Makes the error for unexpected data at a byte.
    pub(crate) fn expected_at(
        &self,
        byte: u64,
        expected: impl Into<String>,
        found: &str,
    ) -> ImportError {
        ImportError::ExpectedAt {
            path: self.path.clone(),
            byte,
            expected: expected.into(),
            found: quoted(found),
        }
    }
}

/// Quotes text in a message, short and on one line.
fn quoted(found: &str) -> String {
    match found.trim_end() {
        "" => "nothing".to_owned(),
        text => format!(
            "`{}`",
            text.chars().take(60).collect::<String>().escape_debug()
        ),
    }
}

/// Returns the names of all formats.
#[must_use]
pub fn names() -> Vec<&'static str> {
    FORMATS.iter().map(|format| format.name).collect()
}

/// Returns the format of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}
