//! Explains late samples of a run from its folder alone. The folder contains the series and the
//! delays of late samples; the delays are checked against the series.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tardy_core::cpu::CpuId;
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::units::Nanos;
use tardy_outside::store::StoreError;
use tardy_run::folder::{self, FolderError};
use tardy_run::record::RunRecord;
use tardy_run::tracing::{ExplainedSeries, TracingRecord};
use tardy_samples::delay_totals::{self, OTHERS, SampleTotals};
use tardy_samples::delays::{self, DelayChunk, DelayHolder, DelayReader, DelayWaker, SampleDelay};
use tardy_samples::read_series::{SeriesError, SeriesFile};
use tardy_sys::regular_file;
use tardy_trace::explain::{Cause, Certainty, Target};
use tardy_trace::text::Text;

use super::executed::{ExecutedCode, OutsideFacts};
use super::stacks::StackRow;
use super::tally::LatenessBreakdown;
use super::threshold::{Late, Ordinary, Threshold};
use super::{
    ComponentRow, ExplainError, HolderFacts, HolderRow, Lateness, LoopRow, Question, StoryPiece,
    explain,
};

/// Parameters for explaining a run.
#[derive(Debug, Clone, Copy)]
pub struct RunQuestion {
    /// Number of worst samples that are shown as time lines.
    pub worst: usize,
    /// Which samples are ranked. A watched run stored only its worst samples, so all of them are
    /// ranked unless this is [`Late::Above`].
    pub late: Late,
    /// Whether the plugin trace is used if a run was both traced and watched.
    pub from_outside: bool,
}

/// Why a run cannot be explained.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The folder contains no readable run.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The run was not made with --explain, or it could not be traced.
    #[error("the run has no trace{}: measure with `tardy run --explain`, or in the lab with `--watch`", why.as_ref().map_or_else(String::new, |why| format!(" ({why})")))]
    NotTraced {
        /// Contains the reason that is stored in the run.
        why: Option<String>,
    },
    /// The guest was not watched, or no samples were stored.
    #[error(
        "the guest was not watched, or no samples were kept: measure with `tardy lab run --watch`"
    )]
    NotWatched,
    /// The plugin trace cannot be read.
    #[error(transparent)]
    Outside(StoreError),
    /// A file of delays cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A series cannot be read.
    #[error(transparent)]
    Series(#[from] SeriesError),
    /// A trace for another tool cannot be written.
    #[error("cannot be written: {0}")]
    Write(#[from] io::Error),
    /// The run did not store all pages of the trace.
    #[error(
        "the run kept the kernel's trace around its worst samples only (trace/worst.dat): measure \
         with `tardy run --explain --keep-trace`"
    )]
    NotKept,
    /// The trace around the worst samples cannot be explained.
    #[error("{}: {error}", path.display())]
    Trace {
        path: PathBuf,
        /// The error that occurred while the trace was being explained.
        error: ExplainError,
    },
}

/// The explanation of a run.
#[derive(Debug, Serialize)]
pub struct RunExplanation {
    /// The recording of the kernel's trace; `None` if the plugin trace was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing: Option<TracingRecord>,
    /// Facts about how the guest was watched; `None` if the kernel's trace was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside: Option<OutsideFacts>,
    /// Counts of samples.
    pub samples: SampleCounts,
    /// The latency above which samples are ranked.
    pub threshold: Threshold,
    /// Latencies of the ranked samples; `None` if no sample is ranked.
    pub lateness: Option<Lateness>,
    /// Latency by component, in chronological order.
    pub components: Vec<ComponentRow>,
    /// Holders of the CPU, sorted by the latency that they caused, largest first.
    pub holders: Vec<HolderRow>,
    /// The samples that are not ranked; absent if all of them are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinary: Option<Ordinary>,
    /// The part of the ranked samples' latency for which no holder is known, because events were
    /// lost or arrived too late.
    pub unexplained_ns: u64,
    /// The part of the ranked samples' latency that has two possible causes.
    pub cannot_tell_ns: u64,
    /// The worst samples, worst first.
    pub worst: Vec<SampleStory>,
    /// Functions that held the CPU, sorted by the latency that they caused; empty without
    /// --explain=stacks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<StackRow>,
    /// Violations of the rules for real-time loops; empty if the run has no loop of a program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub loops: Vec<LoopRow>,
}

