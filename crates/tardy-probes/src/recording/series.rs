//! Moves one series from the ring to its file: counts the samples, then writes them in chunks.
//!
//! It computes only the counts, the running maximum, a histogram of all samples, and data for live
//! views and metrics.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tardy_core::accounting::Counts;
use tardy_core::chunk::ChunkEncoder;
use tardy_core::figures::{Figures, Watch};
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::openmetrics::{Buckets, SeriesMetrics};
use tardy_core::sample::{Gap, Record, Sample};
use tardy_core::series::{Descriptor, Schedule};
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;
use tardy_run::keep::KeptSamples;
use tardy_run::record::{MovedStretch, StoreFailure};
use tardy_samples::hours::{self, Hours};
use tardy_samples::rotation::{Rotation, RotationRule};
use tardy_samples::series_writer::SeriesWriter;
use tardy_tracer::Tap;

use super::ring::Consumer;

/// After this number of samples, a chunk ends early, so that a backlog cannot make a chunk that
/// readers refuse.
const CHUNK_SAMPLES_MAX: u64 = 65_536;

/// The worst sample so far, for the live view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorstSample {
    pub latency: Nanos,
    /// Due time of the sample.
    pub due: Nanos,
}

/// A series that is being written to the disk.
#[derive(Debug)]
pub struct SeriesRecorder {
    descriptor: Descriptor,
    path: PathBuf,
    consumer: Consumer,
    writer: Option<SeriesWriter>,
    /// Folds the oldest samples of the series into histograms, in runs with `--disk`.
    rotation: Option<Arc<Rotation>>,
    chunk: Vec<u8>,
    /// What was counted before the run was resumed.
    before: Counts,
    tally: Tally,
    failure: Option<StoreFailure>,
}

/// The counts of the samples from the ring, and the chunk to which these samples are added.
#[derive(Debug)]
struct Tally {
    keep: KeptSamples,
    encoder: ChunkEncoder,
    counts: Counts,
    unwritten: UnwrittenChunk,
    histogram: Histogram,
    worst: Option<WorstSample>,
    latest: Option<Sample>,
    /// The ring's bin counts when they were last read.
    binned: Vec<u64>,
    /// Receives the samples to explain, in runs with `--explain`.
    tap: Option<Tap>,
    /// Further data for a live view and for metrics, in runs that have them.
    watch: Option<Watch>,
}

/// The samples in the chunk that is being built. If the chunk cannot be written, these samples are
/// counted as unstored.
#[derive(Debug, Default)]
struct UnwrittenChunk {
    samples: u64,
    first_due: Option<Nanos>,
}

/// A series that has its file and its memory, and waits for the start of the run.
#[derive(Debug)]
pub struct PreparedSeries(SeriesRecorder);

impl PreparedSeries {
    /// Creates the series' file in `folder`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created.
    pub fn create(
        folder: &std::path::Path,
        descriptor: Descriptor,
        consumer: Consumer,
        keep: KeptSamples,
    ) -> io::Result<Self> {
        let writer = SeriesWriter::without_head(&folder.join(descriptor.file_name()))?;
        Ok(Self::with_writer(
            folder, descriptor, consumer, keep, writer,
        ))
    }

    /// Makes a series whose oldest samples are folded by `rule`. Histograms that already exist are
    /// continued.
    ///
    /// # Errors
    /// Returns an error if existing histograms cannot be read or the file cannot be created.
    pub fn create_rotating(
        folder: &std::path::Path,
        descriptor: Descriptor,
        consumer: Consumer,
        rule: RotationRule,
    ) -> io::Result<Self> {
        let path = folder.join(descriptor.file_name());
        let earlier = Hours::read(&hours::path(&path))?.filter(|earlier| earlier.through > 0);
        let rotation = Arc::new(earlier.as_ref().map_or_else(
            || Rotation::new(&path, rule.clone()),
            |hours| Rotation::behind(&path, rule.clone(), hours),
        ));
        let writer = SeriesWriter::without_head_in(Arc::clone(&rotation))?;
        let mut prepared =
            Self::with_writer(folder, descriptor, consumer, KeptSamples::All, writer);
        prepared.0.rotation = Some(rotation);
        if let Some(earlier) = earlier {
            prepared.0.before = earlier.counts;
            prepared.0.tally.counts = earlier.counts;
        }
        Ok(prepared)
    }

