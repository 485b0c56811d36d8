//! Reads the text and the JSON of oslat, which measures the times between two reads of the cycle
//! counter in a busy loop. These times are not wake-up latencies, and are never compared with
//! wake-up latencies. Buckets are named by their upper end. The last bucket also holds all larger
//! values.

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::sink::{BucketSeries, ImportedRun, Sink, hand_over_all};
use super::text::{head_lines, lines, nanos};
use super::{Format, ImportError, Settings, Source, Unit, parts, tool_json};

pub(super) const TEXT: Format = Format {
    name: "oslat",
    about: "text of oslat",
    detect: |head| {
        let lines = head_lines(head);
        lines
            .iter()
            .any(|line| line.trim_start().starts_with("Core:\t"))
            || lines
                .first()
                .is_some_and(|line| line.starts_with("oslat V"))
    },
    reader: read_text,
    parts: |lines| parts::at(lines, |line| line.starts_with("oslat V")),
    is_binary: false,
};

pub(super) const JSON: Format = Format {
    name: "oslat-json",
    about: "oslat --json",
    detect: |head| {
        let text = String::from_utf8_lossy(head);
        text.trim_start().starts_with('{')
            && text.contains("\"file_version\"")
            && (text.contains("oslat") || text.contains("\"freq\""))
    },
    reader: read_json,
    parts: parts::documents,
    is_binary: false,
};

const QUANTITY: &str = "gap between clock reads";
const BUCKET_NOTE: &str = "buckets are named by their upper end in us";
const OVERFLOW_NOTE: &str =
    "the last bucket also holds all longer gaps: its samples get the value of the maximum";

fn read_text(
    source: &mut Source,
    _: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let text = source.text()?;
    let mut imported = ImportedRun {
        tool: "oslat".into(),
        notes: vec![BUCKET_NOTE.into()],
        ..ImportedRun::default()
    };
    let mut series: Vec<BucketSeries> = Vec::new();
    let mut last_bucket = None;
    let mut last_line = 0;
    for (line, text) in lines(&text) {
        last_line = line;
        if let Some(version) = text.strip_prefix("oslat ") {
            imported.tool = format!("oslat {}", version.trim());
        }
        let Some((name, values)) = text.split_once(":\t") else {
            continue;
        };
        let name = name.trim();
        let values: Vec<&str> = values
            .split('(')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        if name == "Core" {
            series.clear();
            for value in &values {
                let core = value
                    .parse()
                    .map_err(|_| source.expected(line, "numbers of CPUs", &text))?;
                series.push(BucketSeries::new("oslat", QUANTITY, Some(core)));
            }
            continue;
        }
        if series.is_empty() {
            continue;
        }
        let bucket = name
            .strip_suffix("(us)")
            .map(|bucket| nanos(bucket.trim(), Unit::Us));
        let wanted =
            bucket.is_some() || matches!(name, "Minimum" | "Average" | "Maximum" | "Duration");
        if wanted && values.len() != series.len() {
            return Err(source.expected(
                line,
                format!("{} values, one per core", series.len()),
                &text,
            ));
        }
        if name == "Maximum" && !text.trim_end().ends_with("(us)") {
            // A number that lost digits by truncation would be too small.
            return Err(source.expected(line, "maxima that end in `(us)`", &text));
        }
        let bad = || source.expected(line, "a number for each core", &text);
        for (counted, value) in series.iter_mut().zip(&values) {
            match name {
                "Minimum" => {
                    counted.stated.min_ns = Some(Nanos(nanos(value, Unit::Us).ok_or_else(bad)?))
                }
                "Maximum" => {
                    counted.stated.max_ns = Some(Nanos(nanos(value, Unit::Us).ok_or_else(bad)?))
                }
                "Average" => {
                    counted.stated.mean_ns = value
                        .parse::<f64>()
                        .ok()
                        .map(|mean| mean * 1e3)
                        .filter(|mean| mean.is_finite())
                }
                "Duration" => {
                    imported.length = imported.length.or(nanos(value, Unit::S).map(Nanos))
                }
                _ => {}
            }
            if let Some(bucket) = bucket {
                let bucket = bucket.ok_or_else(|| {
                    source.expected(line, "a bucket in us, as in `001 (us)`", &text)
                })?;
                counted
                    .buckets
                    .push((bucket, value.parse().map_err(|_| bad())?));
                last_bucket = Some(bucket);
            }
        }
    }
    if series.is_empty() {
        return Err(source.expected(
            last_line,
            "a line `Core:` with the CPUs",
            "the end of the file",
        ));
    }
    if series.iter().any(|counted| counted.stated.max_ns.is_none()) {
        return Err(source.expected(last_line, "a line `Maximum:`", "the end of the file"));
    }
    finish(&mut series, last_bucket, &mut imported);
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}

