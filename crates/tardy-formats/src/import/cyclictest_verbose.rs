//! Reads the output of cyclictest -v, which has one line per sample: `thread: cycle: value`. The
//! file can be large, so the reader is optimised for speed.
//!
//! The lines lack due times. This module computes the due times from the interval. After a late
//! wake-up, cyclictest skips the due times that have passed, without counting them. So a sample
//! that is late by k intervals implies k skipped due times. Source: rt-tests,
//! src/cyclictest/cyclictest.c, `timerthread`.
//!
//! Caution: cyclictest passes samples through a ring buffer of 16,384 samples per thread, and does
//! not notice when the writer overwrites samples that were not read yet. Old cycle numbers then
//! carry newer values, and each value appears again 16,384 cycles later. This module detects such
//! output.
//!
//! The latency at which cyclictest stopped (-b) is not among the printed samples, and no sample
//! follows it. cyclictest prints this latency on its own below the samples, and this module adds it
//! as the last sample.

use std::collections::BTreeMap;
use std::io::Read;

use tardy_core::cpu::CPU_MAX;
use tardy_core::sample::{Gap, Record, Sample};
use tardy_core::series::Schedule;
use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::cyclictest_summary::{BREAK_THREAD, BREAK_VALUE, THREAD_NOTE};
use super::sink::{ImportedRun, LATENCY, Sink, descriptor};
use super::unit_told::{self, TypicalValue};
use super::{Format, ImportError, Settings, Source, Unit, parts};

pub(super) const FORMAT: Format = Format {
    name: "cyclictest-verbose",
    about: "samples of cyclictest -v",
    detect: |head| detect(head).is_some(),
    reader: read,
    parts: parts::one,
    is_binary: false,
};

const BUFFER_BYTES: usize = 1 << 20;
/// Maximum length of a line; cyclictest writes shorter ones.
const LINE_BYTES_MAX: usize = 4096;
/// Number of samples that cyclictest's ring holds for each thread (`VALBUF_SIZE`).
const RING: usize = 16_384;
/// If this many successive values equal the values 16,384 cycles later, the ring was overwritten
/// before it was read. This rule applies only if the values change: at least an eighth of this
/// number must differ from their predecessors.
const ALIASED_MIN: u32 = 512;
/// Maximum number of samples that are held back until their unit is known.
const HELD_MAX: usize = 4096;
/// Maximum number of threads. Thread numbers at or above this limit cannot come from cyclictest.
const THREADS_MAX: u32 = CPU_MAX + 1;

struct Thread {
    id: u32,
    series: usize,
    period: i64,
    /// Due time of the next cycle.
    due: i64,
    cycle: u64,
    samples: u64,
    largest: i64,
    skipped: u64,
    ring: Vec<i64>,
    equal: u32,
    changing: u32,
    aliased: bool,
}

/// A line of cyclictest -v, with its line number.
#[derive(Debug, Clone, Copy)]
struct Row {
    line: u64,
    thread: u32,
    cycle: u64,
    value: i64,
}

struct Reader<'a> {
    /// The unit, absent until enough samples have revealed it.
    unit: Option<Unit>,
    /// Samples that are held back until the unit is known.
    held: Vec<Row>,
    notes: Vec<String>,
    settings: &'a Settings,
    sink: &'a mut dyn Sink,
    /// Interval of each thread, as the preamble states it.
    intervals: Vec<(u32, i64)>,
    threads: Vec<Thread>,
    /// Index in `threads` of each thread number.
    places: Vec<Option<usize>>,
    /// The lines that cyclictest prints below the samples after a stop.
    stop: Stop,
}

/// A stop at a latency above the limit (-b).
#[derive(Default)]
struct Stop {
    /// Process number of each thread, in the order of threads.
    processes: Vec<u64>,
    process: Option<u64>,
    /// The latency that stopped cyclictest, in the file's unit.
    value: Option<i64>,
}

