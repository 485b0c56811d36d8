//! Reads the output of cyclictest -h and -H, which has one row per bucket and one column per
//! thread; -H adds a column with the sum. Summaries follow as comments.
//!
//! There are two layouts. Up to cyclictest 2.6, every bucket has a row; later versions omit empty
//! buckets and `# Total:`. The file does not state the unit.
//!
//! The cyclictest of NuttX prints the first layout, with two errors. Negative extremes are printed
//! as unsigned numbers of 32 or 64 bits, and without -l the mean is always 0. Source: nuttx-apps,
//! benchmarks/cyclictest/cyclictest.c.

use std::collections::BTreeMap;

use tardy_core::units::Nanos;
use tardy_run::imported::StatedTotals;

use super::cyclictest_summary::{THREAD_NOTE, ThreadLine};
use super::sink::{BucketSeries, ImportedRun, LATENCY, Sink, hand_over_all};
use super::text::{head_lines, lines};
use super::unit_told::{self, TypicalValue};
use super::{Format, ImportError, Settings, Source, Unit, parts};

pub(super) const FORMAT: Format = Format {
    name: "cyclictest-histogram",
    about: "histograms of cyclictest -h or -H, in the layouts before and since 2.7, and those of \
            OSADL and NuttX",
    detect: |head| {
        head_lines(head)
            .iter()
            .any(|line| line.trim_end() == "# Histogram" || line.starts_with("# Max Latencies:"))
    },
    reader: read,
    parts: begins,
    is_binary: false,
};

/// Returns the lines at which runs start. The lines directly above a histogram, such as summaries,
/// belong to its run.
fn begins(lines: &[&str]) -> Vec<usize> {
    let is_title = |line: &str| line.trim_end() == "# Histogram";
    let first = |is_it: &dyn Fn(&str) -> bool| lines.iter().position(|line| is_it(line));
    let maxima = first(&|line| line.starts_with("# Max Latencies:"));
    // On some web pages the summaries precede the rows.
    let is_above = maxima.is_some_and(|maxima| Some(maxima) < first(&is_title));
    let is_summary = |line: &str| {
        let name = line
            .strip_prefix("# ")
            .and_then(|rest| rest.split_once(':'));
        name.is_some_and(|(name, _)| FOOTERS.contains(&name))
    };
    let is_before = |line: &str| {
        line.trim().is_empty()
            || is_above && is_summary(line)
            || ["T:", "policy:", "# /dev/cpu_dma_latency", "WARN", "INFO"]
                .iter()
                .any(|start| line.starts_with(start))
    };
    let titles = parts::at(lines, is_title);
    titles
        .into_iter()
        .map(|title| {
            let before = lines[..title]
                .iter()
                .rev()
                .take_while(|line| is_before(line));
            title - before.count()
        })
        .collect()
}

/// Maximum number of columns, which is more than the number of CPUs of any machine. A file with
/// more columns has another format.
const COLUMNS_MAX: usize = 65_536;

#[derive(Default)]
struct Table {
    rows: Vec<(i64, Vec<u64>)>,
    columns: usize,
    /// Values of the comments below the rows, by name, each with its line number.
    footers: BTreeMap<String, (u64, Vec<i64>)>,
    /// Period of each thread, from summary lines in the output, if any.
    intervals: BTreeMap<u32, Nanos>,
    last_line: u64,
}

