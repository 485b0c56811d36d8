//! Makes one pass over the samples in chronological order. In this pass, it collects the smallest
//! and largest sample of each interval, the number of samples by time and latency, and each sample
//! that is larger than all earlier samples.
//!
//! For a chart over time, the samples are sorted into a fixed number of intervals: 64 Ki for all
//! CPUs of a report together. Memory and file size therefore do not grow with the run's length.
//! Heat map and scatter plot use the same grid of 480 intervals and 16 rows per octave.

use std::path::Path;

use tardy_core::chunk::Chunk;
use tardy_core::series::Schedule;
use tardy_core::units::Nanos;

use crate::hours::Stretch;
use crate::read_series::{SeriesError, SeriesFile};
use crate::tail::TailReader;

/// Number of intervals in a grid of counts.
pub const GRID_COLUMNS: usize = 480;
/// The row of a latency depends on its highest set bit, and on this number of bits below that bit.
/// The relative width of a row is 1/32 to 1/16.
const ROW_BITS: u32 = 4;
/// Number of rows for negative latencies, which come first. There are as many rows for all other
/// latencies.
const ROWS_A_SIDE: usize = (64 << ROW_BITS) as usize;

/// Start, length and resolution of a sweep.
#[derive(Debug, Clone, Copy)]
pub struct Division {
    /// Start of the first interval, on the series' clock.
    pub start: Nanos,
    /// Total length of all intervals.
    pub length: Nanos,
    /// Number of intervals with extremes.
    pub columns: usize,
    /// Maximum number of samples that are stored individually; if there are more, no sample is
    /// stored individually.
    pub points: usize,
}

/// Smallest and largest value of each of several intervals of equal length; `None` for empty
/// intervals.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Columns {
    /// Start of the first interval, in s.
    pub begin: f64,
    /// Length of each interval, in s.
    pub step: f64,
    /// Smallest and largest value in each interval.
    pub extremes: Vec<Option<(i64, i64)>>,
}

/// The result of a sweep of one series.
#[derive(Debug, Clone, Default)]
pub struct SeriesExtract {
    /// Extremes over time, in s since the start.
    pub columns: Columns,
    /// Counts of samples, by interval and by row. There are [`GRID_COLUMNS`] intervals.
    pub grid: Vec<Vec<u32>>,
    /// Each sample that is larger than all earlier samples: its number in the series, counted from
    /// 1, its due time in s since the start, and its latency in ns.
    pub records: Vec<(u64, f64, i64)>,
    /// Number of samples that were counted.
    pub samples: u64,
    /// Due time in s and latency in ns of every sample, if there are only a few samples.
    pub points: Option<Vec<(f64, i64)>>,
}

/// Returns the row of a latency in [`SeriesExtract::grid`].
#[inline]
#[must_use]
pub fn row_of(latency: i64) -> usize {
    let magnitude = latency.unsigned_abs().min(i64::MAX as u64);
    let index = if magnitude < (1 << ROW_BITS) {
        magnitude as usize
    } else {
        let exponent = u64::BITS - 1 - magnitude.leading_zeros();
        let digits = (magnitude >> (exponent - ROW_BITS)) as usize & ((1 << ROW_BITS) - 1);
        (((exponent - ROW_BITS + 1) as usize) << ROW_BITS) | digits
    };
    if latency < 0 {
        ROWS_A_SIDE - index
    } else {
        ROWS_A_SIDE + index
    }
}

/// Returns the smallest latency of a row, and the smallest latency of the next row, in ns.
#[must_use]
pub fn row_edges(row: usize) -> (i64, i64) {
    let edge = |index: usize| -> i64 {
        if index < 1 << ROW_BITS {
            return index as i64;
        }
        let exponent = (index >> ROW_BITS) as u32 - 1;
        let digits = (index & ((1 << ROW_BITS) - 1)) as i64 | (1 << ROW_BITS);
        digits
            .checked_shl(exponent)
            .filter(|value| value >> exponent == digits)
            .unwrap_or(i64::MAX)
    };
    if row >= ROWS_A_SIDE {
        (edge(row - ROWS_A_SIDE), edge(row - ROWS_A_SIDE + 1))
    } else {
        (1 - edge(ROWS_A_SIDE - row + 1), 1 - edge(ROWS_A_SIDE - row))
    }
}

