//! Records the trace of a run: starts the recording, ends it, and returns a record of it for the
//! run.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;

use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::units::Nanos;
use tardy_machine::facts::MachineFacts;
use tardy_machine::root::Root;
use tardy_machine::tracefs::Tracefs;
use tardy_run::tracing::{Calibration, ExplainedSeries, TracingRecord};
use tardy_samples::delays;
use tardy_sys::{affinity, clock, sched, scoped};
use tardy_trace::event::Decoder;
use tardy_trace::explain::{Facts, Preemption, Samples};
use tardy_trace::live::Live;
use tardy_trace::symbols::Symbols;

use crate::calibration::{calibrate, kernel_symbols};
use crate::delays::{DelayFile, Holders};
use crate::evidence::Evidence;
use crate::explaining::{FollowedLoop, MARK, SampleExplainer, SeriesFollower};
use crate::follower::Follower;
use crate::instance::{Instance, InstanceError};
use crate::kept::KeptPages;
use crate::pages::PageReader;
use crate::second_opinion::Opinions;
use crate::tap::{Batch, Tap};

const STACK_BYTES: usize = 512 << 10;
/// Maximum number of batches that wait for the reader: those of 16 series in half a minute, at
/// eight batches per second and series. Further batches are dropped and counted.
const BATCHES_MAX: usize = 4096;
/// Nice value of the reader. It lies between the recorder's, which has a higher priority, and that
/// of the loads, which have a lower one. If the reader loses events, samples cannot be explained.
const NICE: i32 = -10;
/// Minimum share of the calibration's wake-ups that the trace must contain. If it contains fewer,
/// it cannot explain anything.
const WAKE_UPS_MIN: f64 = 0.5;

/// Why the trace of a run is not recorded.
#[derive(Debug, thiserror::Error)]
pub enum NotTraced {
    /// The machine has no usable tracefs.
    #[error("tracefs cannot be used ({0})")]
    NoTracefs(io::Error),
    /// The times in the trace are on the host's clock. This time namespace has a different clock.
    #[error(
        "this process is in a time namespace, whose clock differs from that of the kernel's trace"
    )]
    TimeNamespace,
    /// The instance cannot be made, or this kernel lacks events that it needs.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// Another operation failed.
    #[error("{what}: {error}")]
    System {
        /// What the tool tried to do.
        what: &'static str,
        /// The error that the system reported.
        error: io::Error,
    },
    /// The trace does not contain events that it should contain.
    #[error("of {} wake-ups in the calibration, only {} are in the kernel's trace", .0.sleeps, .0.wake_ups)]
    Calibration(Calibration),
}

impl NotTraced {
    /// Returns the remedy.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NoTracefs(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                "run as root, or with CAP_SYS_ADMIN and a writable tracefs"
            }
            // fsopen(2) exists since Linux 5.2.
            Self::NoTracefs(error) if error.kind() == io::ErrorKind::Unsupported => {
                "mount it before the run: mount -t tracefs tracefs /sys/kernel/tracing"
            }
            Self::NoTracefs(_) => {
                "use a kernel with CONFIG_FTRACE and CONFIG_EVENT_TRACING; in a container, give \
                 the container CAP_SYS_ADMIN"
            }
            Self::TimeNamespace => "run outside of the time namespace",
            Self::Instance(InstanceError::Absent(_)) => {
                "use a kernel with CONFIG_EVENT_TRACING and scheduler events"
            }
            Self::Instance(_) | Self::System { .. } => {
                "run as root outside of a container; `tardy restore` cleans up after a killed run"
            }
            Self::Calibration(_) => {
                "check whether another program filters or stops tracing; without trace events, \
                 nothing can be explained"
            }
        }
    }
}

/// How a run's trace is recorded.
#[derive(Debug)]
pub struct Options<'a> {
    /// The machine's files.
    pub root: &'a Root,
    pub machine: &'a MachineFacts,
    /// Whether time stands still while the host runs other tasks, as in the lab.
    pub is_virtual_time: bool,
    /// The run's folder.
    pub folder: &'a Path,
    /// Name of the instance.
    pub instance: &'a str,
    /// CPUs whose events are recorded.
    pub cpus: &'a CpuList,
    /// CPUs on which the reader may run.
    pub housekeeping_cpus: &'a CpuList,
    /// How much of the run's `--disk` budget is for explanations, in bytes.
    pub disk: Option<u64>,
    /// Whether all pages are stored, rather than only those around the worst samples.
    pub keep_all: bool,
    /// Whether the kernel also records stacks.
    pub has_stacks: bool,
    /// Whether the timerlat tracer also runs, as a second opinion.
    pub has_timerlat: bool,
    /// Whether the run measures loops of programs. If so, the loops are judged by the rules for
    /// real-time loops.
    pub has_loops: bool,
}