    fn with_writer(
        folder: &std::path::Path,
        descriptor: Descriptor,
        consumer: Consumer,
        keep: KeptSamples,
        writer: SeriesWriter,
    ) -> Self {
        let path = folder.join(descriptor.file_name());
        let encoder = ChunkEncoder::new(&descriptor);
        let binned = vec![0; consumer.bins().len()];
        Self(SeriesRecorder {
            descriptor,
            path,
            writer: Some(writer),
            rotation: None,
            before: Counts::default(),
            chunk: Vec::with_capacity(64 << 10),
            tally: Tally {
                keep,
                encoder,
                counts: Counts::default(),
                unwritten: UnwrittenChunk::default(),
                histogram: Histogram::new(Budget::RECORDER),
                worst: None,
                latest: None,
                binned,
                tap: None,
                watch: None,
            },
            failure: None,
            consumer,
        })
    }

    /// Makes the series send each sample to `tap`, which explains it.
    pub fn explain_by(&mut self, tap: Tap) {
        self.0.tally.tap = Some(tap);
    }

    /// Starts collecting data for a live view. `window` is the range of latencies that meet the
    /// deadline.
    pub fn watch(&mut self, window: Option<Window>) {
        self.0.tally.watch = Some(Watch::new(&self.0.descriptor, window));
    }

    /// Returns the descriptor of the series. Before the series starts, the start time in the
    /// descriptor is not yet that of the run.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        self.0.descriptor()
    }

    /// Returns the path of the series' file.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        self.0.path()
    }

    /// Starts the series: writes the file's head, which defines when samples are due.
    ///
    /// # Errors
    /// Returns an error if the head cannot be written.
    pub fn begin(self, schedule: Schedule) -> io::Result<SeriesRecorder> {
        let mut recorder = self.0;
        recorder.descriptor.schedule = schedule;
        recorder.tally.encoder = ChunkEncoder::new(&recorder.descriptor);
        recorder.tally.watch = recorder.tally.watch.map(|watch| watch.on(schedule));
        if let Some(writer) = &mut recorder.writer {
            writer.write_head(&recorder.descriptor)?;
        }
        Ok(recorder)
    }
}

impl SeriesRecorder {
    /// Creates the series' file in `folder`, for a series whose start is known.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created or written.
    pub fn create(
        folder: &std::path::Path,
        descriptor: Descriptor,
        consumer: Consumer,
        keep: KeptSamples,
    ) -> io::Result<Self> {
        let schedule = descriptor.schedule;
        PreparedSeries::create(folder, descriptor, consumer, keep)?.begin(schedule)
    }

    /// Empties the ring and writes its content.
    pub fn flush(&mut self) {
        while self.drain() {
            self.end_chunk();
        }
        self.end_chunk();
    }

    /// Takes samples out of the ring. Returns true if the chunk is full and more samples may be
    /// waiting.
    fn drain(&mut self) -> bool {
        let Self {
            consumer, tally, ..
        } = self;
        consumer.drain_up_to(CHUNK_SAMPLES_MAX, |record| tally.take(record)) == CHUNK_SAMPLES_MAX
    }

    fn end_chunk(&mut self) {
        self.tally.tap.iter_mut().for_each(Tap::hand_over);
        self.tally.take_bins(&self.consumer);
        self.count_expected(None);
        self.write_chunk(false);
    }

    /// Takes the last samples after the measuring thread has ended, and closes the file. Returns
    /// true once the file is closed.
    pub fn try_close(&mut self) -> bool {
        let Some(statement) = self.consumer.closing_statement() else {
            return false;
        };
        while self.drain() {
            self.end_chunk();
        }
        self.tally.tap.iter_mut().for_each(Tap::hand_over);
        self.tally.count_gap(statement.gap);
        self.tally.take_bins(&self.consumer);
        self.count_expected(Some(statement.next_due));
        self.write_chunk(true);
        if let Some(writer) = &self.writer
            && let Err(error) = writer.sync()
        {
            self.note_failure(&error, 0, None);
        }
        self.writer = None;
        true
    }

