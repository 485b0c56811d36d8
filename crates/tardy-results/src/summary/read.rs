//! Reads a run folder, using all CPUs. Summaries and charts are computed from the result.

use std::path::{Path, PathBuf};

use tardy_core::accounting::Counts;
use tardy_core::chunk::Chunk;
use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::series::{Descriptor, Meaning, Schedule};
use tardy_core::summary::accumulator::{
    EarlierSamples, PhaseSpan, SeriesAccumulator, SummaryOptions,
};
use tardy_core::summary::batches::BATCHES_MOST;
use tardy_core::summary::cell::Cell;
use tardy_core::summary::dependence::Dependence;
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;
use tardy_core::verdict::requirement::Requirement;
use tardy_machine::throttling::ThrottlingGap;
use tardy_run::folder::{self, FolderError};
use tardy_run::imported::StatedTotals;
use tardy_run::record::{PhaseRecord, RunRecord, SeriesRecord};
use tardy_samples::fitted_lateness::{self, FittedLateness, GridFitter};
use tardy_samples::histogram_file::{self, StoredHistogram};
use tardy_samples::hours::Stretch;
use tardy_samples::read_series::{PartEnd, SeriesError, SeriesFile};
use tardy_sys::scoped;

/// The time of each series is divided into intervals, and samples are counted per interval. This is
/// the maximum number of intervals of all series together. Each interval needs up to a kilobyte.
const STRETCHES_OF_ALL: usize = 1 << 16;
/// Minimum number of intervals per series. With fewer intervals, the counts would not show how
/// samples of several phases depend on each other.
const STRETCHES_LEAST: usize = 64;
/// Why a run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SummaryError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Series(#[from] SeriesError),
}

/// One series of a run, with the counts of its samples.
pub struct SeriesData {
    pub(super) descriptor: Descriptor,
    pub(super) accumulator: SeriesAccumulator,
    /// All samples; if not all were stored, these are taken from the histogram.
    pub(super) whole: Cell,
    /// The totals that the other tool stated for an imported series.
    pub(super) stated: Option<StatedTotals>,
    /// Number of an import's samples for which the file does not show whether they missed the
    /// window. These samples do not count as misses.
    pub(super) undecided: u64,
    /// Latencies relative to the fitted grid, if the values are interval errors.
    pub(super) fitted: Option<FittedLateness>,
    pub(super) end: PartEnd,
    pub(super) file: PathBuf,
    /// Time for which the probe looked for gaps.
    pub(super) observed: Option<Nanos>,
    /// Number of samples that the run counted but that none of its files contain.
    pub(super) gone: u64,
    /// Due time of the first individually stored sample, if earlier samples are in hourly
    /// histograms. If there is no such sample, the largest representable time.
    pub(super) single_from: Option<Nanos>,
}

/// A run folder whose series have been read and counted. Results have not been computed yet.
pub struct LoadedRun {
    /// Path of the run folder.
    pub folder: PathBuf,
    /// The contents of the run's `run.json`.
    pub record: RunRecord,
    /// The series in the order of `run.json`.
    pub series: Vec<SeriesData>,
    questions: SummaryOptions,
    requirement: Requirement,
}

/// Reads the run in `path`, to be judged by `requirement`. Fields that `requirement` lacks are
/// taken from the run's plan.
///
/// # Errors
/// Fails with a [`SummaryError`] if the folder, or a series that it names, cannot be read.
pub fn read(path: &Path, requirement: &Requirement) -> Result<LoadedRun, SummaryError> {
    let record = folder::open(path)?;
    let requirement = requirement.or(record.plan.requirement());
    let questions = questions(&record, requirement.window);
    let samples = record
        .samples_folder
        .clone()
        .unwrap_or_else(|| path.join("samples"));
    let read_one = |index: usize, threads: u64| {
        let entry = &record.series[index];
        let stated = record
            .imported
            .as_ref()
            .and_then(|imported| imported.series.get(index))
            .copied();
        let questions = SummaryOptions {
            phases: spans(&record, entry.cpu),
            ..questions.clone()
        };
        read_series(
            &samples.join(&entry.file),
            entry,
            stated,
            &questions,
            threads,
        )
    };
    let series = read_all(record.series.len(), read_one)?;
    Ok(LoadedRun {
        folder: path.to_owned(),
        record,
        series,
        questions,
        requirement,
    })
}

