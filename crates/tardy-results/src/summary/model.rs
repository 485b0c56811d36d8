//! The parts of a summary; they are serialised for `--json` and printed as text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tardy_core::accounting::Counts;
use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::series::{ClockKind, Schedule};
use tardy_core::summary::miss_runs::Run;
use tardy_core::summary::numbers::{Numbers, Percentile};
use tardy_core::units::Nanos;
use tardy_core::verdict::{Stress, Verdict};
use tardy_core::warning::Warning;
use tardy_run::overhead::Overhead;
use tardy_run::record::{LoadWork, State};

use crate::decision::Decision;

/// The complete summary. Warnings and verdict come first, because the numbers mean little without
/// them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Folder of the run.
    pub run: String,
    /// How the run ended.
    pub state: State,
    /// The clock on which all times are based.
    pub clock: ClockKind,
    /// Caveats that a reader must know before the numbers, most important first.
    pub warnings: Vec<Warning>,
    /// The verdict on the deadline or on the limit of skipped periods. If several probes are
    /// judged, this is the worst of their verdicts. Absent if the run has no such requirement.
    pub verdict: Option<Verdict>,
    /// Time from the first due time to the last wake-up.
    pub measured_ns: Nanos,
    /// Wall-clock time of the start, in ns since 1970.
    pub started_realtime_ns: Nanos,
    /// Numbers of each probe, for all CPUs together.
    pub probes: Vec<ProbeSummary>,
    /// Numbers of each series, worst first.
    pub series: Vec<SeriesSummary>,
    /// Numbers of each phase, for all CPUs together.
    pub phases: Vec<PhaseSummary>,
    /// Numbers of all phases with the same name together, for the CPUs that their loads stressed.
    /// The worst loads come first if `is_ranked`.
    pub loads: Vec<LoadSummary>,
    /// Whether the loads can be ranked by their numbers. This requires phases that were repeated in
    /// random order.
    pub is_ranked: bool,
    /// How much work the loads did.
    pub load_work: Vec<LoadWork>,
    /// Times that were marked during the run, in chronological order and relative to the start of
    /// the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<MarkSummary>,
    /// The labels that the user gave the run, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The defaults that were read from files of the machine or the user, with a sentence for each
    /// file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defaults: Vec<String>,
    /// The measured CPUs.
    pub measured_cpus: CpuList,
    /// The machine in two lines.
    pub machine: [String; 2],
    /// Whether the deadline needs PREEMPT_RT, as judged from this run alone; absent if the run does
    /// not record its kernel, or has no latencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// Names of the checks of `tardy doctor` whose setting on this machine can cost milliseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grave_settings: Vec<String>,
    /// The most frequent interrupts on the measured CPUs, by line.
    pub interrupts: Vec<InterruptCount>,
    /// The CPU time and memory that the tool itself used.
    pub overhead: Option<Overhead>,
}

impl Summary {
    /// Returns the verdict on each probe if several were judged, in the order of the plan. Empty if
    /// only one probe was judged, because its verdict is that of the run.
    #[must_use]
    pub fn verdicts_of_probes(&self) -> Vec<(&str, &Verdict)> {
        let of_probes = self
            .probes
            .iter()
            .filter_map(|probe| Some((probe.probe.as_str(), probe.verdict.as_ref()?)));
        let of_probes: Vec<_> = of_probes.collect();
        if of_probes.len() > 1 {
            of_probes
        } else {
            Vec::new()
        }
    }
}

/// A time that was marked during the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkSummary {
    /// Time of the mark, relative to the start of the run.
    pub at_ns: Nanos,
    /// The phase at that time; absent before the first phase.
    pub phase: Option<String>,
}

/// The number of interrupts of one line on the measured CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptCount {
    /// Label of the line in /proc/interrupts.
    pub label: String,
    pub description: String,
    /// Number of interrupts.
    pub count: u64,
}

