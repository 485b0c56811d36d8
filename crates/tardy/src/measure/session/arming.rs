//! From the plan to threads that measure.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tardy_core::series::{ClockKind, Descriptor};
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_sys::signal::SignalFd;
use tardy_sys::{affinity, clock, memlock, sched};

use super::{SessionError, system};
use crate::guardian::Guardian;
use crate::machine::root::Root;
use crate::measure::interference::Snapshot;
use crate::measure::overhead::clock_read_cost;
use crate::measure::recorder::Recorder;
use crate::measure::threads::{self, Launch, MeasuringThread, StartLine};
use crate::measure::watchdog::Watchdog;
use crate::plan::resolve::policy;
use crate::plan::{Change, Plan, ThreadEntry};
use crate::probe;
use crate::probe::control::Control;
use crate::record::ring::{Consumer, ring};
use crate::record::series::SeriesRecorder;
use crate::run::folder::RunFolder;
use crate::run::record::{RunRecord, SeriesRecord};
use crate::setup::cpu_latency::CpuLatencyRequest;
use crate::setup::journal::{self, Journal};

/// From the moment when all threads are ready to the first due time.
const LEAD: Nanos = Nanos::from_millis(100);
/// How long the recorder may be kept from running before samples are lost.
const RING_HOLDS: Nanos = Nanos::from_millis(1_600);
/// 24 bytes each: a ring of the largest size takes 768 KiB.
const RING_SAMPLES: std::ops::RangeInclusive<i64> = 4_096..=32_768;
/// Memory that a run may need beyond what it has when it locks it, in bytes: the recorder's histograms and buffers.
const LOCKED_BYTES: usize = 32 << 20;
/// The same for each measuring thread: its ring and its stack.
const LOCKED_BYTES_A_THREAD: usize = 2 << 20;

/// A run under way.
pub(super) struct Armed {
    pub(super) record: RunRecord,
    pub(super) folder: RunFolder,
    pub(super) guardian: Option<Guardian>,
    pub(super) signals: SignalFd,
    pub(super) control: Arc<Control>,
    pub(super) threads: Vec<MeasuringThread>,
    pub(super) recorder: Recorder,
    pub(super) watchdog: Option<Watchdog>,
    pub(super) start: Nanos,
    pub(super) before: Snapshot,
    pub(super) process_cpu_time: i64,
    pub(super) clock_read: Nanos,
    pub(super) settings: Settings,
}

/// Settings that are given back at the end.
pub(super) struct Settings {
    pub(super) journal: Option<Journal>,
    _cpu_latency: Option<CpuLatencyRequest>,
}

pub(super) fn arm(
    mut record: RunRecord,
    folder: RunFolder,
    guardian: Option<Guardian>,
    signals: SignalFd,
    root: &Root,
) -> Result<Armed, SessionError> {
    let plan = record.plan.clone();
    let settings = change_settings(&plan, &mut record.warnings, root)?;
    note_timer_resolution(&mut record.warnings);
    let clock_read = clock_read_cost();
    if let Err(error) = lock_memory(plan.threads.len()) {
        record.warnings.push(Warning::MemoryNotLocked { error: error.to_string() });
    }
    let tool_cpus: Vec<u32> = plan.tool_cpus.iter().map(|cpu| cpu.0).collect();
    let _ = affinity::set(0, &tool_cpus);
    let control = Arc::new(control(&plan, root));
    let line = StartLine::new(plan.threads.len());
    let (threads, consumers) = launch_threads(&plan, &line, &control)?;
    note_thread_warnings(&threads, &mut record.warnings);

    let start = Nanos(clock::monotonic()) + LEAD;
    let samples = samples_folder(&plan, &folder)?;
    record.samples_folder = (samples != folder.samples()).then(|| samples.clone());
    let series = open_series(&record, &samples, consumers, start)?;
    record.series = series.iter().map(series_record).collect();
    record.started.realtime_ns += start - record.started.monotonic_ns;
    record.started.monotonic_ns = start;
    folder.update(&record)?;
    let recorder = Recorder::start(series, &plan.tool_cpus).map_err(system("cannot start the recorder"))?;
    let is_real_time = plan.probes.iter().any(|probe| probe.priority.is_some());
    let watchdog = is_real_time
        .then(|| Watchdog::start(&threads, &plan.tool_cpus, &control))
        .transpose()
        .map_err(system("cannot start the watchdog"))?;
    let counts_cycles = plan.cycles.is_some() && plan.threads.iter().any(|entry| !entry.plan.schedule.is_grid());
    if !counts_cycles && plan.phases.iter().all(|phase| phase.loads.is_empty()) {
        // Grids begin within the first period, so that each has exactly length / period due times before this.
        control.stop_at(start + plan.length());
    }
    let before = Snapshot::take(root, &plan.measured_cpus);
    // Preparing took longer than the lead on a slow machine: then the first due times are missed, and counted as such.
    line.go(start);
    Ok(Armed {
        record,
        folder,
        guardian,
        signals,
        control,
        threads,
        recorder,
        watchdog,
        start,
        before,
        process_cpu_time: clock::process_cpu_time(),
        clock_read,
        settings,
    })
}

