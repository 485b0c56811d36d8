//! Turns a plan into measuring threads.

use std::fs::OpenOptions;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use tardy_core::bytes::format_bytes;
use tardy_core::cpu::CpuId;
use tardy_core::series::{ClockKind, Descriptor, Schedule};
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_live::feed::Feed;
use tardy_live::view::{Look, View};
use tardy_loads::guardian::Guardian;
use tardy_machine::journal::{self, Journal};
use tardy_machine::root::Root;
use tardy_machine::spool::{Spool, SpoolError};
use tardy_machine::undo::Undo;
use tardy_probes::probe::{
    self, Cycles, DetectedGrid, OpenContext, ProbeInstance, SeriesInfo, SeriesKind,
};
use tardy_probes::recording::control::Control;
use tardy_probes::recording::ring::{Consumer, ring_with_bins};
use tardy_probes::recording::series::{PreparedSeries, SeriesRecorder};
use tardy_run::folder::RunFolder;
use tardy_run::plan::{Change, Plan, ProbePlan, ThreadEntry, ThreadPlan};
use tardy_run::record::{RunRecord, SeriesRecord};
use tardy_samples::rotation::{DiskDivision, RotationRule};
use tardy_sys::signal::SignalFd;
use tardy_sys::{affinity, clock, memlock, scoped, signal_handler, watched};
use tardy_tracer::Tracer;

use super::tracing::{self, Recording};
use super::{SessionError, system};
use crate::measure::clock_watch::ClockWatch;
use crate::measure::interference::Snapshot;
use crate::measure::keeper::KeeperThread;
use crate::measure::metrics::MetricsServer;
use crate::measure::overhead::clock_read_cost;
use crate::measure::recorder::Recorder;
use crate::measure::scheduling_watch::SchedulingWatch;
use crate::measure::threads::{self, MeasuringThread, StartBarrier};
use crate::measure::watchdog::Watchdog;
use crate::setup::cpu_latency::CpuLatencyRequest;
use crate::setup::resume_latency;

/// Capacity of a ring in samples of 24 bytes: 768 KiB. A ring of this size loses no sample if the
/// recorder is delayed by 1.6 s at 20 kHz, or by 32 s at 1 kHz. On a busy disk, the recorder was
/// once delayed by half a minute.
const RING_SAMPLES: usize = 32_768;
/// Memory that a run may need after it has locked its memory, in bytes: the recorder's histograms
/// and buffers.
const LOCKED_BYTES: usize = 32 << 20;
/// Memory that each measuring thread needs in addition, in bytes: its ring and its stack.
const LOCKED_BYTES_A_THREAD: usize = 2 << 20;

/// Maximum time that loads take to start and to end.
const AROUND_PHASES: Nanos = Nanos::from_secs(5);
/// Number of times that the kernel is made to shrink a guest's list of free pages by an eighth.
/// After 64 times, less than 0.0002 of the list is left.
const PAGE_LIST_REFRESHES: usize = 64;

/// The warning if the trace cannot explain the latencies of another program's loop.
const LOOP_UNKNOWN: &str = "the program's loop is not explained: the kernel's trace and this \
                            container use different thread IDs; measure outside the container";