/// The numbers of all series of one probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeSummary {
    pub probe: String,
    /// Name of the measured quantity, such as `latency` or `interval error`.
    pub quantity: String,
    /// Time between two wake-ups; for interval errors, the requested interval.
    pub period_ns: Nanos,
    /// Whether the probe looked for gaps and therefore has no period.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_no_period: bool,
    /// The numbers; absent if there are no samples.
    pub numbers: Option<Numbers>,
    /// The counts, summed over all series.
    pub counts: Counts,
    /// Whether the number of skipped periods is unknown. If so, it is 0 in `counts`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_skipped_unknown: bool,
    /// The verdict on the probe; absent if there is no requirement, or if the values cannot be
    /// compared with a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// How often common deadlines were missed; absent if the run had a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ladder: Option<Ladder>,
}

/// Several deadlines, and how often each was missed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ladder {
    /// Common deadlines and the probe's period, shortest first.
    pub rungs: Vec<Rung>,
    /// The shortest deadline that no sample missed; absent if every deadline was missed, or if it
    /// cannot be determined from the samples.
    pub smallest: Option<Rung>,
    /// Whether work was skipped, so that every deadline was missed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub every_deadline_missed: bool,
    /// The loads that ran during the measurement. The rates of misses are valid only under these
    /// loads.
    pub stress: Stress,
    /// Number of CPUs whose misses the rates include; 0 in older files.
    #[serde(default)]
    pub processors: usize,
    /// The load with the largest value; absent if there was only one load.
    pub worst_load: Option<WorstLoad>,
}

/// One deadline of a ladder.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    pub deadline_ns: Nanos,
    /// Number of due times that missed the deadline. If this number cannot be determined from the
    /// samples of an import, it is the largest possible one.
    pub misses: u64,
    /// Minimum number of due times that missed the deadline; absent if the samples determine the
    /// number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses_at_least: Option<u64>,
    /// Upper bound of the misses per hour, at 95 %; absent if the length of the measurement is
    /// unknown.
    pub misses_an_hour_at_most: Option<f64>,
}

impl Rung {
    /// Returns the number of misses as text: the exact number, or a range such as `3 to 7`.
    #[must_use]
    pub fn misses_in_words(&self) -> String {
        match self.misses_at_least {
            Some(fewest) => format!("{fewest} to {}", self.misses),
            None => self.misses.to_string(),
        }
    }
}

/// A load, and the largest value that occurred under it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorstLoad {
    pub name: String,
    /// The largest value.
    pub max_ns: Nanos,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeriesSummary {
    pub probe: String,
    pub cpu: Option<CpuId>,
    /// When the samples of the series are due.
    pub schedule: Schedule,
    /// The numbers; absent if there are no samples.
    pub numbers: Option<Numbers>,
    /// The counts at the end of the series' file.
    pub counts: Counts,
    /// Whether the number of skipped periods is unknown. If so, it is 0 in `counts`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_skipped_unknown: bool,
    /// Percentiles of the jitter: the absolute difference between the time from one wake-up to the
    /// next and the time between their due times.
    pub jitter: Vec<Percentile>,
    /// Largest jitter.
    pub jitter_max_ns: Option<i64>,
    /// Longest run of consecutive misses, if the run has a deadline.
    pub misses_longest_run: Option<Run>,
    /// Number of wake-ups before their due time.
    pub early: u64,
    /// Error of the clock that the probe reads, if it has one. A wake-up counts as early only if it
    /// is early by more than this error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_error_ns: Option<Nanos>,
    /// Identifies the copy of the probe's thread that took the samples, if the copies have no fixed
    /// CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<u32>,
    /// Summary of the gaps, for series of gaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<GapSummary>,
    /// The latencies relative to the fitted grid of expiries, if the values are interval errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fitted: Option<FittedSummary>,
    /// Whether the numbers come from a histogram, because not all samples were stored.
    pub from_histogram: bool,
}

