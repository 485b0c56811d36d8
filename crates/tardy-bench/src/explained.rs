//! Explained runs: the cost of recording the kernel's trace, and the rate at which events are
//! decoded.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::figure::{Bench, Figure, FigureResult, holds, row, scratch};
use super::statistics::middle_and_interval;
use crate::failure::{Failure, Result, While};

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

/// Measures the rate with two processes that wake each other on the measured CPU as fast as
/// possible. Each iteration has two switches and two wake-ups.
fn measure_rate(bench: &Bench) -> Result<FigureResult> {
    let cpu = bench.measured_cpu()?.to_string();
    let place = scratch()?;
    let (run, seconds) = (
        place.path().join("run"),
        if bench.is_quick { 2 } else { 30 },
    );
    let tardy = bench.tardy.to_string_lossy();
    let mut turns = Command::new("timeout");
    // The processes have a real-time priority so that nothing else takes the CPU, but a lower one
    // than the probe.
    turns
        .arg((seconds + 3).to_string())
        .args(["chrt", "-f", "1", "taskset", "-c", &cpu, &tardy]);
    turns
        .args("cost --metric switch-2p-0k --rounds 1000 --out".split(' '))
        .arg(place.path().join("cost"));
    let mut command = Command::new(&bench.tardy);
    command
        .args(
            format!("run --explain --for {seconds}s --cpus {cpu} --load none --quiet --json --out")
                .split(' '),
        )
        .arg(&run);
    bench.note(&turns);
    let mut turning = turns
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .while_doing(|| "starting the task that switches".to_owned())?;
    let captured = bench.capture(&mut command);
    turning
        .wait()
        .while_doing(|| "waiting for the task that switches".to_owned())?;
    captured?;
    let text = std::fs::read_to_string(run.join("run.json"))
        .while_doing(|| "reading run.json".to_owned())?;
    let record: Value =
        serde_json::from_str(&text).map_err(|error| Failure::new(format!("run.json: {error}")))?;
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let tracing = &record["tracing"];
    let length = (number(&record["ended_ns"]) - number(&record["started"]["monotonic_ns"])) / 1e9;
    let (events, lost, cpu_time) = (
        number(&tracing["events_read"]),
        number(&tracing["lost_events"]),
        number(&tracing["cpu_time_ns"]),
    );
    let is_held = events / length >= 200_000.0 && tracing["losses"] == 0;
    let explained: u64 = tracing["series"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|series| series["explained"].as_u64())
        .sum();
    Ok(FigureResult {
        reached: format!(
            "{:.0} events a second on one CPU for {length:.0} s, {lost:.0} lost: {}",
            events / length,
            holds(is_held)
        ),
        tables: vec![vec![
            row([
                "events",
                "a second",
                "lost",
                "gaps",
                "CPU time per event, ns",
                "reader's share of a CPU",
                "samples explained",
            ]),
            vec![
                format!("{events:.0}"),
                format!("{:.0}", events / length),
                format!("{lost:.0}"),
                tracing["losses"].to_string(),
                format!("{:.0}", cpu_time / events),
                format!("{:.1} %", cpu_time / length / 1e7),
                explained.to_string(),
            ],
        ]],
        notes: vec!["The commands run at the same time. The reader has the other CPUs.".to_owned()],
    })
}

/// The result of one run.
struct Run {
    median_us: f64,
    thread_us: f64,
    record: Value,
}

