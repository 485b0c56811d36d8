//! Reads jitterdebugger's samples: binary records of 28 bytes (thread u32, seconds i64, nanoseconds
//! i64, value u64, little-endian), or text lines `cpu;s.ns;value`.
//!
//! Each sample contains the time of its wake-up. Subtracting the latency gives the due time, to the
//! resolution of the file. jitterdebugger skips no due times, so they form a regular grid.
//!
//! The file does not state the unit of its latencies. Due times are regular only if the latency is
//! read in the right unit, so the unit follows from their regularity.

use std::io::{BufRead, BufReader, Read};

use tardy_core::cpu::CPU_MAX;
use tardy_core::sample::{Gap, Record, Sample};
use tardy_core::series::Schedule;
use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::cyclictest_summary::THREAD_NOTE;
use super::sink::{ImportedRun, LATENCY, Sink, descriptor};
use super::text::head_lines;
use super::{Format, ImportError, Settings, Source, Unit, parts};

pub(super) const RAW: Format = Format {
    name: "jitterdebugger-raw",
    about: "samples.raw of jitterdebugger",
    detect: detect_raw,
    reader: read_raw,
    parts: parts::one,
    is_binary: true,
};

pub(super) const CSV: Format = Format {
    name: "jitterdebugger-csv",
    about: "samples of jitterdebugger as cpu;seconds;value",
    detect: |head| {
        head_lines(head)
            .first()
            .is_some_and(|line| parse(line).is_some())
    },
    reader: read_csv,
    parts: parts::one,
    is_binary: false,
};

const RECORD_BYTES: usize = 28;
/// Number of samples of a thread from which unit and period are derived.
const LEARNT_FROM: usize = 1_000;
/// The unit is ns only if the due times computed with ns are more than this many times as regular
/// as those computed with us. For us, half of this factor is enough.
const CLEARLY: i64 = 4;
const THREADS_MAX: u32 = CPU_MAX + 1;

/// One record: thread, time of the wake-up in ns, value in the file's unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    thread: u32,
    wake: i64,
    value: i64,
}

impl Row {
    fn decode(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let [t0, t1, t2, t3, rest @ ..] = bytes;
        let words = rest.as_chunks::<8>().0;
        let (seconds, nanos, value) = (
            i64::from_le_bytes(words[0]),
            i64::from_le_bytes(words[1]),
            u64::from_le_bytes(words[2]),
        );
        Self::new(
            u32::from_le_bytes([*t0, *t1, *t2, *t3]),
            seconds,
            nanos,
            i64::try_from(value).ok()?,
        )
    }

    fn new(thread: u32, seconds: i64, nanos: i64, value: i64) -> Option<Self> {
        // A monotonic clock starts at boot, and machines run for less than a century.
        let is_plausible = thread < THREADS_MAX
            && (0..4_000_000_000).contains(&seconds)
            && (0..1_000_000_000).contains(&nanos)
            && (0..1 << 50).contains(&value);
        is_plausible.then(|| Self {
            thread,
            wake: seconds * 1_000_000_000 + nanos,
            value,
        })
    }

    /// Returns the due time, computed as if the value were in `unit`; `None` if no monotonic clock
    /// can have shown that time.
    fn due(&self, unit: i64) -> Option<i64> {
        let latency = self
            .value
            .checked_mul(unit)
            .filter(|&latency| latency < 1 << 61)?;
        Some(self.wake - latency)
    }
}

fn detect_raw(head: &[u8]) -> bool {
    let (records, _) = head.as_chunks::<RECORD_BYTES>();
    !records.is_empty()
        && records
            .iter()
            .take(64)
            .all(|record| Row::decode(record).is_some_and(|row| row.wake > 0))
}

fn parse(line: &str) -> Option<Row> {
    let [thread, time, value] = line.trim_end().split(';').collect::<Vec<_>>()[..] else {
        return None;
    };
    let (seconds, nanos) = time.split_once('.')?;
    if nanos.len() != 9 {
        return None;
    }
    Row::new(
        thread.parse().ok()?,
        seconds.parse().ok()?,
        nanos.parse().ok()?,
        value.parse().ok()?,
    )
}

fn read_raw(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let mut threads = Threads::new(settings, sink);
    let mut buffer = vec![0_u8; RECORD_BYTES << 14];
    let (mut kept, mut place) = (0, 0_u64);
    loop {
        let read = source
            .input
            .read(&mut buffer[kept..])
            .map_err(|error| source.unreadable(error))?;
        let (records, rest) = buffer[..kept + read].as_chunks::<RECORD_BYTES>();
        for record in records {
            let expected = "a record of 28 bytes: thread, seconds, nanoseconds, value";
            let row = Row::decode(record).ok_or_else(|| {
                source.expected_at(place, expected, "numbers outside the range of a clock")
            })?;
            threads.add(source, Place::Byte(place), row)?;
            place += RECORD_BYTES as u64;
        }
        let (begin, length) = (records.len() * RECORD_BYTES, rest.len());
        if read == 0 {
            let torn = (length > 0).then(|| {
                format!(
                    "the last record is cut off after {length} of {RECORD_BYTES} bytes: the tool \
                     was killed"
                )
            });
            return threads.finish(source, Place::Byte(place), torn);
        }
        buffer.copy_within(begin..begin + length, 0);
        kept = length;
    }
}

