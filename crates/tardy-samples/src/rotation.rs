//! The files of a series in a run with `--disk`: segments of limited length. The oldest segments
//! are folded into hourly histograms ([`crate::hours`]).
//!
//! `PROBE.cpuN.series` contains only the head. `PROBE.cpuN.series.1` and so on are segments, each
//! with a head and chunks. When a segment is full, the recorder starts a new one without waiting.
//! Another thread frees space: it folds the oldest segment into the histograms, syncs the
//! histograms to disk, and removes the segment.
//!
//! Samples are folded one whole segment at a time, because the start of a file cannot be removed.
//! The histograms contain the number of the last segment that was folded into them, and they are on
//! the disk before this segment is removed. Therefore a crash between any two steps neither loses a
//! sample nor counts one twice (a property test stops at each step).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tardy_core::series::Descriptor;
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;

use crate::hours::{self, CountingRule, HOUR, Hours};
use crate::read_series::{SeriesError, SeriesFile};
use crate::reserved_file;
use crate::segments::{new_head_path, segment_path, segments_behind};

/// Minimum disk usage of a file, in bytes, because file systems allocate space in whole blocks.
const BLOCK_BYTES: u64 = 4096;
/// Number of segments into which a series' share of the disk budget is divided.
const SEGMENTS: u64 = 8;
/// Minimum share of the disk budget that one series needs, in bytes.
const SHARE_LEAST: u64 = 256 << 10;
/// Maximum size of the hourly histograms, in bytes. It is limited because several copies are in
/// memory while a segment is folded.
const HOURS_BYTES_MAX: u64 = 8 << 20;
/// Disk usage of a run's record, and of the space reserved for its replacement, in bytes.
const RECORD_BYTES: u64 = (1 << 20) + (512 << 10);
/// Minimum disk usage of `state.jsonl`, in bytes.
const STATE_BYTES_LEAST: u64 = 128 << 10;

/// Space that is reserved for the histogram of a series, in bytes. The space is reserved so that
/// the histogram can be written even if the disk is full.
pub const HISTOGRAM_BYTES: u64 = 128 << 10;

/// The first and the longest pause after a failure to free space. The pause is necessary because
/// each attempt may read a whole segment.
const REST_FIRST: Duration = Duration::from_secs(2);
const REST_MAX: Duration = Duration::from_secs(60);

/// How the disk budget of a run with `--disk` is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskDivision {
    /// Size limit of `state.jsonl`, in bytes.
    pub state_bytes: u64,
    /// Size limit of the segments of one series, in bytes.
    pub kept_bytes: u64,
    /// Size limit of the hourly histograms of one series, in bytes.
    pub hours_bytes: u64,
}

impl DiskDivision {
    /// Divides `bytes` among the files of a run with `series` series.
    ///
    /// # Errors
    /// If `bytes` is too small, returns the minimum number of bytes.
    pub fn of(bytes: u64, series: usize) -> Result<Self, u64> {
        let series = series.max(1) as u64;
        // Up to three copies of a histogram take space: the old file, the new file that will
        // replace it, and the space that is reserved for the last replacement of the run.
        let fixed = RECORD_BYTES + series * 3 * HISTOGRAM_BYTES;
        let least = fixed + 2 * STATE_BYTES_LEAST + series * SHARE_LEAST;
        if bytes < least {
            return Err(least);
        }
        let state_bytes =
            ((bytes - fixed - series * SHARE_LEAST) / 32).clamp(STATE_BYTES_LEAST, 64 << 20);
        // The log and the histograms are replaced as a whole, so the old and the new file exist
        // together for a moment.
        let share = ((bytes - fixed).saturating_sub(2 * state_bytes) / series).max(SHARE_LEAST);
        let hours_bytes = (share / 8).min(HOURS_BYTES_MAX);
        Ok(Self {
            state_bytes,
            kept_bytes: share - 2 * hours_bytes,
            hours_bytes,
        })
    }
}

/// The limits on the files of one series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RotationRule {
    /// Size limit of the segments, in bytes.
    pub kept_bytes: u64,
    /// Size limit of the hourly histograms, in bytes.
    pub hours_bytes: u64,
    /// The window that defines which samples are misses.
    pub window: Option<Window>,
    /// Times, relative to the start of the series, at which an hour is divided: the starts and ends
    /// of phases.
    pub cuts: Vec<Nanos>,
    /// Length of an hourly interval.
    pub hour: Nanos,
}

