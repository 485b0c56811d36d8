//! Writes the run folder while threads are followed. The thread that reads the trace writes the
//! samples; another thread (`tardy_measure::measure::keeper`) does everything that waits for the
//! disk.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;

use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_measure::measure::keeper::KeeperThread;
use tardy_measure::measure::metrics::MetricsServer;
use tardy_run::attached::AttachedFolder;
use tardy_run::record::State;
use tardy_samples::cycles::{self, Cycles};
use tardy_samples::hours::HOUR;
use tardy_samples::reserved_file;
use tardy_samples::wake_up_kind::WakeUpKind;
use tardy_sys::clock;
use tardy_trace::timers::TimerKind;
use tardy_trace::wake_ups::WakeUp;
use tardy_tracer::attach::SoFar;

/// Maximum time for which samples are only in memory. These samples are lost if the process is
/// killed.
const FLUSH: Nanos = Nanos::from_secs(1);
/// Interval at which the trace around the worst wake-ups is written, if it has changed.
const TRACES: Nanos = Nanos::from_secs(10);
/// Minimum interval at which cycles are written. The interval is also at least [`CYCLES_PAUSES`]
/// times the time that this thread takes to encode them.
const CYCLES: Nanos = Nanos::from_secs(5);
const CYCLES_PAUSES: i64 = 50;
/// The trace of one hour takes at most the disk budget of all traces divided by this number.
const HOURS_LEAST: u64 = 4;
/// The folder of traces.
const TRACE: &str = "trace";

pub(super) struct FolderWriter {
    folder: AttachedFolder,
    keeper: KeeperThread,
    metrics: Option<MetricsServer>,
    flush_due: Nanos,
    traces_due: Nanos,
    cycles_due: Nanos,
    /// The hour of the recording to which the worst wake-ups belong.
    hour: i64,
    /// How often the recording was resumed in this hour.
    part: u32,
    series: usize,
    unwritten: Option<io::Error>,
    /// The cycles that the folder contained when the recording was resumed.
    earlier: Cycles,
}

impl FolderWriter {
    /// Starts to write into `folder`, and to serve metrics at `metrics`.
    pub(super) fn start(folder: AttachedFolder, metrics: Option<TcpListener>) -> io::Result<Self> {
        let cpus = CpuList::default();
        let keeper = KeeperThread::start(&cpus, folder.identity().clone())?;
        let metrics = metrics.map(|listener| MetricsServer::start(listener, &cpus));
        let earlier = Cycles::read(folder.path())?.unwrap_or_default();
        let now = Nanos(clock::monotonic());
        let mut writer = Self {
            folder,
            keeper,
            metrics: metrics.transpose()?,
            flush_due: now + FLUSH,
            traces_due: now + TRACES,
            cycles_due: now + CYCLES,
            hour: 0,
            part: 0,
            series: 0,
            unwritten: None,
            earlier,
        };
        writer.hour = writer.hour_at(now);
        while writer.trace_path().try_exists()? {
            writer.part += 1;
        }
        writer.remove_old_traces();
        Ok(writer)
    }

    /// Returns the maximum size in bytes of the trace of an hour; `None` without a disk budget.
    pub(super) fn trace_bytes(&self) -> Option<u64> {
        let division = self.folder.division()?;
        Some(division.traces_bytes / HOURS_LEAST)
    }

    /// Returns whether the folder was removed, moved or replaced.
    pub(super) fn is_gone(&self) -> bool {
        self.keeper.keeper().is_folder_gone()
    }

    pub(super) fn push(&mut self, wake_up: &WakeUp, kind: &WakeUpKind, name: &str) {
        let (due, lateness) = (Nanos(wake_up.due), Nanos(wake_up.lateness()));
        let thread = (wake_up.thread, name);
        let pushed = self.folder.push(thread, kind, due, lateness);
        self.note(pushed);
    }

