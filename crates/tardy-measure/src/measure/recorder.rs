//! The recorder's thread empties the rings eight times a second, on an unmeasured CPU if there is
//! one.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tardy_core::accounting::Counts;
use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::figures::Figures;
use tardy_core::units::Nanos;
use tardy_live::feed::{self, Feed};
use tardy_live::pace::Pace;
use tardy_probes::recording::series::{SeriesRecorder, WorstSample};
use tardy_samples::histogram_file;
use tardy_samples::reserved_file::ReservedFile;
use tardy_samples::rotation::HISTOGRAM_BYTES;
use tardy_samples::series_writer::FLUSH_INTERVAL;
use tardy_sys::clock::{self, Instant};
use tardy_sys::{affinity, sched, scoped};

use super::keeper::BackgroundWriter;
use super::metrics::Desk;
use crate::plan::other_runs::RECORDER;

/// Number of flushes after which the histograms of series that do not store every sample are
/// written again.
const FLUSHES_A_HISTOGRAM: u64 = 40;
/// Number of flushes after which the series are synced again, which is every ten seconds. A power
/// failure loses the samples of at most ten seconds, plus the time by which the disk delays writes.
const FLUSHES_A_SYNC: u64 = 80;
/// Space reserved for each histogram, in bytes.
const HISTOGRAM_BYTES_RESERVED: usize = 512 << 10;
const STACK_BYTES: usize = 512 << 10;

/// The progress of one series, for the live view.
#[derive(Debug, Clone)]
pub struct Progress {
    pub probe: String,
    pub cpu: Option<CpuId>,
    pub counts: Counts,
    /// The worst sample of the series.
    pub worst: Option<WorstSample>,
    /// Time between two due times; absent if the clock does not determine the due times, or if
    /// another program takes the samples.
    pub period: Option<Nanos>,
    /// Whether the series has ended and its last sample was recorded.
    pub is_closed: bool,
}

/// The recorder of a run in progress.
#[derive(Debug)]
pub(super) struct Recorder {
    progress: Arc<Mutex<Vec<Progress>>>,
    is_ending: Arc<AtomicBool>,
    series: SyncSender<Vec<SeriesRecorder>>,
    handle: JoinHandle<Vec<SeriesRecorder>>,
}

struct Work {
    series: Vec<SeriesRecorder>,
    closed: Vec<bool>,
    reserves: Vec<ReservedFile>,
    progress: Arc<Mutex<Vec<Progress>>>,
    keeper: BackgroundWriter,
    metrics: Option<Arc<Desk>>,
    /// The channel to the run's display, if there is one, and the earliest time of the next
    /// figures.
    feed: Option<(Arc<Feed>, Pace)>,
    /// Figures that the recorder could not pass to the display. Their largest values become part of
    /// the next figures.
    unseen: Vec<Figures>,
}

impl Recorder {
    /// Starts the thread on `cpus`. Reserves disk space for a histogram of each series in `files`.
    /// Reserves less space if `--disk` bounds the run (`is_bounded`). `keeper` writes histograms
    /// during the run, `feed` passes figures to a live view, and `metrics` passes numbers to
    /// clients of metrics.
    pub(super) fn start<'a>(
        files: impl IntoIterator<Item = &'a Path>,
        is_bounded: bool,
        cpus: &CpuList,
        keeper: BackgroundWriter,
        feed: Option<Arc<Feed>>,
        metrics: Option<Arc<Desk>>,
    ) -> std::io::Result<Self> {
        let room = if is_bounded {
            HISTOGRAM_BYTES as usize
        } else {
            HISTOGRAM_BYTES_RESERVED
        };
        let reserve = |file: &Path| ReservedFile::new(&histogram_path(file), room);
        let reserves = files
            .into_iter()
            .map(reserve)
            .collect::<std::io::Result<Vec<_>>>()?;
        let progress = Arc::new(Mutex::new(Vec::new()));
        let is_ending = Arc::new(AtomicBool::new(false));
        let (series, has_begun) = mpsc::sync_channel(1);
        let feed = feed.map(|feed| (feed, Pace::new(Nanos(clock::monotonic()))));
        let mut work = Work {
            closed: vec![false; reserves.len()],
            series: Vec::new(),
            reserves,
            progress: Arc::clone(&progress),
            keeper,
            metrics,
            feed,
            unseen: Vec::new(),
        };
        let cpus: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
        let ending = Arc::clone(&is_ending);
        let handle = std::thread::Builder::new()
            .name(RECORDER.into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let _ = affinity::set(0, &cpus);
                // If the recorder shares a CPU with loads, it must run before them, because a full
                // ring loses samples.
                let _ = sched::set_policy(0, sched::AHEAD);
                if let Ok(series) = has_begun.recv() {
                    work.series = series;
                    work.run(&ending);
                }
                work.series
            });
        let handle = handle.map_err(scoped::refused)?;
        Ok(Self {
            progress,
            is_ending,
            series,
            handle,
        })
    }

    /// Passes the series, in the order of their files, to the thread. After this, the thread
    /// empties their rings.
    pub(super) fn begin(&self, series: Vec<SeriesRecorder>) {
        // If the thread has ended, the caller notices this when it joins the thread.
        let _ = self.series.send(series);
    }

    /// Returns the progress of each series.
    pub(super) fn progress(&self) -> Vec<Progress> {
        self.progress
            .lock()
            .map(|progress| progress.clone())
            .unwrap_or_default()
    }

    /// Returns the shared progress. Other threads read it during the run.
    pub(super) fn shared_progress(&self) -> Arc<Mutex<Vec<Progress>>> {
        Arc::clone(&self.progress)
    }

    /// Takes the remaining samples after the measuring threads have ended, and closes the files.
    pub(super) fn finish(self) -> std::io::Result<Vec<SeriesRecorder>> {
        self.is_ending.store(true, Ordering::Release);
        drop(self.series);
        self.handle.thread().unpark();
        self.handle
            .join()
            .map_err(|_| std::io::Error::other("the recorder ended unexpectedly"))
    }
}