fn read_csv(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    const LINE_BYTES_MAX: u64 = 4096;
    let mut threads = Threads::new(settings, sink);
    let (mut text, mut line) = (Vec::new(), 0_u64);
    let named = source.name_only();
    let mut input = BufReader::with_capacity(1 << 20, &mut source.input);
    loop {
        text.clear();
        let read = (&mut input)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut text)
            .map_err(|error| named.unreadable(error))?;
        if read == 0 {
            return threads.finish(&named, Place::Line(line.max(1)), None);
        }
        line += 1;
        let words = String::from_utf8_lossy(&text);
        if words.trim().is_empty() {
            continue;
        }
        let row = parse(&words).ok_or_else(|| {
            named.expected(
                line,
                "`cpu;seconds.nanoseconds;value`, as in `0;987.637200385;20`",
                &words,
            )
        })?;
        threads.add(&named, Place::Line(line), row)?;
    }
}

/// The position of a row in the file.
#[derive(Debug, Clone, Copy)]
enum Place {
    Line(u64),
    Byte(u64),
}

impl Place {
    fn expected(self, source: &Source, expected: impl Into<String>, found: &str) -> ImportError {
        match self {
            Self::Line(line) => source.expected(line, expected, found),
            Self::Byte(byte) => source.expected_at(byte, expected, found),
        }
    }
}

/// The state of a thread: it first collects rows, then writes its series.
enum Thread {
    Learning(Vec<(Place, Row)>),
    Known {
        series: usize,
        start: i64,
        period: i64,
        next: i64,
    },
}

struct Threads<'a> {
    settings: &'a Settings,
    sink: &'a mut dyn Sink,
    threads: std::collections::BTreeMap<u32, Thread>,
    unit: Option<i64>,
}

impl<'a> Threads<'a> {
    fn new(settings: &'a Settings, sink: &'a mut dyn Sink) -> Self {
        Self {
            settings,
            sink,
            threads: std::collections::BTreeMap::new(),
            unit: settings.unit.map(Unit::nanos),
        }
    }

    fn add(&mut self, source: &Source, place: Place, row: Row) -> Result<(), ImportError> {
        match self
            .threads
            .entry(row.thread)
            .or_insert_with(|| Thread::Learning(Vec::new()))
        {
            Thread::Learning(rows) => {
                rows.push((place, row));
                if rows.len() >= LEARNT_FROM {
                    self.learn(source, row.thread)?;
                }
                Ok(())
            }
            Thread::Known { .. } => self.push(source, place, row),
        }
    }

    /// Derives unit and period from the first rows of a thread, then writes these rows to its
    /// series.
    fn learn(&mut self, source: &Source, thread: u32) -> Result<(), ImportError> {
        let Some(Thread::Learning(placed)) = self
            .threads
            .get_mut(&thread)
            .map(|known| std::mem::replace(known, Thread::Learning(Vec::new())))
        else {
            return Ok(());
        };
        let rows: Vec<Row> = placed.iter().map(|&(_, row)| row).collect();
        let unit = match self.unit {
            Some(unit) => unit,
            None => {
                let ask = || {
                    source.ask(
                        "this file",
                        "the unit of its values, and has too few samples to show it",
                        "--unit us or --unit ns",
                    )
                };
                *self.unit.insert(unit(&rows).ok_or_else(ask)?)
            }
        };
        let (period, _) = grid(&rows, unit).unwrap_or_default();
        let period = self.settings.period.map_or(period, Nanos::get);
        if period <= 0 {
            return Err(source.ask(
                "this file",
                "the interval of its threads, and has too few samples to show it",
                "--period, as in --period 1ms",
            ));
        }
        let first = rows
            .first()
            .and_then(|row| row.due(unit))
            .unwrap_or_default();
        // Due times are known only with the resolution of the file. The grid starts one unit early,
        // and due times may differ from the grid by up to two units.
        let start = first - unit;
        let schedule = Schedule::Grid {
            period: Nanos(period),
            start: Nanos(start),
            dither: Nanos(2 * unit),
        };
        let opened = self.sink.open(descriptor(
            "jitterdebugger",
            LATENCY,
            Some(thread),
            schedule,
        ));
        let series = opened.map_err(|error| ImportError::Unwritable {
            path: source.path.clone(),
            error,
        })?;
        self.threads.insert(
            thread,
            Thread::Known {
                series,
                start,
                period,
                next: 0,
            },
        );
        placed
            .into_iter()
            .try_for_each(|(place, row)| self.push(source, place, row))
    }