    /// Computes the number of expected samples from the clock and the grid, or from the started
    /// cycles. The recorded samples are never used for this.
    fn count_expected(&mut self, next_due: Option<Nanos>) {
        let (schedule, before) = (&self.descriptor.schedule, self.before.expected);
        if !schedule.is_grid() {
            // The last started cycle may not have ended, so it is not yet expected to have a
            // sample.
            let cycles = before + self.consumer.cycles();
            self.tally.counts.expected = if next_due.is_some() {
                cycles
            } else {
                cycles.min(self.tally.counts.recorded + self.tally.counts.lost)
            };
        } else if let Some(next_due) = next_due {
            self.tally.counts.expected = before
                + schedule
                    .expected_at(next_due)
                    .map_or(0, |through_next| through_next - 1);
        } else if let Some(latest) = self.tally.latest {
            self.tally.counts.expected =
                before + schedule.expected_at(latest.due).unwrap_or(0) + u64::from(latest.skipped);
        }
    }

    fn write_chunk(&mut self, last: bool) {
        if self.tally.encoder.samples() == 0 && !last {
            return;
        }
        let unwritten = std::mem::take(&mut self.tally.unwritten);
        self.chunk.clear();
        self.tally
            .encoder
            .finish(&self.tally.counts, last, &mut self.chunk);
        let Some(writer) = &mut self.writer else {
            return;
        };
        if let Err(error) = writer.append(&self.chunk) {
            self.tally.counts.unstored += unwritten.samples;
            self.note_failure(&error, unwritten.samples, unwritten.first_due);
        }
    }

    fn note_failure(&mut self, error: &io::Error, samples: u64, first_due: Option<Nanos>) {
        let since = first_due
            .or(self.tally.latest.map(|latest| latest.due))
            .unwrap_or_default();
        let failure = self.failure.get_or_insert_with(|| StoreFailure {
            since,
            error: error.to_string(),
            samples: 0,
        });
        failure.samples += samples;
    }

    /// Returns the descriptor of the series.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Returns the path of the series' file.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let given_way = self
            .rotation
            .as_ref()
            .map_or(0, |rotation| rotation.given_way());
        Counts {
            unstored: self.tally.counts.unstored + given_way,
            ..self.tally.counts
        }
    }

    /// Returns how the oldest samples of the series are folded, if they are.
    #[must_use]
    pub fn rotation(&self) -> Option<&Arc<Rotation>> {
        self.rotation.as_ref()
    }

    /// Returns the files whose content may not have reached the disk yet.
    #[must_use]
    pub fn unsynced(&self) -> Vec<PathBuf> {
        match &self.rotation {
            Some(rotation) => rotation.unsynced(),
            None => vec![self.path.clone()],
        }
    }

    /// Returns the worst sample so far.
    #[must_use]
    pub fn worst(&self) -> Option<WorstSample> {
        self.tally.worst
    }

    /// Returns the last sample.
    #[must_use]
    pub fn latest(&self) -> Option<Sample> {
        self.tally.latest
    }

    /// Returns how long the probe looked for gaps; `None` if it did not.
    #[must_use]
    pub fn observed(&self) -> Option<Nanos> {
        self.consumer.observed()
    }

    /// Returns the samples that the measuring thread took on the wrong CPU.
    #[must_use]
    pub fn elsewhere(&self) -> Vec<MovedStretch> {
        self.consumer.elsewhere()
    }

    /// Returns the figures for a live view; `None` without a live view.
    pub fn figures(&mut self) -> Option<Figures> {
        let Tally {
            watch,
            counts,
            histogram,
            ..
        } = &mut self.tally;
        watch
            .as_mut()
            .map(|watch| watch.figures(&self.descriptor, *counts, histogram))
    }

    /// Returns the metrics of the series. The metrics cover only this process, not the earlier
    /// parts of a resumed run.
    #[must_use]
    pub fn metrics(&self) -> SeriesMetrics {
        let Tally {
            watch,
            counts,
            histogram,
            worst,
            ..
        } = &self.tally;
        SeriesMetrics {
            descriptor: self.descriptor.clone(),
            counts: counts.minus(&self.before),
            is_skipped_unknown: false,
            misses: watch.as_ref().and_then(Watch::misses),
            max: worst.map(|worst| worst.latency),
            buckets: Buckets::of(histogram),
        }
    }

    /// Returns why some samples could not be stored.
    #[must_use]
    pub fn failure(&self) -> Option<&StoreFailure> {
        self.failure.as_ref()
    }

    /// Returns the histogram of all samples; `None` if every sample is in the file, which is more
    /// detailed.
    #[must_use]
    pub fn histogram(&self) -> Option<&Histogram> {
        (self.tally.keep != KeptSamples::All
            || self.failure.is_some()
            || !self.tally.binned.is_empty())
        .then_some(&self.tally.histogram)
    }
}