impl Work {
    fn run(&mut self, is_ending: &AtomicBool) {
        let mut due = Instant::from_nanos(clock::monotonic());
        for flush in 1_u64.. {
            let ending = is_ending.load(Ordering::Acquire);
            self.flush(flush.is_multiple_of(FLUSHES_A_HISTOGRAM));
            if flush.is_multiple_of(FLUSHES_A_SYNC) {
                self.series
                    .iter()
                    .flat_map(SeriesRecorder::unsynced)
                    .for_each(|file| self.keeper.sync(&file));
            }
            if ending {
                break;
            }
            due.advance(FLUSH_INTERVAL.get());
            due = Instant::from_nanos(due.to_nanos().max(clock::monotonic()));
            // The thread waits in `park`, not in a sleep, so that the end of the run can wake it
            // and need not wait for the next flush.
            std::thread::park_timeout(Nanos(due.to_nanos() - clock::monotonic()).to_std());
        }
        self.write_last_histograms();
    }

    fn flush(&mut self, is_histogram_due: bool) {
        for (series, closed) in self
            .series
            .iter_mut()
            .zip(&mut self.closed)
            .filter(|(_, closed)| !**closed)
        {
            *closed = series.try_close();
            if !*closed {
                series.flush();
            }
            if let Some(rotation) = series.rotation().filter(|rotation| rotation.wants_room()) {
                self.keeper.make_room(Arc::clone(rotation));
            }
            if let Some(rotation) = series
                .rotation()
                .filter(|rotation| rotation.has_new_segment())
            {
                self.keeper.settle(Arc::clone(rotation));
            }
            if is_histogram_due && let Some(histogram) = encoded_histogram(series) {
                // On a full disk the older file stays. The space for the final histogram is already
                // reserved.
                self.keeper
                    .replace(&histogram_path(series.path()), histogram);
            }
        }
        if let Ok(mut progress) = self.progress.lock() {
            progress.clear();
            progress.extend(
                self.series
                    .iter()
                    .zip(&self.closed)
                    .map(|(series, &is_closed)| progress_of(series, is_closed)),
            );
        }
        self.publish_figures();
        if let Some(desk) = self.metrics.as_ref().filter(|desk| desk.is_wanted()) {
            desk.leave_series(self.series.iter().map(SeriesRecorder::metrics));
        }
    }

    /// Computes the figures that a live view requests; less often if this takes much CPU time.
    fn publish_figures(&mut self) {
        let Some((feed, pace)) = &mut self.feed else {
            return;
        };
        if !feed.is_wanted() || clock::monotonic() < pace.next().get() {
            return;
        }
        let began = clock::thread_cpu_time();
        let mut figures: Vec<Figures> = self
            .series
            .iter_mut()
            .filter_map(SeriesRecorder::figures)
            .collect();
        feed::after(&mut figures, &self.unseen);
        self.unseen = feed.publish_figures(figures).err().unwrap_or_default();
        pace.spent(
            Nanos(clock::monotonic()),
            Nanos(clock::thread_cpu_time() - began),
        );
    }

    fn write_last_histograms(&mut self) {
        for (series, reserve) in self.series.iter().zip(self.reserves.drain(..)) {
            if let Some(histogram) = encoded_histogram(series) {
                let _ = reserve.commit(&histogram);
            }
        }
    }
}

fn progress_of(series: &SeriesRecorder, is_closed: bool) -> Progress {
    let descriptor = series.descriptor();
    Progress {
        probe: descriptor.probe.clone(),
        cpu: descriptor.cpu,
        counts: series.counts(),
        worst: series.worst(),
        // The watchdog uses the period to decide whether a series hangs. Only the tool's own
        // threads must keep making progress. The loops of other programs may pause, so their series
        // have no period here.
        period: (descriptor.schedule.is_grid() && descriptor.external.is_none())
            .then(|| descriptor.schedule.period()),
        is_closed,
    }
}

/// Returns the histogram of a series if the series does not store every sample. A series whose old
/// samples are folded needs no such histogram, because the hourly histograms contain these samples.
fn encoded_histogram(series: &SeriesRecorder) -> Option<Vec<u8>> {
    let histogram = series.histogram()?;
    let room = series.rotation().map(|_| HISTOGRAM_BYTES as usize);
    Some(histogram_file::encode_within(
        histogram,
        &histogram_path(series.path()),
        room.unwrap_or(usize::MAX),
    ))
}

fn histogram_path(series: &Path) -> PathBuf {
    series.with_extension("histogram")
}
