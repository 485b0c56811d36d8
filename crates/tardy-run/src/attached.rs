//! The run folder of `tardy attach`, with a series for each thread and kind of wake-up. The folder
//! grows as long as the threads are followed.
//!
//! The run has the kind `imported`, because no probe took the samples.
//!
//! With `--until-stopped`, a recording has a limited number of series. A new thread continues the
//! series of an ended thread with the same name. When all series are in use, further threads share
//! series (`OTHERS`): one for each kind of waker.

mod division;
mod series;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tardy_core::cpu::CpuList;
use tardy_core::openmetrics::SeriesMetrics;
use tardy_core::sample::Sample;
use tardy_core::series::{ClockKind, Descriptor, Reference, Schedule};
use tardy_core::units::Nanos;
use tardy_core::verdict::requirement::Requirement;
use tardy_core::warning::Warning;
use tardy_machine::facts::MachineFacts;
use tardy_machine::root::Root;
use tardy_samples::hours;
use tardy_samples::rotation::{Rotation, RotationRule};

pub use self::division::{AttachedDivision, DISK_LEAST};
use self::series::Series;
use crate::folder::{FolderError, RunFolder};
use crate::imported::{FORMAT_OF_TIMERS, ImportRecord, StatedTotals};
use crate::plan::Plan;
use crate::record::{RunKind, RunRecord, SeriesRecord, StartTime, State};
use crate::resume::{self, ResumeError};
use crate::threshold::ThresholdAction;
use tardy_samples::wake_up_kind::{WakeUpKind, WokenBy};
use tardy_samples::wake_up_tally::KindIndex;
use tardy_trace::timers::TimerKind;

/// In the name of a series that several threads share, this word replaces the thread's name.
const OTHERS: &str = "others";

/// Settings of a recording.
#[derive(Debug, Clone)]
pub struct AttachedPlan {
    /// Description of the threads that are followed, for people.
    pub target: String,
    /// Deadline of the wake-ups, and how many may miss it.
    pub requirement: Requirement,
    /// Whether the recording lasts until the user stops it.
    pub until_stopped: bool,
    /// Disk budget of the folder, in bytes.
    pub disk: Option<u64>,
    /// Actions after a miss.
    pub on_threshold: Vec<ThresholdAction>,
    /// Whether each series also has a distribution in memory, for metrics.
    pub has_metrics: bool,
}

/// The run folder while it is being written.
#[derive(Debug)]
pub struct AttachedFolder {
    folder: RunFolder,
    record: RunRecord,
    series: Vec<Series>,
    /// For each thread and kind of wake-up, the index of their series in `series`.
    index: KindIndex,
    division: Option<AttachedDivision>,
    series_max: usize,
    has_metrics: bool,
}

impl AttachedPlan {
    fn record(&self, machine: MachineFacts, started: StartTime) -> RunRecord {
        let cpus = CpuList::default();
        let Requirement {
            window,
            misses_allowed,
            skipped_allowed,
        } = self.requirement;
        let plan = Plan {
            window,
            misses_allowed,
            skipped_allowed,
            until_stopped: self.until_stopped,
            disk: self.disk,
            on_threshold: self.on_threshold.clone(),
            ..Plan::without_probes("attached", &cpus, &cpus)
        };
        let imported = ImportRecord {
            format: FORMAT_OF_TIMERS.to_owned(),
            file: self.target.clone(),
            command_line: None,
            series: Vec::new(),
            has_no_times: false,
        };
        RunRecord {
            imported: Some(imported),
            ..RunRecord::begun(RunKind::Imported, plan, machine, started)
        }
    }
}

impl AttachedFolder {
    /// Creates the folder `path`, which must not exist.
    ///
    /// # Errors
    /// Returns a [`FolderError`] if the folder cannot be created.
    pub fn create(
        path: &Path,
        plan: &AttachedPlan,
        machine: MachineFacts,
        started: StartTime,
    ) -> Result<Self, FolderError> {
        let folder = RunFolder::create(path)?;
        let record = plan.record(machine, started);
        folder.publish(&record)?;
        Ok(Self::with(folder, record, plan))
    }

    /// Continues the recording in the folder `path`, or makes a new folder if there is none.
    ///
    /// # Errors
    /// Returns a [`ResumeError`] if the run cannot be resumed. After an error, the folder either is
    /// unchanged or already holds the converted run. In both cases, the run can be resumed later.
    pub fn resume(
        path: &Path,
        plan: &AttachedPlan,
        machine: MachineFacts,
        started: StartTime,
        root: &Root,
    ) -> Result<Self, ResumeError> {
        let mut record = plan.record(machine.clone(), started);
        let Some((folder, earlier)) = resume::resume(path, &record.plan, started, root)? else {
            return Ok(Self::create(path, plan, machine, started)?);
        };
        record.go_on(&earlier);
        record.imported = earlier.imported;
        let mut resumed = Self::with(folder, record, plan);
        resumed
            .take_up_series()
            .map_err(|error| ResumeError::System {
                path: path.to_owned(),
                error,
            })?;
        resumed.folder.publish(&resumed.record)?;
        Ok(resumed)
    }