impl RotationRule {
    /// Makes the rule for one series, with the limits in `division`.
    #[must_use]
    pub fn of(division: DiskDivision, window: Option<Window>, cuts: Vec<Nanos>) -> Self {
        Self {
            kept_bytes: division.kept_bytes,
            hours_bytes: division.hours_bytes,
            window,
            cuts,
            hour: HOUR,
        }
    }

    fn segment_bytes(&self) -> u64 {
        (self.kept_bytes / SEGMENTS).saturating_sub(BLOCK_BYTES)
    }
}

/// The segments of one series, shared by the recorder and the thread that frees space.
#[derive(Debug)]
pub struct Rotation {
    series: PathBuf,
    rule: RotationRule,
    kept: Mutex<KeptSegments>,
    /// Whether the series was resumed and its new head is still in a separate file. The new head
    /// will replace the old one.
    has_new_head: Mutex<bool>,
}

#[derive(Debug, Default)]
struct KeptSegments {
    /// Number and size in bytes of each segment, in chronological order.
    segments: Vec<(u64, u64)>,
    /// Number of the last folded segment, which precedes the first segment in `segments`.
    through: u64,
    /// Number of folded samples.
    given_way: u64,
    is_asked: bool,
    /// If the last attempt to free space failed: the length of the pause before the next attempt,
    /// and the start of the pause.
    rest: Option<(Duration, Instant)>,
    /// Whether a new segment exists that [`Rotation::settle`] has not processed yet.
    has_new: bool,
}

impl KeptSegments {
    fn bytes(&self) -> u64 {
        self.segments
            .iter()
            .map(|(_, bytes)| in_blocks(*bytes))
            .sum()
    }
}

/// The steps in which the files on disk change while a segment is folded, in this order. The tool
/// may crash after any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The samples were counted.
    Counted,
    /// The new histograms were written to a file next to the old ones.
    Written,
    /// The new histograms replaced the old ones, and are on the disk.
    Replaced,
    /// The segment was removed.
    Removed,
}

impl Rotation {
    /// Makes the rotation of the series whose file is `series`.
    #[must_use]
    pub fn new(series: &Path, rule: RotationRule) -> Self {
        Self {
            series: series.to_owned(),
            rule,
            kept: Mutex::default(),
            has_new_head: Mutex::default(),
        }
    }

    /// Returns the path of the series' file.
    #[must_use]
    pub fn series(&self) -> &Path {
        &self.series
    }

    /// Makes the rotation of a resumed series. The `earlier` histograms are already in the folder.
    #[must_use]
    pub fn behind(series: &Path, rule: RotationRule, earlier: &Hours) -> Self {
        let kept = KeptSegments {
            through: earlier.through,
            given_way: earlier.samples,
            ..KeptSegments::default()
        };
        Self {
            kept: Mutex::new(kept),
            ..Self::new(series, rule)
        }
    }

    /// Returns the number of the last segment that was folded before this rotation started; 0 if
    /// none was.
    pub(crate) fn through(&self) -> u64 {
        self.kept().through
    }