impl Stop {
    fn line(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let text = text.trim();
        if let Some(numbers) = text.strip_prefix("# Thread Ids:") {
            let numbers = numbers.split_whitespace().map(str::parse);
            self.processes = numbers.map_while(Result::ok).collect();
        } else if let Some(process) = text.strip_prefix(BREAK_THREAD) {
            self.process = process.trim().parse().ok();
        } else if let Some(value) = text.strip_prefix(BREAK_VALUE) {
            self.value = value.trim().parse().ok();
        }
    }

    /// Returns number and latency of the thread that stopped cyclictest.
    fn found(&self) -> Option<(u32, i64)> {
        let place = self
            .processes
            .iter()
            .position(|process| Some(*process) == self.process)?;
        Some((u32::try_from(place).ok()?, self.value?))
    }
}

/// The kinds of lines.
enum Line {
    Sample { thread: u32, cycle: u64, value: i64 },
    Interval { thread: u32, interval: Nanos },
    Other,
}

fn detect(head: &[u8]) -> Option<()> {
    let mut lines = head.split(|&byte| byte == b'\n');
    lines.find_map(|line| matches!(parse(line)?, Line::Sample { .. }).then_some(()))
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let mut reader = Reader {
        unit: settings.unit,
        held: Vec::new(),
        notes: Vec::new(),
        settings,
        sink,
        intervals: Vec::new(),
        threads: Vec::new(),
        places: Vec::new(),
        stop: Stop::default(),
    };
    let mut buffer = vec![0_u8; BUFFER_BYTES];
    let (mut kept, mut line) = (0, 0_u64);
    loop {
        let read = source
            .input
            .read(&mut buffer[kept..])
            .map_err(|error| source.unreadable(error))?;
        let end = kept + read;
        let mut begin = 0;
        while let Some(length) = memchr::memchr(b'\n', &buffer[begin..end]) {
            line += 1;
            reader.line(source, line, &buffer[begin..begin + length])?;
            begin += length + 1;
        }
        if read == 0 {
            // A last line without a line end may be truncated. Such a line is left out.
            break;
        }
        buffer.copy_within(begin..end, 0);
        kept = end - begin;
        if kept > LINE_BYTES_MAX {
            return Err(source.expected(
                line + 1,
                "a line of cyclictest -v",
                &String::from_utf8_lossy(&buffer[..60]),
            ));
        }
    }
    reader.finish(source, line)
}

