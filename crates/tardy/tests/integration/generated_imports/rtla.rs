//! Generates text of `rtla timerlat hist`, as written by `timerlat_print_stats` and its callees in
//! timerlat_hist.c in Linux 6.6 and 6.18.

use std::fmt::Write as _;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::drawn::{File, Thread, cpus, one_in, threads};
use super::reading::{Reading, Row, divisor};

/// A column of the table.
struct Column {
    kind: &'static str,
    cpu: usize,
    thread: Thread,
}

struct Style {
    is_nanoseconds: bool,
    width: u64,
    entries: u64,
    has_zeros: bool,
    has_summary: bool,
    has_all: bool,
}

fn cells(text: &mut String, values: impl Iterator<Item = Option<u64>>) {
    for value in values {
        let _ = match value {
            Some(value) => write!(text, "{value:9} "),
            None => write!(text, "{:>9} ", '-'),
        };
    }
    text.push('\n');
}

/// Appends the lines from `count:` to `max:`.
fn summary(text: &mut String, columns: &[&Thread]) {
    let each = |one: fn(&Thread) -> Option<u64>| columns.iter().map(move |thread| one(thread));
    text.push_str("count:");
    cells(text, each(|thread| Some(thread.samples())));
    text.push_str("min:  ");
    cells(text, each(Thread::minimum));
    text.push_str("avg:  ");
    cells(
        text,
        each(|thread| thread.sum().checked_div(thread.samples())),
    );
    text.push_str("max:  ");
    cells(text, each(Thread::maximum));
}

fn table(columns: &[Column], style: &Style) -> String {
    let mut text = "# RTLA timerlat histogram\n".to_owned();
    text += if style.is_nanoseconds {
        "# Time unit is nanoseconds (ns)\n"
    } else {
        "# Time unit is microseconds (us)\n"
    };
    text += "# Duration:   0 00:01:01\nIndex";
    for column in columns {
        let _ = write!(text, "   {}-{:03}", column.kind, column.cpu);
    }
    text.push('\n');
    for bucket in 0..style.entries {
        let from = bucket * style.width;
        let counts = columns
            .iter()
            .map(|one| one.thread.within(from, from + style.width));
        let counts: Vec<u64> = counts.collect();
        if style.has_zeros || counts.iter().any(|&count| count > 0) {
            let _ = write!(text, "{from:<6}");
            cells(&mut text, counts.into_iter().map(Some));
        }
    }
    text += "over: ";
    let end = style.entries * style.width;
    cells(
        &mut text,
        columns.iter().map(|one| Some(one.thread.from(end))),
    );
    if style.has_summary {
        summary(
            &mut text,
            &columns.iter().map(|one| &one.thread).collect::<Vec<_>>(),
        );
        if style.has_all {
            all(&mut text, columns);
        }
    }
    text
}

/// Appends the section in which the columns of each kind are merged.
fn all(text: &mut String, columns: &[Column]) {
    text.push_str("ALL:  ");
    let mut sums = Vec::new();
    for (kind, head) in [
        ("IRQ", "      IRQ"),
        ("Thr", "       Thr"),
        ("Usr", "       Usr"),
    ] {
        let mut sum = Thread::idle();
        let of_kind = columns.iter().filter(|column| column.kind == kind);
        for (&value, &count) in of_kind.clone().flat_map(|column| &column.thread.values) {
            *sum.values.entry(value).or_default() += count;
        }
        if of_kind.count() > 0 {
            text.push_str(head);
            sums.push(sum);
        }
    }
    text.push('\n');
    summary(text, &sums.iter().collect::<Vec<_>>());
}

/// The CPU that the text `STOPPED` names. The latencies in that text are at most those in the
/// table.
const STOPPED_CPU: usize = 3;
const STOPPED: &str = "rtla timerlat hit stop tracing
## CPU 3 hit stop tracing, analyzing it ##
  IRQ handler delay:                                        27.49 us (65.52 %)
  IRQ latency:                                              28.13 us
  Timerlat IRQ duration:                                     9.59 us (22.85 %)
  Blocking thread:                                           3.79 us (9.03 %)
                         objtool:49256                       3.79 us
------------------------------------------------------------------------
  Thread latency:                                          41.96 us (100%)
";