impl RunExplanation {
    /// Returns the number of explanations that the run wrote and did not drop later to make space,
    /// and how many of these are missing because files were truncated or damaged.
    #[must_use]
    pub fn written_and_missing(&self) -> (u64, u64) {
        let written = self
            .tracing
            .iter()
            .flat_map(|tracing| &tracing.series)
            .map(|series| series.explained.saturating_sub(series.given_way))
            .sum::<u64>();
        (written, written.saturating_sub(self.samples.explained))
    }
}

/// Counts of samples.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SampleCounts {
    /// Samples with a latency above 0 that the recorder passed to the explainer.
    pub late: u64,
    /// Samples with an explanation.
    pub explained: u64,
    /// Samples above the threshold.
    pub ranked: u64,
    /// Samples whose latency is only partly explained.
    pub with_unknown: u64,
    /// Samples that did not reach the explainer.
    pub left_out: u64,
    /// Samples whose explanation was dropped to make space for newer ones, in a run with `--disk`.
    pub given_way: u64,
    /// Explained samples whose latency is also stored in a series, so that the sum of their pieces
    /// was checked.
    pub checked: u64,
    /// Samples whose pieces do not add up to their latency. If this is not 0, tardy has a bug.
    pub not_adding_up: u64,
    /// Damaged bytes of explanations.
    pub damaged_bytes: u64,
}

/// One late sample and its complete explanation.
#[derive(Debug, Serialize)]
pub struct SampleStory {
    /// The probe that took the sample.
    pub probe: String,
    /// The CPU that the probe was bound to.
    pub series_cpu: Option<CpuId>,
    /// The CPU on which the sample was taken.
    pub cpu: u32,
    /// Due time of the sample, in ns of the run's clock.
    pub due_ns: Nanos,
    /// Due time relative to the start of the run.
    pub since_start_ns: Nanos,
    /// The phase in which the sample was due.
    pub phase: Option<String>,
    /// The context that woke the thread; `None` if the thread did not sleep.
    pub waker: Option<String>,
    pub latency_ns: u64,
    /// Whether the trace contains the switch to the thread.
    pub is_switch_seen: bool,
    /// The pieces of the latency, in chronological order and without gaps.
    pub pieces: Vec<StoryPiece>,
    /// The functions and sections that were executed; present only for watched runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executed: Option<ExecutedCode>,
}

/// The file with the kernel's trace around the worst samples of a run, relative to the run's
/// folder.
const EVIDENCE: &str = "trace/worst.dat";
/// Maximum size of a file that is read into memory.
const FILE_BYTES_MAX: u64 = 4 << 30;
/// Maximum number of CPUs in Linux (NR_CPUS).
const CPUS_MAX: usize = 8192;
/// Maximum length of a thread's name in the kernel, in bytes.
const NAME_BYTES: usize = 15;

/// Writes a trace for Perfetto. It contains the kernel's trace around the worst samples of the run
/// in `folder`, and the wake-ups of the probes' threads.
pub(super) fn perfetto_traced(folder: &Path, out: &mut dyn io::Write) -> Result<(), RunError> {
    let record = folder::open(folder)?;
    let tracing = record
        .tracing
        .as_ref()
        .ok_or(RunError::NotTraced { why: None })?;
    let path = folder.join(EVIDENCE);
    let bytes =
        regular_file::read(&path, FILE_BYTES_MAX).map_err(|error| RunError::Unreadable {
            path: path.clone(),
            error,
        })?;
    let question = Question {
        target: Target::Names(tracing.series.iter().map(thread_name).collect()),
        buffer: None,
        worst: 0,
        late: Late::Above(Nanos::ZERO),
        preemption: None,
        period: None,
    };
    match explain(&bytes, &question, Some(out)) {
        Ok(_) => Ok(()),
        Err(ExplainError::Perfetto(error)) => Err(RunError::Write(error)),
        Err(error) => Err(RunError::Trace { path, error }),
    }
}

