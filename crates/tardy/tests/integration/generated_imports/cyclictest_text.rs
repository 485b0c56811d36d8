//! Generates summary lines of cyclictest, as written by `print_stat` and `trigger_print` of
//! cyclictest.c in rt-tests 0.84 to 2.10.

use std::fmt::Write as _;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::drawn::{File, Thread, one_in, threads};
use super::reading::{Reading, Row};

/// The values in a thread's line.
struct Line {
    samples: u64,
    minimum: u64,
    sum: u64,
    maximum: u64,
}

impl Line {
    fn of(thread: &Thread) -> Self {
        Self {
            samples: thread.samples(),
            // Cyclictest starts with this value as the minimum.
            minimum: thread.minimum().unwrap_or(1_000_000),
            sum: thread.sum(),
            maximum: thread.maximum().unwrap_or(0),
        }
    }

    /// The line that cyclictest prints early, while all samples still have the thread's smallest
    /// value.
    fn early(thread: &Thread) -> Self {
        let Some(minimum) = thread.minimum() else {
            return Self::of(thread);
        };
        let samples = thread.values[&minimum];
        Self {
            samples,
            minimum,
            sum: minimum * samples,
            maximum: minimum,
        }
    }

    fn write(&self, text: &mut String, index: usize, interval: u64, style: &Style) {
        let average = self.sum / self.samples.max(1);
        let width = if style.is_nanoseconds { 8 } else { 5 };
        let _ = write!(
            text,
            "T:{index:2} ({:5}) P:{:2} I:{interval} C:{:7} Min:{:7} Act:{average:width$} Avg:{average:width$} Max:{:8}",
            style.first_thread + index,
            style.priority,
            self.samples,
            self.minimum,
            self.maximum,
        );
        if style.has_interrupts {
            let _ = write!(text, " SMI:{:8}", index % 3);
        }
        text.push('\n');
    }
}

pub(super) struct Style {
    is_nanoseconds: bool,
    has_interrupts: bool,
    first_thread: usize,
    priority: u32,
    interval: u64,
    distance: u64,
}

impl Style {
    pub(super) fn draw(random: &mut Pcg64Mcg, is_nanoseconds: bool) -> Self {
        Self {
            is_nanoseconds,
            has_interrupts: one_in(random, 8),
            first_thread: random.random_range(300..4_000_000),
            priority: random.random_range(0..100),
            interval: [100, 200, 500, 1_000, 10_000][random.random_range(0..5)],
            distance: [0, 0, 500][random.random_range(0..3)],
        }
    }

    /// The lines of all threads.
    fn frame(&self, threads: &[Thread], line: fn(&Thread) -> Line) -> String {
        let mut text = String::new();
        for (index, thread) in threads.iter().enumerate() {
            let interval = self.interval + self.distance * index as u64;
            line(thread).write(&mut text, index, interval, self);
        }
        text
    }

    /// The lines as a terminal shows them, with each frame drawn over the previous one.
    pub(super) fn watched(&self, threads: &[Thread], frames: usize) -> String {
        let back = format!("\u{1b}[{}A", threads.len() + 2);
        let mut text = String::new();
        for frame in 0..frames {
            let line = if frame + 1 == frames {
                Line::of
            } else {
                Line::early
            };
            text += "policy: fifo: loadavg: 0.31 0.14 0.05 1/184 7031          \n\n";
            text += &self.frame(threads, line);
            if frame + 1 < frames {
                text += &back;
            }
        }
        text
    }
}

/// Generates the text at the start of the file at random.
pub(super) fn head(random: &mut Pcg64Mcg) -> &'static str {
    [
        "",
        "# /dev/cpu_dma_latency set to 0us\n",
        "WARN: stat /dev/cpu_dma_latency failed: No such file or directory\n",
    ][random.random_range(0..3)]
}

/// The lines that `-b` adds at the end.
pub(super) fn break_lines(threads: &[Thread]) -> String {
    let mut text = "# Thread Ids:".to_owned();
    for index in 0..threads.len() {
        let _ = write!(text, " {:05}", 7_055 + index);
    }
    let largest = threads.iter().filter_map(Thread::maximum).max();
    let _ = write!(
        text,
        "\n# Break thread: 7055\n# Break value: {}\n",
        largest.unwrap_or(0)
    );
    text
}

/// With a probability of 1/15, replaces one of several threads by a thread that never ran.
pub(super) fn with_idle(random: &mut Pcg64Mcg, threads: &mut [Thread]) {
    if threads.len() > 1 && one_in(random, 15) {
        let index = random.random_range(0..threads.len());
        threads[index] = Thread::idle();
    }
}

pub(super) fn draw(random: &mut Pcg64Mcg) -> File {
    let is_nanoseconds = one_in(random, 4);
    let mut threads = threads(random, is_nanoseconds);
    with_idle(random, &mut threads);
    let style = Style::draw(random, is_nanoseconds);
    let mut text = head(random).to_owned();
    if one_in(random, 3) {
        let frames = random.random_range(1..6);
        text += &style.watched(&threads, frames);
    } else {
        text += &style.frame(&threads, Line::of);
    }
    if one_in(random, 10) {
        text += "\nT: 0 Spike:      40: TS:    905054772\nT: 0 Spike:      31: TS:    905055762\nspikes = 2\n\n";
    }
    if one_in(random, 10) {
        text += &break_lines(&threads);
    }
    File {
        text,
        is_nanoseconds,
    }
}

/// Reads the last complete line of each thread.
pub(super) fn read(file: &File) -> Vec<Reading> {
    let unit = if file.is_nanoseconds { 1 } else { 1_000 };
    let mut found: Vec<Reading> = Vec::new();
    for line in file.text.lines() {
        let Some(at) = line.find("T:").filter(|_| line.contains(" Avg:")) else {
            continue;
        };
        let field = |name: &str| -> i64 {
            let from = line[at..].find(name).unwrap() + at + name.len();
            let rest = line[from..].trim_start();
            let end = rest.find(|c: char| !c.is_ascii_digit());
            rest[..end.unwrap_or(rest.len())].parse().unwrap()
        };
        let (cpu, samples) = (field("T:") as usize, field(" C:") as u64);
        found.retain(|reading| reading.cpu != Some(cpu));
        if samples == 0 {
            continue;
        }
        let (minimum, maximum) = (field("Min:") * unit, field("Max:") * unit);
        let mean = (field("Avg:") * unit) as f64;
        let mut reading = Reading {
            probe: "cyclictest",
            cpu: Some(cpu),
            samples,
            minimum: (minimum, minimum),
            maximum: (maximum, maximum),
            mean: Some((mean, mean + unit as f64)),
            rows: vec![Row {
                low: minimum,
                high: minimum + unit - 1,
                count: 1,
            }],
            has_histogram: false,
            period: Some(field(" I:") * 1_000),
        };
        reading.push_beyond(minimum, maximum, unit, samples - 1);
        found.push(reading);
    }
    found
}
