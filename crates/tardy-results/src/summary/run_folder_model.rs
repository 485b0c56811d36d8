//! Tests run folders against a model that knows every sample. The tests measure, kill, truncate,
//! rotate, resume and read in random sequences. Time is simulated. Every sample must be counted
//! exactly once. `cargo xtask fuzz` runs further random sequences.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use tardy_core::accounting::Counts;
use tardy_core::chunk::ChunkEncoder;
use tardy_core::cpu::CpuList;
use tardy_core::sample::{Record, Sample};
use tardy_core::series::{ClockKind, Descriptor, Schedule};
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;
use tardy_core::verdict::requirement::Requirement;
use tardy_machine::facts::MachineFacts;
use tardy_machine::root::Root;

use tardy_run::folder::RunFolder;
use tardy_run::plan::Plan;
use tardy_run::record::{RunKind, RunRecord, SeriesRecord, StartTime, State};
use tardy_run::resume::resume;
use tardy_samples::hours::{self, Hours};
use tardy_samples::rotation::{DiskDivision, Rotation, RotationRule};
use tardy_samples::series_writer::SeriesWriter;

use super::summarize::summarize;

const PERIOD: i64 = 1_000_000;
const DEADLINE: Nanos = Nanos(700_000);
/// One sample in this many skips two periods.
const SKIPPING: u64 = 211;

/// A step of a sequence.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The tool writes this many chunks of samples.
    Measure { chunks: u8 },
    /// If the run has not enough space for a new segment, the samples of its oldest segments are
    /// folded into histograms.
    MakeRoom,
    /// The tool is killed between two writes.
    Kill,
    /// The tool is killed, and the fraction `share` / 255 of its last write is lost.
    Cut { share: u8 },
    /// The run is stopped and closed properly.
    Stop,
    /// The tool resumes the run after this many seconds.
    Resume { after: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1_u8..30).prop_map(|chunks| Step::Measure { chunks }),
        3 => Just(Step::MakeRoom),
        1 => Just(Step::Kill),
        1 => (1_u8..=255).prop_map(|share| Step::Cut { share }),
        1 => Just(Step::Stop),
        3 => (1_u8..100).prop_map(|after| Step::Resume { after }),
    ]
}

/// The counts and values that the folder must contain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Truth {
    counts: Counts,
    misses: u64,
    /// Sum of the latencies in ns.
    sum: i128,
    /// Largest latency in ns.
    max: i64,
}

impl Truth {
    fn add(&mut self, sample: Sample) {
        let skipped = u64::from(sample.skipped);
        self.counts.recorded += 1;
        self.counts.skipped += skipped;
        self.counts.expected += 1 + skipped;
        let is_late = |step: &i64| sample.latency.get() - step * PERIOD > DEADLINE.get();
        self.misses += (0..=i64::from(sample.skipped)).filter(is_late).count() as u64;
        self.sum += i128::from(sample.latency.get());
        self.max = self.max.max(sample.latency.get());
    }
}

/// The state of a tool that is writing the run.
struct Writing {
    folder: RunFolder,
    record: RunRecord,
    writer: SeriesWriter,
    rotation: Arc<Rotation>,
    encoder: ChunkEncoder,
    due: Nanos,
    /// Length of the last write, and the content that the folder must have if this write is lost.
    last: Option<(u64, Truth)>,
}

/// A run folder and its model.
struct ModeledRun {
    place: tempfile::TempDir,
    writing: Option<Writing>,
    truth: Truth,
    now: Nanos,
    /// Number of times that the tool was started.
    parts: i64,
    random: u64,
}

fn disk() -> u64 {
    DiskDivision::of(0, 1).expect_err("0 bytes are too few for a division")
}

/// Returns a rotation rule whose segments are full after a few writes.
fn rule() -> RotationRule {
    let division = DiskDivision {
        kept_bytes: 64 << 10,
        ..DiskDivision::of(disk(), 1).expect("the least suffices")
    };
    RotationRule::of(division, Some(Window::deadline(DEADLINE)), Vec::new())
}

fn plan() -> Plan {
    let cpus = CpuList::default();
    Plan {
        until_stopped: true,
        disk: Some(disk()),
        window: Some(Window::deadline(DEADLINE)),
        ..Plan::without_probes("model", &cpus, &cpus)
    }
}

impl ModeledRun {
    fn new(seed: u64) -> Self {
        Self {
            place: tempfile::tempdir().unwrap(),
            writing: None,
            truth: Truth::default(),
            now: Nanos::from_secs(1_000),
            parts: 0,
            random: seed,
        }
    }

