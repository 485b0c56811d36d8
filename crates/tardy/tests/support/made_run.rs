//! Writes run folders with known samples, with the library's writer.

use std::path::Path;

use serde_json::json;
use tardy_core::accounting::Counts;
use tardy_core::chunk::ChunkEncoder;
use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::sample::{Gap, Record, Sample};
use tardy_core::series::{ClockKind, Descriptor, Schedule};
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;
use tardy_core::warning::Warning;
use tardy_run::folder::RunFolder;
use tardy_run::record::{RunRecord, SeriesRecord, State};
use tardy_samples::series_writer::SeriesWriter;

/// Start of generated runs on their clock.
pub(crate) const START: Nanos = Nanos::from_secs(100);
const PERIOD: Nanos = Nanos::from_millis(1);
/// Samples per chunk: with a period of 1 ms, the recorder writes a chunk every 125 ms.
const SAMPLES_A_CHUNK: u64 = 125;

/// A run to write: by default, a finished run of the probe `cyclic` with a period of 1 ms, without
/// load, on an unknown machine. Tests change the fields that matter to them.
pub(crate) struct MadeRun {
    pub(crate) state: State,
    pub(crate) window: Option<Window>,
    pub(crate) misses_allowed: Option<f64>,
    pub(crate) skipped_allowed: Option<u64>,
    /// Whether the series state that each due time stands for work.
    pub(crate) stands_for_work: bool,
    /// Series of other probes, not bound to a CPU: name of the probe, meaning of its values, and
    /// values.
    pub(crate) beside: Vec<(&'static str, &'static str, Vec<i64>)>,
    pub(crate) warnings: Vec<Warning>,
    /// Latencies in ns, a list per CPU.
    pub(crate) latencies: Vec<Vec<i64>>,
    /// Lost samples on every CPU: index of the sample before which they are lost, and their number.
    pub(crate) gaps: Vec<(usize, u64)>,
    /// Phases as (name, begin, end); both times are in seconds since the start of the run.
    pub(crate) phases: Vec<(&'static str, i64, i64)>,
    /// `load_work` of `run.json`.
    pub(crate) load_work: serde_json::Value,
    /// Name of the probe, and meaning of its values.
    pub(crate) probe: (&'static str, &'static str),
    /// Parameters of the probe, as in `run.json`.
    pub(crate) parameters: serde_json::Value,
    pub(crate) clock: ClockKind,
    /// Wall-clock time of the start, in seconds since 1970.
    pub(crate) started: i64,
    /// `machine` of `run.json`.
    pub(crate) machine: serde_json::Value,
    pub(crate) labels: std::collections::BTreeMap<String, String>,
    /// Whether the series belong to copies of the probe that are not bound to a CPU.
    pub(crate) is_unbound: bool,
}

impl MadeRun {
    pub(crate) fn new(latencies: Vec<Vec<i64>>) -> Self {
        Self {
            state: State::Finished,
            window: None,
            misses_allowed: None,
            skipped_allowed: None,
            stands_for_work: false,
            beside: Vec::new(),
            warnings: Vec::new(),
            latencies,
            gaps: Vec::new(),
            phases: vec![("idle", 0, 1_000_000)],
            load_work: json!([]),
            probe: ("cyclic", "latency"),
            parameters: json!({}),
            clock: ClockKind::Hardware,
            started: 1_700_000_000,
            machine: json!({}),
            labels: std::collections::BTreeMap::new(),
            is_unbound: false,
        }
    }

    fn cpus(&self) -> CpuList {
        (0..self.latencies.len() as u32).map(CpuId).collect()
    }

    /// Writes the folder.
    pub(crate) fn write(&self, path: &Path) {
        let mut folder = RunFolder::create(path).unwrap();
        let samples = folder.samples();
        let of_probe = self.latencies.iter().enumerate().map(|(index, latencies)| {
            let place = if self.is_unbound {
                (None, Some(index as u32))
            } else {
                (Some(CpuId(index as u32)), None)
            };
            self.write_series(&samples, self.probe, place, latencies)
        });
        let beside = self.beside.iter().map(|(probe, quantity, latencies)| {
            self.write_series(&samples, (probe, quantity), (None, None), latencies)
        });
        let series = of_probe.chain(beside).collect();
        folder.finish(&self.record(series)).unwrap();
    }

