//! One series of `tardy attach`: counts its samples, and writes them in chunks.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tardy_core::accounting::Counts;
use tardy_core::chunk::ChunkEncoder;
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::openmetrics::{Buckets, SeriesMetrics};
use tardy_core::sample::{Record, Sample};
use tardy_core::series::Descriptor;
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;
use tardy_samples::hours::{self, Hours};
use tardy_samples::read_series::SeriesFile;
use tardy_samples::rotation::{Rotation, RotationRule};
use tardy_samples::series_writer::SeriesWriter;

use crate::record::StoreFailure;

/// Maximum number of samples per chunk.
const SAMPLES_A_CHUNK: u64 = 1024;
/// Memory limit for the distribution that a series has for metrics. The limit is small, because
/// there are many series.
const BUDGET: Budget = Budget {
    pages: 4,
    values: 1024,
};

#[derive(Debug)]
pub(super) struct Series {
    pub(super) descriptor: Descriptor,
    /// The thread whose samples are currently added.
    pub(super) owner: Option<i32>,
    place: Place,
    encoder: ChunkEncoder,
    bytes: Vec<u8>,
    counts: Counts,
    first_due: Option<Nanos>,
    /// What was counted before the run was resumed.
    before: Counts,
    figures: Option<SeriesFigures>,
    failure: Option<StoreFailure>,
}

/// Where the samples are stored.
#[derive(Debug)]
enum Place {
    /// A file. The file is open only while a chunk is written, because a program may have more
    /// threads than a process may have open files.
    File(PathBuf),
    /// The segments of a series with `--disk`. The first sample creates the first segment.
    Segments {
        rotation: Arc<Rotation>,
        writer: Option<SeriesWriter>,
    },
}

/// Data for metrics, in addition to the counts.
#[derive(Debug)]
struct SeriesFigures {
    latency: Histogram,
    misses: Option<u64>,
}

impl SeriesFigures {
    fn new() -> Self {
        Self {
            latency: Histogram::new(BUDGET),
            misses: None,
        }
    }
}

impl Series {
    /// Creates the file of a series. With `rule`, old samples will be folded into histograms.
    pub(super) fn create(
        path: &Path,
        descriptor: Descriptor,
        rule: Option<RotationRule>,
        has_metrics: bool,
    ) -> io::Result<Self> {
        let place = match rule {
            Some(rule) => {
                let rotation = Arc::new(Rotation::new(path, rule));
                let mut writer = SeriesWriter::without_head_in(Arc::clone(&rotation))?;
                writer.write_head(&descriptor)?;
                Place::Segments {
                    rotation,
                    writer: Some(writer),
                }
            }
            None => {
                drop(SeriesWriter::create(path, &descriptor)?);
                Place::File(path.to_owned())
            }
        };
        Ok(Self::with(
            descriptor,
            place,
            Counts::default(),
            has_metrics,
        ))
    }

    /// Resumes the series at `path`. The earlier samples of the series must all be folded into
    /// histograms already.
    pub(super) fn take_up(path: &Path, rule: RotationRule, has_metrics: bool) -> io::Result<Self> {
        let descriptor = SeriesFile::open(path)
            .map_err(io::Error::other)?
            .descriptor()
            .clone();
        let earlier = Hours::read(&hours::path(path))?
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "its histograms are gone"))?;
        let rotation = Arc::new(Rotation::behind(path, rule, &earlier));
        let place = Place::Segments {
            rotation,
            writer: None,
        };
        Ok(Self::with(descriptor, place, earlier.counts, has_metrics))
    }

    fn with(descriptor: Descriptor, place: Place, before: Counts, has_metrics: bool) -> Self {
        Self {
            owner: None,
            place,
            encoder: ChunkEncoder::new(&descriptor),
            bytes: Vec::new(),
            counts: before,
            first_due: None,
            before,
            figures: has_metrics.then(SeriesFigures::new),
            failure: None,
            descriptor,
        }
    }

    /// Adds a sample, and writes the chunk if it is full.
    pub(super) fn push(&mut self, sample: Sample, window: Option<Window>) -> io::Result<()> {
        self.counts.recorded += 1;
        self.counts.expected += 1;
        self.first_due.get_or_insert(sample.due);
        self.encoder.push(Record::Sample(sample));
        if let Some(figures) = &mut self.figures {
            figures.latency.record(sample.latency.get());
            if let Some(window) = window {
                *figures.misses.get_or_insert(0) += u64::from(window.misses(sample.latency));
            }
        }
        if self.encoder.samples() >= SAMPLES_A_CHUNK {
            self.write(false)
        } else {
            Ok(())
        }
    }

    /// Counts timers whose end is missing from the trace.
    pub(super) fn lose(&mut self, lost: u64) {
        self.counts.lost += lost;
        self.counts.expected += lost;
    }

    pub(super) fn has_samples(&self) -> bool {
        self.encoder.samples() > 0
    }

    /// Writes a chunk. With `--disk`, samples that cannot be written are only counted.
    pub(super) fn write(&mut self, is_last: bool) -> io::Result<()> {
        let (samples, since) = (self.encoder.samples(), self.first_due.take());
        self.bytes.clear();
        self.encoder.finish(&self.counts, is_last, &mut self.bytes);
        let written = self.append(is_last);
        if let Err(error) = &written {
            self.counts.unstored += samples;
            let failure = self.failure.get_or_insert_with(|| StoreFailure {
                since: since.unwrap_or_default(),
                error: error.to_string(),
                samples: 0,
            });
            failure.samples += samples;
        }
        match self.place {
            Place::File(_) => written,
            Place::Segments { .. } => Ok(()),
        }
    }

    fn append(&mut self, is_last: bool) -> io::Result<()> {
        match &mut self.place {
            Place::File(path) => {
                let mut writer = SeriesWriter::reopen(path)?;
                writer.append(&self.bytes)?;
                if is_last { writer.sync() } else { Ok(()) }
            }
            Place::Segments { rotation, writer } => {
                let writer = match writer {
                    Some(writer) => writer,
                    None => {
                        let mut new = SeriesWriter::without_head_in(Arc::clone(rotation))?;
                        new.write_head(&self.descriptor)?;
                        writer.insert(new)
                    }
                };
                writer.append(&self.bytes)?;
                if is_last { writer.sync() } else { Ok(()) }
            }
        }
    }

    /// Writes the remaining samples. A resumed series without new samples is left unchanged.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        let is_untouched = matches!(self.place, Place::Segments { writer: None, .. });
        if is_untouched && !self.has_samples() {
            return Ok(());
        }
        self.write(true)
    }

    /// Returns the counts so far. Folded samples are counted as unstored.
    pub(super) fn counts(&self) -> Counts {
        let given_way = self.rotation().map_or(0, |rotation| rotation.given_way());
        Counts {
            unstored: self.counts.unstored + given_way,
            ..self.counts
        }
    }

    pub(super) fn failure(&self) -> Option<&StoreFailure> {
        self.failure.as_ref()
    }

    pub(super) fn rotation(&self) -> Option<&Arc<Rotation>> {
        match &self.place {
            Place::File(_) => None,
            Place::Segments { rotation, .. } => Some(rotation),
        }
    }

    pub(super) fn metrics(&self) -> Option<SeriesMetrics> {
        let figures = self.figures.as_ref()?;
        Some(SeriesMetrics {
            descriptor: self.descriptor.clone(),
            counts: self.counts.minus(&self.before),
            // The run has due times but no period.
            is_skipped_unknown: true,
            misses: figures.misses,
            max: figures.latency.max().map(Nanos),
            buckets: Buckets::of(&figures.latency),
        })
    }
}