    fn path(&self) -> PathBuf {
        self.place.path().join("run")
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Measure { chunks } => (0..chunks).for_each(|_| self.write_chunk()),
            Step::MakeRoom => {
                if let Some(writing) = &self.writing {
                    writing.rotation.make_room().unwrap();
                }
            }
            Step::Kill => self.writing = None,
            Step::Cut { share } => self.cut(share),
            Step::Stop => self.stop(),
            Step::Resume { after } => self.resume(after),
        }
    }

    fn resume(&mut self, after: u8) {
        if self.writing.is_some() {
            return;
        }
        self.parts += 1;
        self.now += Nanos::from_secs(after.into());
        let started = StartTime {
            realtime_ns: self.now + Nanos::from_secs(1_000_000),
            monotonic_ns: self.now,
        };
        let machine = self.place.path().join("machine");
        let resumed = resume(&self.path(), &plan(), started, &Root::at(&machine)).unwrap();
        let mut record =
            RunRecord::begun(RunKind::Latency, plan(), MachineFacts::default(), started);
        let folder = match resumed {
            Some((folder, earlier)) => {
                record.go_on(&earlier);
                folder
            }
            None => RunFolder::create(&self.path()).unwrap(),
        };
        record.begin_at(self.now);
        let schedule = Schedule::Grid {
            period: Nanos(PERIOD),
            start: self.now,
            dither: Nanos::ZERO,
        };
        let descriptor = Descriptor::latency("cyclic", None, ClockKind::Hardware, schedule);
        record.series = vec![SeriesRecord {
            file: descriptor.file_name(),
            probe: descriptor.probe.clone(),
            cpu: None,
            counts: None,
            observed_ns: None,
            failure: None,
            elsewhere: Vec::new(),
        }];
        folder.update(&record).unwrap();
        let file = folder.samples().join(descriptor.file_name());
        let earlier = Hours::read(&hours::path(&file)).unwrap();
        let rotation = Arc::new(match earlier.filter(|earlier| earlier.through > 0) {
            Some(earlier) => Rotation::behind(&file, rule(), &earlier),
            None => Rotation::new(&file, rule()),
        });
        let mut writer = SeriesWriter::without_head_in(Arc::clone(&rotation)).unwrap();
        writer.write_head(&descriptor).unwrap();
        writer.sync().unwrap();
        self.writing = Some(Writing {
            folder,
            record,
            writer,
            rotation,
            encoder: ChunkEncoder::new(&descriptor),
            due: self.now,
            last: None,
        });
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn write_chunk(&mut self) {
        let samples = 50 + self.draw(150);
        let latencies: Vec<i64> = (0..samples).map(|_| self.draw(999_983) as i64).collect();
        let Some(writing) = &mut self.writing else {
            return;
        };
        let mut truth = self.truth;
        for latency in latencies {
            let skipped = if truth.counts.recorded.is_multiple_of(SKIPPING) {
                2
            } else {
                0
            };
            let sample = Sample {
                due: writing.due,
                latency: Nanos(latency + i64::from(skipped) * PERIOD),
                skipped,
            };
            writing.encoder.push(Record::Sample(sample));
            writing.due += Nanos((1 + i64::from(skipped)) * PERIOD);
            truth.add(sample);
        }
        let mut bytes = Vec::new();
        writing.encoder.finish(&truth.counts, false, &mut bytes);
        // The disk may be full. In a real run, another thread frees space before the disk is full.
        if writing.writer.append(&bytes).is_err() {
            writing.rotation.make_room().unwrap();
            writing.writer.append(&bytes).expect("there is room now");
        }
        writing.last = Some((bytes.len() as u64, self.truth));
        self.now = writing.due;
        self.truth = truth;
    }

    fn cut(&mut self, share: u8) {
        let Some(Writing {
            folder,
            last: Some((length, before)),
            ..
        }) = self.writing.take()
        else {
            return;
        };
        let newest = newest_segment(&folder.samples());
        let missing = (length * u64::from(share) / 255).max(1);
        let file = fs::OpenOptions::new().write(true).open(newest).unwrap();
        file.set_len(file.metadata().unwrap().len() - missing)
            .unwrap();
        self.truth = before;
    }

    fn stop(&mut self) {
        let Some(mut writing) = self.writing.take() else {
            return;
        };
        writing.record.state = State::Finished;
        writing.record.ended_ns = Some(self.now);
        writing.record.series[0].counts = Some(self.truth.counts);
        writing.folder.finish(&writing.record).unwrap();
    }

    /// Returns the content of the folder according to the summary. Every command prints this
    /// summary.
    fn found(&self) -> Truth {
        let summary = summarize(&self.path(), &Requirement::deadline(DEADLINE)).unwrap();
        let series = &summary.series[0];
        let due_times = series.counts.expected as i64;
        let measured = ((due_times - self.parts).max(0) * PERIOD)..=(due_times * PERIOD);
        assert!(
            measured.contains(&summary.measured_ns.get()),
            "{due_times} due times in {}",
            summary.measured_ns
        );
        let Some(numbers) = &series.numbers else {
            return Truth::default();
        };
        assert_eq!(numbers.samples, series.counts.recorded);
        Truth {
            counts: Counts {
                // The model does not count the samples that only histograms contain.
                unstored: 0,
                ..series.counts
            },
            misses: numbers
                .misses
                .expect("the summary was requested with a deadline"),
            sum: (numbers.mean_ns * numbers.samples as f64).round() as i128,
            max: numbers.max_ns,
        }
    }
}

fn newest_segment(samples: &Path) -> PathBuf {
    let number = |path: &PathBuf| -> Option<u64> { path.extension()?.to_str()?.parse().ok() };
    fs::read_dir(samples)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| number(path).is_some())
        .max_by_key(number)
        .expect("the run has a segment")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_sequence_of_starts_loses_a_sample_or_counts_it_twice(
        steps in proptest::collection::vec(step(), 4..40),
        seed: u64,
    ) {
        let mut run = ModeledRun::new(seed);
        run.take(Step::Resume { after: 1 });
        for step in steps {
            run.take(step);
            prop_assert_eq!(run.found(), run.truth, "after {:?}", step);
        }
    }
}