/// A series whose samples are explained.
#[derive(Debug, Clone)]
pub struct FollowedSeries {
    /// Name of the series' file.
    pub file: String,
    pub probe: String,
    /// The CPU to which the series' thread is bound.
    pub cpu: Option<CpuId>,
    /// The probe index that the threads of these samples wrote with [`Marker::write`].
    pub place: usize,
}

/// A handle with which measuring threads write their probe index into the trace. This is needed
/// because, in a container, threads do not know their IDs in the trace.
#[derive(Debug, Clone)]
pub struct Marker(Arc<File>);

impl Marker {
    /// Writes a mark into the trace: the calling thread measures for the probe with the index
    /// `place`.
    pub fn write(&self, place: usize) {
        let _ = (&*self.0).write_all(format!("{MARK}{place}").as_bytes());
    }
}

/// A running recording.
#[derive(Debug)]
pub struct Tracer {
    marker: Marker,
    batches: SyncSender<Batch>,
    new_series: SyncSender<(Vec<SeriesFollower>, Vec<FollowedLoop>)>,
    are_numbers_shared: bool,
    reader: ReaderThread,
    record: TracingRecord,
    folder: PathBuf,
    disk: Option<u64>,
}

/// The thread that reads the trace and owns the instance. If the run ends early, the thread ends,
/// too, and removes the instance.
#[derive(Debug)]
struct ReaderThread {
    is_ending: Arc<AtomicBool>,
    handle: Option<JoinHandle<TracerEnd>>,
}

impl ReaderThread {
    /// Ends the thread. Returns `None` if the thread panicked.
    fn end(&mut self) -> Option<TracerEnd> {
        let handle = self.handle.take()?;
        self.is_ending.store(true, Ordering::Release);
        handle.thread().unpark();
        handle.join().ok()
    }
}

impl Drop for ReaderThread {
    fn drop(&mut self) {
        self.end();
    }
}

/// The result of the tracing thread.
struct TracerEnd {
    follower: Follower,
    cpu_time: Nanos,
}