impl Reader<'_> {
    fn line(&mut self, source: &Source, line: u64, text: &[u8]) -> Result<(), ImportError> {
        match parse(text) {
            Some(Line::Sample {
                thread,
                cycle,
                value,
            }) => self.row(
                source,
                Row {
                    line,
                    thread,
                    cycle,
                    value,
                },
            ),
            Some(Line::Interval { thread, interval }) => {
                self.intervals.push((thread, interval.get()));
                Ok(())
            }
            Some(Line::Other) => {
                self.stop.line(text);
                Ok(())
            }
            None => Err(source.expected(
                line,
                "`thread: cycle: value`, as in `0: 17: 26`",
                &String::from_utf8_lossy(text),
            )),
        }
    }

    fn row(&mut self, source: &Source, row: Row) -> Result<(), ImportError> {
        if let Some(unit) = self.unit {
            return self.sample(source, unit, row);
        }
        self.held.push(row);
        if self.held.len() < HELD_MAX {
            Ok(())
        } else {
            self.release(source)
        }
    }

    /// Derives the unit from the samples that were held back, then processes them.
    #[cold]
    fn release(&mut self, source: &Source) -> Result<(), ImportError> {
        let held = std::mem::take(&mut self.held);
        let mut of_thread: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
        held.iter()
            .for_each(|row| of_thread.entry(row.thread).or_default().push(row.value));
        let typical = |(thread, mut values): (u32, Vec<i64>)| {
            values.sort_unstable();
            let interval = self.period(thread).map(|period| period / 1_000);
            TypicalValue {
                value: values[values.len() / 2],
                interval_us: interval,
            }
        };
        let typical: Vec<TypicalValue> = of_thread.into_iter().map(typical).collect();
        let told = unit_told::unit(source, self.settings, &typical)?;
        self.notes.extend(told.note);
        self.unit = Some(told.unit);
        held.into_iter()
            .try_for_each(|row| self.sample(source, told.unit, row))
    }

    /// Returns the interval of a thread in ns: as the user gave it, otherwise as the preamble
    /// states it.
    fn period(&self, thread: u32) -> Option<i64> {
        let stated = self
            .intervals
            .iter()
            .find(|&&(id, _)| id == thread)
            .map(|&(_, interval)| interval);
        self.settings
            .period
            .map(Nanos::get)
            .or(stated)
            .filter(|&period| period > 0)
    }

    fn sample(
        &mut self,
        source: &Source,
        unit: Unit,
        Row {
            line,
            thread,
            cycle,
            value,
        }: Row,
    ) -> Result<(), ImportError> {
        let unwritable = |error| ImportError::Unwritable {
            path: source.path.clone(),
            error,
        };
        let latency = value
            .checked_mul(unit.nanos())
            .filter(|latency| latency.abs() < i64::MAX / 4);
        let latency = latency.ok_or_else(|| {
            source.expected(
                line,
                "a time within the range of a clock",
                &value.to_string(),
            )
        })?;
        let place = match self.places.get(thread as usize) {
            Some(&Some(place)) => place,
            _ => self.open(source, line, thread, cycle)?,
        };
        let state = &mut self.threads[place];
        if cycle != state.cycle {
            let jump = cycle
                .checked_sub(state.cycle)
                .filter(|&jump| jump < 1 << 40);
            let jump = jump.ok_or_else(|| {
                source.expected(
                    line,
                    format!(
                        "cycle {} or a later cycle of thread {thread} (a file must hold a single \
                         run)",
                        state.cycle
                    ),
                    &cycle.to_string(),
                )
            })?;
            let length = i64::try_from(jump)
                .ok()
                .and_then(|jump| state.period.checked_mul(jump));
            state.due = length
                .and_then(|length| state.due.checked_add(length))
                .unwrap_or(i64::MAX / 2);
            state.cycle = cycle;
            self.sink
                .push(
                    state.series,
                    Record::Gap(Gap {
                        lost: jump,
                        skipped: 0,
                    }),
                )
                .map_err(unwritable)?;
        }
        let skipped = u32::try_from(latency.max(0) / state.period).unwrap_or(u32::MAX);
        self.sink
            .push(
                state.series,
                Record::Sample(Sample {
                    due: Nanos(state.due),
                    latency: Nanos(latency),
                    skipped,
                }),
            )
            .map_err(unwritable)?;
        state.skipped += u64::from(skipped);
        state.note(latency);
        let step = state
            .period
            .checked_mul(i64::from(skipped) + 1)
            .and_then(|step| state.due.checked_add(step));
        state.due = step.filter(|&due| due < i64::MAX / 2).ok_or_else(|| {
            source.expected(line, "a run of less than 100 years", &value.to_string())
        })?;
        state.cycle += 1;
        Ok(())
    }

    #[cold]
    fn open(
        &mut self,
        source: &Source,
        line: u64,
        thread: u32,
        cycle: u64,
    ) -> Result<usize, ImportError> {
        if thread >= THREADS_MAX {
            return Err(source.expected(line, "the number of a thread", &thread.to_string()));
        }
        let asked = || {
            source.ask(
                "this output",
                "the interval of its threads",
                "--period, as in --period 1ms",
            )
        };
        let period = self.period(thread).ok_or_else(asked)?;
        let schedule = Schedule::Grid {
            period: Nanos(period),
            start: Nanos::ZERO,
            dither: Nanos::ZERO,
        };
        let opened = self
            .sink
            .open(descriptor("cyclictest", LATENCY, Some(thread), schedule));
        let series = opened.map_err(|error| ImportError::Unwritable {
            path: source.path.clone(),
            error,
        })?;
        let place = self.threads.len();
        // The first cycle in the file has the first due time, since earlier cycles were not
        // recorded.
        self.threads.push(Thread {
            id: thread,
            series,
            period,
            due: 0,
            cycle,
            samples: 0,
            largest: i64::MIN,
            skipped: 0,
            ring: Vec::with_capacity(RING),
            equal: 0,
            changing: 0,
            aliased: false,
        });
        if self.places.len() <= thread as usize {
            self.places.resize(thread as usize + 1, None);
        }
        self.places[thread as usize] = Some(place);
        Ok(place)
    }

    /// Appends the latency at which cyclictest stopped to the samples of its thread.
    fn stopped(&mut self, source: &Source, unit: Unit, line: u64) -> Result<(), ImportError> {
        let found = self.stop.found();
        let state = found.and_then(|(id, _)| self.threads.iter().find(|thread| thread.id == id));
        let (Some((thread, value)), Some(state)) = (found, state) else {
            return Ok(());
        };
        if value.saturating_mul(unit.nanos()) <= state.largest {
            return Ok(());
        }
        let cycle = state.cycle;
        self.notes.push(format!(
            "CPU {thread}: cyclictest stopped at a latency of {value} {}, which is not among the \
             samples: tardy adds it as the last sample",
            unit.word()
        ));
        let row = Row {
            line,
            thread,
            cycle,
            value,
        };
        self.sample(source, unit, row)
    }

    fn finish(mut self, source: &Source, line: u64) -> Result<ImportedRun, ImportError> {
        if !self.held.is_empty() {
            self.release(source)?;
        }
        if self.threads.is_empty() {
            return Err(source.expected(
                line.max(1),
                "samples, as in `0: 17: 26`",
                "the end of the file",
            ));
        }
        let unit = self.unit.unwrap_or(Unit::Us);
        self.stopped(source, unit, line)?;
        let mut notes = vec![
            THREAD_NOTE.to_owned(),
            "cyclictest does not count skipped due times, so they are derived from latencies \
             longer than the interval"
                .to_owned(),
            format!("values are whole {}, rounded down", unit.word()),
        ];
        notes.extend(self.notes);
        for thread in &self.threads {
            let stated = StatedTotals {
                resolution_ns: Nanos(unit.nanos()),
                skipped: Some(thread.skipped),
                ..StatedTotals::default()
            };
            self.sink.state(thread.series, stated);
            if thread.aliased {
                notes.push(format!(
                    "CPU {}: values repeat {RING} cycles later: cyclictest's buffer was overrun, \
                     and old cycles have newer values",
                    thread.id
                ));
            }
        }
        Ok(ImportedRun {
            tool: "cyclictest".into(),
            notes,
            ..ImportedRun::default()
        })
    }
}

