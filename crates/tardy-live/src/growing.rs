//! Reads a run folder into which another process writes. Each call reads only what is new.

use std::io;
use std::path::{Path, PathBuf};

use tardy_core::accounting::Counts;
use tardy_core::chunk::Chunk;
use tardy_core::figures::{Figures, FiguresNumbers, Peaks, Watch};
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::units::Nanos;
use tardy_machine::root::Root;
use tardy_run::folder;
use tardy_run::record::{RunRecord, State};
use tardy_samples::histogram_file;
use tardy_samples::read_series::SeriesFile;
use tardy_sys::clock;

use crate::content::Content;
use crate::progress::RunProgress;

/// A run folder, and how far it has been read.
#[derive(Debug)]
pub struct GrowingFolder {
    path: PathBuf,
    series: Vec<GrowingSeries>,
    /// When a poll last found new data; the first poll does not count.
    grew_at: Option<Nanos>,
}

/// If a folder gets no new data for this long, it is considered complete. The time is this long
/// because a folder that is being copied here from another machine grows in steps.
const QUIET_MAX: Nanos = Nanos::from_secs(30);

#[derive(Debug)]
struct GrowingSeries {
    path: PathBuf,
    file: SeriesFile,
    /// Number of bytes of the file that have been read.
    place: u64,
    histogram: Histogram,
    watch: Watch,
    counts: Counts,
}

impl GrowingFolder {
    /// Opens the run folder `path`.
    ///
    /// # Errors
    /// Fails as [`folder::open`] does.
    pub fn open(path: &Path) -> Result<Self, folder::FolderError> {
        folder::open(path)?;
        Ok(Self {
            path: path.to_owned(),
            series: Vec::new(),
            grew_at: None,
        })
    }

    /// Reads new data and adds it to `content`.
    pub(crate) fn look(&mut self, content: &mut Content) -> io::Result<()> {
        let record = folder::open(&self.path).map_err(io::Error::other)?;
        let start = record.started.monotonic_ns;
        let (is_first, before) = (self.series.is_empty(), self.bytes_read());
        self.open_series(&record);
        for (place, series) in self.series.iter_mut().enumerate() {
            series.read(|at, value| content.note(place, at - start, value));
        }
        let latest = self.series.iter().filter_map(GrowingSeries::latest).max();
        let moment = Nanos(clock::monotonic());
        if !is_first && self.bytes_read() != before {
            self.grew_at = Some(moment);
        }
        let is_growing = self.grew_at.is_some_and(|at| moment - at < QUIET_MAX);
        let is_under_way = record.is_under_way(&Root::system());
        let now = if is_under_way {
            moment
        } else {
            latest.unwrap_or(start)
        };
        let run = self.path.display().to_string();
        let figures = self.series.iter_mut().map(GrowingSeries::figures).collect();
        let progress = RunProgress {
            is_cut_off: record.state == State::Running && !is_under_way && !is_growing,
            ..RunProgress::of(&record, run, now)
        };
        content.take(progress, Some(figures));
        Ok(())
    }

    fn bytes_read(&self) -> u64 {
        self.series.iter().map(|series| series.place).sum()
    }

    /// Opens each series whose file has received its header since the last call, and each series
    /// whose file the run has moved.
    fn open_series(&mut self, record: &RunRecord) {
        let samples = record
            .samples_folder
            .clone()
            .unwrap_or_else(|| self.path.join("samples"));
        for series in &record.series {
            let path = samples.join(&series.file);
            let known = self
                .series
                .iter_mut()
                .find(|known| known.path.file_name() == path.file_name());
            if known.as_ref().is_some_and(|known| known.path == path) {
                continue;
            }
            // A series file without a header cannot be opened yet. The next poll tries to open it
            // again.
            let Ok(file) = SeriesFile::open(&path) else {
                continue;
            };
            let mut histogram = Histogram::new(Budget::RECORDER);
            if let Some(hours) = file.hours() {
                histogram.merge(&hours.latency());
            }
            if let Some(known) = known {
                // The run has moved the file here from its --spool folder. The content is the same,
                // so reading continues at the same position.
                (known.file, known.path) = (file, path);
            } else {
                self.series.push(GrowingSeries {
                    watch: Watch::new(file.descriptor(), record.plan.window),
                    path,
                    file,
                    place: 0,
                    histogram,
                    counts: Counts::default(),
                });
            }
        }
    }
}

impl GrowingSeries {
    fn read(&mut self, mut note: impl FnMut(Nanos, Nanos)) {
        let Self {
            file,
            place,
            histogram,
            watch,
            counts,
            ..
        } = self;
        let schedule = file.descriptor().schedule;
        let mut visit = |chunk: &Chunk| {
            *counts = chunk.counts;
            for (_, sample) in chunk.samples(&schedule) {
                histogram.record(sample.latency.get());
                watch.note(sample);
                note(sample.due, sample.latency);
            }
        };
        // After a read error, such as one of a slow network disk, the next poll tries again.
        if let Ok(read) = file.read_on(*place, &mut visit) {
            *place = read;
        }
    }

    /// Returns approximately when the last sample was due; `None` if the due times are not on a
    /// grid.
    fn latest(&self) -> Option<Nanos> {
        let schedule = self.file.descriptor().schedule;
        match schedule {
            tardy_core::series::Schedule::Grid { start, period, .. } => {
                Some(start + period * i64::try_from(self.counts.expected).ok()?)
            }
            tardy_core::series::Schedule::Event { .. } => None,
        }
    }

    fn figures(&mut self) -> Figures {
        let mut figures = self
            .watch
            .figures(self.file.descriptor(), self.counts, &self.histogram);
        // The recent values are already in the content, because each one was added when it was
        // read.
        figures.recent = Peaks::default();
        if self.counts.unstored > 0
            && let Some(stored) = histogram_file::read(&self.path.with_extension("histogram"))
        {
            // The stored histogram contains all samples, but was written some seconds ago. It does
            // not contain the deadline misses of skipped periods, so the number of misses is
            // unknown.
            figures.numbers = FiguresNumbers::of(&stored.histogram);
            figures.misses = None;
        }
        if self.file.hours().is_some_and(|hours| hours.samples > 0) {
            // Samples that were folded into hourly histograms before the first poll are not read,
            // so the number of misses is unknown.
            figures.misses = None;
        }
        figures
    }
}
