//! The parts of a summary; serialised as `--json`, printed as text.

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

/// The complete summary; warnings and verdict come first, because the numbers mean nothing without
/// them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Folder of the run.
    pub run: String,
    /// Its state.
    pub state: State,
    /// Clock of all times.
    pub clock: ClockKind,
    /// Caveats to read before the numbers, the most important first.
    pub warnings: Vec<Warning>,
    /// The verdict on the deadline, the worst of several probes; absent without a deadline.
    pub verdict: Option<Verdict>,
    /// From the first due time to the last wake-up.
    pub measured_ns: Nanos,
    /// Wall-clock time of the start, ns since 1970.
    pub started_realtime_ns: Nanos,
    /// Each probe, all CPUs together.
    pub probes: Vec<ProbeSummary>,
    /// Each series, worst first.
    pub series: Vec<SeriesSummary>,
    /// Each phase, all CPUs together.
    pub phases: Vec<PhaseSummary>,
    /// Phases of the same name as one, on the CPUs that their loads stressed; worst first.
    pub loads: Vec<LoadSummary>,
    /// Whether the order of `loads` ranks them by damage: only if phases were repeated in random
    /// order.
    pub is_ranked: bool,
    /// The work that the loads did.
    pub load_work: Vec<LoadWork>,
    /// Times that were marked during the run, relative to its start, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<MarkSummary>,
    /// The user's labels of the run, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The settings that are defaults of files, a sentence per file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defaults: Vec<String>,
    /// CPUs that were measured.
    pub measured_cpus: CpuList,
    /// The machine in two lines.
    pub machine: [String; 2],
    /// Whether the deadline needs PREEMPT_RT, by this run alone; absent if the run does not record
    /// its kernel or has no latencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// Rows of `tardy doctor` that call a setting bad and grave, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grave_settings: Vec<String>,
    /// The most frequent interrupts on the measured CPUs, by line.
    pub interrupts: Vec<InterruptCount>,
    /// The cost of the tool itself.
    pub overhead: Option<Overhead>,
}

impl Summary {
    /// Returns the verdict on each probe if several are judged, in the order of the plan; empty for
    /// a single probe, whose verdict is the run's.
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
    /// Relative to the start of the run.
    pub at_ns: Nanos,
    /// The phase that it was in; absent before the first one.
    pub phase: Option<String>,
}

/// Interrupts of one line on the measured CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptCount {
    /// As in /proc/interrupts.
    pub label: String,
    pub description: String,
    /// How many.
    pub count: u64,
}

/// All series of one probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeSummary {
    pub probe: String,
    /// Name of the quantity of a value: `latency` or `interval error`.
    pub quantity: String,
    /// Time between two wake-ups, or requested time.
    pub period_ns: Nanos,
    /// Whether there is no such time, because the probe looked for gaps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_no_period: bool,
    /// The numbers; absent without samples.
    pub numbers: Option<Numbers>,
    /// Counts of all series.
    pub counts: Counts,
    /// Whether skipped periods were not counted: their number is then 0 here, and unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_skipped_unknown: bool,
    /// The verdict on the deadline; absent without a deadline, and if its values are not comparable
    /// with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The miss counts for common deadlines; absent if the run had a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ladder: Option<Ladder>,
}

/// Some deadlines, and how often each was missed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ladder {
    /// Common ones and the period, from short to long.
    pub rungs: Vec<Rung>,
    /// The shortest one that none of the samples missed; absent if every deadline was missed, and
    /// where the samples do not decide which one it is.
    pub smallest: Option<Rung>,
    /// Whether work was skipped, which misses every deadline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub every_deadline_missed: bool,
    /// The loads that the rates refer to.
    pub stress: Stress,
    /// Number of CPUs whose misses the rates pool; 0 in older files.
    #[serde(default)]
    pub processors: usize,
    /// The load with the largest value; absent with a single load.
    pub worst_load: Option<WorstLoad>,
}

/// One deadline of a ladder.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    pub deadline_ns: Nanos,
    /// Due times that missed it, at most where the samples of an import do not decide it.
    pub misses: u64,
    /// The fewest that missed it; absent if the samples decide it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses_at_least: Option<u64>,
    /// Upper bound of misses per hour, at 95 %; absent if the length of the measurement is unknown.
    pub misses_an_hour_at_most: Option<f64>,
}