/// A run in progress.
pub(super) struct ActiveRun {
    pub(super) record: RunRecord,
    pub(super) folder: RunFolder,
    /// The record of the run's earlier part, if the run was resumed.
    pub(super) earlier: Option<RunRecord>,
    pub(super) guardian: Option<Guardian>,
    pub(super) signals: SignalFd,
    pub(super) control: Arc<Control>,
    pub(super) threads: Vec<MeasuringThread>,
    pub(super) recorder: Recorder,
    /// The live view, if there is one, and the channel by which it gets data.
    pub(super) screen: Option<(Arc<Feed>, View)>,
    pub(super) tracer: Option<Tracer>,
    pub(super) keeper: KeeperThread,
    /// The server of `--metrics`.
    pub(super) metrics: Option<MetricsServer>,
    pub(super) watchdog: Option<Watchdog>,
    pub(super) scheduling: SchedulingWatch,
    pub(super) clocks: ClockWatch,
    /// Indices of the series whose cycles the recorder counts (`SeriesPlan::counts_cycles`). If the
    /// length of a phase is given in cycles, the phase ends when these counts are reached.
    pub(super) counted: Vec<usize>,
    pub(super) start: Nanos,
    pub(super) before: Snapshot,
    pub(super) process_cpu_time: i64,
    pub(super) clock_read: Nanos,
    pub(super) settings: Settings,
    pub(super) spool: Option<Spool>,
    /// How the disk budget of `--disk` is divided.
    pub(super) division: Option<DiskDivision>,
}

/// Settings that are restored at the end of the run.
pub(super) struct Settings {
    pub(super) journal: Option<Journal>,
    _cpu_latency: Option<CpuLatencyRequest>,
}