fn measure_cost(bench: &Bench) -> Result<FigureResult> {
    let place = scratch()?;
    let (pairs, seconds) = if bench.is_quick { (1, 2) } else { (10, 5) };
    let run = |name: String, flags: &[&str], seconds: u64| -> Result<Run> {
        let folder = place.path().join(name);
        let mut command = Command::new(&bench.tardy);
        command
            .args(["run", "--for", &format!("{seconds}s"), "--quiet", "--json"])
            .args(flags)
            .arg("--out")
            .arg(&folder);
        let summary = bench.capture(&mut command)?;
        let parse = |text: &str| {
            serde_json::from_str::<Value>(text)
                .map_err(|error| Failure::new(format!("JSON of a run: {error}")))
        };
        let summary = parse(&summary)?;
        let record = parse(
            &std::fs::read_to_string(folder.join("run.json"))
                .while_doing(|| "reading run.json".to_owned())?,
        )?;
        let us = |value: &Value| value.as_f64().unwrap_or(f64::NAN) / 1_000.0;
        let samples: f64 = record["series"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|series| series["counts"]["recorded"].as_f64())
            .sum();
        let threads = record["overhead"]["threads"]
            .as_array()
            .into_iter()
            .flatten();
        let cpu_time: f64 = threads
            .filter_map(|thread| thread["cpu_time_ns"].as_f64())
            .sum();
        Ok(Run {
            median_us: us(&summary["probes"][0]["numbers"]["percentiles"][0]["value_ns"]),
            thread_us: cpu_time / samples / 1_000.0,
            record,
        })
    };
    let (mut later, mut longer, mut last) = (Vec::new(), Vec::new(), Value::Null);
    for pair in 0..pairs {
        let plain = ["--load", "none"];
        let traced = ["--load", "none", "--explain"];
        // The order alternates, so that drift affects both sides alike.
        let (one, other) = if pair % 2 == 0 {
            let one = run(format!("plain-{pair}"), &plain, seconds)?;
            (one, run(format!("traced-{pair}"), &traced, seconds)?)
        } else {
            let other = run(format!("traced-{pair}"), &traced, seconds)?;
            (run(format!("plain-{pair}"), &plain, seconds)?, other)
        };
        later.push(other.median_us - one.median_us);
        longer.push(other.thread_us - one.thread_us);
        last = other.record;
    }
    let busy = run(
        "busy".to_owned(),
        &["--load", "hackbench", "--explain"],
        3 * seconds,
    )?
    .record;
    let numbers = |record: &Value| {
        let tracing = &record["tracing"];
        let of = |name: &str| tracing[name].as_f64().unwrap_or(f64::NAN);
        let series = || tracing["series"].as_array().into_iter().flatten();
        let sum = |name: &str| {
            series()
                .filter_map(|series| series[name].as_f64())
                .sum::<f64>()
        };
        let length = (record["ended_ns"].as_f64().unwrap_or(f64::NAN)
            - record["started"]["monotonic_ns"]
                .as_f64()
                .unwrap_or(f64::NAN))
            / 1e9;
        let cpus = series().count() as f64;
        let bytes_resident = record["overhead"]["resident_bytes_max"]
            .as_f64()
            .unwrap_or(f64::NAN);
        [
            sum("explained"),
            of("events_read") / sum("explained"),
            of("events_read") / length / cpus,
            of("lost_events"),
            sum("bytes") / sum("explained"),
            of("cpu_time_ns") / of("events_read"),
            of("cpu_time_ns") / sum("explained") / 1_000.0,
            bytes_resident / f64::from(1 << 20),
        ]
    };
    let cells = |name: &str, numbers: [f64; 8]| {
        let digits = [0, 1, 0, 0, 1, 0, 2, 0];
        std::iter::once(name.to_owned())
            .chain(
                numbers
                    .iter()
                    .zip(digits)
                    .map(|(number, digits)| format!("{number:.digits$}")),
            )
            .collect()
    };
    let (idle, loaded) = (numbers(&last), numbers(&busy));
    let (later_us, from, to) = middle_and_interval(&later, 0.95);
    let (longer_us, longer_from, longer_to) = middle_and_interval(&longer, 0.95);
    Ok(FigureResult {
        reached: format!(
            "{:.1} bytes per sample: {}; decoding {:.2} us per sample: {}; {:.0} MiB: {}; {:.0} \
             events per second and CPU under hackbench, {:.0} lost; the median is {later_us:+.1} us \
             ({from:+.1} to {to:+.1}) with tracing, {longer_us:+.2} us ({longer_from:+.2} to \
             {longer_to:+.2}) of CPU time per sample in the measuring thread",
            idle[4],
            holds(idle[4] <= 20.0),
            idle[6],
            holds(idle[6] <= 4.2),
            idle[7],
            holds(idle[7] <= 200.0),
            loaded[2],
            loaded[3],
        ),
        tables: vec![vec![
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
            ]),
            cells("none", idle),
            cells("hackbench", loaded),
        ]],
        notes: vec![
            format!(
                "Medians and CPU times of {pairs} interleaved pairs; 95 % intervals by the signed-rank test. The reader shares the measured CPUs."
            ),
            "CPU time per event includes reading pages, decoding, matching samples and writing \
             their delays."
                .to_owned(),
        ],
    })
}
