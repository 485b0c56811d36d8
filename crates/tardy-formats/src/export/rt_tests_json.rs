//! Writes the document that `cyclictest --json` writes, for parsers of rt-tests' output. The
//! document has the keys of rt-tests, including the two misspelt ones that contain a colon.
//! Latencies are in whole us, rounded down, or in ns as with `-N`.
//!
//! Data for which cyclictest has no key get additional keys, which those parsers skip.
//! `return_code` is the run's exit code: 0 if the deadline was met. The file is replaced by
//! renaming, so that a metrics collector never reads half a file. Source: rt-tests 2.6,
//! src/lib/rt-utils.c and src/cyclictest/cyclictest.c.

use std::io::Write;

use serde::{Serialize, Serializer};
use tardy_core::histogram::Histogram;
use tardy_core::units::Nanos;
use tardy_machine::facts::{CompiledPreemption, MachineFacts};
use tardy_report::report::date::rfc_2822;
use tardy_report::report::repeat;
use tardy_results::exit::Exit;

use super::cyclictest::Unit;
use super::run::{ExportedRun, ExportedSeries};
use super::{ExportError, Exporter, Options};

/// Version of the document that cyclictest writes.
const FILE_VERSION: u32 = 1;

/// `--format rt-tests-json`.
pub(super) struct RtTestsJson;

/// The keys in cyclictest's order.
#[derive(Serialize)]
struct Document {
    file_version: u32,
    #[serde(rename = "cmdline:")]
    command_line: String,
    #[serde(rename = "rt_test_version:")]
    version: String,
    start_time: String,
    end_time: String,
    return_code: u8,
    sysinfo: SystemInfo,
    num_threads: usize,
    /// 1 if the values are in ns, 0 if they are in us, as in cyclictest.
    resolution_in_ns: u32,
    #[serde(serialize_with = "in_order")]
    thread: Vec<(usize, Thread)>,
}

#[derive(Serialize)]
struct SystemInfo {
    sysname: &'static str,
    nodename: String,
    release: String,
    version: String,
    machine: String,
    realtime: u8,
}

#[derive(Serialize)]
struct Thread {
    #[serde(serialize_with = "in_order")]
    histogram: Vec<(i64, u64)>,
    cycles: u64,
    min: i64,
    max: i64,
    avg: f64,
    cpu: u32,
    node: u32,
    interval_ns: Nanos,
    /// Number of skipped due times; absent if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copy: Option<u32>,
}

fn in_order<S: Serializer, K: Serialize, V: Serialize>(
    pairs: &[(K, V)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

impl Exporter for RtTestsJson {
    fn name(&self) -> &'static str {
        "rt-tests-json"
    }

    fn about(&self) -> &'static str {
        "the JSON of `cyclictest --json`, for parsers of rt-tests: one probe, in whole us"
    }

    fn write(
        &self,
        run: &ExportedRun,
        _: &Options,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        run.one_probe("rt-tests-json")?;
        let series: Vec<&ExportedSeries> = run.series.iter().collect();
        let whole = DocumentHead {
            command_line: command_line(run),
            return_code: Exit::of_run(&run.summary) as u8,
            buckets: u32::MAX,
            unit: Unit::Micros,
        };
        write(run, &series, whole, out)
    }
}

/// The part of a document before its threads.
#[derive(Debug, Clone)]
pub struct DocumentHead {
    /// The user's command line.
    pub command_line: String,
    pub return_code: u8,
    /// Number of buckets that each thread lists, starting with the bucket of value 0; 0 if threads
    /// list no buckets.
    pub buckets: u32,
    pub unit: Unit,
}

/// Writes the document, with these series as threads 0, 1 and so on.
///
/// # Errors
/// Returns an error if a series cannot be read, or if writing fails.
pub fn write(
    run: &ExportedRun,
    series: &[&ExportedSeries],
    whole: DocumentHead,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let mut threads = Vec::new();
    for (index, series) in series.iter().enumerate() {
        threads.push((index, thread(run, series, &series.histogram()?, &whole)));
    }
    let started = run.record.started.realtime_ns;
    let document = Document {
        file_version: FILE_VERSION,
        command_line: whole.command_line,
        version: format!("{} {}", run.record.tool.name, run.record.tool.version),
        start_time: rfc_2822(started),
        end_time: rfc_2822(started.saturating_add(run.summary.measured_ns)),
        return_code: whole.return_code,
        sysinfo: system_info(&run.record.machine),
        num_threads: series.len(),
        resolution_in_ns: u32::from(whole.unit == Unit::Nanos),
        thread: threads,
    };
    serde_json::to_writer_pretty(&mut *out, &document).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

fn system_info(machine: &MachineFacts) -> SystemInfo {
    let kernel = &machine.kernel;
    let is_real_time = kernel
        .preemption
        .as_ref()
        .is_some_and(|preemption| preemption.compiled == CompiledPreemption::RealTime);
    SystemInfo {
        sysname: "Linux",
        nodename: machine.host_name.clone().unwrap_or_default(),
        release: kernel.release.clone().unwrap_or_default(),
        version: kernel.version.clone().unwrap_or_default(),
        machine: kernel.architecture.clone().unwrap_or_default(),
        realtime: u8::from(is_real_time),
    }
}

fn thread(
    run: &ExportedRun,
    series: &ExportedSeries,
    counts: &Histogram,
    whole: &DocumentHead,
) -> Thread {
    let unit = |nanos| whole.unit.of(nanos);
    let mut histogram: Vec<(i64, u64)> = Vec::new();
    counts.for_each(|value, count| match histogram.last_mut() {
        _ if unit(value) >= i64::from(whole.buckets) => {}
        Some((bucket, total)) if *bucket == unit(value) => *total += count,
        _ => histogram.push((unit(value), count)),
    });
    let summary = run.summary_of(series);
    let numbers = summary.and_then(|summary| summary.numbers.as_ref());
    Thread {
        histogram,
        cycles: counts
            .count()
            .max(numbers.map_or(0, |numbers| numbers.samples)),
        min: numbers.map_or(0, |numbers| unit(numbers.min_ns)),
        max: numbers.map_or(0, |numbers| unit(numbers.max_ns)),
        avg: numbers.map_or(0.0, |numbers| {
            (numbers.mean_ns * 100.0 / whole.unit.nanos()).round() / 100.0
        }),
        cpu: series.descriptor.cpu.map_or(0, |cpu| cpu.0),
        node: 0,
        interval_ns: series.descriptor.schedule.period(),
        missed: summary
            .filter(|summary| !summary.is_skipped_unknown)
            .map(|summary| summary.counts.skipped),
        copy: series.descriptor.copy,
    }
}

fn command_line(run: &ExportedRun) -> String {
    match &run.record.imported {
        Some(imported) => imported
            .command_line
            .clone()
            .unwrap_or_else(|| format!("tardy import {}", imported.file)),
        None => repeat::command(&run.record.plan),
    }
}