impl Tally {
    fn take(&mut self, record: Record) {
        let sample = match record {
            Record::Gap(gap) => {
                self.encoder.push(record);
                return self.count_gap(gap);
            }
            Record::Sample(sample) => sample,
        };
        if let Some(tap) = &mut self.tap {
            tap.note(sample);
        }
        if let Some(watch) = &mut self.watch {
            watch.note(sample);
        }
        self.counts.recorded += 1;
        self.counts.skipped += u64::from(sample.skipped);
        self.latest = Some(sample);
        if self
            .worst
            .is_none_or(|worst| sample.latency > worst.latency)
        {
            self.worst = Some(WorstSample {
                latency: sample.latency,
                due: sample.due,
            });
        }
        self.histogram.record(sample.latency.get());
        if !self.keep.stores(&sample) {
            self.counts.unstored += 1;
            return;
        }
        self.unwritten.samples += 1;
        self.unwritten.first_due.get_or_insert(sample.due);
        self.encoder.push(record);
    }

    /// Adds the values that the ring only counted in bins: they are in the histogram and count as
    /// recorded, but are not stored as samples.
    fn take_bins(&mut self, consumer: &Consumer) {
        for (value, (taken, count)) in self.binned.iter_mut().zip(consumer.bins()).enumerate() {
            let new = count - std::mem::replace(taken, count);
            if new > 0 {
                self.counts.recorded += new;
                self.counts.unstored += new;
                self.histogram.record_many(value as i64, new);
            }
        }
    }

