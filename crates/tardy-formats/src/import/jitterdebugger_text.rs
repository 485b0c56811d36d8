//! jitterdebugger -v: a line per thread, printed again and again; of a thread, the last one counts.
//! Only extremes and the mean are known. It skips no due time. Source: jitterdebugger,
//! jitterdebugger.c.

use std::collections::BTreeMap;

use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::cyclictest_summary::ThreadLine;
use super::sink::{BucketSeries, ImportedRun, LATENCY, Sink, hand_over_all};
use super::text::{head_lines, lines};
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

/// A line such as `T: 2 ( 1603) A: 2 C: 593432 Min: 1 Avg: 2.07 Max: 4911`.
fn parse(line: &str, unit: Unit) -> Option<ThreadLine> {
    ThreadLine::parse(line, unit).filter(|found| found.affinity.is_some())
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let text = source.text()?;
    let unit = settings.unit.unwrap_or(Unit::Us);
    let mut threads = BTreeMap::new();
    let mut last = 1;
    for (line, text) in lines(&text) {
        last = line;
        if let Some(found) = parse(&text, unit) {
            threads.insert(found.thread, found);
        }
    }
    if threads.is_empty() {
        let expected = "a line such as `T: 0 ( 1601) A: 0 C: 593447 Min: 2 Avg: 2.97 Max: 59`";
        return Err(source.expected(last, expected, "the end of the file"));
    }
    let mut imported = ImportedRun {
        tool: "jitterdebugger".into(),
        notes: vec![
            "only extremes and mean are known: there are no percentiles".into(),
            format!("values are whole {}, rounded down", unit.word()),
        ],
        ..ImportedRun::default()
    };
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
    let mut series: Vec<BucketSeries> = threads.values().map(counted).collect();
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}
