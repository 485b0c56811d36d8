//! Reads the output of jitterdebugger -v, which repeatedly prints one line per thread. Only the
//! last line of each thread counts. Only extremes and the mean are known. jitterdebugger skips no
//! due time. Source: jitterdebugger, jitterdebugger.c.

use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::cyclictest_summary::{ThreadLine, last_of_each_thread, whole_lines};
use super::sink::{BucketSeries, EXTREMES_NOTE, ImportedRun, LATENCY, Sink, hand_over_all};
use super::text::head_lines;
use super::{Format, ImportError, Settings, Source, Unit, parts};

pub(super) const FORMAT: Format = Format {
    name: "jitterdebugger-text",
    about: "lines of jitterdebugger -v: extremes and mean of each thread",
    detect: |head| {
        head_lines(head)
            .iter()
            .any(|line| parse(line, Unit::Us).is_some())
    },
    reader: read,
    parts: |lines| {
        parts::summaries(lines, |line| {
            parse(line, Unit::Us).map(ThreadLine::identity)
        })
    },
    is_binary: false,
};

/// Parses a line such as `T: 2 ( 1603) A: 2 C: 593432 Min: 1 Avg: 2.07 Max: 4911`.
fn parse(line: &str, unit: Unit) -> Option<ThreadLine> {
    ThreadLine::parse(line, unit).filter(|found| found.affinity.is_some())
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let (text, torn) = whole_lines(source)?;
    let unit = settings.unit.unwrap_or(Unit::Us);
    let example = "T: 0 ( 1601) A: 0 C: 593447 Min: 2 Avg: 2.97 Max: 59";
    let threads = last_of_each_thread(source, &text, example, unit, |line| parse(line, unit))?;
    let mut imported = ImportedRun {
        tool: "jitterdebugger".into(),
        notes: vec![
            EXTREMES_NOTE.into(),
            format!("values are whole {}, rounded down", unit.word()),
        ],
        ..ImportedRun::default()
    };
    imported.notes.extend(torn.map(str::to_owned));
    let counted = |line: &ThreadLine| {
        let mut counted = BucketSeries::new("jitterdebugger", LATENCY, line.affinity);
        counted.period = settings.period;
        counted.stated = StatedTotals {
            samples: Some(line.cycles),
            resolution_ns: Nanos(unit.nanos()),
            skipped: Some(0),
            ..StatedTotals::default()
        };
        line.state_extremes(&mut counted.stated);
        counted
    };
    let mut series: Vec<BucketSeries> = threads.iter().map(counted).collect();
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}
