//! Counts the samples of a series, in one pass.
//!
//! Each sample is counted once, in the cell for the set of phases that it overlaps. Cells are
//! merged into phases, loads and the whole run. A sample that crosses the edge of a phase belongs
//! to both phases, but is counted once in the whole run.

use std::collections::BTreeMap;

use crate::accounting::Counts;
use crate::chunk::Chunk;
use crate::histogram::{Budget, Histogram};
use crate::sample::{Gap, Sample};
use crate::series::Schedule;
use crate::summary::batches::{BATCHES_MOST, Batches, Stratum};
use crate::summary::cell::{Cell, EXPANDED_MAX};
use crate::summary::miss_runs::MissRuns;
use crate::summary::top::Top;
use crate::units::Nanos;
use crate::verdict::Window;
use crate::verdict::skipped::SkippedLateness;

/// The part of a phase during which all its loads worked, on the series' clock. If the phase has no
/// load, this is the whole phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseSpan {
    /// Time at which the last of the loads started to work, or the phase's start.
    pub begin: Nanos,
    /// Time at which the first load stopped working, or the phase's end.
    pub end: Nanos,
}

/// Options of a summary.
#[derive(Debug, Clone)]
pub struct SummaryOptions {
    /// The window of latencies that meet the deadline.
    pub window: Option<Window>,
    /// Length of a stall that real-time throttling causes on the run's machine; `None` if that
    /// machine does not throttle.
    pub stall: Option<Nanos>,
    /// Start and end of each phase.
    pub phases: Vec<PhaseSpan>,
    /// For each phase, the index of the first phase of the same kind. A phase without an entry is
    /// the only one of its kind.
    pub phase_kinds: Vec<usize>,
    /// Maximum number of time intervals for which samples are counted; see [`Batches`].
    pub stretches: usize,
    /// Wake-ups with a latency below this are early: 0, or less if the probe's clock has an error;
    /// see [`crate::series::Meaning`].
    pub early_below: Nanos,
    /// Whether the samples time work, so that every skipped due time is a miss; see
    /// [`crate::series::Descriptor::is_work`].
    pub is_work: bool,
}

impl Default for SummaryOptions {
    fn default() -> Self {
        Self {
            window: None,
            stall: None,
            phases: Vec::new(),
            phase_kinds: Vec::new(),
            stretches: BATCHES_MOST,
            early_below: Nanos::ZERO,
            is_work: false,
        }
    }
}

impl SummaryOptions {
    fn cell(&self) -> Cell {
        Cell::with_stretches(self.stretches)
    }

    /// Returns the stratum of samples that overlap these phases. The stratum depends only on the
    /// kinds of the phases, because all phases of one kind count as one population.
    fn stratum(&self, phases: &[usize]) -> Stratum {
        let kind =
            |phase: &usize| self.phase_kinds.get(*phase).copied().unwrap_or(*phase) as u64 + 1;
        let mut kinds: Vec<u64> = phases.iter().map(kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds.iter().fold(0, |stratum: u64, kind| {
            stratum
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .wrapping_add(*kind)
        })
    }
}

/// Early wake-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EarlyCounts {
    pub count: u64,
    /// The most negative latency, in ns.
    pub earliest: i64,
}

/// Counts of one series, or of a part of it.
#[derive(Debug, Clone)]
pub struct SeriesAccumulator {
    schedule: Schedule,
    questions: SummaryOptions,
    /// Samples by the set of phases that they overlap.
    pub cells: BTreeMap<Vec<usize>, Cell>,
    /// Period jitter: absolute difference between the time from one wake-up to the next and the
    /// time between their due times.
    pub jitter: Histogram,
    /// The runs of consecutive misses.
    pub miss_runs: MissRuns,
    pub early: EarlyCounts,
    /// Number of latencies that differ by at most 20 % from the length of a stall by real-time
    /// throttling.
    pub stalls: u64,
    /// Number of samples that skipped due times.
    pub skipping: u64,
    /// Number of samples read.
    pub samples: u64,
    /// Samples that were lost before they were recorded, as counted by the gaps between samples.
    pub gaps: Gap,
    /// Cumulative counts of the last chunk read.
    pub counts: Counts,
    /// Due time of the first sample read.
    pub first_due: Option<Nanos>,
    /// Time of the wake-up of the last sample read.
    pub last_wake: Option<Nanos>,
    first_latency: Option<i64>,
    last_latency: Option<i64>,
}