impl Thread {
    #[inline]
    fn note(&mut self, latency: i64) {
        let place = (self.samples % RING as u64) as usize;
        self.samples += 1;
        self.largest = self.largest.max(latency);
        let Some(before) = self.ring.get(place).copied() else {
            self.ring.push(latency);
            return;
        };
        self.ring[place] = latency;
        if before == latency {
            let previous = self.ring[(place + RING - 1) % RING];
            self.equal += 1;
            self.changing += u32::from(previous != latency);
            self.aliased |= self.equal >= ALIASED_MIN && self.changing >= ALIASED_MIN / 8;
        } else {
            (self.equal, self.changing) = (0, 0);
        }
    }
}

/// Parses thread, cycle and value of a sample; signaltest prints the same form.
pub(super) fn sample(line: &[u8]) -> Option<(u32, u64, i64)> {
    let (thread, cycle, value) = Cursor { bytes: line }.sample()?;
    Some((u32::try_from(thread).ok()?, cycle, value))
}

/// Parses a line; `None` if cyclictest prints no such line.
#[inline]
fn parse(line: &[u8]) -> Option<Line> {
    if let Some((thread, cycle, value)) = sample(line) {
        return Some(Line::Sample {
            thread,
            cycle,
            value,
        });
    }
    other(line)
}