/// Sweeps the series in `path`, on as many threads as there are CPUs.
///
/// # Errors
/// Fails with a [`SeriesError`] if the series cannot be read.
pub fn sweep(path: &Path, division: Division) -> Result<SeriesExtract, SeriesError> {
    let file = SeriesFile::open(path)?;
    let new = || Sweeper::new(file.descriptor().schedule, division);
    let (whole, _) = file.fold(SeriesFile::threads(), new, Sweeper::add, Sweeper::merge)?;
    Ok(behind_hours(&file, division, whole))
}

/// Sweeps the series on the calling thread in chronological order, and adds all chunks to `tail` as
/// well.
///
/// # Errors
/// Fails as [`sweep`] does.
pub fn sweep_with(
    path: &Path,
    division: Division,
    tail: Option<&mut TailReader>,
) -> Result<SeriesExtract, SeriesError> {
    let file = SeriesFile::open(path)?;
    let (mut sweeper, mut tail) = (Sweeper::new(file.descriptor().schedule, division), tail);
    file.read(&mut |chunk| {
        sweeper.add(chunk);
        if let Some(tail) = &mut tail {
            tail.add(chunk);
        }
    })?;
    Ok(behind_hours(&file, division, sweeper))
}

/// Adds the samples that were folded into hourly histograms. The exact times of these samples are
/// unknown, so the samples of each histogram are distributed evenly from its first due time to its
/// last wake-up.
fn behind_hours(file: &SeriesFile, division: Division, swept: Sweeper) -> SeriesExtract {
    let Some(hours) = file.hours().filter(|hours| hours.samples > 0) else {
        return swept.swept;
    };
    let mut all = Sweeper::new(file.descriptor().schedule, division);
    hours.stretches().for_each(|stretch| all.add_hour(&stretch));
    all.swept.points = None;
    all.merge(swept);
    all.swept
}

impl SeriesExtract {
    /// Adds another series that covers the same time, so that one chart can show the extremes and
    /// counts of both series together. Clears the list of new largest latencies.
    pub fn add_beside(&mut self, other: &Self) {
        for (own, other) in self
            .columns
            .extremes
            .iter_mut()
            .zip(&other.columns.extremes)
        {
            *own = match (*own, *other) {
                (Some(own), Some(other)) => Some((own.0.min(other.0), own.1.max(other.1))),
                (own, other) => own.or(other),
            };
        }
        add_grid(&mut self.grid, &other.grid);
        self.records.clear();
        self.samples += other.samples;
        self.points = None;
    }
}

fn add_grid(own: &mut [Vec<u32>], other: &[Vec<u32>]) {
    for (own, other) in own.iter_mut().zip(other) {
        if own.is_empty() {
            own.clone_from(other);
        } else {
            own.iter_mut()
                .zip(other)
                .for_each(|(own, &other)| *own = own.saturating_add(other));
        }
    }
}

struct Sweeper {
    schedule: Schedule,
    division: Division,
    swept: SeriesExtract,
}

impl Sweeper {
    fn new(schedule: Schedule, division: Division) -> Self {
        let columns = division.columns.max(1);
        let step = division.length.as_secs_f64() / columns as f64;
        let swept = SeriesExtract {
            columns: Columns {
                begin: 0.0,
                step,
                extremes: vec![None; columns],
            },
            grid: vec![Vec::new(); GRID_COLUMNS],
            points: Some(Vec::new()),
            ..SeriesExtract::default()
        };
        Self {
            schedule,
            division,
            swept,
        }
    }

    fn add(&mut self, chunk: &Chunk) {
        if chunk.latency.is_empty() {
            return;
        }
        if self
            .swept
            .points
            .as_ref()
            .is_some_and(|points| points.len() + chunk.latency.len() > self.division.points)
        {
            self.swept.points = None;
        }
        let (column, cell) = (self.column(chunk.first_due), self.cell(chunk.first_due));
        let ends_with = |last: Nanos| self.column(last) == column && self.cell(last) == cell;
        // Most chunks of a long run lie within one interval and contain no new largest latency. For
        // such chunks, one loop over the latencies suffices.
        let largest = self
            .swept
            .records
            .last()
            .map_or(i64::MIN, |record| record.2);
        let (min, max) = chunk
            .latency
            .iter()
            .fold((i64::MAX, i64::MIN), |(min, max), &value| {
                (min.min(value), max.max(value))
            });
        if max <= largest
            && self.swept.points.is_none()
            && last_due_at_most(chunk, &self.schedule).is_some_and(ends_with)
        {
            self.note_extremes(column, min, max);
            let counts = counts_of(&mut self.swept.grid, cell);
            chunk
                .latency
                .iter()
                .for_each(|&latency| counts[row_of(latency)] += 1);
            self.swept.samples += chunk.latency.len() as u64;
            return;
        }
        let schedule = self.schedule;
        for (_, sample) in chunk.samples(&schedule) {
            let latency = sample.latency.get();
            self.swept.samples += 1;
            let seconds = (sample.due.get().saturating_sub(self.division.start.get())) as f64 / 1e9;
            if self
                .swept
                .records
                .last()
                .is_none_or(|record| latency > record.2)
            {
                self.swept
                    .records
                    .push((self.swept.samples, seconds, latency));
            }
            if let Some(points) = &mut self.swept.points {
                points.push((seconds, latency));
            }
            let (column, cell) = (self.column(sample.due), self.cell(sample.due));
            self.note_extremes(column, latency, latency);
            counts_of(&mut self.swept.grid, cell)[row_of(latency)] += 1;
        }
    }