fn read(
    source: &mut Source,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<ImportedRun, ImportError> {
    let text = source.text()?;
    let table = table(source, &text)?;
    let footer = |name: &str| {
        table.footers.get(name).ok_or_else(|| {
            source.expected(
                table.last_line,
                format!("a line `# {name}: ...`"),
                "the end of the file",
            )
        })
    };
    let (minima_line, minima) = footer("Min Latencies")?;
    let (maxima_line, maxima) = footer("Max Latencies")?;
    let threads = minima.len();
    // With -H, the last column and the last values of the maxima and overflows cover all threads.
    if table.columns != threads && table.columns != threads + 1 && table.columns != 0 {
        let expected = format!(
            "a minimum for each of the {} columns (with -H, for all but the last)",
            table.columns
        );
        return Err(source.expected(*minima_line, expected, &format!("{threads}")));
    }
    if maxima.len() < threads {
        return Err(source.expected(
            *maxima_line,
            format!("{threads} maxima"),
            &format!("{}", maxima.len()),
        ));
    }
    let told = unit_told::unit(source, settings, &table.typical(settings, threads))?;
    let unit = told.unit;
    let mut imported = ImportedRun {
        tool: "cyclictest".into(),
        notes: vec![THREAD_NOTE.into()],
        ..ImportedRun::default()
    };
    imported.notes.extend(told.note);
    imported
        .notes
        .push(format!("values are whole {}, rounded down", unit.word()));
    let value = |name: &str, thread: usize| {
        table
            .footers
            .get(name)
            .and_then(|(_, values)| values.get(thread))
            .copied()
    };
    let mut series = Vec::new();
    for thread in 0..threads {
        let id = u32::try_from(thread).unwrap_or(u32::MAX);
        let mut counted = BucketSeries::new("cyclictest", LATENCY, Some(id));
        counted.period = settings
            .period
            .or_else(|| table.intervals.get(&id).copied());
        let in_unit = |value: i64| value.saturating_mul(unit.nanos());
        counted.buckets = table
            .rows
            .iter()
            .filter(|(_, counts)| counts[thread] > 0)
            .map(|(at, counts)| (in_unit(*at), counts[thread]))
            .collect();
        let in_rows = value("Total", thread).map_or(counted.in_buckets(), |total| total as u64);
        let overflows = value("Histogram Overflows", thread).map_or(0, |count| count.max(0) as u64);
        let samples = in_rows.saturating_add(overflows);
        let max = maxima[thread];
        // The rows contain no sample of this thread, but the thread has a maximum. So all its
        // samples lie beyond the rows, and only the overflow line could state their number.
        if samples == 0 && max > 0 && value("Histogram Overflows", thread).is_none() {
            let expected = format!("`# Histogram Overflows:` with {threads} counts");
            return Err(source.expected(table.last_line, expected, "the end of the file"));
        }
        let min = signed(minima[thread], max);
        // A mean below the minimum is invalid. A mean of 0 is invalid, too, if there are negative
        // values (NuttX).
        let is_counted = |mean: i64| samples > 0 && mean >= min && (mean != 0 || min >= 0);
        let mean = value("Avg Latencies", thread).filter(|&mean| is_counted(mean));
        counted.stated = StatedTotals {
            samples: Some(samples),
            min_ns: Some(Nanos(in_unit(min))).filter(|_| samples > 0),
            max_ns: Some(Nanos(in_unit(max))).filter(|_| samples > 0),
            mean_ns: mean.map(|average| in_unit(average) as f64),
            resolution_ns: Nanos(unit.nanos()),
            ..StatedTotals::default()
        };
        let end = table.rows.last().map_or(0, |(at, _)| at.saturating_add(1));
        // NuttX also counts values below 0 as overflow.
        counted.overflow(overflows, in_unit(if min < 0 { min } else { end }));
        counted.is_mean_cut = true;
        series.push(counted);
    }
    hand_over_all(&mut series, &mut imported, source, sink)?;
    Ok(imported)
}

impl Table {
    /// Returns the median bucket of each thread that has samples, in the file's unit; the thread's
    /// mean if all its samples lie beyond the rows.
    fn typical(&self, settings: &Settings, threads: usize) -> Vec<TypicalValue> {
        let of = |thread: usize| {
            let total: u64 = self
                .rows
                .iter()
                .fold(0, |sum, (_, counts)| sum.saturating_add(counts[thread]));
            let mut seen = 0_u64;
            let mut rows = self.rows.iter();
            let (value, _) = rows.find(|(_, counts)| {
                seen = seen.saturating_add(counts[thread]);
                seen > 0 && seen >= total / 2
            })?;
            let stated = u32::try_from(thread)
                .ok()
                .and_then(|id| self.intervals.get(&id).copied());
            Some(TypicalValue {
                value: *value,
                interval_us: settings
                    .period
                    .or(stated)
                    .map(|period| period.get() / 1_000),
            })
        };
        // If all samples lie beyond the rows, only the mean shows the unit.
        let beyond = |thread: usize| {
            let (_, means) = self.footers.get("Avg Latencies")?;
            let value = *means.get(thread).filter(|&&mean| mean > 0)?;
            Some(TypicalValue {
                value,
                interval_us: settings.period.map(|period| period.get() / 1_000),
            })
        };
        // If there are no rows, there are no columns, and each thread has only its mean.
        let threads = if self.rows.is_empty() {
            threads
        } else {
            threads.min(self.columns)
        };
        (0..threads)
            .filter_map(|thread| of(thread).or_else(|| beyond(thread)))
            .collect()
    }
}

/// Corrects a minimum that exceeds the maximum because a negative number was printed as an unsigned
/// number of 32 bits.
fn signed(min: i64, max: i64) -> i64 {
    if min > max && (1 << 31..1 << 32).contains(&min) {
        min - (1 << 32)
    } else {
        min
    }
}

fn table(source: &Source, text: &str) -> Result<Table, ImportError> {
    let mut table = Table::default();
    // A text without its first lines has no title.
    let mut has_begun = !text.lines().any(|line| line.trim_end() == "# Histogram");
    let mut is_over = false;
    for (line, text) in lines(text) {
        table.last_line = line;
        if let Some(comment) = text.strip_prefix('#') {
            let comment = comment.trim();
            has_begun |= comment == "Histogram";
            // On some web pages the summaries precede the rows.
            is_over &= comment != "Histogram";
            is_over |= comment.starts_with("Max Latencies:");
            if let Some((name, values)) = comment.split_once(':')
                && FOOTERS.contains(&name)
            {
                // A number that exceeds i64 stands for a negative number, which cyclictest printed
                // as unsigned.
                let number = |value: &str| {
                    value
                        .parse()
                        .ok()
                        .or_else(|| value.parse::<u64>().ok().map(|value| value as i64))
                };
                let values: Option<Vec<i64>> = values.split_whitespace().map(number).collect();
                let values = values.ok_or_else(|| {
                    source.expected(line, format!("numbers after `# {name}:`"), &text)
                })?;
                table.footers.insert(name.to_owned(), (line, values));
            }
        } else if let Some(summary) = ThreadLine::of_cyclictest(&text, Unit::Us) {
            if let Some(interval) = summary.interval.filter(|interval| interval.get() > 0) {
                table.intervals.insert(summary.thread, interval);
            }
        } else if has_begun
            && !text.trim().is_empty()
            && !text.starts_with(NUTTX_PROMPT)
            && !is_over
        {
            row(source, &mut table, line, &text)?;
        }
    }
    // If the text is truncated, its last number may lack digits and so be too small.
    let last = text.lines().next_back().unwrap_or_default();
    if !text.ends_with('\n')
        && let Some(maxima) = last.strip_prefix("# Max Latencies:")
        && maxima
            .split_whitespace()
            .next_back()
            .is_none_or(|max| max.len() < DIGITS)
    {
        table.footers.remove("Max Latencies");
    }
    Ok(table)
}

/// Width in digits to which the numbers below the rows are padded.
const DIGITS: usize = 5;

/// Shell prompt of NuttX, which a log of a serial line may contain.
const NUTTX_PROMPT: &str = "nsh>";

const FOOTERS: [&str; 5] = [
    "Total",
    "Min Latencies",
    "Avg Latencies",
    "Max Latencies",
    "Histogram Overflows",
];

fn row(source: &Source, table: &mut Table, line: u64, text: &str) -> Result<(), ImportError> {
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let expected = || {
        source.expected(
            line,
            "a bucket and its count for each thread, as in `000021 000070\t000067`",
            text,
        )
    };
    let Some(Ok(bucket)) = numbers.next() else {
        return Err(expected());
    };
    let counts: Vec<u64> = numbers.collect::<Result<_, _>>().map_err(|_| expected())?;
    if table.rows.is_empty() && (1..=COLUMNS_MAX).contains(&counts.len()) {
        table.columns = counts.len();
    }
    if counts.len() != table.columns {
        return Err(source.expected(
            line,
            format!("{} counts, as in the lines before", table.columns),
            text,
        ));
    }
    let bucket = i64::try_from(bucket).map_err(|_| expected())?;
    if table
        .rows
        .last()
        .is_some_and(|(before, _)| bucket <= *before)
    {
        return Err(source.expected(
            line,
            "a bucket of larger latencies than in the line before",
            text,
        ));
    }
    table.rows.push((bucket, counts));
    Ok(())
}
