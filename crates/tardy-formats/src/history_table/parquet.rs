//! The table as Parquet.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, GzipLevel, LogicalType, TimeUnit};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use tardy_core::series::ClockKind;
use tardy_core::units::Nanos;
use tardy_results::compare::group::Key;
use tardy_results::history::run::{FACTS, HistoryRun, QUANTILES, RunNumbers};
use tardy_sys::regular_file;

use super::TableError;

/// Rows that are written together, and that are read at a time.
const ROWS_A_GROUP: usize = 1 << 17;
const ROWS_A_BATCH: usize = 1 << 14;

/// What a value of a column is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Whole,
    Real,
    /// Ns since 1970.
    Time,
}

impl Kind {
    /// As in Parquet's text form of a schema.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Text => ("binary", " (STRING)"),
            Self::Whole => ("int64", ""),
            Self::Real => ("double", ""),
            Self::Time => ("int64", " (TIMESTAMP(NANOS,true))"),
        }
    }
}

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
const COLUMNS: [(&str, Kind); FACT + FACTS.len()] = [
    ("board", Kind::Text),
    ("build", Kind::Text),
    ("started", Kind::Time),
    ("folder", Kind::Text),
    ("clock", Kind::Text),
    ("probe", Kind::Text),
    ("quantity", Kind::Text),
    ("unit", Kind::Text),
    ("load", Kind::Text),
    ("samples", Kind::Whole),
    ("min", Kind::Whole),
    ("mean", Kind::Real),
    ("p50", Kind::Real),
    ("p90", Kind::Real),
    ("p99", Kind::Real),
    ("p99_9", Kind::Real),
    ("max", Kind::Whole),
    ("skipped", Kind::Whole),
    ("misses", Kind::Whole),
    ("kernel", Kind::Text),
    ("kernel_version", Kind::Text),
    ("preemption_compiled", Kind::Text),
    ("preemption_mode", Kind::Text),
    ("command_line", Kind::Text),
    ("cpu_model", Kind::Text),
    ("tardy_version", Kind::Text),
];
/// Without these a row says nothing.
const NEEDED: [usize; 8] = [BOARD, BUILD, STARTED, PROBE, QUANTITY, UNIT, SAMPLES, MAX];
const VIRTUAL: &str = "virtual";
const HARDWARE: &str = "hardware";

/// Values of one column, row by row; absent where a row has none.
type Column<T> = Vec<Option<T>>;

/// The same of each kind.
#[derive(Debug, Clone, PartialEq)]
enum Values {
    Text(Column<ByteArray>),
    Whole(Column<i64>),
    Real(Column<f64>),
}

impl Values {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Text => Self::Text(Vec::new()),
            Kind::Whole | Kind::Time => Self::Whole(Vec::new()),
            Kind::Real => Self::Real(Vec::new()),
        }
    }

    fn push_text(&mut self, value: Option<&str>) {
        if let Self::Text(values) = self {
            values.push(value.map(ByteArray::from));
        }
    }

    fn push_whole(&mut self, value: Option<i64>) {
        if let Self::Whole(values) = self {
            values.push(value);
        }
    }

    fn push_real(&mut self, value: Option<f64>) {
        if let Self::Real(values) = self {
            values.push(value);
        }
    }

    /// Nothing where it is absent, or no text.
    fn text(&self, row: usize) -> Option<&str> {
        let Self::Text(values) = self else {
            return None;
        };
        std::str::from_utf8(values.get(row)?.as_ref()?.data()).ok()
    }

    fn whole(&self, row: usize) -> Option<i64> {
        let Self::Whole(values) = self else {
            return None;
        };
        *values.get(row)?
    }

    fn real(&self, row: usize) -> Option<f64> {
        match self {
            Self::Real(values) => *values.get(row)?,
            Self::Whole(values) => values.get(row)?.map(|value| value as f64),
            Self::Text(_) => None,
        }
    }
}

/// Writes the rows of runs, some at a time.
pub struct TableWriter {
    file: SerializedFileWriter<File>,
    columns: Vec<Values>,
    rows: usize,
}