    fn add_hour(&mut self, hour: &Stretch) {
        let latency = &hour.cell.latency;
        let (Some(min), Some(max)) = (latency.min(), latency.max()) else {
            return;
        };
        for column in self.column(hour.first_due)..=self.column(hour.last_wake) {
            self.note_extremes(column, min, max);
        }
        let cells = self.cell(hour.first_due)..=self.cell(hour.last_wake);
        let count = cells.clone().count() as u64;
        for (place, cell) in cells.enumerate() {
            let counts = counts_of(&mut self.swept.grid, cell);
            // The times of samples within the hour are unknown, so they are distributed evenly.
            let share = |all: u64| {
                u32::try_from(all / count + u64::from((place as u64) < all % count))
                    .unwrap_or(u32::MAX)
            };
            latency.for_each(|value, times| {
                counts[row_of(value)] = counts[row_of(value)].saturating_add(share(times))
            });
        }
        self.swept.samples += hour.samples;
        if let Some(worst) = hour.cell.worst.filter(|worst| {
            self.swept
                .records
                .last()
                .is_none_or(|record| worst.latency.get() > record.2)
        }) {
            let seconds = worst.due.get().saturating_sub(self.division.start.get()) as f64 / 1e9;
            self.swept
                .records
                .push((self.swept.samples, seconds, worst.latency.get()));
        }
    }

    fn note_extremes(&mut self, column: usize, min: i64, max: i64) {
        let extremes = &mut self.swept.columns.extremes[column];
        *extremes = Some(extremes.map_or((min, max), |known| (known.0.min(min), known.1.max(max))));
    }

    fn place(&self, due: Nanos, of: usize) -> usize {
        let since = i128::from(due.get()) - i128::from(self.division.start.get());
        let place = since.max(0) * of as i128 / i128::from(self.division.length.get().max(1));
        usize::try_from(place).unwrap_or(usize::MAX).min(of - 1)
    }

    fn column(&self, due: Nanos) -> usize {
        self.place(due, self.swept.columns.extremes.len())
    }

    fn cell(&self, due: Nanos) -> usize {
        self.place(due, GRID_COLUMNS)
    }

    /// Adds the next part of the same series.
    fn merge(&mut self, next: Self) {
        for (column, extremes) in next.swept.columns.extremes.into_iter().enumerate() {
            if let Some((min, max)) = extremes {
                self.note_extremes(column, min, max);
            }
        }
        add_grid(&mut self.swept.grid, &next.swept.grid);
        for (number, seconds, latency) in next.swept.records {
            if self
                .swept
                .records
                .last()
                .is_none_or(|record| latency > record.2)
            {
                self.swept
                    .records
                    .push((self.swept.samples + number, seconds, latency));
            }
        }
        self.swept.samples += next.swept.samples;
        let points = self
            .swept
            .points
            .take()
            .zip(next.swept.points)
            .map(|(own, next)| [own, next].concat());
        self.swept.points = points.filter(|points| points.len() <= self.division.points);
    }
}

fn counts_of(grid: &mut [Vec<u32>], cell: usize) -> &mut [u32] {
    let counts = &mut grid[cell];
    if counts.is_empty() {
        counts.resize(2 * ROWS_A_SIDE, 0);
    }
    counts
}

