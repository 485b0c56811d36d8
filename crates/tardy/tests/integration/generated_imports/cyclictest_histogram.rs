//! Generates histograms of cyclictest -h and -H, as written by `print_hist` of cyclictest.c in
//! rt-tests 0.84, 1.0 to 2.6, and 2.7 to 2.10, and by `hset_print_bucket` and `hist_print_oflows`
//! of histogram.c.

use std::fmt::Write as _;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::cyclictest_text::{Style, break_lines, head, with_idle};
use super::drawn::{File, Thread, one_in, threads};
use super::reading::{Reading, Row, numbers};

#[derive(Clone, Copy, PartialEq)]
enum Version {
    V0_84,
    V1_0,
    V2_8,
}

/// Appends a line with one number per thread.
fn line(text: &mut String, name: &str, values: impl Iterator<Item = u64>, width: usize) {
    let _ = write!(text, "# {name}:");
    for value in values {
        let _ = write!(text, " {value:0width$}");
    }
    text.push('\n');
}

fn histogram(threads: &[Thread], limit: u64, has_sum: bool, version: Version) -> String {
    let mut text = "# Histogram\n".to_owned();
    for row in 0..limit {
        let counts: Vec<u64> = threads.iter().map(|one| one.within(row, row + 1)).collect();
        let sum: u64 = counts.iter().sum();
        if version == Version::V2_8 && sum == 0 {
            continue;
        }
        let counts: Vec<String> = counts.iter().map(|count| format!("{count:06}")).collect();
        let _ = write!(text, "{row:06} {}", counts.join("\t"));
        if has_sum && (threads.len() > 1 || version == Version::V2_8) {
            let _ = write!(text, "\t{sum:06}");
        }
        text.push('\n');
    }
    let has_sum = has_sum && threads.len() > 1;
    let with_sum = |values: Vec<u64>| {
        let sum = has_sum.then(|| values.iter().sum());
        values.into_iter().chain(sum)
    };
    let each = |one: &dyn Fn(&Thread) -> u64| threads.iter().map(one).collect::<Vec<_>>();
    if version != Version::V2_8 {
        let totals = with_sum(each(&|one| one.within(0, limit)));
        line(&mut text, "Total", totals, 9);
    }
    let minima = each(&|one| one.minimum().unwrap_or(1_000_000));
    line(&mut text, "Min Latencies", minima.into_iter(), 5);
    let averages = each(&|one| one.sum() / one.samples().max(1));
    line(&mut text, "Avg Latencies", averages.into_iter(), 5);
    let maxima = each(&|one| one.maximum().unwrap_or(0));
    let largest = maxima.iter().max().copied().filter(|_| has_sum);
    line(
        &mut text,
        "Max Latencies",
        maxima.into_iter().chain(largest),
        5,
    );
    let beyond = each(&|one| one.from(limit));
    line(
        &mut text,
        "Histogram Overflows",
        with_sum(beyond.clone()),
        5,
    );
    if version != Version::V0_84 {
        text += "# Histogram Overflow at cycle number:\n";
        for (index, &beyond) in beyond.iter().enumerate() {
            let shown = beyond.min(20);
            let cycles: Vec<String> = (0..shown).map(|cycle| format!("{cycle:05}")).collect();
            let _ = write!(text, "# Thread {index}: {}", cycles.join(" "));
            if shown < beyond {
                let _ = write!(text, " # {:05} others", beyond - shown);
            }
            text.push('\n');
        }
    }
    text
}

pub(super) fn draw(random: &mut Pcg64Mcg) -> File {
    let is_nanoseconds = one_in(random, 6);
    let mut threads = threads(random, is_nanoseconds);
    with_idle(random, &mut threads);
    let version = [Version::V0_84, Version::V1_0, Version::V2_8][random.random_range(0..3)];
    let largest = threads
        .iter()
        .filter_map(Thread::maximum)
        .max()
        .unwrap_or(1);
    // The limit of the rows is beyond the largest value, among the values, or below the smallest.
    let limit = match random.random_range(0..4) {
        0 => largest + random.random_range(1..20),
        1 => random.random_range(1..30),
        _ => random.random_range(1..=largest),
    };
    let limit = limit.clamp(1, 1_500);
    let mut text = head(random).to_owned();
    if one_in(random, 8) {
        text += &Style::draw(random, is_nanoseconds).watched(&threads, 2);
    }
    text += &histogram(&threads, limit, one_in(random, 3), version);
    if version != Version::V0_84 {
        if one_in(random, 8) {
            line(&mut text, "SMIs", threads.iter().map(|_| 3), 5);
        }
        text.push('\n');
    }
    if one_in(random, 10) {
        text += &break_lines(&threads);
    }
    File {
        text,
        is_nanoseconds,
    }
}

pub(super) fn read(file: &File) -> Vec<Reading> {
    let unit = if file.is_nanoseconds { 1 } else { 1_000 };
    let stated = |name: &str| -> Vec<i64> {
        let start = format!("# {name}:");
        let line = file.text.lines().find_map(|line| line.strip_prefix(&start));
        numbers(line.unwrap())
    };
    let (minima, means) = (stated("Min Latencies"), stated("Avg Latencies"));
    let (maxima, beyond) = (stated("Max Latencies"), stated("Histogram Overflows"));
    let rows: Vec<Vec<i64>> = file
        .text
        .lines()
        .skip_while(|line| *line != "# Histogram")
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        .map(numbers)
        .collect();
    let limit = rows.last().map_or(0, |row| row[0] + 1) * unit;
    let mut found = Vec::new();
    for cpu in 0..minima.len() {
        let minimum = minima[cpu] * unit;
        let (maximum, mean) = (maxima[cpu] * unit, (means[cpu] * unit) as f64);
        let of_row = |row: &Vec<i64>| Row {
            low: row[0] * unit,
            high: (row[0] + 1) * unit - 1,
            count: row[1 + cpu] as u64,
        };
        let rows: Vec<Row> = rows
            .iter()
            .map(of_row)
            .filter(|row| row.count > 0)
            .collect();
        let in_rows: u64 = rows.iter().map(|row| row.count).sum();
        let mut reading = Reading {
            probe: "cyclictest",
            cpu: Some(cpu),
            samples: in_rows + beyond[cpu] as u64,
            minimum: (minimum, minimum),
            maximum: (maximum, maximum),
            mean: Some((mean, mean + unit as f64)),
            rows,
            has_histogram: true,
            period: None,
        };
        if reading.samples > 0 {
            // The last row may lie below the limit, because rows without samples may be omitted.
            let low = limit.max(minimum).min(maximum);
            reading.push_beyond(low, maximum, unit, beyond[cpu] as u64);
            found.push(reading);
        }
    }
    found
}