impl TableWriter {
    /// Into an empty file.
    ///
    /// # Errors
    /// [`TableError::Write`].
    pub fn new(file: &File) -> Result<Self, TableError> {
        let columns = COLUMNS
            .map(|(name, kind)| format!("optional {} {name}{};", kind.words().0, kind.words().1))
            .concat();
        let schema =
            parse_message_type(&format!("message run {{ {columns} }}")).map_err(unwritable)?;
        // Its checksum tells damage, which the reader would take for numbers.
        let gzip = Compression::GZIP(GzipLevel::try_new(2).map_err(unwritable)?);
        let properties = WriterProperties::builder()
            .set_compression(gzip)
            .set_created_by(format!("tardy {}", env!("CARGO_PKG_VERSION")))
            .build();
        let file =
            SerializedFileWriter::new(file.try_clone()?, Arc::new(schema), Arc::new(properties))
                .map_err(unwritable)?;
        Ok(Self {
            file,
            columns: empty(),
            rows: 0,
        })
    }

    /// Adds the rows of a run.
    ///
    /// # Errors
    /// [`TableError::Write`].
    pub fn add(&mut self, run: &HistoryRun) -> Result<(), TableError> {
        for numbers in &run.numbers {
            push(&mut self.columns, run, numbers);
            self.rows += 1;
        }
        if self.rows >= ROWS_A_GROUP {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Writes what is left, and the file's end.
    ///
    /// # Errors
    /// [`TableError::Write`].
    pub fn finish(mut self) -> Result<(), TableError> {
        self.flush()?;
        self.file.close().map_err(unwritable)?;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), TableError> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let columns = std::mem::replace(&mut self.columns, empty());
        self.write_group(columns).map_err(unwritable)
    }

    fn write_group(&mut self, columns: Vec<Values>) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for values in columns {
            let mut column = group
                .next_column()?
                .ok_or_else(|| ParquetError::General("a column is missing".to_owned()))?;
            match values {
                Values::Text(values) => {
                    let (levels, values) = known(values);
                    column
                        .typed::<ByteArrayType>()
                        .write_batch(&values, Some(&levels), None)?;
                }
                Values::Whole(values) => {
                    let (levels, values) = known(values);
                    column
                        .typed::<Int64Type>()
                        .write_batch(&values, Some(&levels), None)?;
                }
                Values::Real(values) => {
                    let (levels, values) = known(values);
                    column
                        .typed::<DoubleType>()
                        .write_batch(&values, Some(&levels), None)?;
                }
            }
            column.close()?;
        }
        group.close()?;
        Ok(())
    }
}

fn empty() -> Vec<Values> {
    COLUMNS.iter().map(|(_, kind)| Values::new(*kind)).collect()
}

/// Which rows have a value, as Parquet's definition levels, and the values.
fn known<T>(values: Column<T>) -> (Vec<i16>, Vec<T>) {
    (
        values
            .iter()
            .map(|value| i16::from(value.is_some()))
            .collect(),
        values.into_iter().flatten().collect(),
    )
}

fn push(columns: &mut [Values], run: &HistoryRun, numbers: &RunNumbers) {
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    columns[BOARD].push_text(Some(&run.board));
    columns[BUILD].push_text(Some(&run.build));
    columns[STARTED].push_whole(Some(run.started_realtime_ns.get()));
    columns[FOLDER].push_text(run.folder.to_str());
    columns[CLOCK].push_text(Some(if run.clock == ClockKind::Virtual {
        VIRTUAL
    } else {
        HARDWARE
    }));
    columns[PROBE].push_text(Some(&numbers.key.probe));
    columns[QUANTITY].push_text(Some(&numbers.key.quantity));
    columns[UNIT].push_text(Some(&numbers.key.unit));
    columns[LOAD].push_text(numbers.key.load.as_deref());
    columns[SAMPLES].push_whole(Some(whole(numbers.samples)));
    columns[MIN].push_whole(Some(numbers.min));
    columns[MEAN].push_real(numbers.mean);
    numbers
        .quantiles
        .iter()
        .enumerate()
        .for_each(|(place, value)| columns[QUANTILE + place].push_real(*value));
    columns[MAX].push_whole(Some(numbers.max));
    columns[SKIPPED].push_whole(numbers.skipped.map(whole));
    columns[MISSES].push_whole(numbers.misses.map(whole));
    run.facts
        .iter()
        .enumerate()
        .for_each(|(place, fact)| columns[FACT + place].push_text(fact.as_deref()));
}

fn unwritable(error: ParquetError) -> TableError {
    TableError::Write(io::Error::other(error))
}

