//! Reads jitterdebugger's results.json. The histogram in this JSON omits samples beyond the last
//! bucket; their number follows from the stated count. jitterdebugger skips no due time.

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::cyclictest_summary::THREAD_NOTE;
use super::sink::{BucketSeries, ImportedRun, LATENCY, Sink, hand_over_all};
use super::{Format, ImportError, Settings, Source, parts, tool_json};

pub(super) const FORMAT: Format = Format {
    name: "jitterdebugger-json",
    about: "results.json of jitterdebugger",
    detect,
    reader: read,
    parts: parts::documents,
    is_binary: false,
};

fn detect(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    text.trim_start().starts_with('{')
        && text.contains("\"version\"")
        && text.contains("\"cpu\"")
        && !text.contains("\"file_version\"")
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let document = tool_json::document(source)?;
    let mut imported = tool_json::envelope(&document, "jitterdebugger");
    let resolution = document
        .value
        .get("sysinfo")
        .and_then(|system| system.get("resolution_in_ns"))
        .and_then(Value::as_i64);
    let unit = settings
        .unit
        .map(super::Unit::nanos)
        .or(resolution.filter(|&resolution| (1..=1_000_000).contains(&resolution)));
    let unit = unit.ok_or_else(|| {
        source.ask(
            "this file",
            "the unit of its values (`resolution_in_ns`)",
            "--unit us",
        )
    })?;
    imported.notes.push(THREAD_NOTE.into());
    imported.notes.push(format!(
        "values are multiples of {}, rounded down",
        Nanos(unit).exact()
    ));
    let mut series = Vec::new();
    for (number, cpu) in tool_json::numbered(source, &document, "cpu")? {
        let mut counted = BucketSeries::new("jitterdebugger", LATENCY, Some(number));
        counted.period = settings.period;
        counted.buckets =
            tool_json::histogram(source, &document, ["cpu", &number.to_string()], cpu)?
                .iter()
                .map(|&(bucket, count)| ((bucket as i64).saturating_mul(unit), count))
                .collect();
        let stated = |key: &str| tool_json::nanos(cpu, key, unit);
        let samples = cpu
            .get("count")
            .and_then(Value::as_u64)
            .unwrap_or(counted.in_buckets());
        counted.stated = StatedTotals {
            samples: Some(samples),
            resolution_ns: Nanos(unit),
            skipped: Some(0),
            ..StatedTotals::default()
        };
        if samples > 0 {
            counted.stated.min_ns = stated("min").map(|value| Nanos(value as i64));
            counted.stated.max_ns = stated("max").map(|value| Nanos(value as i64));
            counted.stated.mean_ns = stated("avg");
        }
        let end = counted
            .buckets
            .last()
            .map_or(0, |&(last, _)| last.saturating_add(unit));
        counted.overflow(samples.saturating_sub(counted.in_buckets()), end);
        series.push(counted);
    }
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}