/// Reads `count` series, using all CPUs. Many series are read in parallel. If there are few, each
/// series is divided into parts that are read in parallel. `read` is called with the index of a
/// series and the number of threads that it may use.
fn read_all(
    count: usize,
    read: impl Fn(usize, u64) -> Result<SeriesData, SummaryError> + Sync,
) -> Result<Vec<SeriesData>, SummaryError> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if count < 2 * threads {
        return (0..count)
            .map(|index| read(index, threads as u64))
            .collect();
    }
    scoped::map((0..count).collect(), threads, |index| read(index, 1))
        .into_iter()
        .collect()
}

impl LoadedRun {
    /// Returns the window of latencies that meet the deadline; `None` if there is no deadline.
    #[must_use]
    pub fn window(&self) -> Option<Window> {
        self.questions.window
    }

    /// Returns the requirement by which the run is judged.
    #[must_use]
    pub fn requirement(&self) -> &Requirement {
        &self.requirement
    }

    /// Returns the time from the first due time to the last wake-up, without the time during which
    /// the run was interrupted.
    #[must_use]
    pub fn measured(&self) -> Nanos {
        let length = length(&self.record, &self.series);
        let first = self
            .series
            .iter()
            .filter_map(|read| read.accumulator.first_due)
            .min();
        // If the part after the last interruption has no samples yet, this interruption comes after
        // the last wake-up and is not subtracted.
        let begin = first.unwrap_or(self.record.started.monotonic_ns);
        length - self.record.away(begin, begin + length)
    }

    /// Returns the names of the probes in the order of their series.
    #[must_use]
    pub fn probes(&self) -> Vec<&str> {
        names(&self.series)
    }

    /// Returns the time of the last wake-up on the run's clock; `None` if only the order of samples
    /// is known.
    #[must_use]
    pub fn last_wake(&self) -> Option<Nanos> {
        if has_no_times(&self.record) {
            return None;
        }
        self.series
            .iter()
            .filter_map(|read| read.accumulator.last_wake)
            .max()
    }

    /// Returns the samples of a probe in the phases named `load`, without the CPUs in `left_out`.
    #[must_use]
    pub fn of_load(&self, probe: &str, load: &str, left_out: &CpuList) -> Cell {
        let mut together = Cell::default();
        self.cells_of_load(probe, load, left_out)
            .iter()
            .for_each(|cell| together.merge_counts(cell));
        together
    }

    fn cells_of_load(&self, probe: &str, load: &str, left_out: &CpuList) -> Vec<Cell> {
        let phases: Vec<usize> = (0..self.record.phases.len())
            .filter(|&index| self.record.phases[index].name == load)
            .collect();
        let of_probe = self
            .series
            .iter()
            .filter(|read| read.descriptor.probe == probe);
        let counted = of_probe.filter(|read| {
            read.descriptor
                .cpu
                .is_none_or(|cpu| !left_out.contains(cpu))
        });
        counted.map(|read| read.of_phases(&phases)).collect()
    }

    /// Returns how the samples that a probe took on all its CPUs depend on each other.
    #[must_use]
    pub fn dependence_of_probe(&self, probe: &str) -> Dependence {
        let of_probe = self
            .series
            .iter()
            .filter(|read| read.descriptor.probe == probe);
        Dependence::of(&of_probe.map(|read| &read.whole).collect::<Vec<_>>())
    }

    /// Returns how the samples that [`Self::of_load`] counts depend on each other.
    #[must_use]
    pub fn dependence_of_load(&self, probe: &str, load: &str, left_out: &CpuList) -> Dependence {
        Dependence::of(
            &self
                .cells_of_load(probe, load, left_out)
                .iter()
                .collect::<Vec<_>>(),
        )
    }

    /// Returns all samples of a probe, for all CPUs together.
    #[must_use]
    pub fn of_probe(&self, probe: &str) -> Cell {
        let mut together = Cell::default();
        self.series
            .iter()
            .filter(|read| read.descriptor.probe == probe)
            .for_each(|read| together.merge_counts(&read.whole));
        together
    }
}

impl SeriesData {
    /// Returns the descriptor of the series.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Returns all samples; if not all were stored, these are taken from the histogram.
    #[must_use]
    pub fn whole(&self) -> &Cell {
        &self.whole
    }

