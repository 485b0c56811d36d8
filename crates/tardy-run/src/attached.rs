//! The run folder of a program that was watched from outside: a series for each thread and kind of
//! its timers, which come as they are found.
//!
//! It is a run of kind `imported`: nothing was planned, and the samples were not taken by a probe.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use tardy_core::accounting::Counts;
use tardy_core::chunk::ChunkEncoder;
use tardy_core::cpu::CpuList;
use tardy_core::sample::{Record, Sample};
use tardy_core::series::{ClockKind, Descriptor, Schedule};
use tardy_core::units::Nanos;
use tardy_core::verdict::requirement::Requirement;
use tardy_core::warning::Warning;
use tardy_machine::facts::MachineFacts;

use crate::folder::{FolderError, RunFolder};
use crate::imported::{FORMAT_OF_TIMERS, ImportRecord, StatedTotals};
use crate::plan::Plan;
use crate::record::{RunKind, RunRecord, SeriesRecord, StartTime, State};
use tardy_samples::series_writer::SeriesWriter;

/// Many samples a chunk, and what a killed tool loses of a series at most.
const SAMPLES_A_CHUNK: u64 = 1024;

/// A folder that is being written.
#[derive(Debug)]
pub struct AttachedFolder {
    folder: RunFolder,
    record: RunRecord,
    series: BTreeMap<(i32, &'static str), Series>,
}

#[derive(Debug)]
struct Series {
    descriptor: Descriptor,
    /// A program may have had more threads than a process may have files open: the file is opened
    /// for each chunk.
    path: PathBuf,
    encoder: ChunkEncoder,
    bytes: Vec<u8>,
    counts: Counts,
    /// Its place in the record.
    place: usize,
}

impl Series {
    fn write(&mut self, is_last: bool) -> io::Result<()> {
        self.bytes.clear();
        self.encoder.finish(&self.counts, is_last, &mut self.bytes);
        let mut writer = SeriesWriter::reopen(&self.path)?;
        writer.append(&self.bytes)?;
        if is_last { writer.sync() } else { Ok(()) }
    }
}

impl AttachedFolder {
    /// Makes the folder `path`, which must not exist, for the program called `name`, whose wake-ups
    /// are held to `requirement`.
    ///
    /// # Errors
    /// [`FolderError`].
    pub fn create(
        path: &Path,
        (process, name): (u32, &str),
        requirement: Requirement,
        machine: MachineFacts,
        started: StartTime,
    ) -> Result<Self, FolderError> {
        let folder = RunFolder::create(path)?;
        let cpus = CpuList::default();
        let Requirement {
            window,
            misses_allowed,
            skipped_allowed,
        } = requirement;
        let plan = Plan {
            window,
            misses_allowed,
            skipped_allowed,
            ..Plan::without_probes("attached", &cpus, &cpus)
        };
        let imported = ImportRecord {
            format: FORMAT_OF_TIMERS.to_owned(),
            file: format!("process {process} ({name})"),
            command_line: None,
            series: Vec::new(),
            has_no_times: false,
        };
        let record = RunRecord {
            imported: Some(imported),
            ..RunRecord::begun(RunKind::Imported, plan, machine, started)
        };
        folder.publish(&record)?;
        Ok(Self {
            folder,
            record,
            series: BTreeMap::new(),
        })
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Adds a wake-up of a thread by a timer of this kind.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn push(
        &mut self,
        (thread, name): (i32, &str),
        timer: &'static str,
        due: Nanos,
        latency: Nanos,
    ) -> io::Result<()> {
        if !self.series.contains_key(&(thread, timer)) {
            self.open(thread, name, timer)?;
        }
        let Some(series) = self.series.get_mut(&(thread, timer)) else {
            return Ok(());
        };
        series.counts.recorded += 1;
        series.counts.expected += 1;
        series.encoder.push(Record::Sample(Sample {
            due,
            latency,
            skipped: 0,
        }));
        if series.encoder.samples() >= SAMPLES_A_CHUNK {
            series.write(false)
        } else {
            Ok(())
        }
    }

    fn open(&mut self, thread: i32, name: &str, timer: &'static str) -> io::Result<()> {
        let probe = series_name(name, timer);
        let before = self
            .series
            .values()
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
        let descriptor = Descriptor { copy, ..plain };
        let path = self.folder.samples().join(descriptor.file_name());
        drop(SeriesWriter::create(&path, &descriptor)?);
        let encoder = ChunkEncoder::new(&descriptor);
        self.record.series.push(SeriesRecord {
            file: descriptor.file_name(),
            probe: descriptor.probe.clone(),
            cpu: None,
            counts: None,
            observed_ns: None,
            failure: None,
            elsewhere: Vec::new(),
        });
        if let Some(imported) = &mut self.record.imported {
            imported.series.push(StatedTotals {
                resolution_ns: Nanos(1),
                ..StatedTotals::default()
            });
        }
        let place = self.record.series.len() - 1;
        let series = Series {
            descriptor,
            path,
            encoder,
            bytes: Vec::new(),
            counts: Counts::default(),
            place,
        };
        self.series.insert((thread, timer), series);
        // Whoever reads the folder while it grows finds the series.
        self.folder.publish(&self.record).map_err(io::Error::other)
    }

    /// Writes the remaining samples and the outcome of the run. `lost` counts, for each kind, the
    /// timers whose end is missing from the trace; the first series of the kind reports them.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(
        mut self,
        state: State,
        ended: Nanos,
        notes: Vec<Warning>,
        lost: &[(&'static str, u64)],
    ) -> io::Result<()> {
        let mut left: BTreeMap<&str, u64> = lost.iter().copied().collect();
        for ((_, timer), series) in &mut self.series {
            let lost = left.remove(timer).unwrap_or(0);
            series.counts.lost += lost;
            series.counts.expected += lost;
            series.write(true)?;
            if let Some(entry) = self.record.series.get_mut(series.place) {
                debug_assert_eq!(entry.file, series.descriptor.file_name());
                entry.counts = Some(series.counts);
            }
        }
        self.record.state = state;
        self.record.ended_ns = Some(ended);
        self.record.warnings = notes;
        self.folder.finish(&self.record).map_err(io::Error::other)
    }
}

/// A name that is the same in the next run of the program, so that the two can be compared, and
/// that is one of a file: a program names its threads as it likes. Threads of the same name are
/// copies, in the order in which they were first woken.
fn series_name(name: &str, timer: &str) -> String {
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() || "-_".contains(character) {
            character
        } else {
            '_'
        }
    };
    let name: String = name.chars().map(plain).collect();
    let name = if name.is_empty() {
        "thread".to_owned()
    } else {
        name
    };
    format!("{name}.{timer}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder;
    use tardy_samples::read_series::SeriesFile;

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
        let mut attached = AttachedFolder::create(
            &path,
            (7, "my/loop"),
            required,
            MachineFacts::default(),
            started,
        )
        .unwrap();
        assert_eq!(folder::open(&path).unwrap().state, State::Running);
        for due in 0..3_000 {
            attached
                .push(
                    (7, "../my loop"),
                    "sleep",
                    Nanos(200 + due * 1000),
                    Nanos(due % 77 - 1),
                )
                .unwrap();
        }
        attached
            .push((8, ""), "timerfd", Nanos(300), Nanos(9))
            .unwrap();
        attached
            .push((9, "../my loop"), "sleep", Nanos(400), Nanos(7))
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
                &[("sleep", 2), ("timerfd", 0), ("itimer", 1)],
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
                "thread.timerfd.series",
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
        let again = AttachedFolder::create(
            &path,
            (7, "loop"),
            required,
            MachineFacts::default(),
            started,
        );
        assert!(again.is_err(), "a run is never overwritten");
    }
}
