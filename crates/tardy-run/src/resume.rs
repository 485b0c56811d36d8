//! Resumes a run that has a disk budget (`--disk`). The tool may have ended normally or been
//! killed, or the machine may have been switched off. The resumed run has the same folder.
//!
//! All samples of the earlier part are folded into hourly histograms, so a series keeps one grid of
//! due times and readers need no change. Times are converted to the current clock, because the
//! run's clock restarts with each boot. The difference between the old and the current clock
//! follows from the time of day, which is known for one moment on each clock.
//!
//! The resumed run is built in a second folder next to the run's folder. The two folders are then
//! exchanged in one step, so after a crash either the old or the new one is complete. Converting
//! the times in the run's folder itself would need a journal, because a crash in the middle would
//! leave only some of the times converted.
//!
//! A run is refused if it has fewer stored samples than `run.json` states, because the resumed run
//! would not show that samples are missing.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tardy_core::accounting::Counts;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_machine::root::Root;
use tardy_sys::file;

use crate::attached::AttachedDivision;
use crate::folder::{self, FolderError, RunFolder};
use crate::imported::ImportRecord;
use crate::plan::Plan;
use crate::record::{Interruption, RunRecord, SeriesRecord, StartTime, State, StoreFailure};
use tardy_samples::cycles::{self, Cycles};
use tardy_samples::hours::{self, Hours};
use tardy_samples::reserved_file;
use tardy_samples::rotation::{DiskDivision, Rotation, RotationRule};

/// The entries of a run folder that belong to the run, including files that will replace others but
/// were not renamed yet. All other entries, such as those that the user made, are kept.
/// [`is_of_series`] makes the same distinction for `samples`.
const OWN: [&str; 6] = [
    "run.json",
    "run.json.new",
    "run.json.reserved",
    "samples",
    "state.jsonl",
    "state.jsonl.new",
];

/// Why a run cannot be resumed.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The path is not a run, or its folder cannot be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The samples of this kind of run cannot be folded into hourly histograms.
    #[error(
        "{0} cannot be resumed: --resume needs a run with --until-stopped and --disk, made by \
         `tardy run` without loads or by `tardy attach`: give another folder with --out"
    )]
    NotBounded(PathBuf),
    /// The command asks for a run with other settings.
    #[error(
        "{path} cannot be resumed, because {what} differ from those of this command: repeat the \
         original command (see `tardy show --full`), or give another folder with --out"
    )]
    Other {
        /// The run's folder.
        path: PathBuf,
        /// The settings that differ, as text for the message.
        what: &'static str,
    },
    /// The run was measured on another kernel. Results of different kernels can be compared, but
    /// must never be added up.
    #[error(
        "{path} was measured on kernel {release}, not on this one: give another folder with --out"
    )]
    OtherKernel {
        /// The run's folder.
        path: PathBuf,
        /// The kernel on which the run was measured.
        release: String,
    },
    /// The run's tool is still running.
    #[error(
        "process {1} is still writing the run in {0}: stop this process, or give another folder \
         with --out"
    )]
    UnderWay(PathBuf, u32),
    /// A part of the run cannot be read or rewritten.
    #[error("{path} cannot be resumed: {error}")]
    System {
        /// The run's folder.
        path: PathBuf,
        /// The error that the system reported.
        error: io::Error,
    },
}

/// Resumes the run in `path` at `now` under `plan`. Returns `None` if `path` does not exist.
///
/// The returned record is that of the earlier part, converted to the current clock. The last
/// interruption in this record lasts until `now`.
///
/// # Errors
/// Returns a [`ResumeError`] if the run cannot be resumed. After an error, the run is unchanged, or
/// its folder already contains the converted run, which can be resumed later.
pub fn resume(
    path: &Path,
    plan: &Plan,
    now: StartTime,
    root: &Root,
) -> Result<Option<(RunFolder, RunRecord)>, ResumeError> {
    if !path.try_exists().unwrap_or(true) {
        return Ok(None);
    }
    let process = folder::open(path)?.tool.process;
    let system = |error| ResumeError::System {
        path: path.to_owned(),
        error,
    };
    // If `path` is a link, the run at its target is resumed, on the target's disk.
    let run = fs::canonicalize(path).map_err(system)?;
    // A lock is needed for two reasons: the run's process may be in another container, where its
    // number is unknown here, and another process may resume the run at the same time.
    let Some(_lock) = lock(&run).map_err(system)? else {
        return Err(ResumeError::UnderWay(path.to_owned(), process));
    };
    let record = folder::open(path)?;
    check(path, &record, plan, root)?;
    // A resumption that was interrupted may have left this folder. The run itself is complete, so
    // the folder can be removed.
    let beside = beside(&run);
    if beside.exists() {
        remove(&beside, &run, &record).map_err(system)?;
    }
    let (taken_up, before) = (RunFolder::create(&beside)?, record.clone());
    let resumed = fill(&run, &taken_up, record, now, root).and_then(|record| {
        file::exchange(&beside, &run).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => io::Error::other(
                "the file system cannot exchange two folders: give a folder on another file system \
                 with --out",
            ),
            _ => error,
        })?;
        reserved_file::sync_name(&run);
        Ok(record)
    });
    let removed = remove(&beside, &run, &before);
    let record = resumed.map_err(system)?;
    removed.map_err(system)?;
    Ok(Some((taken_up.moved_to(path)?, record)))
}