    fn with(folder: RunFolder, record: RunRecord, plan: &AttachedPlan) -> Self {
        let division = plan.disk.map(AttachedDivision::of);
        let series_max = if plan.until_stopped {
            division.map_or(division::SERIES_MAX, |division| division.series)
        } else {
            usize::MAX
        };
        Self {
            folder,
            record,
            series: Vec::new(),
            index: KindIndex::default(),
            division,
            series_max,
            has_metrics: plan.has_metrics,
        }
    }

    fn take_up_series(&mut self) -> io::Result<()> {
        let Some(rule) = self.rule() else {
            return Ok(());
        };
        for entry in std::mem::take(&mut self.record.series) {
            let path = self.folder.samples().join(&entry.file);
            // A series without samples is created again when its next sample arrives.
            if hours::path(&path).try_exists()? {
                let series = Series::take_up(&path, rule.clone(), self.has_metrics)?;
                self.series.push(series);
                self.record.series.push(entry);
            }
        }
        if let Some(imported) = &mut self.record.imported {
            imported.series.truncate(self.series.len());
        }
        Ok(())
    }

    fn rule(&self) -> Option<RotationRule> {
        let division = self.division?.samples;
        let window = self.record.plan.window;
        Some(RotationRule::of(division, window, Vec::new()))
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the identity of the folder, by which writers notice that another folder is now at
    /// the path.
    #[must_use]
    pub fn identity(&self) -> &crate::folder::FolderIdentity {
        self.folder.identity()
    }

    /// Returns the current record of the run.
    #[must_use]
    pub fn record(&self) -> &RunRecord {
        &self.record
    }

    /// Returns the division of the disk budget of `--disk`; `None` without `--disk`.
    #[must_use]
    pub fn division(&self) -> Option<AttachedDivision> {
        self.division
    }

    /// Adds a thread's wake-up to the series of this thread and kind.
    ///
    /// # Errors
    /// Returns an error if the sample cannot be written.
    pub fn push(
        &mut self,
        (thread, name): (i32, &str),
        kind: &WakeUpKind,
        due: Nanos,
        latency: Nanos,
    ) -> io::Result<()> {
        let place = match self.index.get(thread, kind) {
            Some(place) => place,
            None => {
                let place = self.series_for(thread, name, kind)?;
                self.index.insert(thread, kind, place);
                place
            }
        };
        let sample = Sample {
            due,
            latency,
            skipped: 0,
        };
        self.series[place].push(sample, self.record.plan.window)
    }

    /// Finds or creates a series for a thread and kind of wake-up that have no series yet, and
    /// returns the index of the series.
    fn series_for(&mut self, thread: i32, name: &str, kind: &WakeUpKind) -> io::Result<usize> {
        if self.series_max == usize::MAX {
            return self.open(Some(thread), name, kind);
        }
        let probe = kind.series(name);
        let is_free = |series: &Series| series.owner.is_none() && series.descriptor.probe == probe;
        if let Some(place) = self.series.iter().position(is_free) {
            self.series[place].owner = Some(thread);
            return Ok(place);
        }
        if self.series.len() < self.series_max - division::OTHERS_MAX {
            return self.open(Some(thread), name, kind);
        }
        let kind = kind.of_others();
        let others = kind.series(OTHERS);
        let is_others = |series: &Series| series.descriptor.probe == others;
        match self.series.iter().position(is_others) {
            Some(place) => Ok(place),
            None => self.open(None, OTHERS, &kind),
        }
    }

    fn open(&mut self, owner: Option<i32>, name: &str, kind: &WakeUpKind) -> io::Result<usize> {
        let probe = kind.series(name);
        let before = self
            .series
            .iter()
            .filter(|series| series.descriptor.probe == probe)
            .count();
        let copy = u32::try_from(before).ok().filter(|&before| before > 0);
        let plain = Descriptor::latency(
            &probe,
            None,
            ClockKind::Hardware,
            Schedule::Event {
                request: Nanos::ZERO,
            },
        );
        let reference = match kind.woken_by() {
            WokenBy::Timer => Reference::Planned,
            WokenBy::Interrupt => Reference::Interrupt,
            WokenBy::Softirq => Reference::Softirq,
            WokenBy::Thread => Reference::Waking,
            WokenBy::Functions => Reference::Call,
        };
        let descriptor = Descriptor {
            copy,
            reference,
            ..plain
        };
        let path = self.folder.samples().join(descriptor.file_name());
        let entry = SeriesRecord {
            file: descriptor.file_name(),
            probe: descriptor.probe.clone(),
            cpu: None,
            counts: None,
            observed_ns: None,
            failure: None,
            elsewhere: Vec::new(),
        };
        let place = self.series.len();
        let mut series = Series::create(&path, descriptor, self.rule(), self.has_metrics)?;
        series.owner = owner;
        self.series.push(series);
        self.record.series.push(entry);
        if let Some(imported) = &mut self.record.imported {
            imported.series.push(StatedTotals {
                resolution_ns: Nanos(1),
                ..StatedTotals::default()
            });
        }
        // The new record shows readers of the growing folder that the series exists.
        self.folder
            .publish(&self.record)
            .map_err(io::Error::other)?;
        Ok(place)
    }

    /// Releases the series of `threads`, because the recording does not follow these threads any
    /// more. New threads can then continue the series.
    pub fn left(&mut self, threads: &BTreeSet<i32>) {
        if self.series_max == usize::MAX {
            return;
        }
        self.index.retain(&|thread| !threads.contains(&thread));
        for series in &mut self.series {
            series.owner = series.owner.filter(|owner| !threads.contains(owner));
        }
    }

    /// Writes the samples that are only in memory, so that they survive if the tool is killed.
    ///
    /// # Errors
    /// Returns an error if the samples cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.series
            .iter_mut()
            .filter(|series| series.has_samples())
            .try_for_each(|series| series.write(false))
    }

