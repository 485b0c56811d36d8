//! Reads HdrHistogram's percentile listing (.hgrm). Each row has a value, the share of samples at
//! or below the value, their number, and 1/(1-share).
//!
//! Samples between the values of two lines are counted at the larger value, so that no percentile
//! looks better than it was. The file lacks the unit.

use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::sink::{BucketSeries, ImportedRun, LATENCY, Sink, hand_over_all};
use super::text::{head_lines, lines, nanos};
use super::{Format, ImportError, Settings, Source, Unit, parts};

pub(super) const FORMAT: Format = Format {
    name: "hgrm",
    about: "percentiles of HdrHistogram (.hgrm); needs --unit",
    detect: |head| head_lines(head).iter().any(|line| is_head(line)),
    reader: read,
    parts: |lines| parts::at(lines, is_head),
    is_binary: false,
};

fn is_head(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.starts_with(&["Value", "Percentile", "TotalCount"])
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let text = source.text()?;
    let unit = settings.unit.ok_or_else(|| {
        source.ask(
            "a .hgrm file",
            "the unit of its values",
            "--unit us (or ns, ms, s)",
        )
    })?;
    let mut counted = BucketSeries::new("hgrm", LATENCY, None);
    counted.period = settings.period;
    counted.stated.resolution_ns = Nanos(1);
    let (mut has_begun, mut seen, mut last_line) = (false, 0_u64, 0);
    for (line, text) in lines(&text) {
        last_line = line;
        if is_head(&text) {
            has_begun = true;
        } else if let Some(footer) = text.strip_prefix("#[") {
            footer_value(&mut counted.stated, footer, unit);
        } else if has_begun && !text.trim().is_empty() && !text.starts_with('#') {
            let (value, total) = row(&text, unit).ok_or_else(|| {
                source.expected(
                    line,
                    "value, percentile and count, as in `21.5 0.5 1200 2.00`",
                    &text,
                )
            })?;
            if total < seen
                || counted
                    .buckets
                    .last()
                    .is_some_and(|&(before, _)| value < before)
            {
                return Err(source.expected(line, "values and counts that never decrease", &text));
            }
            counted.buckets.push((value, total - seen));
            seen = total;
        }
    }
    if !has_begun || seen == 0 {
        return Err(source.expected(
            last_line,
            "a head `Value Percentile TotalCount` and percentiles below it",
            "none",
        ));
    }
    counted.stated.samples = Some(seen);
    counted.stated.min_ns = None;
    // The last row names the upper end of its bucket; the footer has the exact maximum.
    if let Some(max) = counted.stated.max_ns {
        for (value, _) in &mut counted.buckets {
            *value = (*value).min(max.get());
        }
    }
    let mut imported = ImportedRun {
        tool: "HdrHistogram".into(),
        ..ImportedRun::default()
    };
    imported.notes.push(
        "samples between two listed percentiles get the value of the upper percentile, because the \
         file lists no values in between"
            .into(),
    );
    hand_over_all(&mut [counted], &mut imported, source, sink)?;
    Ok(imported)
}

fn row(text: &str, unit: Unit) -> Option<(i64, u64)> {
    let mut words = text.split([' ', '\t', ',']).filter(|word| !word.is_empty());
    let value = nanos(words.next()?, unit)?;
    words.next()?.parse::<f64>().ok()?;
    Some((value, words.next()?.parse().ok()?))
}

/// Parses `Mean = 25.123, StdDeviation = 5.123]`.
fn footer_value(stated: &mut StatedTotals, footer: &str, unit: Unit) {
    for part in footer.trim_end_matches(']').split(',') {
        let Some((name, value)) = part.split_once('=') else {
            continue;
        };
        let value = value.trim();
        match name.trim() {
            "Mean" => {
                stated.mean_ns = value
                    .parse::<f64>()
                    .ok()
                    .map(|mean| mean * unit.nanos() as f64)
                    .filter(|mean| mean.is_finite())
            }
            "Max" => stated.max_ns = nanos(value, unit).map(Nanos),
            _ => {}
        }
    }
}