/// All gaps of a series above a minimum length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GapSummary {
    /// Minimum length of a counted gap. Shorter gaps are not counted, or are counted without their
    /// time.
    pub least_ns: Nanos,
    /// Number of gaps.
    pub count: u64,
    /// Total length of the gaps.
    pub length_ns: Nanos,
    /// Time for which the probe looked for gaps; absent if the run was interrupted.
    pub observed_ns: Option<Nanos>,
    /// The fraction of this time during which there was a gap.
    pub share: Option<f64>,
}

/// The events of an interval probe, compared with a fitted grid of timer expiries. The grid is the
/// latest for which every event comes at or after its expiry, so the latencies do not include a
/// delay that all events share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FittedSummary {
    /// The period of the timer, as estimated from its events.
    pub period_ns: f64,
    /// Number of expiries from the first event to the last.
    pub expiries: u64,
    /// Number of expiries for which there is no event.
    pub without_event: u64,
    pub lateness: Option<Numbers>,
}

/// All phases with the same name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadSummary {
    /// Name of the phases.
    pub name: String,
    /// Loads that ran in the phases.
    pub loads: Vec<String>,
    /// Number of phases with this name.
    pub phases: usize,
    /// Total length of the phases.
    pub length_ns: Nanos,
    /// Measured CPUs that the loads did not stress. The numbers do not include samples of these
    /// CPUs.
    pub not_stressed: CpuList,
    /// How the CPU time was divided among several loads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<LoadShare>,
    /// Numbers of each probe while all loads worked; `None` if there are no samples.
    pub probes: Vec<(String, Option<Numbers>)>,
    /// The verdict on each probe under this load; absent if there is no requirement, if the values
    /// cannot be compared with a deadline, or if not all samples were stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<(String, Verdict)>,
}

impl LoadSummary {
    /// Returns the verdict on a probe under this load.
    #[must_use]
    pub fn verdict_of(&self, probe: &str) -> Option<&Verdict> {
        self.verdicts
            .iter()
            .find(|(name, _)| name == probe)
            .map(|(_, verdict)| verdict)
    }
}

/// The share that a load had in the CPU time that all loads of its phase used together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadShare {
    pub load: String,
    /// CPU time that the load used.
    pub cpu_time_ns: Nanos,
    /// Share of the load in the total time.
    pub share: f64,
    /// Whether this share is less than half of what the load would have if all loads got equal CPU
    /// time. Such a load waited for something else, or got too little CPU time.
    pub is_small: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseSummary {
    pub name: String,
    /// Loads that ran in the phase.
    pub loads: Vec<String>,
    /// Start of the phase, relative to the start of the run.
    pub begin_ns: Nanos,
    /// End of the phase, relative to the start of the run.
    pub end_ns: Nanos,
    /// How much later the phase started and ended than planned.
    pub deviation_ns: (Nanos, Nanos),
    /// Numbers of each probe in this phase, while all its loads worked; `None` if there are no
    /// samples.
    pub probes: Vec<(String, Option<Numbers>)>,
}

impl PhaseSummary {
    /// Describes the times in this phase at which not all of its loads worked.
    #[must_use]
    pub fn without_loads(&self) -> String {
        let load = match self.loads.len() {
            0 => return format!("in phase {}", self.name),
            1 => "the load was",
            _ => "a load was",
        };
        format!("in phase {} while {load} starting or stopping", self.name)
    }
}

/// Describes when the largest value of a run occurred, if no load worked at that time.
#[must_use]
pub fn outside_of_loads(phases: &[PhaseSummary], numbers: &Numbers) -> String {
    let at = Nanos(numbers.max_at_ns);
    let is_there = |phase: &&PhaseSummary| phase.begin_ns <= at && at < phase.end_ns;
    phases.iter().find(is_there).map_or_else(
        || "between two phases".to_owned(),
        PhaseSummary::without_loads,
    )
}
