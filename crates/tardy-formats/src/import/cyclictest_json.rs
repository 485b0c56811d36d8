//! Reads the output of `cyclictest --json` and of `tardy export --format rt-tests-json`. The
//! histogram omits samples beyond the last bucket: their number is the number of cycles minus the
//! sum of the buckets.

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::sink::{BucketSeries, ImportedRun, LATENCY, Sink, hand_over_all};
use super::tool_json::Document;
use super::{Format, ImportError, Settings, Source, Unit, parts, tool_json};

pub(super) const FORMAT: Format = Format {
    name: "cyclictest-json",
    about: "cyclictest --json, and tardy export --format rt-tests-json",
    detect,
    reader: read,
    parts: parts::documents,
    is_binary: false,
};

/// All documents of rt-tests have the same envelope; unlike cyclictest, oslat has no `cycles` per
/// thread.
fn detect(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    text.trim_start().starts_with('{')
        && text.contains("\"file_version\"")
        && (text.contains("\"cycles\"") || text.contains("cyclictest"))
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let document = tool_json::document(source)?;
    let mut imported = tool_json::envelope(&document, "cyclictest");
    let stated_unit = (document
        .value
        .get("resolution_in_ns")
        .and_then(Value::as_u64)
        == Some(1))
    .then_some(Unit::Ns);
    let unit = settings.unit.or(stated_unit).unwrap_or(Unit::Us);
    let mut series = Vec::new();
    for (number, thread) in tool_json::numbered(source, &document, "thread")? {
        series.push(counted(
            (source, &document),
            settings,
            number,
            thread,
            unit,
        )?);
    }
    if series.iter().all(|counted| counted.buckets.is_empty()) {
        imported.notes.push(
            "only extremes and mean are known: there are no percentiles (cyclictest ran without \
             -h)"
            .into(),
        );
    } else {
        imported
            .notes
            .push(format!("values are whole {}, rounded down", unit.word()));
    }
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}

fn counted(
    (source, document): (&Source, &Document),
    settings: &Settings,
    number: u32,
    thread: &Value,
    unit: Unit,
) -> Result<BucketSeries, ImportError> {
    let keys = ["thread", &number.to_string()];
    let cycles = thread.get("cycles").and_then(Value::as_u64);
    let cycles = cycles.ok_or_else(|| {
        document.expected(
            source,
            &keys,
            format!("`cycles` in thread {number}"),
            &thread.to_string(),
        )
    })?;
    let cpu = match thread.get("cpu") {
        None => Some(number),
        // -1 stands for a thread that was not bound to a CPU.
        Some(cpu) if cpu.as_i64() == Some(-1) => None,
        Some(cpu) => {
            let cpu_number = cpu.as_u64().and_then(|cpu| u32::try_from(cpu).ok());
            Some(cpu_number.ok_or_else(|| {
                document.expected(
                    source,
                    &keys,
                    "the number of a CPU".to_owned(),
                    &cpu.to_string(),
                )
            })?)
        }
    };
    let mut counted = BucketSeries::new("cyclictest", LATENCY, cpu);
    // Only tardy's own exports have this key.
    let stated_period = thread
        .get("interval_ns")
        .and_then(Value::as_i64)
        .filter(|&period| period > 0)
        .map(Nanos);
    counted.period = settings.period.or(stated_period);
    let buckets = tool_json::histogram(source, document, keys, thread)?;
    counted.buckets = buckets
        .iter()
        .map(|&(bucket, count)| ((bucket as i64).saturating_mul(unit.nanos()), count))
        .collect();
    // Only tardy's own exports have this key.
    let skipped = thread.get("missed").and_then(Value::as_u64);
    counted.stated = StatedTotals {
        samples: Some(cycles),
        resolution_ns: Nanos(unit.nanos()),
        skipped,
        ..StatedTotals::default()
    };
    // If the thread made no cycle, the minimum is the initial value of the tool's variable.
    if cycles > 0 {
        let stated = |key: &str| tool_json::nanos(thread, key, unit.nanos());
        counted.stated.min_ns = stated("min").map(|value| Nanos(value as i64));
        counted.stated.max_ns = stated("max").map(|value| Nanos(value as i64));
        counted.stated.mean_ns = stated("avg");
    }
    if let Some(&(last, _)) = counted.buckets.last() {
        counted.overflow(
            cycles.saturating_sub(counted.in_buckets()),
            last.saturating_add(unit.nanos()),
        );
    }
    Ok(counted)
}