/// Counts of samples whose individual values are not stored.
#[derive(Debug, Clone, Copy)]
pub struct EarlierSamples<'a> {
    /// Due time of the first of these samples.
    pub first_due: Nanos,
    /// Time of the last wake-up.
    pub last_wake: Nanos,
    /// Number of these samples that skipped due times.
    pub skipping: u64,
    /// Number of samples that were lost between these samples.
    pub gaps: Gap,
    /// Counts of the samples, including misses of the requested window.
    pub cell: &'a Cell,
}

/// A sample with its index among the due times of the series.
#[derive(Clone, Copy)]
struct IndexedSample {
    sample: Sample,
    place: u64,
}

impl SeriesAccumulator {
    /// Creates an empty accumulator.
    #[must_use]
    pub fn new(schedule: Schedule, questions: SummaryOptions) -> Self {
        Self {
            schedule,
            questions,
            cells: BTreeMap::new(),
            jitter: Histogram::new(Budget::ANALYSIS),
            miss_runs: MissRuns::default(),
            early: EarlyCounts::default(),
            stalls: 0,
            skipping: 0,
            samples: 0,
            gaps: Gap::default(),
            counts: Counts::default(),
            first_due: None,
            last_wake: None,
            first_latency: None,
            last_latency: None,
        }
    }

    /// Counts the samples of a chunk. Chunks must come in their order in the series.
    pub fn add(&mut self, chunk: &Chunk) {
        // The counts are cumulative, so the largest are the latest.
        if chunk.counts.recorded >= self.counts.recorded {
            self.counts = chunk.counts;
        }
        self.skipping += chunk.skipped.len() as u64;
        let (Some(&first), Some(&last)) = (chunk.latency.first(), chunk.latency.last()) else {
            return;
        };
        self.first_latency.get_or_insert(first);
        self.first_due.get_or_insert(chunk.first_due);
        self.samples += chunk.latency.len() as u64;
        let begin = chunk.first_due.get().saturating_add(first.min(0));
        let (last_due, places) = last_due_and_places(chunk, &self.schedule);
        let end = last_due
            .get()
            .saturating_add(chunk.latency.iter().copied().max().unwrap_or(0));
        self.last_wake = Some(last_due.saturating_add(Nanos(last)));
        // The index of a sample is the number of due times before it. The chunk's count also
        // includes the due times of the chunk itself, so these are subtracted.
        let place = chunk.counts.expected.saturating_sub(places);
        let phases = phases_touching(&self.questions.phases, Nanos(begin), Nanos(end));
        let is_whole = phases.iter().all(|&phase| {
            let span = self.questions.phases[phase];
            span.begin.get() <= begin && end < span.end.get()
        });
        if is_whole {
            self.add_whole(chunk, phases, place, last_due);
        } else {
            self.add_one_by_one(chunk, &phases, place);
        }
        self.last_latency = Some(last);
    }

    /// Counts a chunk whose samples all overlap the same phases. Uses one loop over the latencies,
    /// and a second pass over the few exceptional samples.
    fn add_whole(&mut self, chunk: &Chunk, phases: Vec<usize>, place: u64, last_due: Nanos) {
        let stratum = self.questions.stratum(&phases);
        // A cell is taken out of the map and inserted again only if the chunk has exceptional
        // samples or gaps. Most of the half a million chunks of a day have neither.
        let questions = &self.questions;
        let cell = self
            .cells
            .entry(phases.clone())
            .or_insert_with(|| questions.cell());
        let (high, low) = (watch_above(questions, cell), watch_below(questions));
        let mut standing_out: Vec<usize> = chunk.skipped.iter().map(|&(index, _)| index).collect();
        let mut previous = self.last_latency.unwrap_or(chunk.latency[0]);
        let skip_first = usize::from(self.last_latency.is_none());
        let mut sum = 0_i128;
        for (index, &latency) in chunk.latency.iter().enumerate() {
            cell.latency.record(latency);
            if index >= skip_first {
                self.jitter
                    .record(latency.abs_diff(previous).min(i64::MAX as u64) as i64);
            }
            previous = latency;
            sum += i128::from(latency);
            if latency > high || latency < low {
                standing_out.push(index);
            }
        }
        cell.sum += sum;
        add_to_batches(&mut cell.batches, stratum, chunk, &self.schedule, last_due);
        if standing_out.is_empty() && chunk.gaps.is_empty() {
            return;
        }
        let mut cell = std::mem::take(cell);
        standing_out.sort_unstable();
        standing_out.dedup();
        let mut wanted = standing_out.iter().copied().peekable();
        let mut place = place;
        let schedule = self.schedule;
        for (index, (gap, sample)) in chunk.samples(&schedule).enumerate() {
            place += self.note_gap(gap);
            if wanted.next_if_eq(&index).is_some() {
                self.note(&mut cell, stratum, IndexedSample { sample, place });
            }
            place += 1 + u64::from(sample.skipped);
        }
        self.cells.insert(phases, cell);
    }