pub(super) fn arm(
    mut record: RunRecord,
    (folder, earlier): (RunFolder, Option<RunRecord>),
    guardian: Option<Guardian>,
    signals: SignalFd,
    look: Option<Look>,
    metrics: Option<TcpListener>,
    root: &Root,
) -> Result<ActiveRun, SessionError> {
    read_clocks(&mut record.plan).map_err(system("cannot set timers on other clocks"))?;
    let plan = record.plan.clone();
    let recording = tracing::prepare(&plan, root, &mut record.warnings);
    let settings = change_settings(
        &plan,
        recording.as_ref().map(Recording::undo),
        &mut record.warnings,
        root,
    )?;
    let tracer = recording.and_then(|recording| recording.start(&mut record, folder.path(), root));
    note_timer_resolution(&mut record.warnings);
    let clock_read = clock_read_cost();
    let housekeeping_cpus: Vec<u32> = plan.housekeeping_cpus.iter().map(|cpu| cpu.0).collect();
    let _ = affinity::set(0, &housekeeping_cpus);
    let control = Arc::new(control(&plan, root, tracer.is_some(), &mut record.warnings));
    let OpenPlaces { places, series } = open_probes(&plan)?;
    let mut loops: Vec<(usize, i32)> = places
        .iter()
        .enumerate()
        .filter_map(|(place, (_, opened))| Some((place, opened.loop_thread?)))
        .collect();
    note_probes(&places, &mut record.warnings);
    let members = places.iter().map(|(_, opened)| opened.members.len()).sum();
    if let Err(error) = lock_memory(members) {
        record.warnings.push(Warning::MemoryNotLocked {
            error: error.to_string(),
        });
    }
    let is_real_time = plan.probes.iter().any(|probe| probe.priority.is_some());
    let line = StartBarrier::new(members + usize::from(is_real_time));
    let threads = launch_threads(
        places,
        &line,
        &control,
        plan.probe_cgroup.as_deref(),
        tracer.as_ref(),
    )?;
    note_thread_warnings(&threads, &mut record.warnings);

    let spool = spool(&plan, &folder, root)?;
    let samples = spool
        .as_ref()
        .map_or_else(|| folder.samples(), |spool| spool.path().to_owned());
    record.samples_folder = spool.as_ref().map(|spool| spool.path().to_owned());
    let division = plan
        .disk_of_samples()
        .map(|disk| DiskDivision::of(disk, series.len()))
        .transpose();
    let division = division
        .map_err(too_small)
        .map_err(system("cannot divide the bytes of --disk"))?;
    let mut series = prepare_series(&record, &samples, series, division)?;
    record.series = series
        .iter()
        .map(|(series, _)| series_record(series.descriptor()))
        .collect();
    if let Some(tracer) = &tracer {
        if !loops.is_empty() && !tracer.are_numbers_shared() {
            record.warnings.push(Warning::Problem {
                text: LOOP_UNKNOWN.to_owned(),
            });
            loops.clear();
        }
        let can_be = |plan: &SeriesPlan| {
            plan.is_of_the_tool() || loops.iter().any(|&(place, _)| place == plan.place)
        };
        let explained = series
            .iter_mut()
            .filter(|(_, plan)| plan.is_a_wait() && can_be(plan));
        let explained = explained.map(|(series, plan)| (series, plan.place));
        tracing::follow(tracer, explained, loops.iter().copied())
            .map_err(system("cannot write the explanations"))?;
    }
    let feed = look.map(|_| Arc::new(Feed::default()));
    let metrics = metrics.map(|listener| MetricsServer::start(listener, &plan.housekeeping_cpus));
    let metrics = metrics
        .transpose()
        .map_err(system("cannot start the thread that serves --metrics"))?;
    if feed.is_some() || metrics.is_some() {
        series
            .iter_mut()
            .for_each(|(series, _)| series.watch(plan.window));
    }
    folder.update(&record)?;
    let keeper = KeeperThread::start(&plan.housekeeping_cpus, folder.identity().clone())
        .map_err(system("cannot start the thread that writes files"))?;
    let files = series.iter().map(|(series, _)| series.path());
    let desk = metrics.as_ref().map(|server| Arc::clone(server.desk()));
    let recorder = Recorder::start(
        files,
        division.is_some(),
        &plan.housekeeping_cpus,
        keeper.keeper(),
        feed.clone(),
        desk,
    )
    .map_err(system("cannot start the recorder"))?;
    let watchdog = is_real_time
        .then(|| Watchdog::start(&threads, &plan, &line, &control))
        .transpose()
        .map_err(system("cannot start the watchdog"))?;
    // If a probe has no grid, its cycles have no fixed length, so it is not known in advance how
    // long its number of cycles takes.
    let has_no_grid =
        |probe: &ProbePlan| probe::find(probe.kind()).is_some_and(|info| !info.has_schedule());
    let is_one_phase = plan.cycles.is_some() && !plan.probes.iter().any(has_no_grid);
    let counts_cycles = !is_one_phase && plan.phases.iter().any(|phase| phase.cycles.is_some());
    let counted = series
        .iter()
        .enumerate()
        .filter(|(_, (_, plan))| plan.counts_cycles())
        .map(|(index, _)| index)
        .collect();
    let reads_time_of_day = plan
        .probes
        .iter()
        .any(|probe| probe::find(probe.kind()).is_some_and(|info| info.reads_time_of_day));
    // If the terminal cannot be drawn on, the run prints lines instead.
    let screen = look.zip(feed).and_then(|(look, feed)| {
        View::start(Arc::clone(&feed), &plan.housekeeping_cpus, look)
            .ok()
            .map(|view| (feed, view))
    });
    if std::env::var_os(watched::VARIABLE).is_some() {
        shrink_page_lists();
    }
    let before = Snapshot::take(root, &plan.measured_cpus);
    let process_cpu_time = clock::process_cpu_time();
    // Everything is prepared and synced. From here to the first due time, the tool does not wait
    // for anything.
    let start = line.wait();
    if !counts_cycles && plan.phases.iter().all(|phase| phase.loads.is_empty()) {
        // Each grid starts within the first period of the run, so exactly length / period of its
        // due times are before the end that is set here.
        control.stop_at(start + plan.length());
    }
    record.begin_at(start);
    recorder.begin(begin_series(series, start)?);
    Ok(ActiveRun {
        clocks: ClockWatch::new(
            record.started.monotonic_ns,
            &plan.threads,
            reads_time_of_day,
        ),
        record,
        folder,
        earlier,
        guardian,
        signals,
        control,
        threads,
        recorder,
        screen,
        metrics,
        tracer,
        keeper,
        watchdog,
        scheduling: SchedulingWatch::new(start),
        counted,
        start,
        before,
        process_cpu_time,
        clock_read,
        settings,
        spool,
        division,
    })
}

