//! Reads the output of `rtla timerlat hist` and `rtla osnoise hist`, which has a row per bucket and
//! a column per CPU. timerlat prints up to three columns per CPU: the timer's interrupt, the
//! kernel's thread, and the return to user space. Each kind of column becomes a probe.
//!
//! Caution: buckets may be wider than a unit (-b). Only the names of the rows show the width. Each
//! sample is counted at the end of its bucket, so that no percentile looks better than it was.
//! Empty rows are omitted. With --no-summary, the file states no maximum, so the import uses the
//! end of the last row with samples as an upper limit. osnoise measures intervals in which a task
//! did not have the CPU, not wake-up latencies. Files without the names of the columns
//! (--no-header) or of the rows (--no-index) are refused. Source: Linux,
//! tools/tracing/rtla/src/timerlat_hist.c, osnoise_hist.c.

use std::collections::BTreeMap;

use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::sink::{BucketSeries, ImportedRun, LATENCY, Sink, hand_over_all, wide_note};
use super::text::{head_lines, lines, nanos};
use super::{Format, ImportError, Settings, Source, Unit, parts, rtla_end};

pub(super) const TIMERLAT: Format = Format {
    name: "rtla-timerlat",
    about: "rtla timerlat hist",
    detect: |head| is_of(head, "# RTLA timerlat histogram", LATENCY) || is_nameless(head),
    reader: |source, settings, sink| read(source, settings, sink, "rtla timerlat hist"),
    parts: begins,
    is_binary: false,
};

pub(super) const OSNOISE: Format = Format {
    name: "rtla-osnoise",
    about: "rtla osnoise hist",
    detect: |head| is_of(head, "# RTLA osnoise histogram", NOISE),
    reader: |source, settings, sink| read(source, settings, sink, "rtla osnoise hist"),
    parts: begins,
    is_binary: false,
};

/// Returns the lines at which runs start: their titles, or, with --no-header, the names of the
/// columns.
fn begins(lines: &[&str]) -> Vec<usize> {
    let titles = parts::at(lines, |line| line.starts_with("# RTLA "));
    if titles.is_empty() {
        parts::at(lines, |line| header(line).is_some())
    } else {
        titles
    }
}

/// Names of the lines below the rows.
const FOOTERS: [&str; 5] = ["over", "count", "min", "avg", "max"];
const NO_SUMMARY_NOTE: &str = "the file has no summary (--no-summary): a maximum is the upper end of \
                               the last row with samples";
/// Name of the quantity that osnoise measures.
const NOISE: &str = "noise";

fn is_of(head: &[u8], title: &str, quantity: &str) -> bool {
    head_lines(head).iter().any(|line| {
        line.starts_with(title)
            || header(line).is_some_and(|columns| columns[0].quantity == quantity)
    })
}

/// Returns whether there are rows without names of columns (--no-header).
fn is_nameless(head: &[u8]) -> bool {
    let lines = head_lines(head);
    let is_over = |line: &str| {
        let numbers = line.strip_prefix("over:").map(str::split_whitespace);
        numbers.is_some_and(|mut numbers| numbers.all(|number| number.parse::<u64>().is_ok()))
    };
    lines.iter().any(|line| is_over(line)) && !lines.iter().any(|line| header(line).is_some())
}

/// A column: its probe, its CPU, and its quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Column {
    probe: &'static str,
    quantity: &'static str,
    cpu: u32,
}