#[cold]
fn other(line: &[u8]) -> Option<Line> {
    let text = std::str::from_utf8(line).ok()?.trim();
    let interval = || {
        let (thread, interval) = text.strip_prefix("Thread ")?.split_once(" Interval:")?;
        let micros: i64 = interval.trim().parse().ok()?;
        Some(Line::Interval {
            thread: thread.parse().ok()?,
            interval: Nanos(micros.checked_mul(1000)?),
        })
    };
    if let Some(line) = interval() {
        return Some(line);
    }
    let known = [
        "#",
        "Max CPUs",
        "Online CPUs",
        "policy:",
        "T:",
        "WARN",
        "INFO",
        "Thread ",
        "Using ",
        "adding traceopt",
        "expanding traceopt",
        "cyclictest",
    ];
    (text.is_empty()
        || known
            .iter()
            .any(|start| text.trim_start().starts_with(start)))
    .then_some(Line::Other)
}

/// Reads numbers between colons and blanks.
struct Cursor<'a> {
    bytes: &'a [u8],
}

impl Cursor<'_> {
    #[inline]
    fn sample(&mut self) -> Option<(u64, u64, i64)> {
        let thread = self.number()?;
        self.colon()?;
        let cycle = self.number()?;
        self.colon()?;
        self.blanks();
        let is_negative = self.bytes.first() == Some(&b'-');
        if is_negative {
            self.bytes = &self.bytes[1..];
        }
        let value = i64::try_from(self.number()?).ok()?;
        while let [b' ' | b'\r', rest @ ..] = self.bytes {
            self.bytes = rest;
        }
        self.bytes
            .is_empty()
            .then_some((thread, cycle, if is_negative { -value } else { value }))
    }

    #[inline]
    fn blanks(&mut self) {
        while let [b' ', rest @ ..] = self.bytes {
            self.bytes = rest;
        }
    }

    #[inline]
    fn number(&mut self) -> Option<u64> {
        self.blanks();
        let mut value = 0_u64;
        let mut digits = 0;
        while let [digit @ b'0'..=b'9', rest @ ..] = self.bytes {
            // Every number of up to nineteen digits fits into 64 bits.
            if digits == 19 {
                return None;
            }
            value = value * 10 + u64::from(digit - b'0');
            digits += 1;
            self.bytes = rest;
        }
        (digits > 0).then_some(value)
    }

    #[inline]
    fn colon(&mut self) -> Option<()> {
        let [b':', rest @ ..] = self.bytes else {
            return None;
        };
        self.bytes = rest;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(line: &str) -> Option<(u32, u64, i64)> {
        super::sample(line.as_bytes())
    }

    #[test]
    fn samples_are_told_from_all_else() {
        assert_eq!(sample("       0:       2:      26"), Some((0, 2, 26)));
        assert_eq!(sample("11:123456789:-3\r"), Some((11, 123_456_789, -3)));
        for wrong in [
            "",
            "0:1",
            "0:1:",
            "0:1:2:3",
            "a:1:2",
            "0:1:2x",
            "0:99999999999999999999:1",
            "-1:2:3",
        ] {
            assert_eq!(sample(wrong), None, "{wrong}");
        }
        assert!(matches!(
            parse(b"Thread 1 Interval: 1500"),
            Some(Line::Interval {
                thread: 1,
                interval: Nanos(1_500_000)
            })
        ));
        assert!(matches!(
            parse(b"# /dev/cpu_dma_latency set to 0us"),
            Some(Line::Other)
        ));
        assert!(parse(b"hello").is_none());
    }
}