    fn push(&mut self, source: &Source, place: Place, row: Row) -> Result<(), ImportError> {
        let unwritable = |error| ImportError::Unwritable {
            path: source.path.clone(),
            error,
        };
        let unit = self.unit.unwrap_or(1_000);
        let Some(Thread::Known {
            series,
            start,
            period,
            next,
        }) = self.threads.get_mut(&row.thread)
        else {
            return Ok(());
        };
        let due = row.due(unit).ok_or_else(|| {
            place.expected(
                source,
                "a latency within the range of a clock (is the unit right?)",
                &row.value.to_string(),
            )
        })?;
        let index = (due - *start).div_euclid(*period);
        if index < *next {
            let expected = format!(
                "a due time of thread {} at least one interval of {} after the previous due time",
                row.thread,
                Nanos(*period).exact()
            );
            return Err(place.expected(
                source,
                expected + " (give the right --period or --unit)",
                &Nanos(due).to_string(),
            ));
        }
        if index > *next {
            let lost = (index - *next) as u64;
            self.sink
                .push(*series, Record::Gap(Gap { lost, skipped: 0 }))
                .map_err(unwritable)?;
        }
        *next = index.saturating_add(1);
        let sample = Sample {
            due: Nanos(due),
            latency: Nanos(row.value * unit),
            skipped: 0,
        };
        self.sink
            .push(*series, Record::Sample(sample))
            .map_err(unwritable)
    }

    fn finish(
        mut self,
        source: &Source,
        place: Place,
        torn: Option<String>,
    ) -> Result<ImportedRun, ImportError> {
        let learning: Vec<u32> = self
            .threads
            .iter()
            .filter(|(_, thread)| matches!(thread, Thread::Learning(_)))
            .map(|(&thread, _)| thread)
            .collect();
        for thread in learning {
            self.learn(source, thread)?;
        }
        if self.threads.is_empty() {
            return Err(place.expected(source, "samples", "the end of the file"));
        }
        let unit = self.unit.unwrap_or(1_000);
        for thread in self.threads.values() {
            if let Thread::Known { series, .. } = thread {
                self.sink.state(
                    *series,
                    StatedTotals {
                        resolution_ns: Nanos(unit),
                        skipped: Some(0),
                        ..StatedTotals::default()
                    },
                );
            }
        }
        let mut notes = vec![
            THREAD_NOTE.to_owned(),
            format!(
                "values are multiples of {}, rounded down",
                Nanos(unit).exact()
            ),
        ];
        notes.push(
            "jitterdebugger does not skip due times: a stall appears as a burst of samples with \
             descending latencies"
                .to_owned(),
        );
        if self.settings.unit.is_none() {
            notes.push(format!(
                "the file does not state the unit: tardy assumes {}, because due times are then \
                 regular",
                Nanos(unit).exact()
            ));
        }
        notes.extend(torn);
        Ok(ImportedRun {
            tool: "jitterdebugger".into(),
            notes,
            ..ImportedRun::default()
        })
    }
}

/// Returns the median distance between due times, rounded to whole us, and the median deviation
/// from the unrounded distance, both in ns. Returns `None` for fewer than three rows, or if a row
/// has no due time.
fn grid(rows: &[Row], unit: i64) -> Option<(i64, i64)> {
    let dues: Vec<i64> = rows.iter().filter_map(|row| row.due(unit)).collect();
    let mut distances: Vec<i64> = dues.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let middle = distances.len() / 2;
    if distances.len() < 2 || dues.len() < rows.len() {
        return None;
    }
    distances.sort_unstable();
    let median = distances[middle];
    // jitterdebugger takes intervals in us.
    let period = median.saturating_add(500).div_euclid(1_000) * 1_000;
    let mut departures: Vec<i64> = distances
        .iter()
        .map(|distance| (distance - median).abs())
        .collect();
    departures.sort_unstable();
    Some((period, departures[middle]))
}

/// Returns the unit, ns or us, that makes due times clearly more regular.
fn unit(rows: &[Row]) -> Option<i64> {
    let (_, by_micros) = grid(rows, 1_000)?;
    let (_, by_nanos) = grid(rows, 1)?;
    // Rounding to whole us moves a due time by up to 1 us.
    if by_micros < 1_500 && by_nanos > by_micros.saturating_mul(CLEARLY) / 2 {
        return Some(1_000);
    }
    (by_nanos.saturating_mul(CLEARLY) < by_micros).then_some(1)
}