impl Tracer {
    /// Creates the instance, calibrates, and starts the thread that reads the trace.
    ///
    /// # Errors
    /// Returns [`NotTraced`] after undoing everything.
    pub fn start(tracefs: Tracefs, options: &Options<'_>) -> Result<Self, NotTraced> {
        let failed = |what| move |error| NotTraced::System { what, error };
        demand_clock_of_trace(options.root)?;
        let folder = options.folder.join("trace");
        fs::create_dir_all(&folder).map_err(failed(
            "cannot create the folder `trace` in the run \
             folder",
        ))?;
        tracefs.remove_left_behind(options.root);
        let mut instance = Instance::create(
            tracefs,
            options.instance,
            options.cpus,
            options.has_loops,
            options.root,
        )?;
        // The kernel refuses to change the tracer of an instance whose pages are being read.
        let no_second_opinion = options
            .has_timerlat
            .then(|| instance.run_timerlat().err())
            .flatten()
            .map(|error| error.to_string());
        let has_timerlat = options.has_timerlat && no_second_opinion.is_none();
        let mut reader = PageReader::open(&instance, options.cpus)
            .map_err(failed("cannot read the trace's pages"))?;
        let kallsyms = kernel_symbols();
        let symbols = Symbols::parse(&kallsyms);
        let facts = facts(options, &symbols);
        let housekeeping_cpus: Vec<u32> =
            options.housekeeping_cpus.iter().map(|cpu| cpu.0).collect();
        let first = options.cpus.iter().next().unwrap_or(CpuId(0));
        let calibrated = calibrate(&instance, &mut reader, facts, first, &housekeeping_cpus)
            .map_err(failed("cannot calibrate"))?;
        let calibration = calibrated.found;
        if (calibration.wake_ups as f64) < calibration.sleeps as f64 * WAKE_UPS_MIN {
            return Err(NotTraced::Calibration(calibration));
        }
        let marker = OpenOptions::new()
            .write(true)
            .open(instance.path().join("trace_marker"));
        let marker = Marker(Arc::new(
            marker.map_err(failed("cannot write marks into the trace"))?,
        ));
        instance.leave_out_scheduler_timers(&kallsyms);
        let no_stacks = options
            .has_stacks
            .then(|| instance.record_stacks().err())
            .flatten()
            .map(|error| error.to_string());
        let has_stacks = options.has_stacks && no_stacks.is_none();
        let record = TracingRecord {
            level: match (has_stacks, has_timerlat) {
                (_, true) => TracingRecord::TIMERLAT,
                (true, false) => TracingRecord::STACKS,
                (false, false) => 1,
            },
            instance: instance.name().to_owned(),
            events: instance.enabled.clone(),
            absent: instance.absent.clone(),
            calibration,
            events_read: 0,
            pages_read: 0,
            losses: 0,
            lost_events: 0,
            cpu_time_ns: Nanos::ZERO,
            are_functions_hidden: !kallsyms
                .lines()
                .any(|line| !line.starts_with("0000000000000000")),
            stacks_read: 0,
            no_stacks,
            second_opinion: None,
            no_second_opinion,
            series: Vec::new(),
            loops: Vec::new(),
        };
        let kept = options
            .keep_all
            .then(|| KeptPages::create(&folder, reader.cpus()))
            .transpose();
        let kept = kept.map_err(failed("cannot keep the trace's pages"))?;
        let (batches, batches_end) = mpsc::sync_channel(BATCHES_MAX);
        let (new_series, new_series_end) = mpsc::sync_channel(1);
        let explaining = SampleExplainer {
            live: Live::new(
                Decoder::new(&instance.formats),
                instance.layout,
                reader.cpus().iter().copied(),
            ),
            samples: Samples::new(facts, &HashMap::new()),
            threads: HashMap::new(),
            opinions: has_timerlat.then(Opinions::default),
            loops: Vec::new(),
            series: Vec::new(),
            holders: Holders::new(symbols),
            // The pages get only an eighth of the budget. The file also contains formats and names,
            // and while a new file replaces it, both files exist.
            evidence: Evidence::new(reader.cpus().len(), options.disk.map(|bytes| bytes / 8)),
            batches: batches_end,
            new_series: new_series_end,
        };
        let evidence_path = folder.join("worst.dat");
        let mut follower = Follower {
            instance,
            reader,
            explaining,
            evidence_path,
            kept,
            has_stacks,
            threads_known: Vec::new(),
        };
        drop(kallsyms);
        if options.keep_all {
            // The head is written at the start, so that it exists even if the run is killed.
            KeptPages::write_head(&folder, &follower.head(), follower.reader.cpus())
                .map_err(failed("cannot keep the trace's pages"))?;
        }
        let is_ending = Arc::new(AtomicBool::new(false));
        let ending = Arc::clone(&is_ending);
        let thread = std::thread::Builder::new()
            .name("tardy-tracer".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let _ = affinity::set(0, &housekeeping_cpus);
                let _ = sched::set_policy(0, sched::Policy::Other { nice: NICE });
                follower.run(&ending);
                TracerEnd {
                    follower,
                    cpu_time: Nanos(clock::thread_cpu_time()),
                }
            });
        let handle = thread
            .map_err(scoped::refused)
            .map_err(failed("cannot start the trace reader"))?;
        let are_numbers_shared = calibrated.are_numbers_shared;
        Ok(Self {
            marker,
            batches,
            new_series,
            are_numbers_shared,
            reader: ReaderThread {
                is_ending,
                handle: Some(handle),
            },
            record,
            folder: options.folder.to_owned(),
            disk: options.disk,
        })
    }

    /// Returns the marker with which measuring threads write their probe index.
    #[must_use]
    pub fn marker(&self) -> Marker {
        self.marker.clone()
    }

    /// Returns the facts that are known when recording starts.
    #[must_use]
    pub fn record(&self) -> &TracingRecord {
        &self.record
    }

    /// Returns whether threads have the same IDs in the trace and in this process.
    #[must_use]
    pub fn are_numbers_shared(&self) -> bool {
        self.are_numbers_shared
    }

    /// Creates a file of delays for each series. Returns a tap for each series, through which its
    /// recorder passes samples. `loops` are the loops of programs that are measured.
    ///
    /// # Errors
    /// Returns an error if a file cannot be created.
    pub fn follow(
        &self,
        series: &[FollowedSeries],
        loops: Vec<FollowedLoop>,
    ) -> io::Result<Vec<Tap>> {
        let mut taps = Vec::new();
        let mut followed = Vec::new();
        let share = self
            .disk
            .map(|bytes| bytes / 2 / series.len().max(1) as u64);
        for (index, series) in series.iter().enumerate() {
            let left_out = Arc::new(AtomicU64::new(0));
            taps.push(Tap::new(index, self.batches.clone(), Arc::clone(&left_out)));
            let counts = ExplainedSeries {
                file: series.file.clone(),
                probe: series.probe.clone(),
                cpu: series.cpu,
                samples: 0,
                explained: 0,
                with_unknown: 0,
                left_out: 0,
                given_way: 0,
                bytes: 0,
            };
            let home = series.cpu.map_or(0, |cpu| cpu.0);
            let file = DelayFile::create(&delays::path(&self.folder, &series.file), counts, share)?;
            followed.push(SeriesFollower {
                place: series.place,
                home,
                file,
                left_out,
                waiting: Default::default(),
                explained_until: 0,
            });
        }
        // If the tracing thread has ended, the code that joins it reports this.
        let _ = self.new_series.send((followed, loops));
        Ok(taps)
    }

    /// Ends the recording, and returns what was recorded. Must be called after all samples have
    /// been passed on. The instance is then removed.
    ///
    /// # Errors
    /// Returns an error if the thread has panicked, or if the head of the stored pages cannot be
    /// written.
    pub fn finish(mut self) -> io::Result<TracingRecord> {
        let ended = self
            .reader
            .end()
            .ok_or_else(|| io::Error::other("the trace reader ended unexpectedly"))?;
        let TracerEnd { follower, cpu_time } = ended;
        if follower.kept.is_some() {
            KeptPages::write_head(
                &self.folder.join("trace"),
                &follower.head(),
                follower.reader.cpus(),
            )?;
        }
        let counts = follower.explaining.live.counts();
        let mut record = self.record;
        record.events_read = counts.events;
        record.pages_read = counts.pages;
        record.losses = counts.losses;
        record.lost_events = counts.lost_events;
        record.stacks_read = counts.stacks;
        record.cpu_time_ns = cpu_time;
        record.second_opinion = follower
            .explaining
            .opinions
            .as_ref()
            .map(|opinions| opinions.found);
        record.loops = follower.explaining.judged(&record.events);
        for series in follower.explaining.series {
            let left_out = series.left_out.load(Ordering::Relaxed);
            record.series.push(ExplainedSeries {
                left_out,
                ..series.file.counts
            });
        }
        Ok(record)
    }
}