    pub(super) fn left(&mut self, threads: &BTreeSet<i32>) {
        self.folder.left(threads);
    }

    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.unwritten.get_or_insert(error);
        }
    }

    /// Writes the files that are due.
    pub(super) fn turn(&mut self, so_far: &mut SoFar<'_>) {
        let now = Nanos(clock::monotonic());
        let keeper = self.keeper.keeper();
        if now >= self.flush_due {
            self.flush_due = now + FLUSH;
            let flushed = self.folder.flush();
            self.note(flushed);
        }
        self.folder
            .full()
            .for_each(|rotation| keeper.make_room(rotation));
        self.folder
            .unsettled()
            .for_each(|rotation| keeper.settle(rotation));
        let series = self.folder.record().series.len();
        if series != self.series {
            self.series = series;
            keeper.sync(&self.folder.path().join("run.json"));
        }
        let hour = self.hour_at(now);
        if now >= self.traces_due || hour != self.hour {
            self.traces_due = now + TRACES;
            self.keep_trace(so_far);
        }
        if hour != self.hour {
            (self.hour, self.part) = (hour, 0);
            so_far.forget_worst();
            self.remove_old_traces();
        }
        if now >= self.cycles_due {
            let bytes = self.cycles(so_far);
            keeper.replace(&self.folder.path().join(cycles::FILE), bytes);
            let took = Nanos(clock::monotonic()) - now;
            self.cycles_due = now + CYCLES.max(took * CYCLES_PAUSES);
        }
        if let Some(metrics) = &self.metrics {
            let desk = metrics.desk();
            if desk.is_wanted() {
                desk.leave_series(self.folder.metrics());
            }
            desk.leave_run(self.folder.record(), now);
        }
    }

    fn cycles(&self, so_far: &mut SoFar<'_>) -> Vec<u8> {
        let bytes_max = self.folder.division().map(|division| division.cycles_bytes);
        so_far.cycles().after(&self.earlier).encode(bytes_max)
    }

    /// Writes the trace around the worst wake-ups now.
    pub(super) fn keep_trace(&mut self, so_far: &mut SoFar<'_>) {
        let Some(bytes) = so_far.worst_trace() else {
            return;
        };
        let path = self.trace_path();
        let written = fs::create_dir_all(self.folder.path().join(TRACE))
            .and_then(|()| reserved_file::replace_in_memory(&path, &bytes));
        match written {
            Ok(()) => self.keeper.keeper().sync(&path),
            Err(error) => self.note(Err(error)),
        }
    }

    /// Returns the hour of the recording at `now`.
    fn hour_at(&self, now: Nanos) -> i64 {
        let since = now - self.folder.record().started.monotonic_ns;
        since.get().div_euclid(HOUR.get())
    }

    /// Returns the trace file of this hour; a recording that is resumed within an hour gets another
    /// file.
    fn trace_path(&self) -> PathBuf {
        let name = match self.part {
            0 => format!("worst-{:05}.dat", self.hour),
            part => format!("worst-{:05}-{part}.dat", self.hour),
        };
        self.folder.path().join(TRACE).join(name)
    }

    /// Removes the oldest traces until the trace of one more hour fits.
    fn remove_old_traces(&self) {
        let Some(division) = self.folder.division() else {
            return;
        };
        let entries = fs::read_dir(self.folder.path().join(TRACE));
        let mut traces: Vec<(PathBuf, u64)> = entries
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let entry = entry.ok()?;
                Some((entry.path(), entry.metadata().ok()?.len()))
            })
            .collect();
        traces.sort();
        // While a file is replaced, both the old and the new one exist.
        let room = 2 * division.traces_bytes / HOURS_LEAST;
        let mut bytes: u64 = traces.iter().map(|(_, bytes)| bytes).sum();
        for (path, length) in traces {
            if bytes + room <= division.traces_bytes {
                break;
            }
            if fs::remove_file(path).is_ok() {
                bytes -= length;
            }
        }
    }

    /// Writes the remaining data and the outcome.
    pub(super) fn finish(
        mut self,
        cycles: Cycles,
        state: State,
        ended: Nanos,
        warnings: Vec<Warning>,
        lost: &[(TimerKind, u64)],
    ) -> io::Result<()> {
        drop(self.metrics.take());
        self.keeper.finish();
        let division = self.folder.division();
        let cycles = cycles.after(&self.earlier);
        let bytes = cycles.encode(division.map(|division| division.cycles_bytes));
        let cycles = reserved_file::replace(&self.folder.path().join(cycles::FILE), &bytes);
        let finished = self.folder.finish(state, ended, warnings, lost);
        match self.unwritten {
            Some(error) => Err(error),
            None => cycles.and(finished),
        }
    }
}