    /// Returns the series whose old samples must be folded to free space. The caller must run
    /// [`Rotation::make_room`] on another thread.
    pub fn full(&self) -> impl Iterator<Item = Arc<Rotation>> + '_ {
        self.rotations().filter(|rotation| rotation.wants_room())
    }

    /// Returns the series that have started a new segment. The caller must run [`Rotation::settle`]
    /// on another thread.
    pub fn unsettled(&self) -> impl Iterator<Item = Arc<Rotation>> + '_ {
        self.rotations()
            .filter(|rotation| rotation.has_new_segment())
    }

    fn rotations(&self) -> impl Iterator<Item = Arc<Rotation>> + '_ {
        self.series.iter().filter_map(Series::rotation).cloned()
    }

    /// Returns the metrics of each series, since the start of this process.
    pub fn metrics(&self) -> impl Iterator<Item = SeriesMetrics> + '_ {
        self.series.iter().filter_map(Series::metrics)
    }

    /// Writes the remaining samples, and how the run ended. `lost` contains, for each kind of
    /// timer, the number of timers whose end is missing from the trace. The first series of each
    /// kind reports this number.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be written.
    pub fn finish(
        mut self,
        state: State,
        ended: Nanos,
        notes: Vec<Warning>,
        lost: &[(TimerKind, u64)],
    ) -> io::Result<()> {
        for &(timer, lost) in lost {
            let ending = format!(".{}", WakeUpKind::Timer(timer).name());
            let is_of_kind = |series: &&mut Series| series.descriptor.probe.ends_with(&ending);
            if let Some(series) = self.series.iter_mut().find(is_of_kind) {
                series.lose(lost);
            }
        }
        for (series, entry) in self.series.iter_mut().zip(&mut self.record.series) {
            debug_assert_eq!(entry.file, series.descriptor.file_name());
            series.finish()?;
            entry.counts = Some(series.counts());
            if let Some(failure) = series.failure() {
                entry.failure = Some(failure.clone());
            }
        }
        self.record.state = state;
        self.record.ended_ns = Some(ended);
        self.record.warnings.extend(notes);
        self.folder.finish(&self.record).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    use crate::folder;
    use tardy_core::accounting::Counts;
    use tardy_samples::read_series::SeriesFile;
    use tardy_trace::wake_ups::Cause;

    #[test]
    fn a_folder_has_a_series_for_each_thread_and_kind_and_reads_as_it_was_written() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("attached");
        let started = StartTime {
            realtime_ns: Nanos(5),
            monotonic_ns: Nanos(100),
        };
        let required = Requirement {
            misses_allowed: Some(1e-3),
            ..Requirement::deadline(Nanos(20))
        };
        let plan = AttachedPlan {
            target: "process 7 (my/loop)".into(),
            requirement: required,
            until_stopped: false,
            disk: None,
            on_threshold: Vec::new(),
            has_metrics: false,
        };
        let facts = MachineFacts::default;
        let mut attached = AttachedFolder::create(&path, &plan, facts(), started).unwrap();
        assert_eq!(folder::open(&path).unwrap().state, State::Running);
        let sleep = WakeUpKind::Timer(TimerKind::Sleep);
        let call = tardy_samples::wake_up_kind::call("futex");
        let futex = WakeUpKind::new(&Cause::Thread(9), Some(&call));
        for due in 0..3_000 {
            attached
                .push(
                    (7, "../my loop"),
                    &sleep,
                    Nanos(200 + due * 1000),
                    Nanos(due % 77 - 1),
                )
                .unwrap();
        }
        attached
            .push((8, ""), &futex, Nanos(300), Nanos(9))
            .unwrap();
        attached
            .push((9, "../my loop"), &sleep, Nanos(400), Nanos(7))
            .unwrap();
        let links = std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        let is_series = |link: &PathBuf| {
            link.starts_with(&path)
                && link
                    .extension()
                    .is_some_and(|extension| extension == "series")
        };
        assert_eq!(
            links.filter(is_series).count(),
            0,
            "threads come and go: they hold no files"
        );
        let note = Warning::Note {
            text: "the process ended".into(),
        };
        attached
            .finish(
                State::Finished,
                Nanos(5_000_000),
                vec![note],
                &[(TimerKind::Sleep, 2), (TimerKind::Itimer, 1)],
            )
            .unwrap();
        let record = folder::open(&path).unwrap();
        assert_eq!(
            (record.state, record.kind, record.ended_ns),
            (State::Finished, RunKind::Imported, Some(Nanos(5_000_000)))
        );
        assert_eq!(
            record.plan.requirement(),
            required,
            "its requirement is kept"
        );
        let files: Vec<_> = record
            .series
            .iter()
            .map(|series| series.file.as_str())
            .collect();
        assert_eq!(
            files,
            [
                "___my_loop.sleep.series",
                "thread.futex-thread.series",
                "___my_loop.sleep.copy1.series"
            ]
        );
        let counts: Vec<_> = record
            .series
            .iter()
            .map(|series| series.counts.unwrap())
            .collect();
        assert_eq!(
            (counts[0].expected, counts[0].recorded, counts[0].lost),
            (3_002, 3_000, 2)
        );
        assert!(counts.iter().all(Counts::is_exact));
        let file = SeriesFile::open(&path.join("samples").join(files[0])).unwrap();
        let mut read = Vec::new();
        file.read(&mut |chunk| {
            read.extend(
                chunk
                    .samples(&file.descriptor().schedule)
                    .map(|(_, sample)| sample),
            )
        })
        .unwrap();
        let written = |due: i64| Sample {
            due: Nanos(200 + due * 1000),
            latency: Nanos(due % 77 - 1),
            skipped: 0,
        };
        assert!(read.into_iter().eq((0..3_000).map(written)));
        let again = AttachedFolder::create(&path, &plan, facts(), started);
        assert!(again.is_err(), "a run is never overwritten");
    }

    #[test]
    fn threads_and_calls_without_number_have_a_bounded_number_of_series() {
        let place = tempfile::tempdir().unwrap();
        let plan = AttachedPlan {
            target: "real-time threads".into(),
            requirement: Requirement::deadline(Nanos(20)),
            until_stopped: true,
            disk: Some(DISK_LEAST),
            on_threshold: Vec::new(),
            has_metrics: false,
        };
        let path = place.path().join("attached");
        let started = StartTime {
            realtime_ns: Nanos(5),
            monotonic_ns: Nanos(100),
        };
        let mut attached =
            AttachedFolder::create(&path, &plan, MachineFacts::default(), started).unwrap();
        let series_max = attached.division().unwrap().series;
        let mut pushed = 0;
        for thread in 1..=20 {
            for number in 0..5 {
                let call = tardy_samples::wake_up_kind::call(&format!("call{number}"));
                let wakers = [
                    Cause::Thread(9),
                    Cause::Interrupt("eth0".into()),
                    Cause::Softirq(3),
                ];
                let others = wakers.map(|waker| WakeUpKind::new(&waker, Some(&call)));
                for kind in others
                    .into_iter()
                    .chain(TimerKind::ALL.map(WakeUpKind::Timer))
                {
                    let name = format!("t{thread}");
                    let due = Nanos(200 + pushed);
                    attached
                        .push((thread, &name), &kind, due, Nanos(9))
                        .unwrap();
                    pushed += 1;
                }
            }
        }
        attached
            .finish(State::Finished, Nanos(5_000_000), Vec::new(), &[])
            .unwrap();
        let series = folder::open(&path).unwrap().series;
        assert!(series.len() <= series_max, "{}", series.len());
        let recorded = series.iter().map(|entry| entry.counts.unwrap().recorded);
        assert_eq!(recorded.sum::<u64>(), pushed.unsigned_abs());
        for name in [
            "others.thread",
            "others.irq",
            "others.softirq",
            "others.sleep",
        ] {
            assert!(series.iter().any(|entry| entry.probe == name), "{name}");
        }
    }
}