    /// Counts a chunk that crosses the edge of a phase, by finding the phases of each sample.
    fn add_one_by_one(&mut self, chunk: &Chunk, candidates: &[usize], place: u64) {
        let mut place = place;
        let mut previous = self.last_latency;
        let spans: Vec<PhaseSpan> = candidates
            .iter()
            .map(|&phase| self.questions.phases[phase])
            .collect();
        let schedule = self.schedule;
        for (gap, sample) in chunk.samples(&schedule) {
            place += self.note_gap(gap);
            let (begin, end) = (sample.due.min(sample.wake()), sample.wake());
            let touched: Vec<usize> = phases_touching(&spans, begin, end)
                .into_iter()
                .map(|index| candidates[index])
                .collect();
            let mut cell = self
                .cells
                .remove(&touched)
                .unwrap_or_else(|| self.questions.cell());
            let latency = sample.latency.get();
            cell.latency.record(latency);
            cell.sum += i128::from(latency);
            if let Some(previous) = previous {
                self.jitter
                    .record(latency.abs_diff(previous).min(i64::MAX as u64) as i64);
            }
            previous = Some(latency);
            let stratum = self.questions.stratum(&touched);
            cell.batches
                .add_all(stratum, sample.due, &[latency], u64::from(sample.skipped));
            self.note(&mut cell, stratum, IndexedSample { sample, place });
            self.cells.insert(touched, cell);
            place += 1 + u64::from(sample.skipped);
        }
    }

    fn note_gap(&mut self, gap: Gap) -> u64 {
        self.gaps.lost = self.gaps.lost.saturating_add(gap.lost);
        self.gaps.skipped = self.gaps.skipped.saturating_add(gap.skipped);
        gap.lost.saturating_add(gap.skipped)
    }

    /// Processes an exceptional sample.
    fn note(
        &mut self,
        cell: &mut Cell,
        stratum: Stratum,
        IndexedSample { sample, place }: IndexedSample,
    ) {
        let latency = sample.latency.get();
        cell.note_worst(Some(sample));
        cell.top.add(latency, place);
        if latency < self.questions.early_below.get() {
            self.early.count += 1;
            self.early.earliest = self.early.earliest.min(latency);
        }
        if self.questions.stall.is_some_and(|stall| {
            (shortest_stall(stall)..=stall.get() + stall.get() / 5).contains(&latency)
        }) {
            self.stalls += 1;
        }
        if let Some(window) = self.questions.window {
            let itself = u64::from(window.misses(sample.latency));
            let skipped = self.late_skipped(sample, &window);
            // Of the skipped due times, the earliest have the largest latencies. So those that miss
            // the window come directly after the sample.
            self.miss_runs.add(place + 1 - itself, itself + skipped);
            cell.misses += itself + skipped;
            cell.misses_skipped += skipped;
            cell.batches
                .note_misses(stratum, sample.due, itself + skipped);
        }
        if sample.skipped > 0 {
            let expand = cell.skipped.saturating_add(u64::from(sample.skipped)) <= EXPANDED_MAX;
            cell.note_skipped(sample, &self.schedule, expand);
        }
    }

    /// Returns how many of the due times that `sample` skipped miss the window.
    fn late_skipped(&self, sample: Sample, window: &Window) -> u64 {
        if self.questions.is_work || sample.skipped == 0 {
            return u64::from(sample.skipped);
        }
        SkippedLateness::of(sample, &self.schedule).late(
            sample.skipped,
            self.schedule.period(),
            window,
        )
    }

