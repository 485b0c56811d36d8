//! Hourly histograms, into which the samples of old segments are folded. In a run with `--disk`,
//! they are in the file `PROBE.cpuN.hours` next to the series file.
//!
//! ```text
//! "TARDYHR1"  body  u32 CRC-32 of the body, little-endian
//! body     varints: number of the last folded segment, samples, length of an interval in ns,
//!          cumulative counts of that segment's last chunk: expected, recorded, skipped, lost, unstored,
//!          latest and earliest latency of the window that defined misses: each 1 and the value, or 0 if absent;
//!          intervals, then for each in order of time: part of the run, number, length in bytes, bytes;
//!          CRC-32 of the file's name, absent in files of older tools
//! interval varints: due time of its first sample, last wake-up, samples, samples that skipped, lost and skipped between samples, skipped, misses,
//!          skipped due times among the misses, sum (low and high half), values known to 1/64 only,
//!          worst sample: due time, latency, skipped,
//!          then three histograms (latencies; latencies of skipped due times; upper bounds of other skipped due times):
//!          entries, then for each in ascending order: difference to the value before (folded), count
//! ```
//! At first, each interval is a full hour of the clock, or a part of an hour if a phase starts or
//! ends in it. An interval contains the samples that were due in it. When the file reaches its size
//! limit, pairs of neighbouring intervals are merged, so that intervals become twice as long. This
//! is repeated as often as necessary. If a single interval is still too large, the precision of its
//! values is reduced to 1/64. The counts, the sum and the worst sample of the interval stay exact.
//!
//! The file contains the number of the last segment that was folded into it. The file is replaced
//! as a whole before this segment is removed. If the segment still exists after a crash, readers do
//! not count it again.
//!
//! Version 1 dates from 2026-11. The CRC-32 of the file's name was added later in 2026-11. A reader
//! compares it, so that it can refuse the file of another series.

use std::io;
use std::path::{Path, PathBuf};

use itertools::Itertools as _;
use tardy_core::accounting::Counts;
use tardy_core::chunk::Chunk;
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::sample::{Gap, Sample};
use tardy_core::series::Schedule;
use tardy_core::summary::cell::{Cell, EXPANDED_MAX};
use tardy_core::units::Nanos;
use tardy_core::varint::{self, Reader};
use tardy_core::verdict::Window;
use tardy_core::verdict::skipped::SkippedLateness;
use tardy_sys::regular_file;

use crate::file_name_mark::mark;

const MAGIC: &[u8; 8] = b"TARDYHR1";
/// Maximum size of a file that readers accept, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of samples of a series: a million per second for a century.
const SAMPLES_MAX: u64 = 1 << 52;
/// Maximum number of times that the length of intervals is doubled. After that, an interval is
/// longer than a human lifetime. If the file is still too large after this, all parts of the run
/// are merged into one interval.
const DOUBLINGS_MAX: usize = 20;
/// If a single interval exceeds the size limit, at most this many of its values stay exact at
/// first. The number is halved until the interval fits.
const EXACT_VALUES_FIRST: usize = 1 << 16;

/// How many histograms each interval has.
const HISTOGRAMS: usize = 3;
/// Number of samples that are counted in memory before they are added to the encoded histograms of
/// their interval. This limits the memory that is needed to fold a segment, regardless of the
/// interval's content.
const SAMPLES_AT_ONCE: usize = 8192;

/// Initial length of an interval: one hour.
pub const HOUR: Nanos = Nanos::from_secs(3600);

/// The rule by which samples are counted when their segment is folded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountingRule {
    /// The window that defines which samples are misses.
    pub window: Option<Window>,
    /// Whether the samples measure the time of work, not only of wake-ups: see
    /// [`tardy_core::series::Descriptor::is_work`].
    pub is_work: bool,
    /// Times at which an interval ends before its hour is over: the starts and ends of phases.
    pub cuts: Vec<Nanos>,
    /// Length of an interval.
    pub stretch: Nanos,
}