/// Records how far the clocks of timers and grids are ahead of the run's clock. Prepares the signal
/// that interrupts waits on other clocks.
fn read_clocks(plan: &mut Plan) -> std::io::Result<()> {
    for thread in plan
        .threads
        .iter_mut()
        .filter(|thread| !thread.plan.clocks.are_plain())
    {
        thread.plan.clocks = thread.plan.clocks.read();
        if !thread.plan.clocks.timer.clock.is_of_the_run() {
            signal_handler::allow_nudges()?;
        }
    }
    Ok(())
}

fn change_settings(
    plan: &Plan,
    of_tracing: Option<Undo>,
    warnings: &mut Vec<Warning>,
    root: &Root,
) -> Result<Settings, SessionError> {
    let cpu_latency =
        plan.cpu_dma_latency_us
            .and_then(|micros| match CpuLatencyRequest::hold(root, micros) {
                Ok(request) => Some(request),
                Err(error) => {
                    let warning = Warning::CpuLatencyNotSet {
                        error: error.to_string(),
                    };
                    if !warnings.contains(&warning) {
                        warnings.push(warning);
                    }
                    None
                }
            });
    let moves: Vec<_> = plan
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::Interrupt { to } => Some(to.clone()),
            Change::CpuDmaLatency { .. } | Change::ResumeLatency { .. } => None,
        })
        .collect();
    let mut undo = resume_latency::undo(&plan.changes);
    undo.extend(of_tracing);
    undo.extend(
        plan.phases
            .iter()
            .flat_map(|phase| &phase.loads)
            .flat_map(|load| load.undo.clone()),
    );
    if moves.is_empty() && undo.is_empty() {
        return Ok(Settings {
            journal: None,
            _cpu_latency: cpu_latency,
        });
    }
    let journal = Journal::write(&journal::folder(), root, moves.clone(), undo)?;
    if let Err(error) = resume_latency::apply(&plan.changes) {
        warnings.push(Warning::CpuLatencyNotSet {
            error: error.to_string(),
        });
    }
    for to in &moves {
        if let Err(error) = to.apply() {
            warnings.push(Warning::InterruptsNotMoved {
                interrupts: to.irq.to_string(),
                error: error.to_string(),
            });
        }
    }
    Ok(Settings {
        journal: Some(journal),
        _cpu_latency: cpu_latency,
    })
}

/// Locks all memory. If the memory limit then leaves too little room for the run, unlocks the
/// memory again. Otherwise, the next thread could not be started.
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
        warnings.push(Warning::NoHighResolutionTimers {
            resolution: Nanos(resolution),
        });
    }
}

/// Makes the control that stops the run. When a latency above the threshold stops the run, the
/// control also writes a mark into the kernel's trace. Warns if the trace cannot be marked, unless
/// the run records a trace itself (`is_traced`).
fn control(plan: &Plan, root: &Root, is_traced: bool, warnings: &mut Vec<Warning>) -> Control {
    if plan.stop_above.is_none() {
        return Control::new(None, None);
    }
    let open = |name: &str| {
        let paths = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];
        paths.iter().find_map(|folder| {
            OpenOptions::new()
                .write(true)
                .open(root.path(format!("{folder}/{name}")))
                .ok()
        })
    };
    let marker = open("trace_marker");
    if marker.is_none() && !is_traced {
        let text = "--stop-above cannot mark the kernel's trace: tracefs is not mounted, or not \
                    writable (run as root)";
        warnings.push(Warning::Problem {
            text: text.to_owned(),
        });
    }
    Control::new(
        marker,
        plan.tracing_off.then(|| open("tracing_on")).flatten(),
    )
}

/// All opened probe instances, and the consumers of their series.
struct OpenPlaces {
    places: Vec<(ThreadEntry, ProbeInstance)>,
    series: Vec<(SeriesPlan, Consumer)>,
}