pub(super) fn read(
    path: &Path,
    mut each: impl FnMut(HistoryRun) -> Result<(), TableError>,
) -> Result<(), TableError> {
    let unreadable = |words: String| TableError::Unreadable {
        path: path.to_owned(),
        words,
    };
    let file = regular_file::open(path).map_err(|error| unreadable(error.to_string()))?;
    let broken = |error: ParquetError| unreadable(format!("not a readable Parquet file ({error})"));
    let bytes = file
        .metadata()
        .map_err(|error| unreadable(error.to_string()))?
        .len();
    let reader = contained(|| SerializedFileReader::new(file)).map_err(broken)?;
    // The reader takes these for granted.
    let is_in_file = |chunk: &ColumnChunkMetaData| {
        let begin = chunk
            .dictionary_page_offset()
            .unwrap_or(chunk.data_page_offset());
        let end = begin
            .checked_add(chunk.compressed_size())
            .and_then(|end| u64::try_from(end).ok());
        begin >= 0 && chunk.compressed_size() >= 0 && end.is_some_and(|end| end <= bytes)
    };
    if !reader
        .metadata()
        .row_groups()
        .iter()
        .flat_map(RowGroupMetaData::columns)
        .all(is_in_file)
    {
        return Err(unreadable(
            "not a readable Parquet file (a column lies outside the file)".to_owned(),
        ));
    }
    let schema = reader.metadata().file_metadata().schema_descr();
    let named: HashMap<&str, usize> = schema
        .columns()
        .iter()
        .enumerate()
        .map(|(place, column)| (column.name(), place))
        .collect();
    let places = COLUMNS.map(|(name, _)| named.get(name).copied());
    if let Some(missing) = NEEDED.iter().find(|needed| places[**needed].is_none()) {
        return Err(unreadable(format!(
            "not a table of runs: it has no column {}",
            COLUMNS[*missing].0
        )));
    }
    if let Some(nested) = schema
        .columns()
        .iter()
        .find(|column| column.max_rep_level() > 0 || column.max_def_level() > 1)
    {
        return Err(unreadable(format!(
            "its column {} is a list or has parts, and a row is one value a column",
            nested.path().string()
        )));
    }
    let unit = places[STARTED].map_or(1, |place| match schema.column(place).logical_type_ref() {
        Some(LogicalType::Timestamp(stamp)) if stamp.unit == TimeUnit::MICROS => 1_000,
        Some(LogicalType::Timestamp(stamp)) if stamp.unit == TimeUnit::MILLIS => 1_000_000,
        _ => 1,
    });
    let mut run: Option<HistoryRun> = None;
    let mut row_of_file = 0_usize;
    for group in 0..reader.num_row_groups() {
        let group = contained(|| reader.get_row_group(group)).map_err(broken)?;
        let mut columns = contained(|| Columns::of(&*group, &places)).map_err(broken)?;
        loop {
            let (rows, values) = contained(|| columns.next(ROWS_A_BATCH)).map_err(broken)?;
            if rows == 0 {
                break;
            }
            for row in 0..rows {
                row_of_file += 1;
                let found = row_as_run(&values, row, unit)
                    .map_err(|words| unreadable(format!("row {row_of_file}: {words}")))?;
                match &mut run {
                    // Rows of one run stand together.
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
        }
    }
    run.map_or(Ok(()), each)
}

/// What the crate says of damaged bytes, also where it panics: it takes some of what a file says of
/// itself for granted.
fn contained<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    panic::set_hook(hook);
    result.unwrap_or_else(|panic| {
        let words = panic
            .downcast_ref::<&str>()
            .map(|words| (*words).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned());
        Err(ParquetError::General(words.unwrap_or_else(|| {
            "its parts contradict each other".to_owned()
        })))
    })
}

/// The columns of a group of rows that are known, each read on its own.
struct Columns {
    readers: Vec<Option<ColumnReader>>,
}

impl Columns {
    fn of(group: &dyn RowGroupReader, places: &[Option<usize>]) -> Result<Self, ParquetError> {
        let readers = places
            .iter()
            .map(|place| {
                place
                    .map(|place| group.get_column_reader(place))
                    .transpose()
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { readers })
    }

    /// So many rows at most, and how many there were.
    fn next(&mut self, rows: usize) -> Result<(usize, Vec<Values>), ParquetError> {
        let mut all = Vec::new();
        let mut count: Option<usize> = None;
        for (reader, (name, kind)) in self.readers.iter_mut().zip(COLUMNS) {
            let Some(reader) = reader else {
                all.push(Values::new(kind));
                continue;
            };
            let (read, values) =
                match (reader, kind) {
                    (ColumnReader::ByteArrayColumnReader(reader), Kind::Text) => {
                        some(reader, rows).map(|(read, values)| (read, Values::Text(values)))
                    }
                    (
                        ColumnReader::Int64ColumnReader(reader),
                        Kind::Whole | Kind::Time | Kind::Real,
                    ) => some(reader, rows).map(|(read, values)| (read, Values::Whole(values))),
                    (ColumnReader::DoubleColumnReader(reader), Kind::Real) => {
                        some(reader, rows).map(|(read, values)| (read, Values::Real(values)))
                    }
                    // As pandas writes whole numbers with some missing, and a column without any
                    // value.
                    (ColumnReader::DoubleColumnReader(reader), Kind::Whole) => some(reader, rows)
                        .map(|(read, values)| (read, Values::Whole(rounded(values)))),
                    (ColumnReader::Int32ColumnReader(reader), Kind::Whole) => some(reader, rows)
                        .map(|(read, values)| {
                            (
                                read,
                                Values::Whole(
                                    values
                                        .into_iter()
                                        .map(|value| value.map(i64::from))
                                        .collect(),
                                ),
                            )
                        }),
                    _ => Err(ParquetError::General(format!(
                        "column {name} must be {}{}",
                        kind.words().0,
                        kind.words().1
                    ))),
                }?;
            if *count.get_or_insert(read) != read {
                return Err(ParquetError::General(format!(
                    "column {name} has other rows than the first"
                )));
            }
            all.push(values);
        }
        Ok((count.unwrap_or(0), all))
    }
}

/// Nothing where it is no number.
fn rounded(values: Column<f64>) -> Column<i64> {
    values
        .into_iter()
        .map(|value| {
            value
                .filter(|value| value.is_finite())
                .map(|value| value.round() as i64)
        })
        .collect()
}

/// So many values of a column at most, and how many there were.
fn some<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
) -> Result<(usize, Column<T::T>), ParquetError> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    let mut count = 0;
    while count < rows {
        let (read, _, _) =
            reader.read_records(rows - count, Some(&mut levels), None, &mut values)?;
        if read == 0 {
            break;
        }
        count += read;
    }
    if levels.is_empty() {
        return Ok((count, values.into_iter().map(Some).collect()));
    }
    let mut values = values.into_iter();
    Ok((
        count,
        levels
            .iter()
            .map(|&level| if level > 0 { values.next() } else { None })
            .collect(),
    ))
}