/// Refuses a time namespace with its own monotonic clock (time_namespaces(7)).
pub(crate) fn demand_clock_of_trace(root: &Root) -> Result<(), NotTraced> {
    // Kernels without time namespaces have no such file.
    let offsets = root.read("proc/self/timens_offsets").unwrap_or_default();
    let is_moved = |line: &str| {
        let mut words = line.split_whitespace();
        words.next() == Some("monotonic") && words.any(|offset| offset != "0")
    };
    if offsets.lines().any(is_moved) {
        return Err(NotTraced::TimeNamespace);
    }
    Ok(())
}

/// Returns the facts about the machine that decide between several possible causes of a delay.
fn facts(options: &Options<'_>, symbols: &Symbols) -> Facts {
    let machine = options.machine;
    let preemption = machine
        .kernel
        .preemption
        .as_ref()
        .and_then(|found| found.is_full());
    let preemption = preemption.map(|is_full| {
        if is_full {
            Preemption::Full
        } else {
            Preemption::No
        }
    });
    // In virtual time, the host cannot take time from the guest.
    let is_guest = if options.is_virtual_time {
        Some(false)
    } else {
        machine.virtualization.is_virtual()
    };
    let mut facts = Facts {
        preemption,
        is_guest,
        ..Facts::default()
    }
    .with_symbols(symbols);
    let command_line = machine.kernel.command_line.as_deref().unwrap_or_default();
    facts.has_proxy_execution &= !is_proxy_execution_off(command_line);
    facts
}

/// Returns whether the kernel's command line switches proxy execution off (kernel/sched/core.c,
/// `setup_proxy_exec`; lib/kstrtox.c, `kstrtobool`).
fn is_proxy_execution_off(command_line: &str) -> bool {
    let words = command_line.split_ascii_whitespace();
    let mut values = words.filter_map(|word| word.strip_prefix("sched_proxy_exec="));
    values.next_back().is_some_and(|value| {
        let value = value.to_ascii_lowercase();
        value.starts_with(['0', 'd', 'f', 'n']) || value.starts_with("of")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_execution_is_on_unless_the_last_value_switches_it_off() {
        let is_off = is_proxy_execution_off;
        assert!(!is_off("quiet sched_proxy_exec isolcpus=1"));
        assert!(!is_off("sched_proxy_exec=off sched_proxy_exec=on"));
        assert!(is_off("sched_proxy_exec=1 sched_proxy_exec=0 quiet"));
    }
}