/// What is known about a series before the start.
struct SeriesPlan {
    thread: ThreadPlan,
    /// Index of the series' probe instance in the list of all instances.
    place: usize,
    name: String,
    info: SeriesInfo,
    cycles: Cycles,
    period: Nanos,
    clock_error: Nanos,
    grid: Option<DetectedGrid>,
    external: Option<bool>,
    least: Nanos,
}

/// Opens all probes before any thread exists, because some probes make settings that every thread
/// of the process must inherit.
fn open_probes(plan: &Plan) -> Result<OpenPlaces, SessionError> {
    let mut open = OpenPlaces {
        places: Vec::new(),
        series: Vec::new(),
    };
    for (place, entry) in plan.threads.iter().enumerate() {
        let unknown = || {
            system("the plan names a probe that this tardy does not have")(std::io::Error::other(
                entry.probe.clone(),
            ))
        };
        let planned = plan.probe(&entry.probe);
        let (info, probe) = planned
            .and_then(|probe| Some((probe::find(probe.kind())?, probe)))
            .ok_or_else(unknown)?;
        let bins = |series: &SeriesInfo| {
            if series.bins_below_least {
                probe.parameters.duration("least").get() as usize
            } else {
                0
            }
        };
        let rings = || {
            info.series
                .iter()
                .map(|series| ring_with_bins(RING_SAMPLES, bins(series)))
                .unzip()
        };
        let (producers, consumers): (Vec<_>, Vec<_>) = made_on(entry.plan.cpu, rings)
            .map_err(system("cannot allocate memory on the measured CPU"))?;
        let opening = OpenContext {
            probe,
            thread: &entry.plan,
            measured_cpus: &plan.measured_cpus,
            producers,
        };
        let opened =
            (info.open)(opening).map_err(|error| SessionError::of_probe(&entry.probe, error))?;
        let series = opened.series.as_deref().unwrap_or(info.series);
        let plan = |series: &SeriesInfo| SeriesPlan {
            thread: entry.plan.clone(),
            place,
            name: series.name(&probe.name),
            info: *series,
            cycles: info.cycles,
            period: opened.grid.map_or(probe.period, |grid| grid.period),
            clock_error: opened.clock_error,
            grid: opened.grid,
            external: opened.external,
            least: probe.parameters.duration("least"),
        };
        open.series.extend(series.iter().map(plan).zip(consumers));
        open.places.push((entry.clone(), opened));
    }
    for (entry, opened) in &mut open.places {
        if let Some(finish) = opened.finish.take() {
            opened
                .notes
                .extend(finish.call().map_err(|error| SessionError::Probe {
                    probe: entry.probe.clone(),
                    error,
                })?);
        }
    }
    Ok(open)
}

/// Runs `make` on the CPU that will use the result. The kernel allocates memory on the node of the
/// CPU that touches it first, so the measuring loop then writes to local memory.
fn made_on<T: Send>(cpu: Option<CpuId>, make: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    let bound = || {
        if let Some(cpu) = cpu {
            // If this thread cannot be bound to the CPU, the measuring thread cannot be bound
            // either, and it reports the error.
            let _ = affinity::set(0, &[cpu.0]);
        }
        make()
    };
    scoped::apart(bound)
}

fn launch_threads(
    places: Vec<(ThreadEntry, ProbeInstance)>,
    line: &Arc<StartBarrier>,
    control: &Arc<Control>,
    group: Option<&Path>,
    tracer: Option<&Tracer>,
) -> Result<Vec<MeasuringThread>, SessionError> {
    let mut measuring = Vec::new();
    for (place, (entry, opened)) in places.into_iter().enumerate() {
        for member in opened.members {
            let marker = tracer.map(Tracer::marker);
            let mark = move || marker.iter().for_each(|marker| marker.write(place));
            let failed = |error| match error {
                error if scoped::is_refusal(&error) => {
                    system("cannot start a measuring thread")(error)
                }
                error => SessionError::Probe {
                    probe: entry.probe.clone(),
                    error,
                },
            };
            measuring
                .push(threads::launch(&entry, member, line, control, group, mark).map_err(failed)?);
        }
    }
    Ok(measuring)
}