/// Writes all trace pages that the run in `folder` stored, as a trace.dat file.
///
/// # Errors
/// Fails with a [`RunError`] if the run has no such pages, or if reading or writing fails.
pub fn trace_dat(folder: &Path, out: &mut dyn io::Write) -> Result<(), RunError> {
    folder::open(folder)?;
    let place = folder.join("trace");
    let head_path = place.join("head.dat");
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |error| RunError::Unreadable { path, error }
    };
    let head = match regular_file::read(&head_path, FILE_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(RunError::NotKept),
        read => read.map_err(unreadable(&head_path))?,
    };
    let page_bytes = tardy_trace::file::page_bytes(&head).map_or(1, u64::from);
    // A trace.dat file must list all CPUs up to the last one, including CPUs without pages.
    let mut pages: BTreeMap<usize, (PathBuf, u64)> = BTreeMap::new();
    for entry in std::fs::read_dir(&place)
        .map_err(unreadable(&place))?
        .flatten()
    {
        let name = entry.file_name();
        let cpu = name.to_str().and_then(|name| {
            name.strip_prefix("cpu")?
                .strip_suffix(".pages")?
                .parse()
                .ok()
        });
        if let Some(cpu) = cpu.filter(|&cpu: &usize| cpu < CPUS_MAX) {
            let length = entry.metadata().map_err(unreadable(&entry.path()))?.len();
            // If the run was killed, its last page may be incomplete.
            pages.insert(cpu, (entry.path(), length - length % page_bytes));
        }
    }
    let count = pages.last_key_value().map_or(0, |(cpu, _)| cpu + 1);
    let lengths: Vec<u64> = (0..count)
        .map(|cpu| pages.get(&cpu).map_or(0, |&(_, length)| length))
        .collect();
    let damaged = || RunError::Unreadable {
        path: head_path.clone(),
        error: io::Error::new(io::ErrorKind::InvalidData, "not the header of a trace"),
    };
    let head = tardy_trace::file::with_lengths(&head, &lengths).ok_or_else(damaged)?;
    out.write_all(&head)?;
    for (path, length) in pages.values() {
        let file = regular_file::open(path).map_err(unreadable(path))?;
        io::copy(&mut file.take(*length), out)?;
    }
    Ok(out.flush()?)
}

/// Returns whether a trace contains only the pages around the worst samples of a run. The numbers
/// of such a trace describe only these samples.
#[must_use]
pub fn is_evidence(trace: &Path) -> bool {
    let name = trace.file_name().and_then(|name| name.to_str());
    // A recording by `tardy attach` has such a file for each hour. If the recording was resumed
    // within an hour, that hour has a second file, such as worst-00007.dat and worst-00007-1.dat.
    let is_named_so = name.is_some_and(|name| name.starts_with("worst") && name.ends_with(".dat"));
    is_named_so
        && trace
            .parent()
            .is_some_and(|place| place.join("../run.json").is_file())
}

/// Returns the name, as the kernel stores it, of the thread that took the samples of a series.
pub(super) fn thread_name(series: &ExplainedSeries) -> Text {
    let cpu = series
        .cpu
        .map_or_else(|| "-".to_owned(), |cpu| cpu.to_string());
    let name = format!("{}/{cpu}", series.probe);
    name[..name.floor_char_boundary(NAME_BYTES)].into()
}

/// Explains the traced run in `folder`.
pub(super) fn explain_traced(
    folder: &Path,
    question: RunQuestion,
) -> Result<RunExplanation, RunError> {
    let record = folder::open(folder)?;
    let Some(tracing) = record.tracing.clone() else {
        let why = record
            .warnings
            .iter()
            .find(|warning| matches!(warning, tardy_core::warning::Warning::NotExplained { .. }));
        return Err(RunError::NotTraced {
            why: why.map(ToString::to_string),
        });
    };
    let explained = explained_series(&record, &tracing, folder);
    let threshold = match question.late {
        Late::Above(above) => Threshold::asked(above),
        Late::Worst => {
            let mut latencies = Histogram::new(Budget::ANALYSIS);
            for series in &explained {
                let path = delays::path(folder, &series.file);
                delay_totals::latencies(&path, &mut latencies)
                    .map_err(|error| RunError::Unreadable { path, error })?;
            }
            Threshold::of(&latencies, record.plan.window.map(|window| window.latest))
        }
    };
    let mut reading = Reading::new(&record, threshold, question.worst);
    for series in explained {
        reading.series(folder, &series)?;
    }
    Ok(reading.finish(Some(tracing), None))
}

/// Returns the series for which the run recorded explanations. For an interrupted run, these are
/// the series whose files exist.
fn explained_series(
    record: &RunRecord,
    tracing: &TracingRecord,
    folder: &Path,
) -> Vec<ExplainedSeries> {
    if !tracing.series.is_empty() {
        return tracing.series.clone();
    }
    let there = record
        .series
        .iter()
        .filter(|series| delays::path(folder, &series.file).exists());
    let unknown = |file: &String, probe: &String, cpu| ExplainedSeries {
        file: file.clone(),
        probe: probe.clone(),
        cpu,
        samples: 0,
        explained: 0,
        with_unknown: 0,
        left_out: 0,
        given_way: 0,
        bytes: 0,
    };
    there
        .map(|series| unknown(&series.file, &series.probe, series.cpu))
        .collect()
}