    /// Returns those counts of the series that are known.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.accumulator.counts
    }

    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the samples in any of `phases`. Short gaps that were only counted have no known
    /// time, so they are included only if the run has a single phase.
    pub(super) fn of_phases(&self, phases: &[usize]) -> Cell {
        if self.has_short_gaps() && self.accumulator.phase_count() == 1 {
            return self.whole.clone();
        }
        self.accumulator.phases(phases)
    }

    /// Returns whether the run counted gaps that were too short to be stored with their times.
    pub(super) fn has_short_gaps(&self) -> bool {
        matches!(self.descriptor.meaning, Meaning::Gap { .. })
            && self.whole.latency.count() > self.accumulator.samples
    }

    /// Returns whether the file contains every recorded sample.
    pub(super) fn has_every_sample(&self) -> bool {
        self.whole.latency.count() <= self.accumulator.samples
            && self.accumulator.counts.unstored == 0
            && self.gone == 0
    }

    /// Returns the value at and above which an import gives only the number of samples. Returns
    /// `None` if the values of all samples are known.
    #[must_use]
    pub fn open_from(&self) -> Option<Nanos> {
        self.stated.and_then(|stated| stated.open_from())
    }

    /// Returns the resolution of the values; every value is a multiple of it. It is 1 ns for this
    /// tool's runs, and the resolution of the other tool for an import.
    #[must_use]
    pub fn resolution(&self) -> Nanos {
        self.stated
            .map_or(Nanos(1), |stated| stated.resolution_ns.max(Nanos(1)))
    }
}

fn questions(record: &RunRecord, window: Option<Window>) -> SummaryOptions {
    let kind = |phase: &PhaseRecord| {
        record
            .phases
            .iter()
            .position(|other| other.name == phase.name)
            .unwrap_or_default()
    };
    SummaryOptions {
        window,
        stall: throttling(record).map(|gap| gap.gap),
        phase_kinds: record.phases.iter().map(kind).collect(),
        stretches: stretches(record.series.len()),
        ..SummaryOptions::default()
    }
}

/// Returns the number of intervals per series if `series` series are read.
fn stretches(series: usize) -> usize {
    (STRETCHES_OF_ALL / series.max(1)).clamp(STRETCHES_LEAST, BATCHES_MOST)
}

/// Returns, for each phase, the time during which all loads of the phase worked on `cpu`.
fn spans(record: &RunRecord, cpu: Option<CpuId>) -> Vec<PhaseSpan> {
    let span = |index| record.under_load(index, cpu);
    (0..record.phases.len())
        .map(span)
        .map(|(begin, end)| PhaseSpan { begin, end })
        .collect()
}

/// Reads one series. `entry` contains the series' counts, unless the run was cut off.
fn read_series(
    path: &Path,
    entry: &SeriesRecord,
    stated: Option<StatedTotals>,
    questions: &SummaryOptions,
    threads: u64,
) -> Result<SeriesData, SummaryError> {
    let (file, counts_at_end) = (SeriesFile::open(path)?, entry.counts);
    let descriptor = file.descriptor().clone();
    let mut questions = questions_of(&descriptor, questions);
    let window = questions.window;
    questions.window = questions
        .window
        .map(|window| stated.map_or(window, |stated| stated.maybe_missed(window)));
    let has_own_clock = match descriptor.meaning {
        Meaning::IntervalError { has_own_clock } => Some(has_own_clock),
        _ => None,
    };
    let fitting =
        || has_own_clock.map(|has_own_clock| GridFitter::new(descriptor.schedule, has_own_clock));
    let new = || {
        (
            SeriesAccumulator::new(descriptor.schedule, questions.clone()),
            fitting(),
        )
    };
    let add = |(accumulator, fitting): &mut (SeriesAccumulator, Option<GridFitter>),
               chunk: &Chunk| {
        accumulator.add(chunk);
        if let Some(fitting) = fitting {
            fitting.add(chunk);
        }
    };
    // To fit a grid, the events must be read in their order, so a single thread reads them.
    let threads = if has_own_clock.is_some() { 1 } else { threads };
    let ((mut accumulator, fitting), end) = file.fold(threads, new, add, |whole, part| {
        whole.0.merge(&part.0);
        whole.1 = part.1;
    })?;
    let first_single = accumulator.first_due;
    let not_stored = match (counts_at_end, stated) {
        (Some(_), None) => entry.not_stored(),
        (Some(counts), Some(_)) => counts.unstored,
        (None, _) => accumulator.counts.unstored,
    };
    add_earlier(&mut accumulator, &file, &questions);
    // If the disk was full, the last chunk, which has the final counts, may be missing. `run.json`
    // also has the final counts, because disk space is reserved for this file.
    accumulator.counts = counts_at_end.unwrap_or(accumulator.counts);
    let histogram = histogram_file::read(&path.with_extension("histogram"));
    let single_from = file
        .hours()
        .filter(|hours| hours.samples > 0)
        .map(|_| first_single.unwrap_or(Nanos(i64::MAX)));
    let mut whole = whole(&accumulator, histogram.as_ref(), &descriptor);
    // At this point, the number of misses includes all samples that may have missed the window.
    let misses = window
        .zip(stated)
        .map(|(window, stated)| stated.misses_in_buckets(&whole.latency, window));
    let (fewest, most) = misses.unwrap_or_default();
    let undecided = most - fewest;
    if undecided > 0 {
        whole.misses = fewest + whole.misses_skipped;
    }
    // If an import gives only extremes, it has no individual samples that could be missing.
    let known = whole.latency.count();
    let gone = if known == 0 && stated.is_some() {
        0
    } else {
        let kept = accumulator.counts.recorded.saturating_sub(not_stored);
        kept.saturating_sub(known)
    };
    whole.pack(whole.latency.count());
    whole.keep_serial();
    accumulator.pack();
    // If samples are missing, the events after them would appear to be late relative to the fitted
    // expiries.
    let is_every_sample = accumulator.counts.unstored == 0 && accumulator.counts.lost == 0;
    let fitted = fitting
        .filter(|_| is_every_sample)
        .map(|fitting| fitted_lateness::read(&file, fitting))
        .transpose()?
        .flatten();
    Ok(SeriesData {
        descriptor,
        accumulator,
        whole,
        stated,
        undecided,
        fitted,
        end,
        file: path.to_owned(),
        observed: entry.observed_ns,
        gone,
        single_from,
    })
}