impl Rung {
    /// Returns the misses in words: a number, or the fewest and the most.
    #[must_use]
    pub fn misses_in_words(&self) -> String {
        match self.misses_at_least {
            Some(fewest) => format!("{fewest} to {}", self.misses),
            None => self.misses.to_string(),
        }
    }
}

/// A load and the worst that it did.
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
    /// When samples are due.
    pub schedule: Schedule,
    /// The numbers; absent without samples.
    pub numbers: Option<Numbers>,
    /// The counts, up to the end of the file.
    pub counts: Counts,
    /// Whether skipped periods were not counted: their number is then 0 here, and unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_skipped_unknown: bool,
    /// Difference of successive wake-ups from the time between their due times, as percentiles of
    /// its magnitude, and its maximum.
    pub jitter: Vec<Percentile>,
    /// See `jitter`.
    pub jitter_max_ns: Option<i64>,
    /// Longest run of consecutive misses, if there is a window.
    pub misses_longest_run: Option<Run>,
    /// Wake-ups before their time.
    pub early: u64,
    /// Error of the clock that the probe reads, if it has one: earlier wake-ups than that are
    /// early, others may be the clock's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_error_ns: Option<Nanos>,
    /// Number of the copy of the probe's thread, if the copies have no fixed CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<u32>,
    /// The gaps together, for series of gaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<GapSummary>,
    /// Latenesses against the fitted grid of expiries, for interval errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fitted: Option<FittedSummary>,
    /// Whether the numbers come from a histogram, because not every sample was stored.
    pub from_histogram: bool,
}

/// The gaps of a series, of a least length, together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GapSummary {
    /// Shorter ones do not count, or are counted without their time.
    pub least_ns: Nanos,
    /// Their number.
    pub count: u64,
    /// Their lengths together.
    pub length_ns: Nanos,
    /// For how long the probe looked for them; absent if the run was interrupted.
    pub observed_ns: Option<Nanos>,
    /// Their share of that.
    pub share: Option<f64>,
}

/// An interval probe's events relative to the closest grid of expiries that lies below them all. A
/// delay common to all events stays invisible.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FittedSummary {
    /// The timer's period as its events show it.
    pub period_ns: f64,
    /// Expiries from the first event to the last.
    pub expiries: u64,
    /// Number of them without an event.
    pub without_event: u64,
    pub lateness: Option<Numbers>,
}

/// All phases of one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadSummary {
    /// Name of the phases.
    pub name: String,
    /// Loads that ran in them.
    pub loads: Vec<String>,
    /// Their number.
    pub phases: usize,
    /// Total length.
    pub length_ns: Nanos,
    /// Measured CPUs on which the loads did nothing, though they did on others; their samples are
    /// not in the numbers.
    pub not_stressed: CpuList,
    /// The shares of several loads in the CPU time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<LoadShare>,
    /// Each probe's numbers while all of the loads worked; absent without samples.
    pub probes: Vec<(String, Option<Numbers>)>,
    /// The verdict on each probe under this load; absent without a deadline, for values that are
    /// not comparable with one, and if not every sample was stored.
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

/// The share of a load in the time that the loads of its phase used together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadShare {
    pub load: String,
    /// CPU time that it used.
    pub cpu_time_ns: Nanos,
    /// Its share of the total.
    pub share: f64,
    /// Whether it is less than half of an equal share: the load waited for something else, or got
    /// too little.
    pub is_small: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseSummary {
    pub name: String,
    /// Loads that ran in it.
    pub loads: Vec<String>,
    /// When it started, from the start of the run on.
    pub begin_ns: Nanos,
    /// When it ended.
    pub end_ns: Nanos,
    /// The delays of its end and its start, relative to the plan.
    pub deviation_ns: (Nanos, Nanos),
    /// Each probe's numbers in this phase, while all of its loads worked; absent without samples.
    pub probes: Vec<(String, Option<Numbers>)>,
}

impl PhaseSummary {
    /// Describes an interval of the phase during which its loads did not work.
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

/// Describes where the largest value of a run occurred if no load ran then: its phase, if known.
#[must_use]
pub fn outside_of_loads(phases: &[PhaseSummary], numbers: &Numbers) -> String {
    let at = Nanos(numbers.max_at_ns);
    let is_there = |phase: &&PhaseSummary| phase.begin_ns <= at && at < phase.end_ns;
    phases.iter().find(is_there).map_or_else(
        || "between two phases".to_owned(),
        PhaseSummary::without_loads,
    )
}