/// Parses the line that names the columns; `None` for other lines.
fn header(line: &str) -> Option<Vec<Column>> {
    let names = line.trim_start().strip_prefix("Index")?;
    let column = |name: &str| -> Option<Column> {
        let (kind, cpu) = name.split_once('-')?;
        let (probe, quantity) = match kind {
            "IRQ" => ("timerlat-irq", LATENCY),
            "Thr" => ("timerlat-thread", LATENCY),
            "Usr" => ("timerlat-user", LATENCY),
            "CPU" => ("osnoise", NOISE),
            _ => return None,
        };
        Some(Column {
            probe,
            quantity,
            cpu: cpu.parse().ok()?,
        })
    };
    names
        .split_whitespace()
        .map(column)
        .collect::<Option<Vec<_>>>()
        .filter(|columns| !columns.is_empty())
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
    tool: &str,
) -> Result<ImportedRun, ImportError> {
    let text = source.text()?;
    let mut imported = ImportedRun {
        tool: tool.into(),
        ..ImportedRun::default()
    };
    let mut columns: Vec<BucketSeries> = Vec::new();
    let mut unit = settings.unit;
    let mut footers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut rows: Vec<i64> = Vec::new();
    let (mut last_line, mut names_length, mut last_length) = (0, 0, 0);
    let mut is_over = false;
    for (line, text) in lines(&text) {
        // Skips reports of missed events, and all lines from the sums over all CPUs, or from a
        // stop, to the end.
        is_over |= rtla_end::is_end(&text);
        if is_over || rtla_end::reports_missed_events(&text) {
            continue;
        }
        (last_line, last_length) = (line, text.len());
        if text.starts_with("# Time unit is") {
            let stated = if text.contains("(ns)") {
                Unit::Ns
            } else {
                Unit::Us
            };
            unit = Some(unit.unwrap_or(stated));
        } else if let Some(length) = text.strip_prefix("# Duration:") {
            imported.length = duration(length);
        } else if let Some(names) = header(&text) {
            names_length = text.len();
            columns = names
                .into_iter()
                .map(|column| BucketSeries::new(column.probe, column.quantity, Some(column.cpu)))
                .collect();
        } else if let (false, Some((first, rest))) = (
            columns.is_empty(),
            text.trim().split_once(char::is_whitespace),
        ) {
            let values: Vec<&str> = rest.split_whitespace().collect();
            if let Some(name) = first.strip_suffix(':') {
                if FOOTERS.contains(&name) && values.len() != columns.len() {
                    let expected = format!("{} values, one per column", columns.len());
                    return Err(source.expected(line, expected, &text));
                }
                footers.insert(
                    name.to_owned(),
                    values.iter().map(|value| (*value).to_owned()).collect(),
                );
                continue;
            }
            rows.extend(row(
                source,
                &mut columns,
                (line, &text),
                first,
                &values,
                unit.unwrap_or(Unit::Us),
            )?);
        }
    }
    if columns.is_empty() && text.lines().any(|line| line.trim() == "Index") {
        let expected = "columns of CPUs after `Index` (rtla prints one for each CPU with samples)";
        return Err(source.expected(last_line, expected, "no sample in the whole file"));
    }
    if columns.is_empty() {
        return Err(source.expected(
            last_line,
            "a line such as `Index   IRQ-000   Thr-000` (of rtla without --no-header and \
             --no-index)",
            "the end of the file",
        ));
    }
    // With --no-summary, only `over:` follows the rows. This line suffices if no sample lies beyond
    // the rows.
    let is_beyond = |value: &String| value.as_str() != "0";
    let wanted = match footers.get("over") {
        None => Some("over"),
        Some(over) if footers.len() > 1 || over.iter().any(is_beyond) => Some("max"),
        Some(_) => None,
    };
    let has_no_summary = wanted.is_none() && footers.len() == 1;
    if let Some(name) = wanted.filter(|name| !footers.contains_key(*name)) {
        let expected = format!("a line `{name}:`");
        return Err(source.expected(last_line, expected, "the end of the file"));
    }
    // All lines are as long as the line of names, so a shorter last line lacks digits of its last
    // value.
    if !text.ends_with('\n') && !is_over && last_length < names_length {
        return Err(source.expected(
            last_line,
            "a last line that is not cut off",
            text.lines().next_back().unwrap_or_default(),
        ));
    }
    let in_unit =
        unit.ok_or_else(|| source.ask("rtla --no-header", "the unit of its values", "--unit us"))?;
    let width = width(&rows).max(in_unit.nanos());
    finish(
        source,
        settings,
        &mut columns,
        &footers,
        (in_unit, width),
        last_line,
    )?;
    // If row 0 is the only row, no other row shows the width, so the row must be wide enough for
    // the largest value.
    let in_rows = columns
        .iter()
        .filter(|counted| counted.stated.overflow.is_none());
    let width = match in_rows.filter_map(|counted| counted.stated.max_ns).max() {
        Some(max) if rows == [0] => width.max(max.get().saturating_add(in_unit.nanos())),
        _ => width,
    };
    if width > in_unit.nanos() {
        for counted in &mut columns {
            counted.count_at_ends(width, in_unit.nanos());
        }
        imported.notes.push(wide_note(width));
    }
    imported
        .notes
        .push(format!("values are whole {}, rounded down", in_unit.word()));
    imported.maximum_unsure = rtla_end::maximum_unsure(&text);
    imported.notes.extend(rtla_end::apply(&text, &mut columns));
    if has_no_summary {
        imported.notes.push(NO_SUMMARY_NOTE.into());
    }
    columns.retain(|counted| counted.stated.samples != Some(0));
    columns.sort_by_key(|counted| (counted.probe, counted.cpu));
    hand_over_all(&mut columns, &mut imported, source, sink)?;
    Ok(imported)
}

/// Returns the width of the buckets in ns: the greatest common divisor of the rows' values. If rows
/// are omitted, the result may be too large, but never too small. 0 if there is no row, or only row
/// 0.
fn width(rows: &[i64]) -> i64 {
    let first = rows.first().copied().unwrap_or(0);
    rows.iter().fold(first, |width, row| {
        let (mut a, mut b) = (width, row - first);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a.abs()
    })
}

fn row(
    source: &Source,
    columns: &mut [BucketSeries],
    (line, text): (u64, &str),
    first: &str,
    values: &[&str],
    unit: Unit,
) -> Result<Option<i64>, ImportError> {
    let Some(bucket) = first.parse::<u32>().ok().and_then(|_| nanos(first, unit)) else {
        return Ok(None);
    };
    if values.len() != columns.len() {
        return Err(source.expected(
            line,
            format!("{} counts, one per column", columns.len()),
            text,
        ));
    }
    for (counted, value) in columns.iter_mut().zip(values) {
        let count = value
            .parse()
            .map_err(|_| source.expected(line, "whole numbers", text))?;
        if count > 0 {
            counted.buckets.push((bucket, count));
        }
    }
    Ok(Some(bucket))
}