/// One row as a run of one number. `unit` is that of its start in ns.
fn row_as_run(columns: &[Values], row: usize, unit: i64) -> Result<HistoryRun, String> {
    let text = |column: usize| columns[column].text(row).map(str::to_owned);
    let missing = |column: usize| format!("it has no {}", COLUMNS[column].0);
    let needed = |column: usize| text(column).ok_or_else(|| missing(column));
    let whole = |column: usize| columns[column].whole(row);
    let count = |column: usize| whole(column).and_then(|number| u64::try_from(number).ok());
    let key = Key {
        probe: needed(PROBE)?,
        quantity: needed(QUANTITY)?,
        unit: needed(UNIT)?,
        load: text(LOAD),
    };
    let max = whole(MAX).ok_or_else(|| missing(MAX))?;
    let quantile = |place: usize| {
        columns[QUANTILE + place]
            .real(row)
            .filter(|value| value.is_finite())
    };
    let numbers = RunNumbers {
        key,
        samples: count(SAMPLES).ok_or_else(|| missing(SAMPLES))?,
        min: whole(MIN).unwrap_or(max),
        mean: columns[MEAN].real(row),
        quantiles: std::array::from_fn(quantile),
        max,
        skipped: count(SKIPPED),
        misses: count(MISSES),
    };
    Ok(HistoryRun {
        folder: text(FOLDER).unwrap_or_default().into(),
        board: needed(BOARD)?,
        build: needed(BUILD)?,
        started_realtime_ns: Nanos(
            whole(STARTED)
                .ok_or_else(|| missing(STARTED))?
                .saturating_mul(unit),
        ),
        clock: match text(CLOCK).as_deref() {
            None | Some(HARDWARE) => ClockKind::Hardware,
            Some(VIRTUAL) => ClockKind::Virtual,
            Some(other) => {
                return Err(format!("{other:?} is not a clock: {HARDWARE} or {VIRTUAL}"));
            }
        },
        facts: std::array::from_fn(|place| text(FACT + place)),
        numbers: vec![numbers],
    })
}