/// The folded samples of a series.
#[derive(Debug, Clone)]
pub struct Hours {
    /// Number of the last folded segment; 0 if none was folded.
    pub through: u64,
    /// Number of folded samples.
    pub samples: u64,
    /// Cumulative counts of the series at the end of the last folded segment.
    pub counts: Counts,
    /// The window that defined which samples are misses.
    pub window: Option<Window>,
    /// Length of an interval.
    pub length: Nanos,
    stretches: Vec<PackedStretch>,
    mark: Option<u64>,
}

/// An interval of time, in encoded form. A series may have a thousand intervals, of which only few
/// are ever decoded.
#[derive(Debug, Clone)]
struct PackedStretch {
    part: u64,
    number: i64,
    bytes: Vec<u8>,
}

/// The counts of the samples in one interval.
#[derive(Debug, Clone)]
pub struct Stretch {
    /// Due time of the interval's first sample.
    pub first_due: Nanos,
    /// Time of the last wake-up.
    pub last_wake: Nanos,
    /// Number of samples.
    pub samples: u64,
    /// Number of samples that skipped due times.
    pub skipping: u64,
    /// Samples that were lost between the samples of the interval.
    pub gaps: Gap,
    /// Number of values that are known only with a precision of 1/64.
    pub coarse: u64,
    /// Counts of the samples: latencies, skipped due times, misses, and the worst sample.
    pub cell: Cell,
}

/// Returns the path of the file for the series in `series`.
#[must_use]
pub fn path(series: &Path) -> PathBuf {
    series.with_extension("hours")
}

impl Hours {
    /// Creates hourly histograms without samples.
    #[must_use]
    pub fn new(rule: &CountingRule) -> Self {
        Self {
            through: 0,
            samples: 0,
            counts: Counts::default(),
            window: rule.window,
            length: rule.stretch,
            stretches: Vec::new(),
            mark: None,
        }
    }

    /// Returns the histograms with the mark of the file at `path`.
    #[must_use]
    pub(crate) fn at(self, path: &Path) -> Self {
        Self {
            mark: Some(mark(path)),
            ..self
        }
    }

    /// Reads the file; `None` if it does not exist.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or with `InvalidData` if it is damaged or belongs to
    /// another series.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let is_own = |hours: &Self| hours.mark.is_none_or(|mark_there| mark_there == mark(path));
        match regular_file::read(path, FILE_BYTES_MAX) {
            Ok(bytes) => match Self::decode(&bytes).filter(is_own) {
                Some(hours) => Ok(Some(hours.at(path))),
                None => Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the hourly histograms are damaged, or belong to another series",
                )),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns empty histograms, which replace a damaged or missing file.
    pub(crate) fn unknown() -> Self {
        Self {
            through: 0,
            samples: 0,
            counts: Counts::default(),
            window: None,
            length: HOUR,
            stretches: Vec::new(),
            mark: None,
        }
    }