    fn write_series(
        &self,
        folder: &Path,
        (probe, quantity): (&str, &str),
        (cpu, copy): (Option<CpuId>, Option<u32>),
        latencies: &[i64],
    ) -> SeriesRecord {
        let schedule = Schedule::Grid {
            period: PERIOD,
            start: START,
            dither: Nanos::ZERO,
        };
        let descriptor = Descriptor {
            quantity: quantity.to_owned(),
            copy,
            stands_for_work: self.stands_for_work,
            ..Descriptor::latency(probe, cpu, self.clock, schedule)
        };
        let mut file =
            SeriesWriter::create(&folder.join(descriptor.file_name()), &descriptor).unwrap();
        let mut encoder = ChunkEncoder::new(&descriptor);
        let (mut counts, mut due, mut bytes) = (Counts::default(), START, Vec::new());
        for (index, &latency) in latencies.iter().enumerate() {
            if let Some(&(_, lost)) = self.gaps.iter().find(|(at, _)| *at == index) {
                encoder.push(Record::Gap(Gap { lost, skipped: 0 }));
                counts.lost += lost;
                due += PERIOD * lost as i64;
            }
            // As in the probe, a late wake-up skips the due times that have passed.
            let skipped = u32::try_from(latency.max(0) / PERIOD.get()).unwrap();
            encoder.push(Record::Sample(Sample {
                due,
                latency: Nanos(latency),
                skipped,
            }));
            due += PERIOD * (i64::from(skipped) + 1);
            counts.recorded += 1;
            counts.skipped += u64::from(skipped);
            counts.expected = ((due - START).get() / PERIOD.get()) as u64;
            if encoder.samples() == SAMPLES_A_CHUNK {
                encoder.finish(&counts, false, &mut bytes);
            }
        }
        if self.state != State::Running {
            encoder.finish(&counts, true, &mut bytes);
        }
        file.append(&bytes).unwrap();
        let counts = (self.state != State::Running).then_some(counts);
        SeriesRecord {
            file: descriptor.file_name(),
            probe: probe.to_owned(),
            cpu,
            counts,
            observed_ns: None,
            failure: None,
            elsewhere: Vec::new(),
        }
    }

    fn record(&self, series: Vec<SeriesRecord>) -> RunRecord {
        let at = |seconds: i64| (START + Nanos::from_secs(seconds)).get();
        let phase = |&(name, begin, end): &(&'static str, i64, i64)| {
            let loads: Vec<&str> = name.split('+').filter(|load| *load != "idle").collect();
            json!({"name": name, "loads": loads, "begin_ns": at(begin), "end_ns": at(end), "planned_ns": [at(begin), at(end)]})
        };
        let thread = |cpu| {
            let schedule =
                json!({"kind": "grid", "period_ns": PERIOD, "start_ns": 0, "dither_ns": 0});
            json!({"probe": self.probe.0, "cpu": cpu, "schedule": schedule, "seed": 1})
        };
        let plan = json!({
            "scenario": "made", "scenario_file": "made.toml", "is_shuffled": false, "warm_up_ns": 0,
            "probes": [{"name": self.probe.0.split('.').next(), "period_ns": PERIOD, "dither_ns": 0, "policy": "fifo", "priority": 95, "parameters": self.parameters}],
            "threads": self.cpus().iter().map(thread).collect::<Vec<_>>(),
            "measured_cpus": self.cpus(), "tool_cpus": self.cpus(),
            "phases": [], "cycles": null, "window": self.window, "misses_allowed": self.misses_allowed, "skipped_allowed": self.skipped_allowed, "keep": "all", "spool": null,
            "cpu_dma_latency_us": null, "seed": 1, "aligned": false, "stop_above_ns": null, "tracing_off": false, "changes": [],
            "wake_up_cost_ns": null, "bytes_estimated": 0, "warnings": [], "labels": self.labels,
        });
        // The record is written as literal JSON and not from the current types, because every later
        // version must be able to read it.
        let record = json!({
            "format": 1, "kind": "latency", "tool": {"name": "tardy", "version": "0.1.0", "process": 1},
            "state": self.state, "clock": self.clock,
            "started": {"realtime_ns": self.started * 1_000_000_000, "monotonic_ns": START}, "ended_ns": null,
            "warnings": self.warnings, "plan": plan, "measured_cpus": self.cpus(),
            "phases": self.phases.iter().map(phase).collect::<Vec<_>>(),
            "load_work": self.load_work, "series": series, "interference": null, "overhead": null, "machine": self.machine,
        });
        serde_json::from_value(record).unwrap()
    }
}