    /// Adds the next part of the same series.
    pub fn merge(&mut self, next: &Self) {
        for (phases, cell) in &next.cells {
            self.cells
                .entry(phases.clone())
                .or_insert_with(|| self.questions.cell())
                .merge(cell);
        }
        self.jitter.merge(&next.jitter);
        if let (Some(last), Some(first)) = (self.last_latency, next.first_latency) {
            self.jitter
                .record(first.abs_diff(last).min(i64::MAX as u64) as i64);
        }
        self.miss_runs.merge(&next.miss_runs);
        self.early.count += next.early.count;
        self.early.earliest = self.early.earliest.min(next.early.earliest);
        self.stalls += next.stalls;
        self.skipping += next.skipping;
        self.samples += next.samples;
        self.gaps.lost = self.gaps.lost.saturating_add(next.gaps.lost);
        self.gaps.skipped = self.gaps.skipped.saturating_add(next.gaps.skipped);
        if next.counts != Counts::default() && next.counts.recorded >= self.counts.recorded {
            self.counts = next.counts;
        }
        self.first_due = self.first_due.or(next.first_due);
        self.last_wake = next.last_wake.or(self.last_wake);
        self.first_latency = self.first_latency.or(next.first_latency);
        self.last_latency = next.last_latency.or(self.last_latency);
    }

    /// Adds earlier samples for which only these counts are known. Samples that overlap several
    /// phases are assigned to no phase.
    ///
    /// The order of the series' samples is then unknown, so no dependence is reported.
    pub fn add_earlier(&mut self, earlier: &EarlierSamples<'_>) {
        let (begin, end) = (earlier.first_due, earlier.last_wake);
        let touched = phases_touching(&self.questions.phases, begin, end);
        let is_inside = |&phase: &usize| {
            self.questions.phases[phase].begin <= begin && end < self.questions.phases[phase].end
        };
        let phases = if touched.len() == 1 && touched.iter().all(is_inside) {
            touched
        } else {
            Vec::new()
        };
        let cell = self
            .cells
            .entry(phases)
            .or_insert_with(|| self.questions.cell());
        cell.merge_counts(earlier.cell);
        for cell in self.cells.values_mut() {
            (cell.top, cell.batches) = (Top::default(), Batches::at_most(self.questions.stretches));
        }
        let early_below = self.questions.early_below.get();
        let stall = self
            .questions
            .stall
            .map(|stall| shortest_stall(stall)..=stall.get() + stall.get() / 5);
        earlier.cell.latency.for_each(|latency, count| {
            if latency < early_below {
                self.early.count += count;
                self.early.earliest = self.early.earliest.min(latency);
            }
            if stall.as_ref().is_some_and(|stall| stall.contains(&latency)) {
                self.stalls += count;
            }
        });
        self.skipping += earlier.skipping;
        self.gaps.lost += earlier.gaps.lost;
        self.gaps.skipped += earlier.gaps.skipped;
        self.first_due = Some(self.first_due.map_or(begin, |first| first.min(begin)));
        self.last_wake = Some(self.last_wake.map_or(end, |last| last.max(end)));
    }

    /// Compresses the counts after the series was read, because a reader has the counts of up to a
    /// thousand series in memory at once.
    pub fn pack(&mut self) {
        let samples = self.samples;
        self.cells.values_mut().for_each(|cell| cell.pack(samples));
        self.jitter.pack();
    }

    /// Returns the counts of all samples.
    #[must_use]
    pub fn whole(&self) -> Cell {
        self.sum(self.cells.values())
    }

    /// Returns the number of phases.
    #[must_use]
    pub fn phase_count(&self) -> usize {
        self.questions.phases.len()
    }

    /// Returns the counts of samples that overlap any of `phases`, given by index in
    /// [`SummaryOptions::phases`].
    #[must_use]
    pub fn phases(&self, phases: &[usize]) -> Cell {
        let belongs = |touched: &Vec<usize>| touched.iter().any(|phase| phases.contains(phase));
        self.sum(
            self.cells
                .iter()
                .filter(|(touched, _)| belongs(touched))
                .map(|(_, cell)| cell),
        )
    }

    /// Returns the sum of the cells in compressed form, because a reader has the sums of up to a
    /// thousand series in memory at once.
    fn sum<'a>(&self, cells: impl Iterator<Item = &'a Cell>) -> Cell {
        let cells: Vec<&Cell> = cells.collect();
        if let [only] = cells[..] {
            return only.clone();
        }
        let mut sum = self.questions.cell();
        cells.iter().for_each(|cell| sum.merge(cell));
        sum.pack(self.samples);
        sum
    }

    /// Returns the requested window of latencies.
    #[must_use]
    pub fn window(&self) -> Option<Window> {
        self.questions.window
    }

    /// Returns when samples are due.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        self.schedule
    }
}