/// Collects the notes of all probes. Keeps only one of several equal texts.
fn note_probes(places: &[(ThreadEntry, ProbeInstance)], warnings: &mut Vec<Warning>) {
    for text in places.iter().flat_map(|(_, opened)| &opened.notes) {
        let warning = Warning::Note { text: text.clone() };
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}

/// Adds the warnings of all threads. Adds only one of several equal warnings. All threads have the
/// same rights, so they all get the same warning if the kernel refuses a policy.
fn note_thread_warnings(threads: &[MeasuringThread], warnings: &mut Vec<Warning>) {
    for warning in threads.iter().flat_map(|thread| &thread.warnings) {
        if !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
}

fn spool(plan: &Plan, folder: &RunFolder, root: &Root) -> Result<Option<Spool>, SessionError> {
    let Some(parent) = &plan.spool else {
        return Ok(None);
    };
    let samples = folder
        .samples()
        .canonicalize()
        .map_err(system("cannot write the samples"))?;
    let made =
        Spool::make(&journal::folder(), root, parent, samples).map_err(|error| match error {
            SpoolError::Journal(error) => error.into(),
            SpoolError::Folder(error) => system("cannot write the folder given by --spool")(error),
        })?;
    Ok(Some(made))
}

/// Prepares files and memory of all series. This may wait for a disk.
fn prepare_series(
    record: &RunRecord,
    samples: &Path,
    series: Vec<(SeriesPlan, Consumer)>,
    division: Option<DiskDivision>,
) -> Result<Vec<(PreparedSeries, SeriesPlan)>, SessionError> {
    let rule = division.map(|division| {
        RotationRule::of(division, record.plan.window, edges_of_phases(&record.plan))
    });
    let prepare = |(plan, consumer): (SeriesPlan, Consumer)| {
        let descriptor = plan.descriptor(record.started.monotonic_ns, record.clock);
        let prepared = match &rule {
            Some(rule) => {
                PreparedSeries::create_rotating(samples, descriptor, consumer, rule.clone())
            }
            None => PreparedSeries::create(samples, descriptor, consumer, record.plan.keep),
        };
        prepared
            .map(|prepared| (prepared, plan))
            .map_err(system("cannot write the samples"))
    };
    series.into_iter().map(prepare).collect()
}

/// For each phase except the last, returns three points in time: the phase's end, and a point
/// shortly before and another shortly after it. A new hourly histogram starts at each of these
/// points, so nearly all samples of a phase are in histograms without samples of other phases.
fn edges_of_phases(plan: &Plan) -> Vec<Nanos> {
    let ends = plan.phases.iter().scan(plan.warm_up, |end, phase| {
        *end += phase.length;
        Some(*end)
    });
    let ends: Vec<Nanos> = ends.take(plan.phases.len().saturating_sub(1)).collect();
    ends.into_iter()
        .flat_map(|end| [end - AROUND_PHASES, end, end + AROUND_PHASES])
        .collect()
}

fn too_small(least: u64) -> std::io::Error {
    std::io::Error::other(format!(
        "--disk is too small for the number of series in this run: give at least {}",
        format_bytes(least)
    ))
}

/// Makes the kernel shrink each CPU's list of free pages. In a guest of the lab, the start of this
/// program has filled these lists. Without this function, Linux 6.7 and later would shrink them
/// during the measurement: once a second by an eighth, each time with preemption off for half a
/// millisecond (`decay_pcp_high` of mm/page_alloc.c). Each read of /proc/sys/vm/stat_refresh
/// shrinks the lists once. If the file cannot be read, nothing happens.
fn shrink_page_lists() {
    for _ in 0..PAGE_LIST_REFRESHES {
        if std::fs::read("/proc/sys/vm/stat_refresh").is_err() {
            return;
        }
    }
}

/// Writes the heads of all files without waiting until they are on the disk.
fn begin_series(
    series: Vec<(PreparedSeries, SeriesPlan)>,
    start: Nanos,
) -> Result<Vec<SeriesRecorder>, SessionError> {
    let begin =
        |(prepared, plan): (PreparedSeries, SeriesPlan)| prepared.begin(plan.schedule(start));
    series
        .into_iter()
        .map(begin)
        .collect::<std::io::Result<_>>()
        .map_err(system("cannot write the samples"))
}

impl SeriesPlan {
    /// Returns whether the recorder counts the cycles of the series. If the series has a grid, the
    /// number of cycles follows from the clock instead. Cycles of other programs' loops are not
    /// counted. If the probe looks for gaps, its cycles are counted only if its ring counts the
    /// gaps shorter than the parameter `least` in bins.
    fn counts_cycles(&self) -> bool {
        self.is_of_the_tool()
            && (matches!(
                self.info.kind,
                SeriesKind::Event | SeriesKind::Interval { .. }
            ) || self.info.bins_below_least)
    }

    /// Returns whether threads of the tool take the samples of the series.
    fn is_of_the_tool(&self) -> bool {
        self.external.is_none() && self.cycles != Cycles::OfAProgram
    }

    /// Returns whether each sample of the series is an interval in which a thread waits or gets no
    /// CPU. A sample that is an interval error or a skew is a difference between times, not such an
    /// interval.
    fn is_a_wait(&self) -> bool {
        !matches!(
            self.info.kind,
            SeriesKind::Interval { .. } | SeriesKind::Skew
        )
    }

    /// Returns the schedule of the series' due times in a run that starts at `start`.
    fn schedule(&self, start: Nanos) -> Schedule {
        match (self.grid, self.thread.at(start).schedule) {
            (Some(grid), _) => {
                self.info
                    .kind
                    .schedule(self.period, grid.first_from(start), Nanos::ZERO)
            }
            (None, Schedule::Grid { start, dither, .. }) => {
                self.info.kind.schedule(self.period, start, dither)
            }
            (None, Schedule::Event { .. }) => {
                self.info.kind.schedule(self.period, start, Nanos::ZERO)
            }
        }
    }

    fn descriptor(&self, start: Nanos, clock: ClockKind) -> Descriptor {
        Descriptor {
            quantity: self.info.quantity.to_owned(),
            meaning: self.info.kind.meaning(self.clock_error, self.least),
            is_outside_verdict: self.info.is_outside_verdict || self.external == Some(false),
            stands_for_work: self.info.kind.is_work(),
            copy: self.thread.copy,
            external: self.external,
            ..Descriptor::latency(&self.name, self.thread.cpu, clock, self.schedule(start))
        }
    }
}

fn series_record(descriptor: &Descriptor) -> SeriesRecord {
    SeriesRecord {
        file: descriptor.file_name(),
        probe: descriptor.probe.clone(),
        cpu: descriptor.cpu,
        counts: None,
        observed_ns: None,
        failure: None,
        elsewhere: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use tardy_core::cpu::CpuList;

    use super::*;

    #[test]
    fn a_run_that_is_traced_has_no_want_of_the_machines_trace() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let plan = Plan {
            stop_above: Some(Nanos::from_millis(1)),
            ..Plan::without_probes("made", &CpuList::default(), &CpuList::default())
        };
        for (is_traced, expected) in [(true, 0), (false, 1)] {
            let mut warnings = Vec::new();
            drop(control(&plan, &root, is_traced, &mut warnings));
            assert_eq!(warnings.len(), expected, "{warnings:?}");
        }
    }
}