    /// Starts to add the samples of a segment. Segments must be added in their order.
    /// [`Counting::end_segment`] must be called when all samples of the segment were added.
    #[must_use]
    pub fn begin_segment(self, rule: &CountingRule, schedule: Schedule) -> Counting<'_> {
        Counting {
            hours: self,
            rule,
            schedule,
            open: None,
        }
    }

    /// Returns the intervals in chronological order.
    pub fn stretches(&self) -> impl Iterator<Item = Stretch> + '_ {
        self.stretches
            .iter()
            .filter_map(|packed| Stretch::decode(&packed.bytes))
    }

    /// Returns the time of the last wake-up among the folded samples.
    #[must_use]
    pub fn last_wake(&self) -> Option<Nanos> {
        self.stretches().map(|stretch| stretch.last_wake).max()
    }

    /// Converts all times to a clock that is ahead by `by`. In the result, intervals start at the
    /// full hours of this clock.
    #[must_use]
    pub fn shifted(mut self, by: Nanos) -> Self {
        for packed in std::mem::take(&mut self.stretches) {
            let Some(mut stretch) = Stretch::decode(&packed.bytes) else {
                continue;
            };
            stretch.first_due = stretch.first_due.saturating_add(by);
            stretch.last_wake = stretch.last_wake.saturating_add(by);
            stretch.cell.worst = stretch.cell.worst.map(|worst| Sample {
                due: worst.due.saturating_add(by),
                ..worst
            });
            let (part, number) = (
                packed.part,
                stretch.first_due.get().div_euclid(self.length.get()),
            );
            let moved = PackedStretch {
                part,
                number,
                bytes: stretch.encode(),
            };
            match self
                .stretches
                .last_mut()
                .filter(|last| (last.part, last.number) == (part, number))
            {
                Some(last) => last.merge(&moved),
                None => self.stretches.push(moved),
            }
        }
        self
    }

    /// Returns the latencies of all folded samples.
    #[must_use]
    pub fn latency(&self) -> Histogram {
        let mut all = Histogram::new(Budget::ANALYSIS);
        self.stretches()
            .for_each(|stretch| all.merge(&stretch.cell.latency));
        all
    }

    /// Encodes the file; it has at most `bytes_max` bytes if the counts fit into them.
    #[must_use]
    pub fn encode(&mut self, bytes_max: u64) -> Vec<u8> {
        let too_large = |bytes: &Vec<u8>| bytes.len() as u64 > bytes_max;
        let mut bytes = self.encode_as_it_is();
        for _ in 0..DOUBLINGS_MAX {
            if !too_large(&bytes) || self.stretches.len() < 2 {
                break;
            }
            self.length = Nanos(self.length.get().saturating_mul(2));
            self.renumber(|part, number| (part, number.div_euclid(2)));
            bytes = self.encode_as_it_is();
        }
        if too_large(&bytes) && self.stretches.len() > 1 {
            self.renumber(|_, _| (0, 0));
            bytes = self.encode_as_it_is();
        }
        let mut values = EXACT_VALUES_FIRST;
        while too_large(&bytes) && values > 0 {
            values /= 2;
            self.stretches
                .iter_mut()
                .for_each(|packed| packed.coarsen(values));
            bytes = self.encode_as_it_is();
        }
        bytes
    }

    /// Assigns a new part and number to each interval, and merges intervals with the same part and
    /// number.
    fn renumber(&mut self, new: impl Fn(u64, i64) -> (u64, i64)) {
        let mut renumbered: Vec<PackedStretch> = Vec::new();
        for packed in std::mem::take(&mut self.stretches) {
            let (part, number) = new(packed.part, packed.number);
            match renumbered
                .last_mut()
                .filter(|last| (last.part, last.number) == (part, number))
            {
                Some(last) => last.merge(&packed),
                None => renumbered.push(PackedStretch {
                    part,
                    number,
                    bytes: packed.bytes,
                }),
            }
        }
        self.stretches = renumbered;
    }

    fn encode_as_it_is(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for value in [self.through, self.samples] {
            varint::put(&mut bytes, value);
        }
        varint::put_signed(&mut bytes, self.length.get());
        let Counts {
            expected,
            recorded,
            skipped,
            lost,
            unstored,
        } = self.counts;
        for count in [expected, recorded, skipped, lost, unstored] {
            varint::put(&mut bytes, count);
        }
        put_optional(&mut bytes, self.window.map(|window| window.latest));
        put_optional(&mut bytes, self.window.and_then(|window| window.earliest));
        varint::put(&mut bytes, self.stretches.len() as u64);
        for packed in &self.stretches {
            varint::put(&mut bytes, packed.part);
            varint::put_signed(&mut bytes, packed.number);
            varint::put(&mut bytes, packed.bytes.len() as u64);
            bytes.extend_from_slice(&packed.bytes);
        }
        self.mark
            .iter()
            .for_each(|&mark| varint::put(&mut bytes, mark));
        let crc = crc32fast::hash(&bytes[MAGIC.len()..]);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, crc) = bytes.strip_prefix(MAGIC)?.split_last_chunk::<4>()?;
        if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
            return None;
        }
        let mut reader = Reader::new(body);
        let (through, samples, length) = (
            reader.take()?,
            reader.take()?.min(SAMPLES_MAX),
            Nanos(reader.take_signed()?),
        );
        let counts = Counts {
            expected: reader.take()?,
            recorded: reader.take()?,
            skipped: reader.take()?,
            lost: reader.take()?,
            unstored: reader.take()?,
        };
        let (latest, earliest) = (take_optional(&mut reader)?, take_optional(&mut reader)?);
        let count = reader.take()?;
        let mut stretches = Vec::new();
        for _ in 0..count {
            let (part, number, length) = (
                reader.take()?,
                reader.take_signed()?,
                usize::try_from(reader.take()?).ok()?,
            );
            stretches.push(PackedStretch {
                part,
                number,
                bytes: reader.take_bytes(length)?.to_vec(),
            });
        }
        (length > Nanos::ZERO).then_some(())?;
        Some(Self {
            through,
            samples,
            counts,
            window: latest.map(|latest| Window { latest, earliest }),
            length,
            stretches,
            mark: reader.take(),
        })
    }
}

