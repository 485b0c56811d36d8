//! Reads HdrHistogram's log (.hlog), which has one histogram per interval, in base64, with or
//! without a tag. The intervals of one tag become one series, without their times. The file does
//! not state the unit.

use std::collections::BTreeMap;

use base64::Engine as _;
use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::sink::{BucketSeries, ImportedRun, LATENCY, Sink, hand_over_all};
use super::text::{head_lines, lines};
use super::{Format, ImportError, Settings, Source, hdr_v2, parts};

pub(super) const FORMAT: Format = Format {
    name: "hlog",
    about: "interval log of HdrHistogram (.hlog); needs --unit",
    detect: |head| {
        let lines = head_lines(head);
        let is_log = |line: &&str| {
            line.contains("\"Interval_Max\"") || line.starts_with("#[Histogram log format version")
        };
        lines.iter().any(is_log)
            || lines
                .iter()
                .filter(|line| !line.starts_with('#'))
                .any(|line| line.contains(",HISTFAAA"))
    },
    reader: read,
    parts: parts::one,
    is_binary: false,
};

/// Maximum number of tags; logs of latencies have fewer.
const TAGS_MAX: usize = 4096;

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let text = source.text()?;
    let unit = settings.unit.ok_or_else(|| {
        source.ask(
            "a log of HdrHistogram",
            "the unit of its values",
            "--unit ns (or us, ms, s)",
        )
    })?;
    let mut imported = ImportedRun {
        tool: "HdrHistogram".into(),
        ..ImportedRun::default()
    };
    let mut of_tag: BTreeMap<String, BTreeMap<i64, u64>> = BTreeMap::new();
    let (mut length, mut last_line) = (0.0, 0);
    for (line, text) in lines(&text) {
        last_line = line;
        let text = text.trim();
        if let Some(start) = text.strip_prefix("#[StartTime:") {
            let seconds: Option<f64> = start
                .split_whitespace()
                .next()
                .and_then(|seconds| seconds.parse().ok());
            imported.started = seconds
                .filter(|seconds| (0.0..4e9).contains(seconds))
                .map(|seconds| Nanos((seconds * 1e9) as i64));
        }
        if text.is_empty() || text.starts_with('#') || text.starts_with('"') {
            continue;
        }
        let (tag, rest) = match text.strip_prefix("Tag=") {
            Some(tagged) => tagged.split_once(',').unwrap_or((tagged, "")),
            None => ("", text),
        };
        let fields: Vec<&str> = rest.split(',').collect();
        let [_, interval, _, encoded] = fields[..] else {
            return Err(source.expected(
                line,
                "start, length, maximum and histogram of an interval, with commas between them",
                text,
            ));
        };
        length += interval
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|interval| (0.0..1e9).contains(interval))
            .unwrap_or(0.0);
        let bytes = base64::engine::general_purpose::STANDARD.decode(encoded.trim());
        let bytes = bytes.map_err(|error| {
            source.expected(line, format!("a histogram in base64 ({error})"), encoded)
        })?;
        let counts =
            hdr_v2::decode(&bytes).map_err(|expected| source.expected(line, expected, encoded))?;
        if of_tag.len() >= TAGS_MAX && !of_tag.contains_key(tag) {
            return Err(source.expected(line, format!("at most {TAGS_MAX} tags"), tag));
        }
        let total = of_tag.entry(tag.to_owned()).or_default();
        for (value, count) in counts {
            let value = value.checked_mul(unit.nanos()).ok_or_else(|| {
                source.expected(
                    line,
                    "times of less than 292 years (is the unit right?)",
                    &value.to_string(),
                )
            })?;
            let known = total.entry(value).or_default();
            *known = known.saturating_add(count);
        }
    }
    if of_tag.values().all(BTreeMap::is_empty) {
        return Err(source.expected(last_line, "intervals with samples", "the end of the file"));
    }
    let several = of_tag.len() > 1;
    imported.length = (length > 0.0 && !several).then_some(Nanos((length * 1e9) as i64));
    imported
        .notes
        .push("values are the upper ends of HdrHistogram's buckets".into());
    let mut series = Vec::new();
    for (index, (tag, counts)) in of_tag.into_iter().enumerate() {
        let number = several.then_some(u32::try_from(index).unwrap_or(u32::MAX));
        if let Some(number) = number {
            imported
                .notes
                .push(format!("CPU {number} stands for the tag `{tag}`"));
        }
        let mut counted = BucketSeries::new("hlog", LATENCY, number);
        counted.period = settings.period;
        counted.buckets = counts.into_iter().collect();
        counted.stated = StatedTotals {
            samples: Some(counted.in_buckets()),
            resolution_ns: Nanos(1),
            ..StatedTotals::default()
        };
        series.push(counted);
    }
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}