/// Adds the samples that were folded into hourly histograms.
fn add_earlier(accumulator: &mut SeriesAccumulator, file: &SeriesFile, questions: &SummaryOptions) {
    let Some(hours) = file.hours() else { return };
    // If the file has chunks, the cumulative counts in them already include the folded samples.
    if accumulator.counts == Counts::default() {
        accumulator.counts = hours.counts;
    }
    accumulator.counts.unstored += hours.samples;
    for mut stretch in hours.stretches() {
        if hours.window != questions.window {
            let cell = &mut stretch.cell;
            (cell.misses, cell.misses_skipped) = (0, 0);
            if let Some(window) = questions.window {
                cell.count_misses(&window, questions.is_work);
            }
        }
        let Stretch {
            first_due,
            last_wake,
            skipping,
            gaps,
            cell,
            ..
        } = &stretch;
        accumulator.add_earlier(&EarlierSamples {
            first_due: *first_due,
            last_wake: *last_wake,
            skipping: *skipping,
            gaps: *gaps,
            cell,
        });
    }
}

/// Returns the options for one series. If verdicts ignore the series, the deadline does not apply
/// to it. Stalls are counted only if the values are latencies. A wake-up counts as early only if it
/// is early by more than the error of the clock (`early_below`).
fn questions_of(descriptor: &Descriptor, questions: &SummaryOptions) -> SummaryOptions {
    let is_lateness = matches!(descriptor.meaning, Meaning::Lateness { .. });
    SummaryOptions {
        window: questions.window.filter(|_| !descriptor.is_outside_verdict),
        stall: questions.stall.filter(|_| is_lateness),
        phases: questions.phases.clone(),
        phase_kinds: questions.phase_kinds.clone(),
        stretches: questions.stretches,
        early_below: descriptor.meaning.early_below(),
        is_work: descriptor.is_work(),
    }
}

fn whole(
    accumulator: &SeriesAccumulator,
    stored: Option<&StoredHistogram>,
    descriptor: &Descriptor,
) -> Cell {
    let mut whole = accumulator.whole();
    if let Some(stored) = stored.filter(|stored| stored.histogram.count() > whole.latency.count()) {
        let mut sum = 0_i128;
        stored
            .histogram
            .for_each(|value, count| sum += i128::from(value) * i128::from(count));
        whole.sum = sum;
        whole.latency = stored.histogram.clone();
        whole.top = tardy_core::summary::top::Top::default();
        whole.batches = tardy_core::summary::batches::Batches::default();
        whole.skipped = accumulator.counts.skipped;
        if whole.latency_skipped.count() + whole.latency_skipped_at_most.count() < whole.skipped {
            whole.find_skipped(descriptor.schedule.period());
        }
        if let Some(window) = accumulator.window() {
            whole.count_misses(&window, descriptor.is_work());
        }
    }
    whole
}

