//! Stores runs of many boards in one table (CSV, plain or in gzip) that replaces the runs' folders.
//! The table has a row for each run, probe, quantity and load.
//!
//! DuckDB, polars, pandas, R and `tardy history` read the table. `tardy history` also reads tables
//! that these tools have filtered or concatenated: it finds columns by name, and ignores unknown
//! columns.
//!
//! The format is CSV because DuckDB, polars and pandas support CSV and Parquet equally well.
//! Parquet and Arrow would need about 1,000 lines and 39 more crates.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use csv::{ByteRecord, ReaderBuilder};
use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use tardy_core::series::ClockKind;
use tardy_core::units::Nanos;
use tardy_results::compare::changes::folders_once;
use tardy_results::compare::group::Key;
use tardy_results::compare::side::CompareError;
use tardy_results::history::RunCollection;
use tardy_results::history::run::{FACTS, HistoryRun, QUANTILES, RunNumbers};
use tardy_sys::regular_file;

/// File name suffixes of tables. Files with the second suffix are compressed, and their checksum
/// reveals damage.
pub const EXTENSIONS: [&str; 2] = [".csv", ".csv.gz"];
/// Bytes per read.
const BUFFER: usize = 1 << 18;
/// Maximum length of a row; a longer line is from another kind of file.
const ROW_BYTES_MAX: usize = 1 << 20;

const BOARD: usize = 0;
const BUILD: usize = 1;
const STARTED: usize = 2;
const FOLDER: usize = 3;
const CLOCK: usize = 4;
const PROBE: usize = 5;
const QUANTITY: usize = 6;
const UNIT: usize = 7;
const LOAD: usize = 8;
const SAMPLES: usize = 9;
const MIN: usize = 10;
const MEAN: usize = 11;
const QUANTILE: usize = 12;
const MAX: usize = QUANTILE + QUANTILES.len();
const SKIPPED: usize = MAX + 1;
const MISSES: usize = MAX + 2;
const FACT: usize = MAX + 3;
const COLUMNS: [&str; FACT + FACTS.len()] = [
    "board",
    "build",
    "started_ns",
    "folder",
    "clock",
    "probe",
    "quantity",
    "unit",
    "load",
    "samples",
    "min",
    "mean",
    "p50",
    "p90",
    "p99",
    "p99_9",
    "max",
    "skipped",
    "misses",
    "kernel",
    "kernel_version",
    "preemption_compiled",
    "preemption_mode",
    "command_line",
    "cpu_model",
    "tardy_version",
];
/// Required columns of a row.
const NEEDED: [usize; 8] = [BOARD, BUILD, STARTED, PROBE, QUANTITY, UNIT, SAMPLES, MAX];
const VIRTUAL: &str = "virtual";
const HARDWARE: &str = "hardware";