pub(super) struct Reading<'a> {
    threshold: Threshold,
    /// Maximum number of worst samples that are shown as time lines.
    most: usize,
    record: &'a RunRecord,
    holders: Holders,
    counts: SampleCounts,
    totals: SampleTotals,
    pub(super) worst: Vec<SampleStory>,
}

/// Whether the explained sample was ranked, and whether it is one of the worst samples.
#[derive(Debug, Clone, Copy)]
pub(super) struct SampleOutcome {
    pub(super) is_ranked: bool,
    /// Index of the sample among the worst samples, if it is one of them.
    pub(super) story: Option<usize>,
}

/// All different holders that occur in the chunks.
#[derive(Debug, Default)]
struct Holders {
    places: HashMap<HolderFacts, usize>,
    facts: Vec<HolderFacts>,
}

impl Holders {
    fn place(&mut self, holder: &DelayHolder) -> usize {
        let facts = HolderFacts::of_run(holder);
        if let Some(&place) = self.places.get(&facts) {
            return place;
        }
        self.facts.push(facts.clone());
        self.places.insert(facts, self.facts.len() - 1);
        self.facts.len() - 1
    }
}

impl<'a> Reading<'a> {
    pub(super) fn new(record: &'a RunRecord, threshold: Threshold, most: usize) -> Self {
        let mut reading = Self {
            threshold,
            most,
            record,
            holders: Holders::default(),
            counts: SampleCounts::default(),
            totals: SampleTotals::default(),
            worst: Vec::new(),
        };
        let others = reading.holders.place(&DelayHolder {
            cause: Cause::Unknown,
            known: Certainty::Seen,
            name: "too many names".into(),
            priority: None,
            work: None,
            stack: Vec::new(),
            ended: Vec::new(),
            sender: None,
        });
        debug_assert_eq!(others, OTHERS);
        reading
    }

    pub(super) fn finish(
        self,
        tracing: Option<TracingRecord>,
        outside: Option<OutsideFacts>,
    ) -> RunExplanation {
        let Self {
            threshold,
            holders,
            mut counts,
            totals,
            worst,
            ..
        } = self;
        counts.explained = totals.explained;
        counts.with_unknown = totals.with_unknown;
        counts.ranked = totals.ranked;
        let tallied = LatenessBreakdown::new(&totals.delays, |place| holders.facts[place].clone());
        RunExplanation {
            loops: tracing
                .iter()
                .flat_map(|tracing| &tracing.loops)
                .map(LoopRow::of)
                .collect(),
            tracing,
            outside,
            samples: counts,
            threshold,
            ordinary: Ordinary::of(&totals.ordinary),
            unexplained_ns: tallied.unexplained_ns(),
            cannot_tell_ns: tallied.cannot_tell_ns(),
            lateness: tallied.lateness,
            components: tallied.components,
            holders: tallied.holders,
            worst,
            stacks: totals.stacks.rows(),
        }
    }

    /// Returns the index in `Holders` of each holder in the chunk.
    pub(super) fn places(&mut self, chunk: &DelayChunk) -> Vec<usize> {
        chunk
            .holders
            .iter()
            .map(|holder| self.holders.place(holder))
            .collect()
    }

    /// Adds `ns` of a sample's latency to the stack of `holder`.
    pub(super) fn stack(&mut self, holder: &DelayHolder, ns: u64) {
        self.totals.stacks.take(holder, ns);
    }

    /// Checks whether the pieces of a sample's latency add up to the latency.
    pub(super) fn compare(&mut self, sum: u64, latency: Nanos) {
        self.counts.checked += 1;
        self.counts.not_adding_up += u64::from(i64::try_from(sum) != Ok(latency.get()));
    }

