//! Generates JSON of cyclictest, as written by `write_stats` of cyclictest.c and `rt_write_json` of
//! rt-utils.c in rt-tests 2.0 to 2.10.

use std::collections::HashSet;
use std::fmt::Write as _;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde_json::Value;

use super::drawn::{File, Thread, cpus, one_in, threads};
use super::reading::{Reading, Row};

/// Generates the text around the numbers at random.
pub(super) fn document(random: &mut Pcg64Mcg, tool: &str, body: &str) -> String {
    let (version, is_realtime) = (random.random_range(20..30), random.random_range(0..2));
    format!(
        r##"{{
  "file_version": 1,
  "cmdline:": "{tool} -m -p 95 -q --json=results.json",
  "rt_test_version:": "{:.2}",
  "start_time": "Fri, 20 Nov 2026 10:13:46 +0000",
  "end_time": "Fri, 20 Nov 2026 10:14:46 +0000",
  "return_code": 0,
  "sysinfo": {{
    "sysname": "Linux",
    "nodename": "board7",
    "release": "6.12.0-rt",
    "version": "#1 SMP PREEMPT_RT",
    "machine": "aarch64",
    "realtime": {is_realtime}
  }},
{body}}}
"##,
        f64::from(version) / 10.0,
    )
}

/// How the file represents the histogram: with the rows below a limit, or, if no histogram was
/// requested, with an empty one or none, depending on the version of cyclictest.
#[derive(Clone, Copy)]
enum Rows {
    Below(u64),
    Empty,
    Absent,
}

fn thread(text: &mut String, index: usize, thread: &Thread, rows: Rows, cpu: i64) {
    let _ = writeln!(text, "    \"{index}\": {{");
    let counts: Vec<String> = match rows {
        Rows::Below(limit) => {
            let rows = thread.values.range(..limit);
            rows.map(|(value, count)| format!("\n        \"{value}\": {count}"))
                .collect()
        }
        Rows::Empty | Rows::Absent => Vec::new(),
    };
    if !matches!(rows, Rows::Absent) {
        let end = if counts.is_empty() { "" } else { "\n" };
        let _ = writeln!(
            text,
            "      \"histogram\": {{{}{end}      }},",
            counts.join(",")
        );
    }
    let mean = thread.sum() as f64 / thread.samples() as f64;
    let _ = write!(
        text,
        "      \"cycles\": {},\n      \"min\": {},\n      \"max\": {},\n      \"avg\": {mean:.2},\n      \"cpu\": {cpu},\n      \"node\": 0\n    }}",
        thread.samples(),
        thread.minimum().unwrap_or(0),
        thread.maximum().unwrap_or(0),
    );
}

pub(super) fn draw(random: &mut Pcg64Mcg) -> File {
    let is_nanoseconds = one_in(random, 3);
    let threads = threads(random, is_nanoseconds);
    let largest = threads
        .iter()
        .filter_map(Thread::maximum)
        .max()
        .unwrap_or(1);
    let rows = match random.random_range(0..8) {
        0 => Rows::Empty,
        1 => Rows::Absent,
        2..4 => Rows::Below(largest + 1),
        _ => Rows::Below(random.random_range(1..=largest)),
    };
    // Without -a, cyclictest writes -1 as CPU. If all threads run on one CPU, the CPU cannot
    // identify a thread.
    let cpus: Vec<i64> = match random.random_range(0..6) {
        0 => vec![-1; threads.len()],
        1 => vec![3; threads.len()],
        _ => cpus(random, threads.len())
            .into_iter()
            .map(|cpu| cpu as i64)
            .collect(),
    };
    let mut body = format!(
        "  \"num_threads\": {},\n  \"resolution_in_ns\": {},\n  \"thread\": {{\n",
        threads.len(),
        u8::from(is_nanoseconds),
    );
    for (index, one) in threads.iter().enumerate() {
        thread(&mut body, index, one, rows, cpus[index]);
        body += if index + 1 < threads.len() {
            ",\n"
        } else {
            "\n"
        };
    }
    body += "  }\n";
    File {
        text: document(random, "cyclictest", &body),
        is_nanoseconds,
    }
}

pub(super) fn read(file: &File) -> Vec<Reading> {
    let document: Value = serde_json::from_str(&file.text).unwrap();
    let unit = if document["resolution_in_ns"] == 1 {
        1
    } else {
        1_000
    };
    let threads = document["thread"].as_object().unwrap();
    let cpus: HashSet<i64> = threads
        .values()
        .filter_map(|one| one["cpu"].as_i64())
        .collect();
    let are_names = cpus.len() == threads.len() && !cpus.contains(&-1);
    let mut found = Vec::new();
    for (name, thread) in threads {
        let integer = |name: &str| thread[name].as_i64().unwrap();
        let histogram = thread["histogram"].as_object();
        let mut rows: Vec<Row> = histogram
            .into_iter()
            .flatten()
            .map(|(value, count)| {
                let low = value.parse::<i64>().unwrap() * unit;
                let (high, count) = (low + unit - 1, count.as_u64().unwrap());
                Row { low, high, count }
            })
            .collect();
        rows.sort_by_key(|row| row.low);
        let in_rows: u64 = rows.iter().map(|row| row.count).sum();
        let samples = integer("cycles") as u64;
        let (minimum, maximum) = (integer("min") * unit, integer("max") * unit);
        let low = rows.last().map_or(minimum, |row| row.high + 1).min(maximum);
        let mean = thread["avg"].as_f64().unwrap() * unit as f64;
        let half_digit = 0.005 * unit as f64;
        let mut reading = Reading {
            probe: "cyclictest",
            cpu: if are_names {
                Some(integer("cpu") as usize)
            } else if threads.len() == 1 {
                None
            } else {
                name.parse().ok()
            },
            samples,
            minimum: (minimum, minimum),
            maximum: (maximum, maximum),
            mean: Some((mean - half_digit, mean + half_digit)),
            has_histogram: !rows.is_empty(),
            rows,
            period: None,
        };
        reading.push_beyond(low, maximum, unit, samples - in_rows);
        found.push(reading);
    }
    found
}
