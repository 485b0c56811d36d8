//! Runs from other tools' output: one file a format, one line in [`FORMATS`] each.
//!
//! A reader says what a file does not say, as warnings of the run, and asks where guessing would make numbers wrong. Where a tool kept no
//! samples the folder holds a histogram, and where it kept no histogram only what the tool stated. Unreadable input is an error with file,
//! line and what was expected; nothing is left behind then.

mod cyclictest_histogram;
mod cyclictest_json;
mod cyclictest_summary;
mod cyclictest_verbose;
pub mod folder_sink;
mod hdr_log;
mod hdr_percentiles;
mod hdr_v2;
mod jitterdebugger_json;
mod jitterdebugger_samples;
mod oslat;
mod rteval;
mod rtla_timerlat;
pub mod sink;
mod text;
mod tool_json;

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use tardy_core::units::Nanos;
use tardy_run::folder::FolderError;

use self::sink::{Imported, Sink};

/// Bytes of a file that its format is told by.
const HEAD_BYTES: u64 = 64 << 10;

/// Everything that can be read; detection asks them in this order.
pub const FORMATS: &[Format] = &[
    cyclictest_json::FORMAT,
    oslat::JSON,
    jitterdebugger_json::FORMAT,
    rteval::FORMAT,
    rtla_timerlat::FORMAT,
    cyclictest_verbose::FORMAT,
    cyclictest_histogram::FORMAT,
    cyclictest_summary::FORMAT,
    oslat::TEXT,
    hdr_log::FORMAT,
    hdr_percentiles::FORMAT,
    jitterdebugger_samples::CSV,
    jitterdebugger_samples::RAW,
];

/// One format.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Whether a file that begins so is one.
    pub detect: fn(&[u8]) -> bool,
    /// Reads it.
    pub read: fn(&mut Source, &Settings, &mut dyn Sink) -> Result<Imported, ImportError>,
}

/// A file to read.
#[derive(Debug)]
pub struct Source {
    /// As on the command line, for messages.
    pub path: PathBuf,
    /// Its bytes.
    pub input: Input,
}

/// Where bytes come from.
#[derive(Debug)]
pub enum Input {
    /// A file.
    File(File),
    /// Memory: for tests.
    Bytes(io::Cursor<Vec<u8>>),
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Bytes(bytes) => bytes.read(buffer),
        }
    }
}

/// What a file may not say.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// Unit of its values.
    pub unit: Option<Unit>,
    /// Time between two due times.
    pub period: Option<Nanos>,
}

/// The unit of a file's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Unit {
    /// Nanoseconds
    Ns,
    /// Microseconds
    Us,
    /// Milliseconds
    Ms,
    /// Seconds
    S,
}

impl Unit {
    /// How many ns it is.
    #[must_use]
    pub fn nanos(self) -> i64 {
        match self {
            Self::Ns => 1,
            Self::Us => 1_000,
            Self::Ms => 1_000_000,
            Self::S => 1_000_000_000,
        }
    }

    /// As on the command line.
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

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// No format knows it.
    #[error("{path}: not recognised: name its format with --as, one of {known}")]
    Unknown {
        /// The file.
        path: PathBuf,
        /// All formats.
        known: String,
    },
    /// Something else stands there.
    #[error("{path}: line {line}: expected {expected}, found {found}")]
    Expected {
        /// The file.
        path: PathBuf,
        /// Where, from 1 on.
        line: u64,
        /// What should stand there.
        expected: String,
        /// What does.
        found: String,
    },
    /// Something else stands there, in a file without lines.
    #[error("{path}: byte {byte}: expected {expected}, found {found}")]
    ExpectedAt {
        /// The file.
        path: PathBuf,
        /// Where, from 0 on.
        byte: u64,
        /// What should stand there.
        expected: String,
        /// What does.
        found: String,
    },
    /// The file does not say something without which its numbers mean nothing.
    #[error("{path}: {format} does not say {what}: give {flag}")]
    Ask {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: &'static str,
        /// What is missing.
        what: &'static str,
        /// How to say it.
        flag: &'static str,
    },
    /// The folder cannot be made.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Its series cannot be written.
    #[error("cannot write {path}: {error}")]
    Unwritable {
        /// What was to be written.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

impl Source {
    /// Opens the file.
    ///
    /// # Errors
    /// [`ImportError::Unreadable`].
    pub fn open(path: &Path) -> Result<Self, ImportError> {
        let file = File::open(path).map_err(|error| ImportError::Unreadable { path: path.to_owned(), error })?;
        Ok(Self { path: path.to_owned(), input: Input::File(file) })
    }

    /// What is in memory.
    #[must_use]
    pub fn of_bytes(bytes: Vec<u8>) -> Self {
        Self { path: "input".into(), input: Input::Bytes(io::Cursor::new(bytes)) }
    }

    /// The format that its beginning shows; the place in the file stays at the beginning.
    ///
    /// # Errors
    /// [`ImportError::Unreadable`], [`ImportError::Unknown`].
    pub fn detect(&mut self) -> Result<&'static Format, ImportError> {
        let mut head = Vec::new();
        (&mut self.input).take(HEAD_BYTES).read_to_end(&mut head).map_err(|error| self.unreadable(error))?;
        match &mut self.input {
            Input::File(file) => file.rewind().map_err(|error| ImportError::Unreadable { path: self.path.clone(), error })?,
            Input::Bytes(bytes) => bytes.set_position(0),
        }
        let unknown = || ImportError::Unknown { path: self.path.clone(), known: names().join(", ") };
        FORMATS.iter().find(|format| (format.detect)(&head)).ok_or_else(unknown)
    }

    pub(crate) fn unreadable(&self, error: io::Error) -> ImportError {
        ImportError::Unreadable { path: self.path.clone(), error }
    }

    pub(crate) fn ask(&self, format: &'static str, what: &'static str, flag: &'static str) -> ImportError {
        ImportError::Ask { path: self.path.clone(), format, what, flag }
    }

    /// Something else than `expected` at a line.
    pub(crate) fn expected(&self, line: u64, expected: impl Into<String>, found: &str) -> ImportError {
        ImportError::Expected { path: self.path.clone(), line, expected: expected.into(), found: quoted(found) }
    }

    /// Something else than `expected` at a byte.
    pub(crate) fn expected_at(&self, byte: u64, expected: impl Into<String>, found: &str) -> ImportError {
        ImportError::ExpectedAt { path: self.path.clone(), byte, expected: expected.into(), found: quoted(found) }
    }
}

/// What was found, short and on one line.
fn quoted(found: &str) -> String {
    match found.trim_end() {
        "" => "nothing".to_owned(),
        text => format!("`{}`", text.chars().take(60).collect::<String>().escape_debug()),
    }
}

/// The names of all formats.
#[must_use]
pub fn names() -> Vec<&'static str> {
    FORMATS.iter().map(|format| format.name).collect()
}

/// The format of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}