fn read_json(
    source: &mut Source,
    _: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let document = tool_json::document(source)?;
    let mut imported = tool_json::envelope(&document, "oslat");
    imported.notes.push(BUCKET_NOTE.into());
    let mut series = Vec::new();
    let mut last_bucket = None;
    for (number, thread) in tool_json::numbered(source, &document, "thread")? {
        let cpu = thread
            .get("cpu")
            .and_then(Value::as_u64)
            .and_then(|cpu| u32::try_from(cpu).ok())
            .unwrap_or(number);
        let mut counted = BucketSeries::new("oslat", QUANTITY, Some(cpu));
        counted.buckets =
            tool_json::histogram(source, &document, ["thread", &number.to_string()], thread)?
                .iter()
                .map(|&(us, count)| ((us * 1e3) as i64, count))
                .collect();
        counted.stated.min_ns =
            tool_json::nanos(thread, "min", 1_000).map(|value| Nanos(value as i64));
        counted.stated.max_ns =
            tool_json::nanos(thread, "max", 1_000).map(|value| Nanos(value as i64));
        counted.stated.mean_ns = tool_json::nanos(thread, "avg", 1_000);
        let length =
            tool_json::nanos(thread, "duration", 1_000_000_000).map(|value| Nanos(value as i64));
        imported.length = length.or(imported.length);
        last_bucket = last_bucket.max(counted.buckets.last().map(|&(bucket, _)| bucket));
        series.push(counted);
    }
    finish(&mut series, last_bucket, &mut imported);
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}

/// Limits the highest bucket to the maximum, if the maximum lies in it. This is necessary because,
/// since rt-tests 2.7, the name of a bucket is larger than all of its values. If the maximum lies
/// beyond the last bucket, the values in that bucket are unknown.
fn finish(series: &mut [BucketSeries], last_bucket: Option<i64>, imported: &mut ImportedRun) {
    let ends = series.iter().flat_map(|counted| &counted.buckets);
    let mut ends: Vec<i64> = ends.map(|&(end, _)| end).collect();
    ends.sort_unstable();
    let before = |end: i64| ends[..ends.partition_point(|&other| other < end)].last();
    // All buckets have the same width. If the file omits rows, only a multiple of the width can be
    // derived.
    let width = ends
        .iter()
        .fold(0, |width, &end| divisor(width, end - ends[0]));
    let width = if width > 0 {
        width
    } else {
        ends.first().copied().unwrap_or(0)
    };
    for counted in series.iter_mut() {
        counted.stated = StatedTotals {
            samples: Some(counted.in_buckets()),
            resolution_ns: Nanos(1_000),
            below_ns: Nanos((width - 1).max(0)),
            ..counted.stated
        };
        let max = counted.stated.max_ns.map_or(0, Nanos::get);
        let top = counted.buckets.iter_mut().rfind(|(_, count)| *count > 0);
        if let Some((end, _)) = top
            && (before(*end).copied().unwrap_or(0)..*end).contains(&max)
        {
            *end = max;
        }
        if let Some(last) = last_bucket.filter(|&last| max > last) {
            let counts = counted
                .buckets
                .iter()
                .filter(|&&(bucket, _)| bucket == last)
                .map(|&(_, count)| count);
            let beyond = counts.fold(0, u64::saturating_add);
            counted.buckets.retain(|&(bucket, _)| bucket != last);
            counted.overflow(beyond, before(last).copied().unwrap_or(0));
        }
    }
    if series
        .iter()
        .any(|counted| counted.stated.overflow.is_some())
    {
        imported.notes.push(OVERFLOW_NOTE.into());
    }
}

/// Returns the greatest common divisor.
fn divisor(one: i64, other: i64) -> i64 {
    if other == 0 {
        one
    } else {
        divisor(other, one % other)
    }
}