impl SeriesData {
    /// Returns a text that names the series by its probe and CPU.
    pub(super) fn place(&self) -> String {
        let probe = &self.descriptor.probe;
        match (self.descriptor.cpu, self.descriptor.copy) {
            (Some(cpu), _) => format!("{probe} on CPU {cpu}"),
            (None, Some(copy)) => format!("copy {copy} of {probe}"),
            (None, None) => probe.clone(),
        }
    }

    /// Returns whether an unknown number of periods may have been skipped, because the tool that
    /// made the import does not count them. If there is no fixed schedule, no period can be
    /// skipped.
    pub(super) fn is_skipped_unknown(&self) -> bool {
        let has_schedule =
            self.descriptor.schedule.is_grid() || self.descriptor.schedule.period() == Nanos::ZERO;
        let is_gap = matches!(self.descriptor.meaning, Meaning::Gap { .. });
        let is_stated = self.stated.is_none_or(|stated| stated.skipped.is_some());
        has_schedule && !is_gap && !is_stated && self.accumulator.counts.skipped == 0
    }

    /// Returns whether the values can be compared with a deadline.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        !self.descriptor.is_outside_verdict
    }

    /// Returns whether this series has counts of samples that missed a window.
    #[must_use]
    pub fn has_window(&self) -> bool {
        self.accumulator.window().is_some()
    }
}

/// Returns whether an import gives the order of its samples but no times.
pub(super) fn has_no_times(record: &RunRecord) -> bool {
    record
        .imported
        .as_ref()
        .is_some_and(|imported| imported.has_no_times)
}

/// Returns the length of the run. If all samples are stored, the length is the time that the
/// samples cover. Otherwise, it is the time from the first due time to the end of the last probe.
/// For an import without samples, it is the length that the other tool states.
fn length(record: &RunRecord, series: &[SeriesData]) -> Nanos {
    let of_samples = if has_no_times(record) {
        Nanos::ZERO
    } else {
        measured(series)
    };
    let is_every_sample = series
        .iter()
        .all(|read| read.accumulator.counts.unstored == 0);
    let grids = series
        .iter()
        .filter_map(|read| match read.descriptor.schedule {
            Schedule::Grid { start, .. } if record.imported.is_none() => Some(start),
            _ => None,
        });
    let begin = grids.min().unwrap_or(record.started.monotonic_ns);
    let known = record
        .ended_ns
        .filter(|_| !is_every_sample || of_samples == Nanos::ZERO)
        .map_or(Nanos::ZERO, |end| end - begin);
    // A full disk can delay the end of a run by seconds after the last due time, so the length is
    // limited to one period for each due time.
    let due = series.iter().filter_map(|read| {
        let Schedule::Grid { period, .. } = read.descriptor.schedule else {
            return None;
        };
        let times = i64::try_from(read.accumulator.counts.expected).ok()?;
        Some(Nanos(period.get().checked_mul(times)?))
    });
    let known = due
        .max()
        .filter(|_| record.imported.is_none())
        .map_or(known, |due| known.min(due));
    of_samples.max(known)
}

pub(super) fn measured(series: &[SeriesData]) -> Nanos {
    let first = series
        .iter()
        .filter_map(|read| read.accumulator.first_due)
        .min();
    let last = series
        .iter()
        .filter_map(|read| read.accumulator.last_wake)
        .max();
    match (first, last) {
        (Some(first), Some(last)) => last - first,
        _ => Nanos::ZERO,
    }
}

/// Returns the rule by which the run's machine throttles real-time tasks, and how long it throttles
/// them; `None` if there is no such rule.
pub(super) fn throttling(record: &RunRecord) -> Option<ThrottlingGap> {
    record
        .measured_cpus
        .iter()
        .flat_map(|cpu| record.machine.throttling.gaps(cpu))
        .next()
}

/// Returns the names of all probes with series, without duplicates and in the order of the series.
/// Series with the same name need not be adjacent. If a probe has several parts, each part has its
/// own name, and the series of different parts alternate.
pub(super) fn names(series: &[SeriesData]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for read in series {
        if !names.contains(&read.descriptor.probe.as_str()) {
            names.push(&read.descriptor.probe);
        }
    }
    names
}