    /// Writes empty hourly histograms. This file shows readers that there are segments.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(crate) fn begin(&self) -> io::Result<()> {
        if self.through() > 0 {
            return Ok(());
        }
        reserved_file::replace_in_memory(
            &hours::path(&self.series),
            &self.no_hours().encode(self.rule.hours_bytes),
        )
    }

    /// Creates segment `number`, which starts with `head`.
    pub(crate) fn create(&self, number: u64, head: &[u8]) -> io::Result<File> {
        let path = segment_path(&self.series, number);
        let made = OpenOptions::new().write(true).create_new(true).open(&path);
        let written = made.and_then(|mut file| file.write_all(head).map(|()| file));
        let file = written.inspect_err(|_| {
            // A segment with an incomplete head is removed.
            let _ = fs::remove_file(&path);
        })?;
        let mut kept = self.kept();
        kept.segments.push((number, head.len() as u64));
        kept.has_new = true;
        drop(kept);
        Ok(file)
    }

    /// Returns whether a segment of `length` bytes is too full for `more` bytes.
    pub(crate) fn is_full(&self, length: u64, more: u64) -> bool {
        length + more > self.rule.segment_bytes()
    }

    /// Checks that there is space for `bytes` more, in the newest segment or in a new one.
    ///
    /// # Errors
    /// Fails if there is no space. This happens if the thread that frees space was delayed. In this
    /// case, the caller counts the samples but does not store them.
    pub(crate) fn take_room(&self, bytes: u64) -> io::Result<()> {
        if self.kept().bytes() + in_blocks(bytes) + BLOCK_BYTES > self.rule.kept_bytes {
            return Err(io::Error::other(
                "the space allowed by --disk was used up before older samples were folded into \
                 hourly histograms: the disk or the tool's CPUs are too busy",
            ));
        }
        Ok(())
    }

    /// Records that segment `number` has `length` bytes.
    pub(crate) fn note_length(&self, number: u64, length: u64) {
        if let Some((_, bytes)) = self
            .kept()
            .segments
            .iter_mut()
            .rev()
            .find(|(own, _)| *own == number)
        {
            *bytes = length;
        }
    }

    /// Returns whether space must be freed and no thread has been asked yet to free it. The caller
    /// then runs [`Self::make_room`] on another thread.
    #[must_use]
    pub fn wants_room(&self) -> bool {
        let mut kept = self.kept();
        let is_resting = kept
            .rest
            .is_some_and(|(length, since)| since.elapsed() < length);
        let is_wanted = self.is_wanted(&kept) && !kept.is_asked && !is_resting;
        kept.is_asked |= is_wanted;
        is_wanted
    }

    fn is_wanted(&self, kept: &KeptSegments) -> bool {
        kept.segments.len() > 1
            && kept.bytes() > self.rule.kept_bytes - self.rule.kept_bytes / SEGMENTS * 3
    }

    /// Folds the oldest segments until there is enough space for a new one.
    ///
    /// # Errors
    /// Fails if a segment or the hourly histograms cannot be read or written. Samples that were not
    /// folded stay in their segments.
    pub fn make_room(&self) -> io::Result<()> {
        let made = self.make_room_watched(|_| Ok(()));
        let mut kept = self.kept();
        kept.is_asked = false;
        let longer = kept
            .rest
            .map_or(REST_FIRST, |(length, _)| (2 * length).min(REST_MAX));
        kept.rest = made.is_err().then(|| (longer, Instant::now()));
        made
    }

    fn make_room_watched(&self, mut behind: impl FnMut(Step) -> io::Result<()>) -> io::Result<()> {
        loop {
            let oldest = {
                let kept = self.kept();
                self.is_wanted(&kept).then(|| kept.segments[0].0)
            };
            let Some(oldest) = oldest else { return Ok(()) };
            self.give_way(oldest, &mut behind)?;
        }
    }

    /// Adds the samples of a segment to the histograms, then removes the segment. Calls `behind`
    /// after each of these steps.
    fn give_way(
        &self,
        number: u64,
        behind: &mut impl FnMut(Step) -> io::Result<()>,
    ) -> io::Result<()> {
        let (path, hours_path) = (
            segment_path(&self.series, number),
            hours::path(&self.series),
        );
        let mut samples = 0;
        let hours = self.hours()?;
        if hours.through < number {
            let before = hours.samples;
            let mut hours = self.with_segment(hours, number)?;
            samples = hours.samples - before;
            behind(Step::Counted)?;
            let content = hours.encode(self.rule.hours_bytes);
            reserved_file::replace_watched(&hours_path, &content, || behind(Step::Written))?;
            behind(Step::Replaced)?;
        }
        fs::remove_file(&path)?;
        let mut kept = self.kept();
        kept.segments.retain(|(own, _)| *own != number);
        kept.given_way += samples;
        drop(kept);
        behind(Step::Removed)
    }

    fn hours(&self) -> io::Result<Hours> {
        match Hours::read(&hours::path(&self.series)) {
            // The histograms are damaged if the power failed before the empty histograms reached
            // the disk. Segment 1 still exists in this case, so all samples are still in segments.
            Err(error)
                if error.kind() == io::ErrorKind::InvalidData
                    && segment_path(&self.series, 1).try_exists()? =>
            {
                Ok(self.no_hours())
            }
            read => read?.ok_or_else(|| {
                io::Error::new(io::ErrorKind::NotFound, "the hourly histograms are gone")
            }),
        }
    }

    fn no_hours(&self) -> Hours {
        Hours::new(&self.counting(None)).at(&hours::path(&self.series))
    }

    /// Returns the histograms with the samples of segment `number` added. The segment itself does
    /// not change.
    fn with_segment(&self, mut hours: Hours, number: u64) -> io::Result<Hours> {
        let segment =
            match SeriesFile::open_segment(&segment_path(&self.series, number), &self.series) {
                // There is no valid head if the power failed before the heads of the segment and of
                // the series reached the disk.
                Err(SeriesError::Format { .. }) => {
                    hours.through = number;
                    return Ok(hours);
                }
                segment => segment.map_err(io::Error::other)?,
            };
        let rule = self.counting(Some(segment.descriptor()));
        let mut counting = hours.begin_segment(&rule, segment.descriptor().schedule);
        segment
            .read(&mut |chunk| counting.add(chunk))
            .map_err(io::Error::other)?;
        Ok(counting.end_segment(number))
    }

    /// Returns whether hourly histograms with folded samples are missing or damaged.
    ///
    /// # Errors
    /// Fails if the search for the first segment fails.
    pub fn has_lost_hours(&self) -> io::Result<bool> {
        let has_hours = Hours::read(&hours::path(&self.series)).is_ok_and(|hours| hours.is_some());
        Ok(!has_hours && !segment_path(&self.series, 1).try_exists()?)
    }

    /// Returns the histograms with the samples of all existing segments added. Writes nothing.
    ///
    /// # Errors
    /// Fails if a segment cannot be read.
    pub fn with_all_segments(&self) -> io::Result<Hours> {
        let hours = match self.hours() {
            Err(error)
                if [io::ErrorKind::NotFound, io::ErrorKind::InvalidData]
                    .contains(&error.kind()) =>
            {
                self.no_hours()
            }
            hours => hours?,
        };
        let numbers = segments_behind(&self.series, hours.through)?;
        numbers
            .into_iter()
            .try_fold(hours, |hours, number| self.with_segment(hours, number))
    }

    /// Returns the number of folded samples.
    #[must_use]
    pub fn given_way(&self) -> u64 {
        self.kept().given_way
    }

    /// Returns whether a segment was started since the last call; if so, the caller runs
    /// [`Self::settle`] on another thread.
    #[must_use]
    pub fn has_new_segment(&self) -> bool {
        std::mem::take(&mut self.kept().has_new)
    }

    /// Syncs the newest segments, the head of the series, the hourly histograms, and the names of
    /// these files, so that readers find the segments after a power failure.
    ///
    /// # Errors
    /// Fails if a file cannot be synced, or if the new head cannot replace the old one.
    pub fn settle(&self) -> io::Result<()> {
        self.place_head()?;
        for file in self
            .unsynced()
            .into_iter()
            .chain([hours::path(&self.series)])
        {
            File::open(file)?.sync_all()?;
        }
        reserved_file::sync_name(&self.series);
        Ok(())
    }

    /// Records that there is a file with the new head of a resumed series, which will replace the
    /// old head.
    pub(crate) fn note_new_head(&self) {
        *self
            .has_new_head
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// Syncs the new head, if there is one, and replaces the old head with it.
    pub(crate) fn place_head(&self) -> io::Result<()> {
        let mut is_new = self
            .has_new_head
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if *is_new {
            let new = new_head_path(&self.series);
            File::open(&new)?.sync_all()?;
            fs::rename(new, &self.series)?;
            *is_new = false;
        }
        Ok(())
    }

    /// Returns the files that may not be synced yet.
    #[must_use]
    pub fn unsynced(&self) -> Vec<PathBuf> {
        let kept = self.kept();
        let newest = kept
            .segments
            .iter()
            .rev()
            .take(2)
            .map(|(number, _)| segment_path(&self.series, *number));
        newest.chain([self.series.clone()]).collect()
    }

    fn counting(&self, descriptor: Option<&Descriptor>) -> CountingRule {
        let start = descriptor.and_then(|descriptor| match descriptor.schedule {
            tardy_core::series::Schedule::Grid { start, .. } => Some(start),
            tardy_core::series::Schedule::Event { .. } => None,
        });
        CountingRule {
            window: self
                .rule
                .window
                .filter(|_| !descriptor.is_some_and(|descriptor| descriptor.is_outside_verdict)),
            is_work: descriptor.is_some_and(Descriptor::is_work),
            cuts: start.map_or_else(Vec::new, |start| {
                self.rule.cuts.iter().map(|&cut| start + cut).collect()
            }),
            stretch: self.rule.hour,
        }
    }

    fn kept(&self) -> MutexGuard<'_, KeptSegments> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn in_blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES) * BLOCK_BYTES
}

#[cfg(test)]
mod tests;