pub(super) fn draw(random: &mut Pcg64Mcg) -> File {
    let is_nanoseconds = one_in(random, 4);
    let threads = threads(random, is_nanoseconds);
    let kinds: &[&str] = match random.random_range(0..6) {
        0 => &["IRQ"],
        1 => &["Thr"],
        2 => &["IRQ", "Thr", "Usr"],
        _ => &["IRQ", "Thr"],
    };
    let cpus = cpus(random, threads.len());
    let mut columns = Vec::new();
    for (thread, cpu) in threads.into_iter().zip(cpus) {
        let usual = thread.minimum().unwrap_or(1);
        let mut thread = Some(thread);
        for &kind in kinds {
            let thread = match kind {
                // Tracing may stop before the first wake-up of the user thread.
                "Usr" if one_in(random, 6) => Thread::idle(),
                _ => thread.take().unwrap_or_else(|| Thread::near(random, usual)),
            };
            columns.push(Column { kind, cpu, thread });
        }
    }
    let largest = columns
        .iter()
        .filter_map(|one| one.thread.maximum())
        .max()
        .unwrap_or(1);
    let widths: &[u64] = if is_nanoseconds {
        &[1, 100, 500, 1_000]
    } else {
        &[1, 1, 2, 5, 10]
    };
    let width = widths[random.random_range(0..widths.len())];
    let entries = match random.random_range(0..3) {
        0 => largest / width + 1,
        1 => 256,
        _ => random.random_range(10..60),
    };
    let is_short = entries < 400 && columns.len() < 40;
    let style = Style {
        is_nanoseconds,
        width,
        entries: entries.clamp(10, 20_000),
        has_zeros: is_short && one_in(random, 5),
        has_summary: !one_in(random, 8),
        has_all: one_in(random, 2),
    };
    let mut text = table(&columns, &style);
    let stopped = if is_nanoseconds { 41_960 } else { 42 };
    let can_stop = |one: &Column| {
        one.cpu != STOPPED_CPU || one.thread.maximum().is_some_and(|max| max >= stopped)
    };
    match random.random_range(0..10) {
        0 => text += "12 (0.05%) events missed, results might not be accurate\n",
        1 if columns.iter().all(can_stop) => text += STOPPED,
        _ => {}
    }
    File {
        text,
        is_nanoseconds,
    }
}

pub(super) fn read(file: &File) -> Vec<Reading> {
    let lines: Vec<&str> = file.text.lines().collect();
    let unit = if lines[1].ends_with("(ns)") { 1 } else { 1_000 };
    let names: Vec<&str> = lines[3].split_whitespace().skip(1).collect();
    // The lines of the merged columns have the same names but come later, so only the first match
    // counts.
    let stated = |name: &str, column: usize| -> Option<i64> {
        let line = lines.iter().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().nth(column)?.parse().ok()
    };
    let rows: Vec<Vec<i64>> = lines[4..]
        .iter()
        .take_while(|line| !line.starts_with("over:"))
        .map(|line| super::reading::numbers(line))
        .collect();
    // The file does not state the width of the buckets; each bucket starts at a multiple of the
    // width.
    let indices: Vec<i64> = rows.iter().map(|row| row[0]).collect();
    let width = indices
        .iter()
        .fold(0, |width, &index| divisor(width, index));
    // If row 0 is the only row, it contains the largest values of all columns without overflow, so
    // the row is at least as wide as the largest of these values.
    let in_row = (0..names.len()).filter(|&column| stated("over:", column) == Some(0));
    let maxima = in_row.filter_map(|column| stated("max:", column));
    let width = match maxima.max() {
        Some(max) if indices == [0] => max + 1,
        _ => width,
    };
    // Values beyond the table lie beyond the last row, even if that row belongs to another column.
    let table_end = rows.last().map_or(0, |row| row[0] + width.max(1)) * unit;
    let mut found = Vec::new();
    for (column, name) in names.iter().enumerate() {
        let most = stated("max:", column).map_or(i64::MAX, |max| (max + 1) * unit - 1);
        let rows: Vec<Row> = rows
            .iter()
            .filter(|row| row[1 + column] > 0)
            .map(|row| Row {
                low: row[0] * unit,
                high: most.min((row[0] + width.max(1)) * unit - 1),
                count: row[1 + column] as u64,
            })
            .collect();
        let beyond = stated("over:", column).unwrap() as u64;
        let in_rows: u64 = rows.iter().map(|row| row.count).sum();
        if in_rows + beyond == 0 {
            continue;
        }
        let exact = |value: i64| (value * unit, value * unit);
        let first = rows.first().map(|row| (row.low, row.high));
        let last = rows.last().map(|row| (row.high + 1 - unit, row.high));
        let probe = match &name[..3] {
            "IRQ" => "timerlat-irq",
            "Thr" => "timerlat-thread",
            _ => "timerlat-user",
        };
        let maximum = stated("max:", column).map(exact);
        let mut reading = Reading {
            probe,
            cpu: name[4..].parse().ok(),
            samples: in_rows + beyond,
            minimum: stated("min:", column)
                .map(exact)
                .or(first)
                .unwrap_or((0, i64::MAX)),
            // If there is no summary, samples beyond the rows have no upper limit.
            maximum: match maximum {
                Some(maximum) => maximum,
                None if beyond > 0 => (i64::MAX, i64::MAX),
                None => last.unwrap(),
            },
            mean: stated("avg:", column)
                .map(|mean| ((mean * unit) as f64, ((mean + 1) * unit) as f64)),
            rows,
            has_histogram: true,
            period: None,
        };
        let last = last.filter(|_| beyond == 0);
        if let Some((_, largest)) = maximum.or(last.map(|(_, high)| (0, high + 1 - unit))) {
            let end = reading.rows.last_mut().map(|row| {
                row.count -= u64::from(beyond == 0);
                row.high + 1
            });
            let low = if beyond > 0 {
                table_end.max(reading.minimum.0)
            } else {
                end.unwrap_or(reading.minimum.0)
            };
            let low = low.min(largest);
            reading.push_beyond(low, largest, unit, beyond.max(1));
        }
        found.push(reading);
    }
    found
}
