//! Reads the JSON and the summary lines of cyclicdeadline (rt-tests), which measures wake-ups of
//! threads with SCHED_DEADLINE. Only extremes and the mean are known. The summary lines are like
//! those of cyclictest, but lack `P:`. Source: rt-tests, src/sched_deadline/cyclicdeadline.c.

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::cyclictest_summary::{THREAD_NOTE, ThreadLine, last_of_each_thread, whole_lines};
use super::sink::{BucketSeries, EXTREMES_NOTE, ImportedRun, LATENCY, Sink, hand_over_all};
use super::text::head_lines;
use super::{Format, ImportError, Settings, Source, Unit, parts, tool_json};

pub(super) const JSON: Format = Format {
    name: "cyclicdeadline-json",
    about: "cyclicdeadline --json",
    detect: |head| {
        let text = String::from_utf8_lossy(head);
        text.trim_start().starts_with('{')
            && text.contains("\"file_version\"")
            && tool_json::command(&text).is_some_and(|word| word.ends_with(TOOL))
    },
    reader: read_json,
    parts: parts::documents,
    is_binary: false,
};

pub(super) const TEXT: Format = Format {
    name: "cyclicdeadline",
    about: "summary lines of cyclicdeadline: extremes and mean of each thread",
    detect: |head| {
        head_lines(head)
            .iter()
            .any(|line| parse(line, Unit::Us).is_some())
    },
    reader: read_text,
    parts: |lines| {
        parts::summaries(lines, |line| {
            parse(line, Unit::Us).map(ThreadLine::identity)
        })
    },
    is_binary: false,
};

const TOOL: &str = "cyclicdeadline";

/// Parses a line such as `T: 0 ( 1234) I:1000 C: 500 Min: 1 Act: 2 Avg: 3 Max: 44`.
fn parse(line: &str, unit: Unit) -> Option<ThreadLine> {
    ThreadLine::parse(line, unit)
        .filter(|found| found.interval.is_some() && !found.has_priority && found.affinity.is_none())
}

/// Makes a series from a thread's counts; the series has no extremes yet.
fn thread(
    cpu: Option<u32>,
    cycles: u64,
    interval: Option<Nanos>,
    settings: &Settings,
    unit: Unit,
) -> BucketSeries {
    let mut counted = BucketSeries::new(TOOL, LATENCY, cpu);
    counted.period = settings.period.or(interval.filter(|it| *it > Nanos::ZERO));
    counted.stated = StatedTotals {
        samples: Some(cycles),
        resolution_ns: Nanos(unit.nanos()),
        ..StatedTotals::default()
    };
    counted
}

fn read_text(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let (text, torn) = whole_lines(source)?;
    let unit = settings.unit.unwrap_or(Unit::Us);
    let example = "T: 0 ( 1234) I:1000 C: 500 Min: 1 Act: 2 Avg: 3 Max: 44";
    let threads = last_of_each_thread(source, &text, example, unit, |line| parse(line, unit))?;
    let mut imported = ImportedRun {
        tool: TOOL.into(),
        notes: vec![EXTREMES_NOTE.into(), THREAD_NOTE.into()],
        ..ImportedRun::default()
    };
    imported.notes.extend(torn.map(str::to_owned));
    let mut series: Vec<BucketSeries> = threads
        .iter()
        .map(|line| {
            let mut counted = thread(
                Some(line.thread),
                line.cycles,
                line.interval,
                settings,
                unit,
            );
            line.state_extremes(&mut counted.stated);
            counted
        })
        .collect();
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}

fn read_json(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let document = tool_json::document(source)?;
    let mut imported = tool_json::envelope(&document, TOOL);
    let unit = settings.unit.unwrap_or(Unit::Us);
    let mut series = Vec::new();
    for (number, found) in tool_json::numbered(source, &document, "thread")? {
        let cycles = found.get("cycles").and_then(Value::as_u64).ok_or_else(|| {
            document.expected(
                source,
                &["thread", &number.to_string()],
                format!("`cycles` in thread {number}"),
                &found.to_string(),
            )
        })?;
        let cpu = found
            .get("cpu")
            .and_then(Value::as_u64)
            .and_then(|cpu| u32::try_from(cpu).ok())
            .unwrap_or(number);
        let interval = tool_json::nanos(found, "interval", Unit::Us.nanos());
        let interval = interval.map(|interval| Nanos(interval as i64));
        let mut counted = thread(Some(cpu), cycles, interval, settings, unit);
        if cycles > 0 {
            let stated = |key: &str| tool_json::nanos(found, key, unit.nanos());
            counted.stated.min_ns = stated("min").map(|value| Nanos(value as i64));
            counted.stated.max_ns = stated("max").map(|value| Nanos(value as i64));
            counted.stated.mean_ns = stated("avg");
        }
        series.push(counted);
    }
    imported.notes.push(EXTREMES_NOTE.into());
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}