/// Adds a chunk's samples to the counts by time interval. In a long series, nearly all chunks lie
/// within one interval, so only the first and the last due time are checked.
fn add_to_batches(
    batches: &mut Batches,
    stratum: Stratum,
    chunk: &Chunk,
    schedule: &Schedule,
    last_due: Nanos,
) {
    if batches.is_one(chunk.first_due, last_due) {
        let skipped = chunk
            .skipped
            .iter()
            .map(|&(_, skipped)| u64::from(skipped))
            .sum();
        batches.add_all(stratum, chunk.first_due, &chunk.latency, skipped);
        return;
    }
    let (mut begin, mut due, mut skipped) = (0, chunk.first_due, 0);
    for (index, (_, sample)) in chunk.samples(schedule).enumerate() {
        if !batches.is_one(due, sample.due) {
            batches.add_all(stratum, due, &chunk.latency[begin..index], skipped);
            (begin, due, skipped) = (index, sample.due, 0);
        }
        skipped += u64::from(sample.skipped);
    }
    batches.add_all(stratum, due, &chunk.latency[begin..], skipped);
}

/// Returns the latency above which samples are exceptional and are processed one by one.
fn watch_above(questions: &SummaryOptions, cell: &Cell) -> i64 {
    let window = questions
        .window
        .map_or(i64::MAX, |window| window.latest.get());
    let stall = questions
        .stall
        .map_or(i64::MAX, |stall| shortest_stall(stall) - 1);
    let worst = cell.worst.map_or(i64::MIN, |worst| worst.latency.get());
    cell.top.threshold().min(window).min(stall).min(worst)
}

/// Returns the latency below which samples are exceptional and are processed one by one.
fn watch_below(questions: &SummaryOptions) -> i64 {
    let early = questions.early_below.get();
    questions
        .window
        .and_then(|window| window.earliest)
        .map_or(early, |earliest| earliest.get().max(early))
}

fn shortest_stall(stall: Nanos) -> i64 {
    stall.get() - stall.get() / 5
}

fn phases_touching(phases: &[PhaseSpan], begin: Nanos, end: Nanos) -> Vec<usize> {
    phases
        .iter()
        .enumerate()
        .filter(|(_, span)| span.begin <= end && begin < span.end)
        .map(|(index, _)| index)
        .collect()
}

/// Returns the due time of a chunk's last sample, and the number of due times (or cycles) in the
/// chunk.
fn last_due_and_places(chunk: &Chunk, schedule: &Schedule) -> (Nanos, u64) {
    let samples = chunk.latency.len();
    let skipped: u64 = chunk
        .skipped
        .iter()
        .map(|&(_, skipped)| u64::from(skipped))
        .sum();
    let gaps: u64 = chunk
        .gaps
        .iter()
        .map(|&(_, gap)| gap.lost.saturating_add(gap.skipped))
        .fold(0, u64::saturating_add);
    let places = (samples as u64)
        .saturating_add(skipped)
        .saturating_add(gaps);
    let last_due = match *schedule {
        Schedule::Grid { period, .. } => {
            let skipped_by_last = chunk
                .skipped
                .last()
                .filter(|&&(index, _)| index + 1 == samples)
                .map_or(0, |&(_, skipped)| u64::from(skipped));
            let gap_before_first = chunk
                .gaps
                .first()
                .filter(|&&(index, _)| index == 0)
                .map_or(0, |&(_, gap)| gap.lost + gap.skipped);
            let steps = places
                .saturating_sub(1 + skipped_by_last)
                .saturating_sub(gap_before_first);
            let departures = chunk.due.iter().fold(0_i64, |sum, &(departure, run)| {
                sum.wrapping_add(departure.wrapping_mul(run as i64))
            });
            chunk
                .first_due
                .get()
                .wrapping_add(period.get().wrapping_mul(steps as i64))
                .wrapping_add(departures)
        }
        Schedule::Event { .. } => chunk
            .samples(schedule)
            .last()
            .map_or(chunk.first_due, |(_, sample)| sample.due)
            .get(),
    };
    (Nanos(last_due), places)
}

#[cfg(test)]
mod tests;