/// The reason why a table cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("{}: {words}", path.display())]
    Unreadable { path: PathBuf, words: String },
    #[error(transparent)]
    Write(#[from] io::Error),
    #[error(transparent)]
    Run(#[from] CompareError),
}

/// Returns whether the file name of `path` ends like that of a table.
#[must_use]
pub fn is_table(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    EXTENSIONS.iter().any(|end| name.ends_with(end))
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

/// Collects the runs from tables and from folders at or below `paths`, without duplicates, and
/// calls `each` on every run that it reads.
///
/// # Errors
/// Returns [`TableError`] if a run cannot be read, if the runs have different clocks, or if `each`
/// fails.
pub fn collected(
    paths: &[PathBuf],
    mut each: impl FnMut(&HistoryRun) -> Result<(), TableError>,
) -> Result<RunCollection, TableError> {
    let mut runs = RunCollection::default();
    let mut add = |run: &HistoryRun| if runs.add(run)? { each(run) } else { Ok(()) };
    for path in paths {
        if is_table(path) {
            read(path, |run| add(&run))?;
        } else {
            let folders = folders_once(std::slice::from_ref(path));
            let mut left_out = 0;
            for folder in &folders {
                match HistoryRun::read(folder) {
                    Ok(run) => add(&run)?,
                    // One unreadable run, such as one that a power failure emptied, does not
                    // prevent reading the others.
                    Err(error) => {
                        left_out += 1;
                        if left_out == folders.len() {
                            return Err(error.into());
                        }
                        tardy_sys::say!("tardy: left out: {error}");
                    }
                }
            }
        }
    }
    Ok(runs)
}

/// Writes the rows of runs.
pub struct TableWriter {
    rows: csv::Writer<Destination>,
}

/// Where the rows of a table are written.
enum Destination {
    Plain(BufWriter<File>),
    Compressed(GzEncoder<BufWriter<File>>),
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Compressed(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Compressed(file) => file.flush(),
        }
    }
}

impl TableWriter {
    /// Creates a writer into an empty file, which is compressed if `name` ends in `.gz`.
    ///
    /// # Errors
    /// Returns [`TableError::Write`].
    pub fn new(file: &File, name: &Path) -> Result<Self, TableError> {
        let file = BufWriter::new(file.try_clone()?);
        let destination = if is_compressed(name) {
            Destination::Compressed(GzEncoder::new(file, Compression::fast()))
        } else {
            Destination::Plain(file)
        };
        let mut rows = csv::Writer::from_writer(destination);
        rows.write_record(COLUMNS).map_err(unwritable)?;
        Ok(Self { rows })
    }

    /// Adds the rows of a run.
    ///
    /// # Errors
    /// Returns [`TableError::Write`].
    pub fn add(&mut self, run: &HistoryRun) -> Result<(), TableError> {
        for numbers in &run.numbers {
            self.rows
                .write_record(row(run, numbers))
                .map_err(unwritable)?;
        }
        Ok(())
    }

    /// Writes the remaining rows, and the file's end.
    ///
    /// # Errors
    /// Returns [`TableError::Write`].
    pub fn finish(self) -> Result<(), TableError> {
        let destination = self
            .rows
            .into_inner()
            .map_err(csv::IntoInnerError::into_error)?;
        let mut file = match destination {
            Destination::Plain(file) => file,
            Destination::Compressed(file) => file.finish()?,
        };
        Ok(file.flush()?)
    }
}

fn unwritable(error: csv::Error) -> TableError {
    TableError::Write(io::Error::other(error))
}

/// Returns the values of a row; absent values are empty.
fn row(run: &HistoryRun, numbers: &RunNumbers) -> [String; COLUMNS.len()] {
    fn word(value: Option<impl ToString>) -> String {
        value.map_or_else(String::new, |value| value.to_string())
    }
    let mut row = [const { String::new() }; COLUMNS.len()];
    row[BOARD].clone_from(&run.board);
    row[BUILD].clone_from(&run.build);
    row[STARTED] = run.started_realtime_ns.get().to_string();
    row[FOLDER] = word(run.folder.to_str());
    let is_virtual = run.clock == ClockKind::Virtual;
    row[CLOCK] = (if is_virtual { VIRTUAL } else { HARDWARE }).to_owned();
    row[PROBE].clone_from(&numbers.key.probe);
    row[QUANTITY].clone_from(&numbers.key.quantity);
    row[UNIT].clone_from(&numbers.key.unit);
    row[LOAD] = word(numbers.key.load.as_deref());
    row[SAMPLES] = numbers.samples.to_string();
    row[MIN] = numbers.min.to_string();
    row[MEAN] = word(numbers.mean);
    for (place, value) in numbers.quantiles.iter().enumerate() {
        row[QUANTILE + place] = word(*value);
    }
    row[MAX] = numbers.max.to_string();
    row[SKIPPED] = word(numbers.skipped);
    row[MISSES] = word(numbers.misses);
    for (place, fact) in run.facts.iter().enumerate() {
        row[FACT + place] = word(fact.as_deref());
    }
    row
}

/// Calls `each` on each run of the table at `path`, in the order of its rows. Memory does not grow
/// with the number of rows.
fn read(
    path: &Path,
    mut each: impl FnMut(HistoryRun) -> Result<(), TableError>,
) -> Result<(), TableError> {
    let unreadable = |words: String| TableError::Unreadable {
        path: path.to_owned(),
        words,
    };
    let broken = |error: csv::Error| unreadable(format!("not a readable table ({error})"));
    let file = regular_file::open(path).map_err(|error| unreadable(error.to_string()))?;
    let source: Box<dyn Read> = if is_compressed(path) {
        Box::new(MultiGzDecoder::new(io::BufReader::with_capacity(
            BUFFER, file,
        )))
    } else {
        Box::new(file)
    };
    let mut rows = ReaderBuilder::new()
        .buffer_capacity(BUFFER)
        .from_reader(ShortLines::new(source));
    let head = rows.byte_headers().map_err(broken)?;
    let places = COLUMNS.map(|name| head.iter().position(|column| column == name.as_bytes()));
    if let Some(missing) = NEEDED.iter().find(|needed| places[**needed].is_none()) {
        return Err(unreadable(format!(
            "not a table of runs: it has no column {}",
            COLUMNS[*missing]
        )));
    }
    let (mut run, mut record) = (None::<HistoryRun>, ByteRecord::new());
    while rows.read_byte_record(&mut record).map_err(broken)? {
        let found = row_as_run(&record, &places).map_err(|words| {
            let line = record.position().map_or(0, csv::Position::line);
            unreadable(format!("line {line}: {words}"))
        })?;
        match &mut run {
            // Rows of one run are adjacent.
            Some(run)
                if run.folder == found.folder
                    && run.started_realtime_ns == found.started_realtime_ns
                    && run.board == found.board =>
            {
                run.numbers.extend(found.numbers);
            }
            _ => {
                if let Some(whole) = run.replace(found) {
                    each(whole)?;
                }
            }
        }
    }
    run.map_or(Ok(()), each)
}

/// A reader that returns an error for a line that is too long, so that no file can fill the memory.
struct ShortLines<R> {
    source: R,
    length: usize,
}

impl<R> ShortLines<R> {
    fn new(source: R) -> Self {
        Self { source, length: 0 }
    }
}

impl<R: Read> Read for ShortLines<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(bytes)?;
        let lines: Vec<usize> = memchr::memchr_iter(b'\n', &bytes[..count]).collect();
        self.length += lines.first().copied().unwrap_or(count);
        if self.length > ROW_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a line is longer than {ROW_BYTES_MAX} bytes"),
            ));
        }
        if let Some(last) = lines.last() {
            self.length = count - last - 1;
        }
        Ok(count)
    }
}

