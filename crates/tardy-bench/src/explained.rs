//! Explained runs: the cost of recording the kernel's trace, and the rate at which events are
//! decoded.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::figure::{Bench, Figure, FigureResult, holds, row, scratch};
use super::statistics::{ESTIMATE, difference, in_turn};
use crate::failure::{Result, While};

pub(crate) const COST: Figure = Figure {
    name: "explain-cost",
    promise: "`run --explain` stores at most 20 bytes per sample, decodes a sample in at most 4.2 us, and takes at most 200 MiB of memory",
    measure: measure_cost,
};

pub(crate) const RATE: Figure = Figure {
    name: "explain-rate",
    promise: "200,000 events per second and CPU are decoded without loss",
    measure: measure_rate,
};

const MEBIBYTE: f64 = 1_048_576.0;

/// A run, as `run --json` printed it, and its run.json.
struct Run {
    summary: Value,
    record: Value,
}

impl Run {
    /// Runs `tardy run` with these flags.
    fn make(bench: &Bench, folder: &Path, seconds: u32, flags: &str) -> Result<Self> {
        let mut command = Command::new(&bench.tardy);
        command
            .args(["run", "--for", &format!("{seconds}s"), "--quiet", "--json"])
            .args(flags.split(' '))
            .arg("--out")
            .arg(folder);
        let summary = bench.capture_json(&mut command)?;
        let reading = || "reading run.json".to_owned();
        let text = std::fs::read_to_string(folder.join("run.json")).while_doing(reading)?;
        let record = serde_json::from_str(&text).while_doing(reading)?;
        Ok(Self { summary, record })
    }

    fn median_us(&self) -> f64 {
        number(&self.summary["probes"][0]["numbers"]["percentiles"][0]["value_ns"]) / 1e3
    }

    /// Returns the CPU time of the measuring threads per sample, in us.
    fn thread_us(&self) -> f64 {
        let samples = sum(
            &self.record["series"],
            |series| &series["counts"]["recorded"],
        );
        let threads = &self.record["overhead"]["threads"];
        sum(threads, |thread| &thread["cpu_time_ns"]) / samples / 1e3
    }

    fn seconds(&self) -> f64 {
        let begin = number(&self.record["started"]["monotonic_ns"]);
        (number(&self.record["ended_ns"]) - begin) / 1e9
    }

    /// Returns a number of the run's tracing.
    fn tracing(&self, name: &str) -> f64 {
        number(&self.record["tracing"][name])
    }

    /// Returns a number of all traced series.
    fn traced(&self, name: &str) -> f64 {
        sum(&self.record["tracing"]["series"], |series| &series[name])
    }

    fn events_a_second(&self) -> f64 {
        let cpus = self.record["tracing"]["series"]
            .as_array()
            .map_or(0, Vec::len);
        self.tracing("events_read") / self.seconds() / cpus.max(1) as f64
    }

    fn bytes_a_sample(&self) -> f64 {
        self.traced("bytes") / self.traced("explained")
    }

    /// Returns the time for decoding a sample, in us.
    fn decoding_us(&self) -> f64 {
        self.tracing("cpu_time_ns") / self.traced("explained") / 1e3
    }

    fn mebibytes(&self) -> f64 {
        number(&self.record["overhead"]["resident_bytes_max"]) / MEBIBYTE
    }

    /// Returns a row of the table.
    fn row(&self, load: &str) -> Vec<String> {
        let (samples, events) = (self.traced("explained"), self.tracing("events_read"));
        row([
            load,
            &format!("{samples:.0}"),
            &format!("{:.1}", events / samples),
            &format!("{:.0}", self.events_a_second()),
            &format!("{:.0}", self.tracing("lost_events")),
            &format!("{:.1}", self.bytes_a_sample()),
            &format!("{:.0}", self.tracing("cpu_time_ns") / events),
            &format!("{:.2}", self.decoding_us()),
            &format!("{:.0}", self.mebibytes()),
        ])
    }
}