/// Returns an upper bound of the last due time in the chunk; `None` if due times deviate from the
/// schedule.
pub(crate) fn last_due_at_most(chunk: &Chunk, schedule: &Schedule) -> Option<Nanos> {
    let Schedule::Grid { period, .. } = *schedule else {
        return None;
    };
    let skipped: u64 = chunk
        .skipped
        .iter()
        .map(|&(_, skipped)| u64::from(skipped))
        .sum();
    let gaps = chunk.gaps.iter().fold(0_u64, |sum, (_, gap)| {
        sum.saturating_add(gap.lost).saturating_add(gap.skipped)
    });
    let steps = i64::try_from(
        (chunk.latency.len() as u64)
            .saturating_add(skipped)
            .saturating_add(gaps),
    )
    .ok()?;
    let reach = period.get().checked_mul(steps)?;
    let departs = chunk.due.iter().any(|&(departure, _)| departure != 0);
    (!departs).then(|| chunk.first_due.saturating_add(Nanos(reach)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tardy_core::accounting::Counts;
    use tardy_core::chunk::{CHUNK_HEAD_BYTES, ChunkEncoder};
    use tardy_core::sample::{Record, Sample};
    use tardy_core::series::{ClockKind, Descriptor};

    const SCHEDULE: Schedule = Schedule::Grid {
        period: Nanos(1_000_000),
        start: Nanos(0),
        dither: Nanos(0),
    };

    fn chunks(latencies: &[i64], length: usize) -> Vec<Chunk> {
        let descriptor = Descriptor::latency("cyclic", None, ClockKind::Hardware, SCHEDULE);
        let mut encoder = ChunkEncoder::new(&descriptor);
        let samples = latencies
            .iter()
            .enumerate()
            .map(|(index, &latency)| Sample {
                due: Nanos(index as i64 * 1_000_000),
                latency: Nanos(latency),
                skipped: 0,
            });
        let samples: Vec<Sample> = samples.collect();
        let chunk = |samples: &[Sample]| {
            samples
                .iter()
                .for_each(|&sample| encoder.push(Record::Sample(sample)));
            let mut bytes = Vec::new();
            encoder.finish(&Counts::default(), false, &mut bytes);
            let mut chunk = Chunk::default();
            chunk.decode(&bytes[CHUNK_HEAD_BYTES..]).unwrap();
            chunk
        };
        samples.chunks(length).map(chunk).collect()
    }

    proptest! {
        #[test]
        fn a_row_contains_its_latencies(latency in any::<i64>()) {
            let (begin, end) = row_edges(row_of(latency));
            prop_assert!(begin <= latency && (latency < end || end == i64::MAX), "{begin} {latency} {end}");
        }

        #[test]
        fn rows_ascend(a in any::<i64>(), b in any::<i64>()) {
            prop_assert!(a > b || row_of(a) <= row_of(b));
        }

        #[test]
        fn parts_together_find_what_one_pass_finds(
            latencies in proptest::collection::vec(-3_000_i64..400_000, 1..900), length in 1_usize..40, cut in 0_usize..30, columns in 1_usize..50,
        ) {
            let division = Division { start: Nanos(0), length: Nanos(latencies.len() as i64 * 1_000_000), columns, points: 500 };
            let chunks = chunks(&latencies, length);
            let sweep = |chunks: &[Chunk]| { let mut s = Sweeper::new(SCHEDULE, division); chunks.iter().for_each(|chunk| s.add(chunk)); s };
            let mut whole = sweep(&chunks[..cut.min(chunks.len())]);
            whole.merge(sweep(&chunks[cut.min(chunks.len())..]));
            let swept = whole.swept;
            // The reference implementation examines every latency.
            let mut extremes = vec![None; columns];
            let (mut records, mut largest) = (Vec::new(), i64::MIN);
            for (index, &latency) in latencies.iter().enumerate() {
                let entry: &mut Option<(i64, i64)> = &mut extremes[index * columns / latencies.len()];
                *entry = Some(entry.map_or((latency, latency), |(min, max)| (min.min(latency), max.max(latency))));
                if latency > largest {
                    largest = latency;
                    records.push((index as u64 + 1, latency));
                }
            }
            prop_assert_eq!(swept.columns.extremes, extremes);
            prop_assert_eq!(swept.records.iter().map(|record| (record.0, record.2)).collect::<Vec<_>>(), records);
            prop_assert_eq!(swept.grid.iter().flatten().map(|&count| u64::from(count)).sum::<u64>(), latencies.len() as u64);
            let points = swept.points.map(|points| points.into_iter().map(|point| point.1).collect::<Vec<_>>());
            prop_assert_eq!(points, (latencies.len() <= 500).then_some(latencies));
        }
    }
}