/// Locks the run's folder. Returns `None` if another tool holds the lock, or has just resumed the
/// run and replaced the folder.
fn lock(run: &Path) -> io::Result<Option<File>> {
    let Some(folder) = folder::lock(run)? else {
        return Ok(None);
    };
    let (locked, there) = (folder.metadata()?, fs::metadata(run)?);
    Ok(((locked.dev(), locked.ino()) == (there.dev(), there.ino())).then_some(folder))
}

/// Removes the folder next to the run's folder. Entries that do not belong to a run are first moved
/// into the run's folder. `record` is the run's record.
fn remove(beside: &Path, run: &Path, record: &RunRecord) -> io::Result<()> {
    keep_of_others(beside, run, |entry| {
        OWN.iter().any(|own| entry.file_name() == *own)
    })?;
    let samples = beside.join("samples");
    // If `samples` is a link, its target is not touched.
    if fs::symlink_metadata(&samples).is_ok_and(|samples| samples.is_dir()) {
        keep_of_others(&samples, &run.join("samples"), |entry| {
            is_of_series(entry, record)
        })?;
    }
    fs::remove_dir_all(beside)
}

/// Moves entries out of a folder that will be removed: all entries except those that `own` selects.
fn keep_of_others(from: &Path, to: &Path, own: impl Fn(&fs::DirEntry) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        // If both folders have an entry with this name, the entry in the run's own folder is newer
        // and stays.
        if !own(&entry) && fs::symlink_metadata(&place).is_err() {
            fs::rename(entry.path(), place)?;
        }
    }
    Ok(())
}

/// Returns whether the run of `record` made this file of the folder `samples`: the head of a
/// series, a segment, the hourly histograms, or a replacement of such a file.
fn is_of_series(entry: &fs::DirEntry, record: &RunRecord) -> bool {
    let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
    let Some(name) = entry.file_name().into_string().ok().filter(|_| is_file) else {
        return false;
    };
    let name = name.strip_suffix(".new").unwrap_or(&name);
    let is_number =
        |number: &str| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    let head = match name.rsplit_once('.') {
        Some((series, "hours")) => format!("{series}.series"),
        Some((head, number)) if is_number(number) => head.to_owned(),
        _ => name.to_owned(),
    };
    // The file of a series is still empty if the tool was killed before the first due time; the
    // record then lacks the series.
    let is_prepared = || {
        let is_of_a_probe = record
            .plan
            .probes
            .iter()
            .any(|probe| head.starts_with(&probe.name))
            && head.ends_with(".series");
        is_of_a_probe
            && fs::symlink_metadata(entry.path().with_file_name(&head))
                .is_ok_and(|file| file.is_file() && file.len() == 0)
    };
    record.series.iter().any(|series| series.file == head) || is_prepared()
}

fn check(path: &Path, record: &RunRecord, plan: &Plan, root: &Root) -> Result<(), ResumeError> {
    let has_loads = |plan: &Plan| plan.phases.iter().any(|phase| !phase.loads.is_empty());
    let is_bounded = record.plan.until_stopped
        && record.plan.disk.is_some()
        && !has_loads(&record.plan)
        && record.samples_folder.is_none();
    if !is_bounded || has_loads(plan) {
        return Err(ResumeError::NotBounded(path.to_owned()));
    }
    if record.is_under_way(root) {
        return Err(ResumeError::UnderWay(path.to_owned(), record.tool.process));
    }
    let other = |what| {
        Err(ResumeError::Other {
            path: path.to_owned(),
            what,
        })
    };
    if record.machine.kernel.release != root.text("proc/sys/kernel/osrelease") {
        return Err(ResumeError::OtherKernel {
            path: path.to_owned(),
            release: record.machine.kernel.release.clone().unwrap_or_default(),
        });
    }
    if record.plan.probes != plan.probes {
        return other("its probes");
    }
    if record.measured_cpus != plan.measured_cpus {
        return other("its CPUs");
    }
    if record.plan.window != plan.window {
        other("its deadlines")
    } else {
        Ok(())
    }
}

