//! Reads the JSON, the summary lines and the -v output of signaltest (rt-tests). A signal travels
//! through all threads, and a value is the time of one round.
//!
//! Caution: the first thread rests for 10 ms after every 16 rounds, and excludes that rest from its
//! own values. The values of the other threads include this rest, so they are not latencies and are
//! omitted here. With -v, signaltest prints only the first thread, and each of its values one line
//! late; the first printed value is the zero of an empty buffer. Source: rt-tests,
//! src/signaltest/signaltest.c, `signalthread` and `print_stat`.

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::cyclictest_summary::{ThreadLine, whole_lines};
use super::cyclictest_verbose::sample;
use super::in_order::InOrder;
use super::sink::{BucketSeries, EXTREMES_NOTE, ImportedRun, LATENCY, Sink, hand_over_all};
use super::text::{head_lines, lines, nanos};
use super::{Format, ImportError, Settings, Source, Unit, parts, tool_json};

pub(super) const JSON: Format = Format {
    name: "signaltest-json",
    about: "signaltest --json",
    detect: |head| {
        let text = String::from_utf8_lossy(head);
        text.trim_start().starts_with('{')
            && text.contains("\"file_version\"")
            && tool_json::command(&text).is_some_and(|word| word.ends_with("signaltest"))
    },
    reader: read_json,
    parts: parts::documents,
    is_binary: false,
};

pub(super) const TEXT: Format = Format {
    name: "signaltest",
    about: "samples of signaltest -v, or its summary lines: extremes and mean",
    detect: |head| {
        head_lines(head)
            .iter()
            .any(|line| ThreadLine::of_signaltest(line, Unit::Us).is_some())
    },
    reader: read_text,
    parts: |lines| {
        parts::summaries(lines, |line| {
            ThreadLine::of_signaltest(line, Unit::Us).map(ThreadLine::identity)
        })
    },
    is_binary: false,
};

const ROUND_NOTE: &str = "a value is the time in which a signal passes through all threads";
const REST_NOTE: &str = "all threads except the first are left out: their values include the 10 ms \
                         for which the first thread rests after every 16 rounds";
const PROBE: &str = "signaltest";

fn read_json(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let document = tool_json::document(source)?;
    let mut imported = tool_json::envelope(&document, PROBE);
    let unit = settings.unit.unwrap_or(Unit::Us);
    let threads = tool_json::numbered(source, &document, "thread")?;
    let first = threads
        .iter()
        .find(|(number, _)| *number == 0)
        .map(|(_, thread)| *thread);
    let first = first.ok_or_else(|| document.expected(source, &["thread"], "a thread `0`", ""))?;
    let cycles = first.get("cycles").and_then(Value::as_u64);
    let cycles = cycles.ok_or_else(|| {
        document.expected(
            source,
            &["thread", "0"],
            "`cycles` in thread 0",
            &first.to_string(),
        )
    })?;
    let cpu = first
        .get("cpu")
        .and_then(Value::as_u64)
        .and_then(|cpu| u32::try_from(cpu).ok());
    let time = |key: &str| tool_json::nanos(first, key, unit.nanos());
    let extremes = (
        time("min").map(|value| value as i64),
        time("avg"),
        time("max").map(|value| value as i64),
    );
    note(&mut imported, threads.len());
    imported.notes.push(EXTREMES_NOTE.to_owned());
    hand_over_all(
        &mut [counted(cpu, cycles, extremes, unit)],
        &mut imported,
        source,
        sink,
    )?;
    Ok(imported)
}

fn note(imported: &mut ImportedRun, threads: usize) {
    imported.notes.push(ROUND_NOTE.to_owned());
    imported
        .notes
        .extend((threads > 1).then(|| REST_NOTE.to_owned()));
}

/// Returns the series of the first thread. Each round starts when the previous one ends, so none is
/// skipped.
fn counted(
    cpu: Option<u32>,
    cycles: u64,
    (min, mean, max): (Option<i64>, Option<f64>, Option<i64>),
    unit: Unit,
) -> BucketSeries {
    let mut counted = BucketSeries::new(PROBE, LATENCY, cpu);
    counted.is_event = true;
    counted.stated = StatedTotals {
        samples: Some(cycles),
        resolution_ns: Nanos(unit.nanos()),
        skipped: Some(0),
        ..StatedTotals::default()
    };
    if cycles > 0 {
        counted.stated = StatedTotals {
            min_ns: min.map(Nanos),
            max_ns: max.map(Nanos),
            mean_ns: mean,
            ..counted.stated
        };
    }
    counted
}

fn read_text(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let (text, torn) = whole_lines(source)?;
    let unit = settings.unit.unwrap_or(Unit::Us);
    let (mut summary, mut threads, mut last_line) = (None, 1, 1);
    let mut samples: Vec<(u64, u64, i64)> = Vec::new();
    for (line, text) in lines(&text) {
        last_line = line;
        if let Some(found) = ThreadLine::of_signaltest(&text, unit) {
            threads = threads.max(found.thread as usize + 1);
            summary = if found.thread == 0 {
                Some(found)
            } else {
                summary
            };
        } else if let Some((0, cycle, value)) = sample(text.as_bytes()) {
            samples.push((line, cycle, value));
        }
    }
    let mut imported = ImportedRun {
        tool: PROBE.to_owned(),
        ..ImportedRun::default()
    };
    note(&mut imported, threads);
    imported.notes.extend(torn.map(str::to_owned));
    // The zero at the start is not a sample.
    if samples
        .first()
        .is_some_and(|&(_, cycle, value)| (cycle, value) == (0, 0))
    {
        samples.remove(0);
    }
    if !samples.is_empty() {
        let unwritable = |error| ImportError::Unwritable {
            path: source.path.clone(),
            error,
        };
        let without_period = Settings::default();
        let mut series =
            InOrder::open(sink, (PROBE, None), &without_period, unit).map_err(unwritable)?;
        for (line, _, value) in samples {
            let latency = nanos(&value.to_string(), unit)
                .filter(|latency| latency.abs() < super::in_order::TIME_MAX);
            let latency = latency.ok_or_else(|| {
                source.expected(
                    line,
                    "a time within the range of a clock",
                    &value.to_string(),
                )
            })?;
            series
                .push(latency)
                .map_err(unwritable)?
                .ok_or_else(|| source.expected(line, "fewer samples", ""))?;
        }
        let closed = series.close(PROBE);
        imported.notes.push(
            "signaltest -v keeps no times: only the order of the samples is known".to_owned(),
        );
        return Ok(ImportedRun {
            notes: imported.notes,
            ..closed
        });
    }
    let Some(summary) = summary else {
        let expected =
            "a line such as `T: 0 ( 1234) P:80 C: 1000 Min: 33 Act: 34 Avg: 46 Max: 248`";
        return Err(source.expected(last_line, expected, "the end of the file"));
    };
    imported.notes.push(EXTREMES_NOTE.to_owned());
    let extremes = (Some(summary.min), Some(summary.avg), Some(summary.max));
    hand_over_all(
        &mut [counted(None, summary.cycles, extremes, unit)],
        &mut imported,
        source,
        sink,
    )?;
    Ok(imported)
}