/// Counts the samples of a segment that is being folded.
#[derive(Debug)]
pub struct Counting<'a> {
    hours: Hours,
    rule: &'a CountingRule,
    schedule: Schedule,
    open: Option<Open>,
}

/// The most recently added samples, which are not yet in the encoded histograms.
#[derive(Debug)]
struct Open {
    part: u64,
    number: i64,
    stretch: Stretch,
    /// Number of skipped due times in the encoded histograms of this interval.
    skipped_before: u64,
}

impl Counting<'_> {
    /// Adds the samples of a chunk.
    pub fn add(&mut self, chunk: &Chunk) {
        let schedule = self.schedule;
        for (gap, sample) in chunk.samples(&schedule) {
            let part = self.rule.cuts.partition_point(|cut| *cut <= sample.due) as u64;
            let number = sample.due.get().div_euclid(self.hours.length.get());
            let is_at_hand = |open: &Open| {
                (open.part, open.number) == (part, number)
                    && open.stretch.samples < SAMPLES_AT_ONCE as u64
            };
            if !self.open.as_ref().is_some_and(is_at_hand) {
                self.close();
            }
            let open = self.open.get_or_insert_with(|| Open {
                part,
                number,
                stretch: Stretch::beginning(sample.due),
                skipped_before: self.hours.skipped(part, number),
            });
            open.stretch
                .add(gap, sample, self.rule, &schedule, open.skipped_before);
            self.hours.samples += 1;
        }
        // The counts are cumulative, so the largest are the latest, even if the chunks are not in
        // order.
        if chunk.counts.recorded >= self.hours.counts.recorded {
            self.hours.counts = chunk.counts;
        }
    }

    /// Returns the histograms, which now include segment `number`. All samples of the segment must
    /// have been added.
    #[must_use]
    pub fn end_segment(mut self, number: u64) -> Hours {
        self.close();
        self.hours.through = number;
        self.hours
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.hours.put(PackedStretch {
                part: open.part,
                number: open.number,
                bytes: open.stretch.encode(),
            });
        }
    }
}

impl Hours {
    /// Returns the position of an interval or, if it does not exist, the position at which it must
    /// be inserted.
    fn find(&self, part: u64, number: i64) -> Result<usize, usize> {
        self.stretches
            .binary_search_by_key(&(part, number), |packed| (packed.part, packed.number))
    }

    /// Returns the number of skipped due times in an interval.
    fn skipped(&self, part: u64, number: i64) -> u64 {
        self.find(part, number)
            .ok()
            .and_then(|place| Stretch::take_head(&mut Reader::new(&self.stretches[place].bytes)))
            .map_or(0, |head| head.cell.skipped)
    }

    /// Adds counts to an interval, or inserts the interval if it does not exist.
    fn put(&mut self, packed: PackedStretch) {
        match self.find(packed.part, packed.number) {
            Ok(place) => self.stretches[place].merge(&packed),
            Err(place) => self.stretches.insert(place, packed),
        }
    }
}

impl PackedStretch {
    fn merge(&mut self, next: &Self) {
        if let Some(merged) = merged(&self.bytes, &next.bytes) {
            self.bytes = merged;
        }
    }

    fn coarsen(&mut self, values: usize) {
        if let Some(mut stretch) = Stretch::decode(&self.bytes) {
            let mut coarse = Histogram::new(Budget { pages: 0, values });
            coarse.merge(&stretch.cell.latency);
            stretch.cell.latency = coarse;
            for histogram in [
                &mut stretch.cell.latency_skipped,
                &mut stretch.cell.latency_skipped_at_most,
            ] {
                let mut coarse = Histogram::new(Budget { pages: 0, values });
                coarse.merge(histogram);
                *histogram = coarse;
            }
            self.bytes = stretch.encode();
        }
    }
}