fn change_settings(plan: &Plan, warnings: &mut Vec<Warning>, root: &Root) -> Result<Settings, SessionError> {
    let cpu_latency = plan.cpu_dma_latency_us.and_then(|micros| match CpuLatencyRequest::hold(root, micros) {
        Ok(request) => Some(request),
        Err(error) => {
            warnings.push(Warning::CpuLatencyNotSet { error: error.to_string() });
            None
        }
    });
    let moves: Vec<_> = plan
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::Interrupt { to } => Some(to.clone()),
            Change::CpuDmaLatency { .. } => None,
        })
        .collect();
    let undo: Vec<_> = plan.phases.iter().flat_map(|phase| &phase.loads).flat_map(|load| load.undo.clone()).collect();
    if moves.is_empty() && undo.is_empty() {
        return Ok(Settings { journal: None, _cpu_latency: cpu_latency });
    }
    let journal = Journal::write(&journal::folder(), root, moves.clone(), undo)?;
    for to in &moves {
        if let Err(error) = to.apply() {
            warnings.push(Warning::InterruptsNotMoved { interrupts: to.irq.to_string(), error: error.to_string() });
        }
    }
    Ok(Settings { journal: Some(journal), _cpu_latency: cpu_latency })
}

/// All memory, or none: where a limit leaves no room for what is still to come, the next thread could not be started.
fn lock_memory(threads: usize) -> std::io::Result<()> {
    memlock::lock_all()?;
    memlock::check_room(LOCKED_BYTES + threads * LOCKED_BYTES_A_THREAD).inspect_err(|_| {
        let _ = memlock::unlock_all();
    })
}

fn note_timer_resolution(warnings: &mut Vec<Warning>) {
    if let Ok(resolution) = clock::monotonic_resolution()
        && resolution > 1
    {
        warnings.push(Warning::NoHighResolutionTimers { resolution: Nanos(resolution) });
    }
}

fn control(plan: &Plan, root: &Root) -> Control {
    if plan.stop_above.is_none() {
        return Control::new(None, None);
    }
    let open = |name: &str| {
        let paths = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];
        paths.iter().find_map(|folder| OpenOptions::new().write(true).open(root.path(format!("{folder}/{name}"))).ok())
    };
    Control::new(open("trace_marker"), plan.tracing_off.then(|| open("tracing_on")).flatten())
}

fn launch_threads(
    plan: &Plan,
    line: &Arc<StartLine>,
    control: &Arc<Control>,
) -> Result<(Vec<MeasuringThread>, Vec<Consumer>), SessionError> {
    let (mut measuring, mut consumers) = (Vec::new(), Vec::new());
    for entry in &plan.threads {
        let samples = RING_HOLDS.get() / entry.plan.schedule.period().get().max(1);
        let (producer, consumer) = ring(samples.clamp(*RING_SAMPLES.start(), *RING_SAMPLES.end()) as usize);
        let probe = probe::find(&entry.probe)
            .ok_or_else(|| system("the plan names a probe that this tardy does not have")(std::io::Error::other(entry.probe.clone())))?;
        let policy = plan.probe(&entry.probe).map_or(sched::Policy::Other { nice: 0 }, |probe| policy(probe.policy, probe.priority));
        let launch = Launch { probe, plan: entry.plan.clone(), policy, producer };
        measuring.push(threads::launch(launch, line, control).map_err(system("cannot start a measuring thread"))?);
        consumers.push(consumer);
    }
    Ok((measuring, consumers))
}

/// One warning for all threads that could not have the policy: they have the same rights.
fn note_thread_warnings(threads: &[MeasuringThread], warnings: &mut Vec<Warning>) {
    for warning in threads.iter().flat_map(|thread| &thread.warnings) {
        if !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
}

fn samples_folder(plan: &Plan, folder: &RunFolder) -> Result<PathBuf, SessionError> {
    let Some(spool) = &plan.spool else {
        return Ok(folder.samples());
    };
    let path = spool.join(format!("tardy-spool-{}", std::process::id()));
    std::fs::create_dir(&path).map_err(system("cannot write the folder given by --spool"))?;
    Ok(path)
}

fn open_series(record: &RunRecord, samples: &Path, consumers: Vec<Consumer>, start: Nanos) -> Result<Vec<SeriesRecorder>, SessionError> {
    let open = |(entry, consumer): (&ThreadEntry, Consumer)| {
        SeriesRecorder::create(samples, descriptor(entry, start, record.clock), consumer, record.plan.keep)
            .map_err(system("cannot write the samples"))
    };
    record.plan.threads.iter().zip(consumers).map(open).collect()
}

fn descriptor(entry: &ThreadEntry, start: Nanos, clock: ClockKind) -> Descriptor {
    let plan = threads::at(&entry.plan, start);
    Descriptor {
        probe: entry.probe.clone(),
        cpu: plan.cpu,
        quantity: probe::find(&entry.probe).map_or("latency", |probe| probe.quantity).to_owned(),
        unit: "ns".to_owned(),
        clock,
        schedule: plan.schedule,
    }
}

fn series_record(series: &SeriesRecorder) -> SeriesRecord {
    let descriptor = series.descriptor();
    SeriesRecord { file: descriptor.file_name(), probe: descriptor.probe.clone(), cpu: descriptor.cpu, counts: None, failure: None }
}