/// Writes the resumed run into the new folder, and returns its record.
fn fill(
    path: &Path,
    new: &RunFolder,
    mut record: RunRecord,
    now: StartTime,
    root: &Root,
) -> io::Result<RunRecord> {
    let bytes = record.plan.disk.unwrap_or_default();
    let division = division(&record, bytes)?;
    let mut earlier = Vec::new();
    for series in &record.series {
        let file = path.join("samples").join(&series.file);
        let rotation = Rotation::new(
            &file,
            RotationRule::of(division, record.plan.window, Vec::new()),
        );
        let mut hours = rotation.with_all_segments()?;
        refuse_gone(series, &rotation, &hours)?;
        // If a series has no samples yet, it starts with the resumed part.
        if hours.through > 0 {
            // The counts in `run.json` include chunks that could not be stored on a full disk.
            if let Some(counts) = series.counts {
                let unstored = series.not_stored();
                hours.counts = Counts { unstored, ..counts };
            }
            earlier.push((series.file.clone(), file, hours));
        }
    }
    let last = earlier
        .iter()
        .filter_map(|(_, _, hours)| hours.last_wake())
        .max()
        .unwrap_or(record.started.monotonic_ns);
    // If the tool was killed between a resumption and the first sample after it, the new
    // interruption starts when the previous one ended.
    let noted = record
        .interruptions
        .last()
        .map_or(last, |noted| noted.to_ns);
    let last = record.ended_ns.unwrap_or(last).max(last).max(noted);
    let boot = root.text("proc/sys/kernel/random/boot_id");
    let is_reboot = boot.is_none() || record.machine.boot_id != boot;
    // After a reboot, the time of day may be too early, as on a board without a battery-backed
    // clock. Such a time must not move earlier samples into the future.
    let by = if is_reboot {
        ahead(record.started) - ahead(now)
    } else {
        Nanos::ZERO
    }
    .min(now.monotonic_ns - last - Nanos(1));
    for (name, file, hours) in earlier {
        let place = new.samples().join(name);
        let head = fs::read(&file).map_err(|error| missing(&file, &error.to_string()))?;
        reserved_file::replace(&place, &head)?;
        reserved_file::replace(
            &hours::path(&place),
            &hours.shifted(by).encode(division.hours_bytes),
        )?;
    }
    if let Some(cycles) = Cycles::read(path)? {
        let bytes = cycles.shifted(by).encode(None);
        reserved_file::replace(&new.path().join(cycles::FILE), &bytes)?;
    }
    shift(&mut record, by);
    record.interruptions.push(Interruption {
        from_ns: last + by,
        to_ns: now.monotonic_ns,
        is_reboot,
    });
    record.state = State::Running;
    record.ended_ns = None;
    // The final counts are recorded when the run ends. Until then, readers count the samples.
    record
        .series
        .iter_mut()
        .for_each(|series| series.counts = None);
    new.update(&record).map_err(io::Error::other)?;
    Ok(record)
}

/// Returns how the disk budget of the run was divided.
fn division(record: &RunRecord, bytes: u64) -> io::Result<DiskDivision> {
    if record
        .imported
        .as_ref()
        .is_some_and(ImportRecord::is_of_timers)
    {
        return Ok(AttachedDivision::of(bytes).samples);
    }
    DiskDivision::of(bytes, record.series.len())
        .map_err(|least| io::Error::other(format!("--disk was below {least} bytes")))
}

/// Refuses a series that has fewer samples than `run.json` states, or lacks its hourly histograms.
fn refuse_gone(series: &SeriesRecord, rotation: &Rotation, found: &Hours) -> io::Result<()> {
    let (file, hours) = (rotation.series(), hours::path(rotation.series()));
    let stored = series.counts.map_or(found.counts.stored(), |counts| {
        counts.recorded.saturating_sub(series.not_stored())
    });
    let gone = stored.saturating_sub(found.samples);
    // The tool may have been killed before the first due time, so there may be no head.
    let is_begun = fs::metadata(file).is_ok_and(|head| head.len() > 0) || found.through > 0;
    let has_lost_hours = is_begun && rotation.has_lost_hours()?;
    // If the tool was killed, `run.json` contains no counts. In this case, missing samples are no
    // reason to refuse the series, because the cumulative counts in later chunks still show how
    // many are missing.
    if !has_lost_hours && (gone == 0 || series.counts.is_none()) {
        return Ok(());
    }
    let samples = format!("{gone} stored samples are missing");
    let what = if gone > 0 {
        &samples
    } else {
        "missing or damaged"
    };
    Err(missing(if has_lost_hours { &hours } else { file }, what))
}