impl Stretch {
    fn beginning(due: Nanos) -> Self {
        let mut cell = Cell::default();
        cell.latency = Histogram::new(Budget {
            pages: 0,
            values: SAMPLES_AT_ONCE,
        });
        Self {
            first_due: due,
            last_wake: due,
            samples: 0,
            skipping: 0,
            gaps: Gap::default(),
            coarse: 0,
            cell,
        }
    }

    fn add(
        &mut self,
        gap: Gap,
        sample: Sample,
        rule: &CountingRule,
        schedule: &Schedule,
        skipped_before: u64,
    ) {
        self.samples += 1;
        self.last_wake = sample.wake();
        self.gaps.lost += gap.lost;
        self.gaps.skipped += gap.skipped;
        let cell = &mut self.cell;
        cell.latency.record(sample.latency.get());
        cell.sum += i128::from(sample.latency.get());
        cell.note_worst(Some(sample));
        if let Some(window) = &rule.window {
            let late = |sample| {
                SkippedLateness::of(sample, schedule).late(
                    sample.skipped,
                    schedule.period(),
                    window,
                )
            };
            let skipped = if rule.is_work || sample.skipped == 0 {
                u64::from(sample.skipped)
            } else {
                late(sample)
            };
            cell.misses += u64::from(window.misses(sample.latency)) + skipped;
            cell.misses_skipped += skipped;
        }
        if sample.skipped > 0 {
            self.skipping += 1;
            let skipped = skipped_before.saturating_add(cell.skipped);
            let expand = skipped.saturating_add(u64::from(sample.skipped)) <= EXPANDED_MAX;
            cell.note_skipped(sample, schedule, expand);
        }
    }

    fn merge(&mut self, next: &Self) {
        self.last_wake = self.last_wake.max(next.last_wake);
        self.samples += next.samples;
        self.skipping += next.skipping;
        self.gaps.lost += next.gaps.lost;
        self.gaps.skipped += next.gaps.skipped;
        self.coarse += next.coarse;
        self.cell.merge_counts(&next.cell);
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put_head(&mut out);
        let cell = &self.cell;
        for histogram in [
            &cell.latency,
            &cell.latency_skipped,
            &cell.latency_skipped_at_most,
        ] {
            let mut counts = Vec::new();
            histogram.for_each(|value, count| counts.push((value, count)));
            put_counts(&mut out, counts.into_iter());
        }
        out
    }

    /// Appends everything except the histograms.
    fn put_head(&self, out: &mut Vec<u8>) {
        let cell = &self.cell;
        varint::put_signed(out, self.first_due.get());
        varint::put_signed(out, self.last_wake.get());
        let counts = [
            self.samples,
            self.skipping,
            self.gaps.lost,
            self.gaps.skipped,
            cell.skipped,
            cell.misses,
            cell.misses_skipped,
        ];
        counts.iter().for_each(|&count| varint::put(out, count));
        varint::put(out, cell.sum as u64);
        varint::put_signed(out, (cell.sum >> 64) as i64);
        varint::put(out, (self.coarse + cell.latency.coarse()).min(self.samples));
        let worst = cell.worst.unwrap_or(Sample {
            due: self.first_due,
            latency: Nanos::ZERO,
            skipped: 0,
        });
        varint::put_signed(out, worst.due.get());
        varint::put_signed(out, worst.latency.get());
        varint::put(out, u64::from(worst.skipped));
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let mut stretch = Self::take_head(&mut reader)?;
        for histogram in [
            &mut stretch.cell.latency,
            &mut stretch.cell.latency_skipped,
            &mut stretch.cell.latency_skipped_at_most,
        ] {
            *histogram = histogram_of(take_counts(&mut reader)?)?;
        }
        Some(stretch)
    }

