//! Generates text of oslat, as written by `write_summary` and `dump_globals` of oslat.c in rt-tests
//! 1.9, 2.0, 2.4, and 2.7 to 2.10, where buckets have a width.

use std::fmt::Write as _;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::drawn::{File, Thread, cpus, one_in};
use super::reading::{Reading, Row, divisor};

#[derive(Clone, Copy, PartialEq)]
enum Version {
    V1_9,
    V2_0,
    V2_4,
    V2_7,
}

struct Style {
    version: Version,
    /// Width of a bucket, in the unit of the values.
    width: u64,
    /// Number of units per microsecond: 1 for values in us, 1000 for values in ns.
    units: u64,
    buckets: u64,
    bias: u64,
    omits_zeros: bool,
}

impl Style {
    /// Returns the bucket of a value. In old versions, the first bucket is for the value 1.
    fn bucket(&self, value: u64) -> u64 {
        let value = value.saturating_sub(self.bias);
        let index = if self.version == Version::V2_7 {
            value.max(1) / self.width
        } else {
            value.saturating_sub(1)
        };
        index.min(self.buckets - 1)
    }

    fn upper_end(&self, bucket: u64) -> f64 {
        (self.bias + (bucket + 1) * self.width) as f64 / self.units as f64
    }

    fn digits(&self) -> usize {
        if self.units == 1 { 0 } else { 3 }
    }

    fn average(&self, thread: &Thread) -> f64 {
        let mut sum = 0.0;
        for (&value, &count) in &thread.values {
            let bucket = self.bucket(value);
            sum += count as f64 * self.upper_end(bucket);
            if bucket == self.buckets - 1 {
                // The tool converts a value to a whole number of buckets.
                let index = value.saturating_sub(self.bias) / self.width;
                sum += (count * index.saturating_sub(self.buckets) * self.width) as f64;
            }
        }
        sum / thread.samples() as f64
    }
}

/// Appends a line with one cell per thread.
fn field(text: &mut String, label: &str, cells: impl Iterator<Item = String>, end: &str) {
    let _ = write!(text, "{label:>12}:\t");
    for cell in cells {
        let _ = write!(text, " {cell}");
    }
    text.push_str(end);
    text.push('\n');
}

fn summary(text: &mut String, threads: &[Thread], cpus: &[usize], style: &Style) {
    let names = cpus.iter().map(ToString::to_string);
    field(text, "Core", names, "");
    let (label, unit) = match style.version {
        Version::V1_9 | Version::V2_0 => ("CPU Freq", " (Mhz)"),
        Version::V2_4 => ("Counter Freq", " (Mhz)"),
        Version::V2_7 => ("Counter Freq", " (MHz)"),
    };
    field(text, label, cpus.iter().map(|_| "2298".to_owned()), unit);
    let mut is_omitted = false;
    for bucket in 0..style.buckets {
        let count = |thread: &Thread| {
            let values = thread.values.iter();
            let of_bucket = values.filter(|(value, _)| style.bucket(**value) == bucket);
            of_bucket.map(|(_, count)| count).sum::<u64>()
        };
        let counts: Vec<u64> = threads.iter().map(count).collect();
        let is_last = bucket + 1 == style.buckets;
        if !is_last && style.omits_zeros && counts.iter().all(|&count| count == 0) {
            is_omitted = true;
            continue;
        }
        if is_omitted {
            text.push_str("    ...\n");
            is_omitted = false;
        }
        let (digits, end) = (style.digits(), style.upper_end(bucket));
        // As in C, the width of 3 includes the point and the decimals.
        let label = if style.version == Version::V2_7 {
            format!("{end:03.digits$} (us)")
        } else {
            format!("{:03} (us)", end as u64)
        };
        let end = if is_last {
            " (including overflows)"
        } else {
            ""
        };
        field(text, &label, counts.iter().map(ToString::to_string), end);
    }
    let digits = style.digits();
    let figure = |one: &dyn Fn(&Thread) -> u64| {
        let values = threads.iter().map(one);
        let cells = values.map(|value| format!("{:.digits$}", value as f64 / style.units as f64));
        cells.collect::<Vec<_>>()
    };
    let minimum = |thread: &Thread| thread.minimum().unwrap_or(0);
    let maximum = |thread: &Thread| thread.maximum().unwrap_or(0);
    let range = |thread: &Thread| maximum(thread) - minimum(thread);
    field(text, "Minimum", figure(&minimum).into_iter(), " (us)");
    let averages = threads
        .iter()
        .map(|thread| format!("{:.3}", style.average(thread)));
    field(text, "Average", averages, " (us)");
    field(text, "Maximum", figure(&maximum).into_iter(), " (us)");
    field(text, "Max-Min", figure(&range).into_iter(), " (us)");
    field(
        text,
        "Duration",
        threads.iter().map(|_| "3.000".to_owned()),
        " (sec)",
    );
    text.push('\n');
}