fn missing(file: &Path, what: &str) -> io::Error {
    io::Error::other(format!(
        "{}: {what}: copy the folder again from its original location, or give another folder \
         with --out",
        file.display()
    ))
}

/// Returns how far the time of day is ahead of the run's clock.
fn ahead(started: StartTime) -> Nanos {
    started.realtime_ns - started.monotonic_ns
}

/// Converts the times of a record to another clock, which is ahead of the old one by `by`.
fn shift(record: &mut RunRecord, by: Nanos) {
    let move_on = |time: &mut Nanos| *time = time.saturating_add(by);
    move_on(&mut record.started.monotonic_ns);
    record.ended_ns.iter_mut().for_each(move_on);
    record.marks_ns.iter_mut().for_each(move_on);
    record
        .scheduling_changes
        .iter_mut()
        .for_each(|change| move_on(&mut change.seen_ns));
    for phase in &mut record.phases {
        move_on(&mut phase.begin_ns);
        phase.end_ns.iter_mut().for_each(move_on);
        move_on(&mut phase.planned_ns.0);
        move_on(&mut phase.planned_ns.1);
    }
    for interruption in &mut record.interruptions {
        move_on(&mut interruption.from_ns);
        move_on(&mut interruption.to_ns);
    }
    for series in &mut record.series {
        series
            .failure
            .iter_mut()
            .for_each(|failure| move_on(&mut failure.since));
        for stretch in &mut series.elsewhere {
            move_on(&mut stretch.first_due_ns);
            move_on(&mut stretch.last_due_ns);
        }
    }
}

impl RunRecord {
    /// Adds the history of `earlier` (the part before the interruption) to this record of the
    /// resumed run.
    pub fn go_on(&mut self, earlier: &Self) {
        self.started = earlier.started;
        self.interruptions.clone_from(&earlier.interruptions);
        self.phases.clone_from(&earlier.phases);
        self.series.clone_from(&earlier.series);
        self.marks_ns.clone_from(&earlier.marks_ns);
        self.scheduling_changes
            .clone_from(&earlier.scheduling_changes);
        let own = std::mem::replace(&mut self.warnings, earlier.warnings.clone());
        self.warnings.extend(
            own.into_iter()
                .filter(|warning| !earlier.warnings.contains(warning)),
        );
        if let Some(last) = self.interruptions.last() {
            let (since_start, away) = (
                last.from_ns - self.started.monotonic_ns,
                last.to_ns - last.from_ns,
            );
            self.warnings.push(Warning::Resumed {
                since_start,
                away,
                is_reboot: last.is_reboot,
            });
        }
    }

    /// Records `start` as the start of the run or, after an interruption, of its resumed part. The
    /// first due times are relative to `start`.
    pub fn begin_at(&mut self, start: Nanos) {
        let Some(last) = self.interruptions.last_mut() else {
            self.started.realtime_ns += start - self.started.monotonic_ns;
            self.started.monotonic_ns = start;
            return;
        };
        last.to_ns = start;
        let whole = last.to_ns - last.from_ns;
        if let Some(Warning::Resumed { away, .. }) = self
            .warnings
            .iter_mut()
            .rfind(|warning| matches!(warning, Warning::Resumed { .. }))
        {
            *away = whole;
        }
    }

    /// Adds everything that `earlier` recorded about its series, except for the counts.
    pub fn add_series_of(&mut self, earlier: &Self) {
        for series in &mut self.series {
            if let Some(before) = earlier
                .series
                .iter()
                .find(|before| before.file == series.file)
            {
                series
                    .elsewhere
                    .splice(..0, before.elsewhere.iter().copied());
                if let Some(failure) = &before.failure {
                    let samples = failure.samples + series.not_stored();
                    series.failure = Some(StoreFailure {
                        samples,
                        ..failure.clone()
                    });
                }
            }
        }
    }

    /// Returns how long the run was interrupted between `begin` and `end`.
    #[must_use]
    pub fn away(&self, begin: Nanos, end: Nanos) -> Nanos {
        let within =
            |away: &Interruption| (away.to_ns.min(end) - away.from_ns.max(begin)).max(Nanos::ZERO);
        self.interruptions
            .iter()
            .map(within)
            .fold(Nanos::ZERO, Nanos::saturating_add)
    }
}

/// Returns the path at which a run is rebuilt before it replaces the old one.
fn beside(path: &Path) -> PathBuf {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    path.with_file_name(format!(".{name}.resuming"))
}

#[cfg(test)]
mod tests;