    /// Reads everything except the histograms, which follow.
    fn take_head(reader: &mut Reader<'_>) -> Option<Self> {
        let (first_due, last_wake) = (Nanos(reader.take_signed()?), Nanos(reader.take_signed()?));
        let (samples, skipping) = (reader.take()?, reader.take()?);
        let gaps = Gap {
            lost: reader.take()?,
            skipped: reader.take()?,
        };
        let (skipped, misses, misses_skipped) = (reader.take()?, reader.take()?, reader.take()?);
        let low = i128::from(reader.take()?);
        let sum = (i128::from(reader.take_signed()?) << 64) | low;
        let coarse = reader.take()?;
        let worst = Sample {
            due: Nanos(reader.take_signed()?),
            latency: Nanos(reader.take_signed()?),
            skipped: u32::try_from(reader.take()?).ok()?,
        };
        let mut cell = Cell::default();
        (
            cell.worst,
            cell.misses,
            cell.misses_skipped,
            cell.skipped,
            cell.sum,
        ) = (Some(worst), misses, misses_skipped, skipped, sum);
        Some(Self {
            first_due,
            last_wake,
            samples,
            skipping,
            gaps,
            coarse,
            cell,
        })
    }
}

/// Adds up two encoded intervals without decoding their histograms as a whole; `None` if one of
/// them is damaged.
fn merged(own: &[u8], next: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(own.len() + next.len());
    let (mut own, mut next) = (Reader::new(own), Reader::new(next));
    let mut head = Stretch::take_head(&mut own)?;
    head.merge(&Stretch::take_head(&mut next)?);
    head.put_head(&mut out);
    for _ in 0..HISTOGRAMS {
        let both = take_counts(&mut own)?
            .merge_by(take_counts(&mut next)?, |own, next| own.0 <= next.0)
            .coalesce(|a, b| match a.0 == b.0 {
                true => Ok((a.0, a.1.saturating_add(b.1))),
                false => Err((a, b)),
            });
        put_counts(&mut out, both);
    }
    Some(out)
}

/// The values and counts of an encoded histogram, in ascending order.
#[derive(Debug, Clone)]
struct EncodedCounts<'a> {
    reader: Reader<'a>,
    entries: u64,
    value: i64,
}

impl Iterator for EncodedCounts<'_> {
    type Item = (i64, u64);

    fn next(&mut self) -> Option<(i64, u64)> {
        self.entries = self.entries.checked_sub(1)?;
        self.value = self.value.wrapping_add(self.reader.take_signed()?);
        Some((self.value, self.reader.take()?))
    }
}

/// Reads an encoded histogram; `None` if the histogram is truncated.
fn take_counts<'a>(reader: &mut Reader<'a>) -> Option<EncodedCounts<'a>> {
    let entries = reader.take()?;
    let counts = EncodedCounts {
        reader: reader.clone(),
        entries,
        value: 0,
    };
    for _ in 0..entries {
        reader.take()?;
        reader.take()?;
    }
    Some(counts)
}

fn put_counts(out: &mut Vec<u8>, counts: impl Iterator<Item = (i64, u64)> + Clone) {
    varint::put(out, counts.clone().count() as u64);
    let mut previous = 0_i64;
    for (value, count) in counts {
        varint::put_signed(out, value.wrapping_sub(previous));
        varint::put(out, count);
        previous = value;
    }
}

fn histogram_of(counts: EncodedCounts<'_>) -> Option<Histogram> {
    let mut histogram = Histogram::new(Budget::ANALYSIS);
    for (value, count) in counts {
        // These limits ensure that sums of the counts cannot overflow.
        (count <= SAMPLES_MAX && histogram.count() <= SAMPLES_MAX).then_some(())?;
        histogram.record_many(value, count);
    }
    Some(histogram)
}

fn put_optional(out: &mut Vec<u8>, value: Option<Nanos>) {
    varint::put(out, u64::from(value.is_some()));
    if let Some(value) = value {
        varint::put_signed(out, value.get());
    }
}

fn take_optional(reader: &mut Reader<'_>) -> Option<Option<Nanos>> {
    Some(match reader.take()? {
        0 => None,
        _ => Some(Nanos(reader.take_signed()?)),
    })
}

#[cfg(test)]
mod tests;