pub(super) fn draw(random: &mut Pcg64Mcg) -> File {
    let versions = [
        Version::V1_9,
        Version::V2_0,
        Version::V2_4,
        Version::V2_7,
        Version::V2_7,
    ];
    let version = versions[random.random_range(0..versions.len())];
    let (width, units) = match version {
        Version::V2_7 => {
            [(1, 1), (1, 1), (5, 1), (500, 1_000), (250, 1_000)][random.random_range(0..5)]
        }
        _ => (1, 1),
    };
    let usual = random.random_range(1..4) * units;
    let count = if one_in(random, 20) {
        40
    } else {
        random.random_range(1..7)
    };
    let threads: Vec<Thread> = (0..count).map(|_| Thread::near(random, usual)).collect();
    let cpus = cpus(random, count);
    let style = Style {
        version,
        width,
        units,
        buckets: if one_in(random, 2) {
            32
        } else {
            random.random_range(4..200)
        },
        bias: if one_in(random, 5) { units } else { 0 },
        omits_zeros: one_in(random, 3),
    };
    let is_quiet = one_in(random, 4);
    let mut text = if version == Version::V1_9 {
        "\nVersion: 1.90\n\n".to_owned()
    } else {
        format!(
            "oslat V {}\n",
            ["2.00", "2.40", "2.70"][random.random_range(0..3)]
        )
    };
    if !is_quiet {
        text += "Total runtime: \t\t3 seconds\nThread priority: \tSCHED_FIFO:1\nCPU list: \t\t1-3\nCPU for main thread: \t0\nWorkload: \t\tno\nWorkload mem: \t\t0 (KiB)\nPreheat cores: \t\t1\n\nPre-heat for 1 seconds...\n";
    }
    if style.bias > 0 {
        let bias = style.bias as f64 / units as f64;
        let _ = writeln!(text, "Global bias set to {bias:.*} (us)", style.digits());
    }
    if !is_quiet {
        text += "Test starts...\nTest completed.\n\n";
    }
    summary(&mut text, &threads, &cpus, &style);
    File {
        text,
        is_nanoseconds: false,
    }
}

/// Parses microseconds with up to three decimals, in ns.
fn nanos(text: &str) -> i64 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    whole.parse::<i64>().unwrap() * 1_000 + format!("{part:0<3}").parse::<i64>().unwrap()
}

pub(super) fn read(file: &File) -> Vec<Reading> {
    let mut fields: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in file.text.lines() {
        if let Some((label, cells)) = line.split_once(":\t") {
            let cells = cells
                .split_whitespace()
                .take_while(|cell| !cell.starts_with('('));
            fields.push((label.trim(), cells.collect()));
        }
    }
    let of = |name: &str| {
        fields
            .iter()
            .find(|(label, _)| *label == name)
            .unwrap()
            .1
            .clone()
    };
    let ends = fields.iter().filter_map(|(label, cells)| {
        let end = label.strip_suffix(" (us)")?;
        Some((nanos(end), cells))
    });
    let ends: Vec<(i64, &Vec<&str>)> = ends.collect();
    // Buckets are equally wide, and the omitted ones leave gaps of a multiple of the width.
    let width = ends
        .windows(2)
        .fold(0, |width, pair| divisor(pair[1].0 - pair[0].0, width));
    let width = if width > 0 { width } else { ends[0].0 };
    let mut found = Vec::new();
    for (index, cpu) in of("Core").iter().enumerate() {
        let (minimum, maximum) = (nanos(of("Minimum")[index]), nanos(of("Maximum")[index]));
        let mean: f64 = of("Average")[index].parse().unwrap();
        let mut rows = Vec::new();
        let mut before = None;
        for (at, &(end, cells)) in ends.iter().enumerate() {
            let count = cells[index].parse().unwrap();
            let is_last = at + 1 == ends.len();
            // Rows before the last one may be omitted, so the last row may begin at the end of the
            // previous printed row.
            let of_width = end + 1 - width;
            let low = match before {
                Some(before) if is_last => before + 1,
                Some(before) => of_width.max(before + 1),
                None => of_width.max(0),
            };
            // New versions round the maximum down, so tardy adds up to 999 ns to every value.
            let high = if is_last { maximum } else { end.min(maximum) } + 999;
            if count > 0 {
                rows.push(Row {
                    low: low.min(maximum),
                    high,
                    count,
                });
            }
            before = Some(end);
        }
        found.push(Reading {
            probe: "oslat",
            cpu: cpu.parse().ok(),
            samples: rows.iter().map(|row| row.count).sum(),
            minimum: (minimum, minimum),
            maximum: (maximum, maximum),
            mean: Some(((mean - 0.0005) * 1_000.0, (mean + 0.0005) * 1_000.0)),
            rows,
            has_histogram: true,
            period: None,
        });
    }
    found
}