    fn count_gap(&mut self, gap: Gap) {
        self.counts.lost += gap.lost;
        self.counts.skipped += gap.skipped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::ring::{Producer, ring};
    use tardy_core::series::ClockKind;
    use tardy_samples::hours::CountingRule;

    fn recorder(
        folder: &std::path::Path,
        capacity: usize,
        keep: KeptSamples,
    ) -> (Producer, SeriesRecorder) {
        let (producer, consumer) = ring(capacity);
        let schedule = Schedule::Grid {
            period: Nanos(1000),
            start: Nanos(0),
            dither: Nanos(0),
        };
        let descriptor = Descriptor::latency("cyclic", None, ClockKind::Hardware, schedule);
        (
            producer,
            SeriesRecorder::create(folder, descriptor, consumer, keep).unwrap(),
        )
    }

    fn sample(index: i64, skipped: u32) -> Sample {
        Sample {
            due: Nanos(index * 1000),
            latency: Nanos(index % 700),
            skipped,
        }
    }

    #[test]
    fn accounting_holds_under_ring_overflow() {
        let folder = tempfile::tempdir().unwrap();
        let (mut producer, mut recorder) = recorder(folder.path(), 8, KeptSamples::All);
        let mut index = 0;
        for burst in [3, 20, 5, 40, 1] {
            for step in 0..burst {
                let skipped = if step % 7 == 3 { 2 } else { 0 };
                producer.push(sample(index, skipped));
                index += 1 + i64::from(skipped);
            }
            recorder.flush();
        }
        for _ in 0..12 {
            producer.push(sample(index, 0));
            index += 1;
        }
        producer.close(Nanos(index * 1000));
        assert!(recorder.try_close());
        let counts = recorder.counts();
        assert!(counts.is_exact(), "{counts:?}");
        assert_eq!(counts.expected, index as u64);
        assert!(
            counts.lost > 20 && counts.skipped > 4 && counts.recorded > 20,
            "{counts:?}"
        );
    }

    #[test]
    fn samples_that_are_not_kept_are_counted_and_stand_in_the_histogram() {
        let folder = tempfile::tempdir().unwrap();
        let (mut producer, mut recorder) =
            recorder(folder.path(), 1024, KeptSamples::Tail(Nanos(690)));
        (0..700).for_each(|index| producer.push(sample(index, 0)));
        producer.close(Nanos(700_000));
        assert!(recorder.try_close());
        assert_eq!(
            recorder.counts(),
            Counts {
                expected: 700,
                recorded: 700,
                unstored: 690,
                ..Counts::default()
            }
        );
        assert_eq!(recorder.histogram().unwrap().count(), 700);
    }

    #[test]
    fn what_the_ring_only_counts_is_recorded_and_stands_in_the_histogram() {
        let folder = tempfile::tempdir().unwrap();
        let (mut producer, consumer) = crate::recording::ring::ring_with_bins(64, 100);
        let schedule = Schedule::Event { request: Nanos(1) };
        let descriptor = Descriptor::latency("gaps", None, ClockKind::Hardware, schedule);
        let mut recorder =
            SeriesRecorder::create(folder.path(), descriptor, consumer, KeptSamples::All).unwrap();
        for value in 0..300 {
            producer.begin_cycle();
            if !producer.count(value % 110) {
                producer.push(Sample {
                    due: Nanos(value),
                    latency: Nanos(value % 110),
                    skipped: 0,
                });
            }
            if value == 150 {
                recorder.flush();
                assert!(recorder.counts().is_exact(), "{:?}", recorder.counts());
            }
        }
        producer.close(Nanos(300));
        assert!(recorder.try_close());
        assert_eq!(
            recorder.counts(),
            Counts {
                expected: 300,
                recorded: 300,
                unstored: 280,
                ..Counts::default()
            }
        );
        let histogram = recorder.histogram().unwrap();
        assert_eq!((histogram.count(), histogram.max()), (300, Some(109)));
    }

    #[test]
    fn metrics_of_a_run_that_goes_on_are_of_its_last_part() {
        let folder = tempfile::tempdir().unwrap();
        let hour = hours::HOUR;
        let rule = RotationRule {
            kept_bytes: 1 << 20,
            hours_bytes: 64 << 10,
            window: None,
            cuts: Vec::new(),
            hour,
        };
        let schedule = Schedule::Grid {
            period: Nanos(1000),
            start: Nanos(0),
            dither: Nanos(0),
        };
        let descriptor = Descriptor::latency("cyclic", None, ClockKind::Hardware, schedule);
        let before = Counts {
            expected: 90,
            recorded: 70,
            skipped: 15,
            lost: 5,
            unstored: 0,
        };
        let counting = CountingRule {
            window: None,
            is_work: false,
            cuts: Vec::new(),
            stretch: hour,
        };
        let mut earlier = Hours::new(&counting);
        (earlier.through, earlier.samples, earlier.counts) = (1, 70, before);
        std::fs::write(
            hours::path(&folder.path().join(descriptor.file_name())),
            earlier.encode(64 << 10),
        )
        .unwrap();
        let (mut producer, consumer) = ring(64);
        let mut recorder =
            PreparedSeries::create_rotating(folder.path(), descriptor, consumer, rule)
                .unwrap()
                .begin(schedule)
                .unwrap();
        producer.push(sample(0, 0));
        producer.push(sample(1, 3));
        recorder.flush();
        assert_eq!(
            recorder.counts(),
            Counts {
                expected: 95,
                recorded: 72,
                skipped: 18,
                lost: 5,
                unstored: 70
            }
        );
        let metrics = recorder.metrics();
        assert_eq!(
            metrics.counts,
            Counts {
                expected: 5,
                recorded: 2,
                skipped: 3,
                ..Counts::default()
            }
        );
        assert_eq!(
            (recorder.tally.histogram.count(), metrics.max),
            (2, Some(Nanos(1)))
        );
    }

    #[test]
    fn a_series_that_is_still_running_is_not_closed() {
        let folder = tempfile::tempdir().unwrap();
        let (producer, mut recorder) = recorder(folder.path(), 8, KeptSamples::All);
        assert!(!recorder.try_close());
        producer.close(Nanos(0));
        assert!(recorder.try_close());
    }
}