    fn series(&mut self, folder: &Path, series: &ExplainedSeries) -> Result<(), RunError> {
        self.counts.late += series.samples;
        self.counts.left_out += series.left_out;
        self.counts.given_way += series.given_way;
        let path = delays::path(folder, &series.file);
        let unreadable = |error| RunError::Unreadable {
            path: path.clone(),
            error,
        };
        let mut reader = DelayReader::open(&path).map_err(unreadable)?;
        while let Some(chunk) = reader.next_chunk().map_err(unreadable)? {
            let places = self.places(&chunk);
            let (record, most) = (self.record, self.most);
            let (totals, worst) = (&mut self.totals, &mut self.worst);
            totals.take_chunk(
                &chunk,
                &places,
                self.threshold.above_ns,
                least(worst, most),
                &mut |sample, latency| {
                    keep(worst, most, latency, || {
                        story(record, series, sample, &chunk)
                    });
                    least(worst, most)
                },
            );
        }
        self.counts.damaged_bytes += reader.damaged_bytes();
        let samples = self
            .record
            .samples_folder
            .clone()
            .unwrap_or_else(|| folder.join("samples"));
        let series = SeriesFile::open(&samples.join(&series.file))?;
        let checked = delay_totals::check(&series, &path).map_err(unreadable)??;
        self.counts.checked += checked.checked;
        self.counts.not_adding_up += checked.not_adding_up;
        Ok(())
    }

    pub(super) fn sample(
        &mut self,
        series: &ExplainedSeries,
        sample: &SampleDelay,
        chunk: &DelayChunk,
        places: &[usize],
    ) -> SampleOutcome {
        let above = self.threshold.above_ns;
        let Some(latency) = self.totals.take(sample, chunk, places, above) else {
            return SampleOutcome {
                is_ranked: false,
                story: None,
            };
        };
        let kept = keep(&mut self.worst, self.most, latency, || {
            story(self.record, series, sample, chunk)
        });
        SampleOutcome {
            is_ranked: true,
            story: kept,
        }
    }
}

/// Returns the latency that a sample must exceed to be one of the `most` worst samples.
fn least(worst: &[SampleStory], most: usize) -> u64 {
    match most.checked_sub(1) {
        None => u64::MAX,
        Some(last) => worst.get(last).map_or(0, |story| story.latency_ns),
    }
}

/// If a sample is one of the `most` worst samples, stores its story and returns its index. If
/// latencies are equal, the earlier samples stay.
fn keep(
    worst: &mut Vec<SampleStory>,
    most: usize,
    latency: u64,
    story: impl FnOnce() -> SampleStory,
) -> Option<usize> {
    let place = worst.partition_point(|other| other.latency_ns >= latency);
    if place >= most {
        return None;
    }
    worst.insert(place, story());
    worst.truncate(most);
    Some(place)
}

fn story(
    record: &RunRecord,
    series: &ExplainedSeries,
    sample: &SampleDelay,
    chunk: &DelayChunk,
) -> SampleStory {
    let mut at = 0;
    let pieces = sample.pieces.iter().map(|piece| {
        let start_ns = at;
        at += piece.length;
        let holder = &chunk.holders[piece.holder];
        let [stack, ended] = [&holder.stack, &holder.ended]
            .map(|functions| functions.iter().map(ToString::to_string).collect());
        let holder = HolderFacts::of_run(holder);
        StoryPiece {
            start_ns,
            length_ns: piece.length,
            component: piece.component,
            cpu: piece.cpu,
            holder,
            stack,
            ended,
        }
    });
    let pieces = pieces.collect();
    let is_in = |begin: Nanos, end: Option<Nanos>| {
        begin <= sample.due && end.is_none_or(|end| sample.due < end)
    };
    let phase = record
        .phases
        .iter()
        .find(|phase| is_in(phase.begin_ns, phase.end_ns));
    SampleStory {
        probe: series.probe.clone(),
        series_cpu: series.cpu,
        cpu: sample.cpu,
        due_ns: sample.due,
        since_start_ns: sample.due - record.started.monotonic_ns,
        phase: phase.map(|phase| phase.name.clone()),
        waker: match &sample.waker {
            DelayWaker::Nobody => None,
            DelayWaker::Timer(function) => Some(format!("timer ({function})")),
            DelayWaker::Interrupt => Some("interrupt".to_owned()),
            DelayWaker::Softirq => Some("softirq".to_owned()),
            DelayWaker::Thread(name) => Some(name.to_string()),
        },
        latency_ns: at,
        is_switch_seen: sample.is_switch_seen,
        pieces,
        executed: None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_a_run_kept_around_its_worst_samples_is_known_by_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("trace");
        fs::create_dir(&place).unwrap();
        assert!(!is_evidence(&place.join("worst.dat")), "it lies in no run");
        fs::write(folder.path().join("run.json"), "").unwrap();
        assert!(is_evidence(&place.join("worst.dat")));
        assert!(is_evidence(&place.join("worst-00007.dat")));
        assert!(!is_evidence(&place.join("trace.dat")));
    }
}