/// Returns the head of the table of runs.
fn head() -> Vec<String> {
    row([
        "load",
        "samples",
        "events per sample",
        "events per second and CPU",
        "events lost",
        "bytes per sample",
        "CPU time per event, ns",
        "CPU time per sample, us",
        "memory, MiB",
    ])
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn sum(list: &Value, of: impl Fn(&Value) -> &Value) -> f64 {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| of(item).as_f64()).sum()
}

/// Measures the rate with two processes that wake each other on the measured CPU as fast as
/// possible. Each iteration has two switches and two wake-ups.
fn measure_rate(bench: &Bench) -> Result<FigureResult> {
    let cpu = bench.measured_cpu()?.to_string();
    let place = scratch()?;
    let seconds = if bench.is_quick { 2 } else { 30 };
    let mut turns = Command::new("timeout");
    // The processes have a real-time priority so that nothing else takes the CPU, but a lower one
    // than the probe.
    turns
        .arg((seconds + 3).to_string())
        .args(["chrt", "-f", "1", "taskset", "-c", &cpu])
        .arg(&bench.tardy)
        .args("cost --metric switch-2p-0k --rounds 1000 --out".split(' '))
        .arg(place.path().join("cost"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    bench.note(&turns);
    let mut turning = turns
        .spawn()
        .while_doing(|| "starting the task that switches".to_owned())?;
    let flags = format!("--explain --cpus {cpu} --load none");
    let made = Run::make(bench, &place.path().join("run"), seconds, &flags);
    turning
        .wait()
        .while_doing(|| "waiting for the task that switches".to_owned())?;
    let run = made?;
    let (rate, lost) = (run.events_a_second(), run.tracing("lost_events"));
    let is_held = rate >= 200_000.0 && run.tracing("losses") == 0.0;
    Ok(FigureResult {
        reached: format!(
            "{rate:.0} events a second on one CPU for {:.0} s, {lost:.0} lost: {}",
            run.seconds(),
            holds(is_held)
        ),
        table: vec![head(), run.row("switches")],
        notes: vec!["The commands run at the same time. The reader has the other CPUs.".to_owned()],
    })
}

fn measure_cost(bench: &Bench) -> Result<FigureResult> {
    let (pairs, seconds) = if bench.is_quick { (1, 2) } else { (10, 5) };
    let run = |seconds: u32, flags: &str| -> Result<Run> {
        let place = scratch()?;
        Run::make(bench, &place.path().join("run"), seconds, flags)
    };
    let [plain, traced] = in_turn(pairs, |side| {
        run(seconds, ["--load none", "--load none --explain"][side])
    })?;
    let busy = run(3 * seconds, "--load hackbench --explain")?;
    let more = |of: fn(&Run) -> f64| {
        let values = |runs: &[Run]| runs.iter().map(of).collect::<Vec<_>>();
        difference(&values(&traced), &values(&plain), 0.95)
    };
    let (later, longer) = (more(Run::median_us), more(Run::thread_us));
    let idle = traced.last().expect("there is a pair");
    let (bytes, decoding_us) = (idle.bytes_a_sample(), idle.decoding_us());
    Ok(FigureResult {
        reached: format!(
            "{bytes:.1} bytes per sample: {}; decoding {decoding_us:.2} us per sample: {}; {:.0} \
             MiB: {}; {:.0} events per second and CPU under hackbench, {:.0} lost; the median is \
             {:+.1} us ({:+.1} to {:+.1}) with tracing, {:+.2} us ({:+.2} to {:+.2}) of CPU time \
             per sample in the measuring thread",
            holds(bytes <= 20.0),
            holds(decoding_us <= 4.2),
            idle.mebibytes(),
            holds(idle.mebibytes() <= 200.0),
            busy.events_a_second(),
            busy.tracing("lost_events"),
            later.middle,
            later.lower,
            later.upper,
            longer.middle,
            longer.lower,
            longer.upper,
        ),
        table: vec![head(), idle.row("none"), busy.row("hackbench")],
        notes: vec![
            format!(
                "Medians and CPU times of {pairs} interleaved pairs: {ESTIMATE}. The reader shares \
                 the measured CPUs."
            ),
            "CPU time per event includes reading pages, decoding, matching samples and writing \
             their delays."
                .to_owned(),
        ],
    })
}