/// Converts a row into a run that has only the numbers of this row.
fn row_as_run(
    record: &ByteRecord,
    places: &[Option<usize>; COLUMNS.len()],
) -> Result<HistoryRun, String> {
    let text = |column: usize| -> Result<Option<&str>, String> {
        let Some(bytes) = places[column].and_then(|place| record.get(place)) else {
            return Ok(None);
        };
        let text = std::str::from_utf8(bytes)
            .map_err(|_| format!("its {} is not UTF-8", COLUMNS[column]))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    };
    let missing = |column: usize| format!("it has no {}", COLUMNS[column]);
    let needed = |column: usize| text(column)?.ok_or_else(|| missing(column));
    // Some programs write a column of whole numbers as floating point if a value is missing.
    let real = |column: usize| -> Result<Option<f64>, String> {
        let Some(text) = text(column)? else {
            return Ok(None);
        };
        let number: f64 = text
            .parse()
            .map_err(|_| format!("its {} is not a number: {text:?}", COLUMNS[column]))?;
        Ok(Some(number).filter(|number| number.is_finite()))
    };
    let whole = |column: usize| -> Result<Option<i64>, String> {
        let exact = text(column)?.and_then(|text| text.parse().ok());
        match exact {
            Some(exact) => Ok(Some(exact)),
            None => Ok(real(column)?.map(|number| number.round() as i64)),
        }
    };
    let count = |column: usize| -> Result<Option<u64>, String> {
        Ok(whole(column)?.and_then(|number| u64::try_from(number).ok()))
    };
    let max = whole(MAX)?.ok_or_else(|| missing(MAX))?;
    let mut quantiles = [None; QUANTILES.len()];
    for (place, quantile) in quantiles.iter_mut().enumerate() {
        *quantile = real(QUANTILE + place)?;
    }
    let numbers = RunNumbers {
        key: Key {
            probe: needed(PROBE)?.to_owned(),
            quantity: needed(QUANTITY)?.to_owned(),
            unit: needed(UNIT)?.to_owned(),
            load: text(LOAD)?.map(str::to_owned),
        },
        samples: count(SAMPLES)?.ok_or_else(|| missing(SAMPLES))?,
        min: whole(MIN)?.unwrap_or(max),
        mean: real(MEAN)?,
        quantiles,
        max,
        skipped: count(SKIPPED)?,
        misses: count(MISSES)?,
    };
    let mut facts = [const { None }; FACTS.len()];
    for (place, fact) in facts.iter_mut().enumerate() {
        *fact = text(FACT + place)?.map(str::to_owned);
    }
    Ok(HistoryRun {
        folder: text(FOLDER)?.unwrap_or_default().into(),
        board: needed(BOARD)?.to_owned(),
        build: needed(BUILD)?.to_owned(),
        started_realtime_ns: Nanos(whole(STARTED)?.ok_or_else(|| missing(STARTED))?),
        clock: match text(CLOCK)? {
            None | Some(HARDWARE) => ClockKind::Hardware,
            Some(VIRTUAL) => ClockKind::Virtual,
            Some(other) => {
                return Err(format!(
                    "{other:?} is not a clock: use {HARDWARE} or {VIRTUAL}"
                ));
            }
        },
        facts,
        numbers: vec![numbers],
    })
}