fn finish(
    source: &Source,
    settings: &Settings,
    columns: &mut [BucketSeries],
    footers: &BTreeMap<String, Vec<String>>,
    (unit, width): (Unit, i64),
    last_line: u64,
) -> Result<(), ImportError> {
    let end = columns
        .iter()
        .filter_map(|counted| counted.buckets.last())
        .map(|&(bucket, _)| bucket)
        .max()
        .unwrap_or(0);
    for (index, counted) in columns.iter_mut().enumerate() {
        // rtla prints `-` if a column has no sample.
        let footer = |name: &str| {
            footers
                .get(name)
                .and_then(|values| values.get(index))
                .map(String::as_str)
                .filter(|value| *value != "-")
        };
        let number = |name: &str| -> Result<Option<i64>, ImportError> {
            let wrong = |value: &str| {
                source.expected(last_line, format!("numbers in the line `{name}:`"), value)
            };
            footer(name)
                .map(|value| nanos(value, Unit::Ns).ok_or_else(|| wrong(value)))
                .transpose()
        };
        let over = number("over")?.unwrap_or(0).max(0) as u64;
        let in_all = counted.in_buckets().saturating_add(over);
        let samples = number("count")?.map_or(in_all, |count| count.max(0) as u64);
        let time = |value: Option<i64>| value.and_then(|value| value.checked_mul(unit.nanos()));
        counted.period = settings.period;
        counted.stated = StatedTotals {
            samples: Some(samples),
            resolution_ns: Nanos(unit.nanos()),
            ..StatedTotals::default()
        };
        if samples > 0 {
            counted.stated.min_ns = time(number("min")?).map(Nanos);
            // If no maximum is stated, the largest sample may lie at the end of its bucket.
            let top = counted.buckets.last();
            let top = top.map(|(bucket, _)| bucket.saturating_add(width - unit.nanos()));
            counted.stated.max_ns = time(number("max")?).or(top).map(Nanos);
            let mean = footer("avg")
                .and_then(|value| value.parse::<f64>().ok())
                .filter(|mean| mean.is_finite());
            counted.stated.mean_ns = mean.map(|mean| mean * unit.nanos() as f64);
        }
        // If no maximum is stated, the maximum is at most the end of the last bucket.
        if let (None, 0, Some(&(last, _))) = (counted.stated.max_ns, over, counted.buckets.last()) {
            counted.stated.max_ns = Some(Nanos(last.saturating_add(width - unit.nanos())));
        }
        let missing = samples.saturating_sub(in_all);
        // If rows were removed from the file, the missing samples are not only those beyond the
        // last bucket.
        let from = if missing > 0 {
            counted.stated.min_ns.unwrap_or_default().get()
        } else {
            end.saturating_add(width)
        };
        counted.overflow(missing.saturating_add(over), from);
        counted.is_mean_cut = width == unit.nanos();
    }
    Ok(())
}

/// Parses `  0 00:10:00`: days, hours, minutes, seconds.
pub(super) fn duration(text: &str) -> Option<Nanos> {
    let mut words = text.split_whitespace();
    let days: i64 = words.next()?.parse().ok()?;
    let clock: Vec<i64> = words
        .next()?
        .split(':')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let [hours, minutes, seconds] = clock[..] else {
        return None;
    };
    let of_day = hours
        .checked_mul(3600)?
        .checked_add(minutes.checked_mul(60)?)?
        .checked_add(seconds)?;
    days.checked_mul(86_400)?
        .checked_add(of_day)?
        .checked_mul(1_000_000_000)
        .map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_names_the_columns() {
        let of = |line: &str| {
            header(line).map(|columns| {
                let names = columns.iter().map(|column| (column.probe, column.cpu));
                names.collect::<Vec<_>>()
            })
        };
        assert_eq!(
            of("Index   IRQ-000   Thr-000   Usr-011"),
            Some(vec![
                ("timerlat-irq", 0),
                ("timerlat-thread", 0),
                ("timerlat-user", 11)
            ])
        );
        assert_eq!(of("Index   CPU-003"), Some(vec![("osnoise", 3)]));
        assert_eq!(
            (of("Index"), of("Index  Foo-1"), of("0  1")),
            (None, None, None)
        );
        assert_eq!(duration("   1 00:10:01"), Some(Nanos::from_secs(87_001)));
    }

    #[test]
    fn the_width_of_buckets_is_told_by_their_names() {
        assert_eq!(width(&[0, 5_000, 10_000]), 5_000);
        assert_eq!(width(&[0, 1_000, 58_000]), 1_000);
        assert_eq!(width(&[10_000, 25_000]), 5_000);
        assert_eq!((width(&[0]), width(&[])), (0, 0));
    }
}
