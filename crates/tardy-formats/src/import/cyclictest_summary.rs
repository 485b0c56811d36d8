//! cyclictest's summary lines, as it prints them with -q, or over and over without:
//! `T: 0 ( 1234) P:95 I:1000 C: 500 Min: 19 Act: 20 Avg: 23 Max: 44`. Only extremes and the mean
//! are known; of lines that come again the last one counts.

use std::collections::BTreeMap;

use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::sink::{BucketSeries, ImportedRun, LATENCY, Sink, hand_over_all};
use super::text::{head_lines, lines, nanos};
use super::unit_told::{self, TypicalValue};
use super::{Format, ImportError, Settings, Source, Unit};

pub(super) const FORMAT: Format = Format {
    name: "cyclictest-summary",
    about: "summary lines of cyclictest -q: extremes and mean of each thread",
    detect: |head| {
        head_lines(head)
            .iter()
            .any(|line| SummaryLine::parse(line, Unit::Us).is_some())
    },
    reader: read,
};

/// cyclictest numbers its threads, not the CPUs that they ran on.
pub(super) const THREAD_NOTE: &str =
    "CPU numbers are those of the tool's threads, which may have run elsewhere";

pub(super) struct SummaryLine {
    pub(super) thread: u32,
    /// Of `I:`, in us whatever the unit of the others.
    pub(super) interval: Nanos,
    pub(super) cycles: u64,
    pub(super) min: i64,
    pub(super) avg: i64,
    pub(super) max: i64,
}

impl SummaryLine {
    /// `None` where the line is something else.
    pub(super) fn parse(line: &str, unit: Unit) -> Option<Self> {
        Self::read(line, unit).filter(|found| found.interval >= Nanos::ZERO)
    }

    /// One of signaltest, whose threads have no interval.
    pub(super) fn without_interval(line: &str, unit: Unit) -> Option<Self> {
        Self::read(line, unit).filter(|found| found.interval < Nanos::ZERO)
    }

    /// The interval is -1 where the line has none.
    fn read(line: &str, unit: Unit) -> Option<Self> {
        let rest = line.trim_start().strip_prefix("T:")?;
        let (thread, rest) = rest.split_once('(')?;
        let rest = rest.split_once(')')?.1.replace(':', " ");
        let words: Vec<&str> = rest.split_whitespace().collect();
        let value = |key: &str| {
            words
                .iter()
                .position(|word| *word == key)
                .and_then(|at| words.get(at + 1))
                .copied()
        };
        Some(Self {
            thread: thread.trim().parse().ok()?,
            interval: value("I").map_or(Some(Nanos(-1)), |interval| {
                nanos(interval, Unit::Us).map(Nanos)
            })?,
            cycles: value("C")?.parse().ok()?,
            min: nanos(value("Min")?, unit)?,
            avg: nanos(value("Avg")?, unit)?,
            max: nanos(value("Max")?, unit)?,
        })
    }
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let text = source.text()?;
    let mut last = 0;
    let mut of_unit = |unit| {
        let mut threads = BTreeMap::new();
        for (line, text) in lines(&text) {
            last = line;
            if let Some(found) = SummaryLine::parse(&text, unit) {
                threads.insert(found.thread, found);
            }
        }
        threads
    };
    let as_written = of_unit(Unit::Ns);
    let measured = as_written.values().filter(|line| line.cycles > 0);
    let typical = |line: &SummaryLine| {
        let interval = settings.period.unwrap_or(line.interval).get() / 1_000;
        TypicalValue {
            value: line.avg,
            interval_us: Some(interval).filter(|&interval| interval > 0),
        }
    };
    let told = unit_told::unit(source, settings, &measured.map(typical).collect::<Vec<_>>())?;
    let unit = told.unit;
    let threads = of_unit(unit);
    if threads.is_empty() {
        let expected =
            "a line such as `T: 0 ( 1234) P:95 I:1000 C: 500 Min: 19 Act: 20 Avg: 23 Max: 44`";
        return Err(source.expected(last, expected, "the end of the file"));
    }
    let mut imported = ImportedRun {
        tool: "cyclictest".into(),
        ..ImportedRun::default()
    };
    imported
        .notes
        .push("only extremes and mean are known: there are no percentiles".into());
    imported.notes.push(THREAD_NOTE.into());
    imported.notes.extend(told.note);
    let mut series: Vec<BucketSeries> = threads
        .values()
        .map(|line| {
            let mut counted = BucketSeries::new("cyclictest", LATENCY, Some(line.thread));
            counted.period = settings
                .period
                .or(Some(line.interval).filter(|interval| interval.get() > 0));
            counted.stated = StatedTotals {
                samples: Some(line.cycles),
                resolution_ns: Nanos(unit.nanos()),
                ..StatedTotals::default()
            };
            if line.cycles > 0 {
                counted.stated.min_ns = Some(Nanos(line.min));
                counted.stated.max_ns = Some(Nanos(line.max));
                counted.stated.mean_ns = Some(line.avg as f64);
            }
            counted
        })
        .collect();
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}
