//! Judges whether work was on time on one kernel. Applies [`tardy_core::verdict`] to the
//! measurements, and adds the margin, the conditions, and a way to decide an inconclusive case.
//!
//! The verdict uses the best available data. The best data are measured completions of work. If
//! there are none, start latencies are compared with the deadline minus the length of the work or,
//! if this length is unknown, with the deadline itself. A measured slowdown is added to the length
//! of the work that the user stated. A verdict from start latencies and the length of the work is
//! called a model.
//!
//! The function `verdict::judge` makes the verdict from one probe's counts, which are added up over
//! all runs of a kernel. The same function judges single runs. Measurements take precedence over
//! the rules of [`crate::flow`]. A run in virtual time gets no verdict, because it measures lengths
//! of code paths, which do not decide whether a deadline is met.

mod taken;

use serde::Serialize;
use tardy_core::series::ClockKind;
use tardy_core::summary::numbers::{Numbers, Percentile};
use tardy_core::units::Nanos;
use tardy_core::verdict::longer::time_to_decide;
use tardy_core::verdict::{Evidence, Stress, Verdict, judge};
use tardy_core::warning::{Severity, Warning};
use tardy_statistics::clustering::Clustering;

use self::taken::{JudgedProbe, MeasuredTime, take};
use super::kernels::Kernel;
use super::slowdown::Slowdown;
use super::task::Task;
use tardy_results::decision::PreemptionModel;
use tardy_results::summary::read::SummaryError;

const YEAR: Nanos = Nanos::from_secs(31_557_600);

/// The data that were judged.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "basis", rename_all = "kebab-case")]
pub enum Basis {
    /// Completions were measured. A completion is the time from the due time of a unit of work
    /// until the unit was done.
    Completion {
        /// The judged probe.
        probe: String,
        /// How long the timed work takes without interruption; absent if the run does not record
        /// it.
        length_ns: Option<Nanos>,
        /// Time that the model adds because the user's work is longer than the timed work. Negative
        /// if the user's work is shorter; 0 if both are equally long, or if the length of the
        /// user's work is unknown.
        added_ns: Nanos,
    },
    /// Start latencies were measured, and the model adds the length of the work.
    Model {
        /// The judged probe.
        probe: String,
        /// Length of the work, including the slowdown.
        work_ns: Nanos,
        /// Slowdown as a fraction of the work's length; absent if it was not measured. If the
        /// slowdown was not measured, the length of the work is not extended.
        slowdown: Option<f64>,
    },
    /// Start latencies were measured, and the length of the work is unknown.
    Start {
        /// The judged probe.
        probe: String,
    },
}

/// The distance between the measurements and the deadline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Margin {
    /// Largest observed time from due to done, or from due to started if the length of the work is
    /// unknown.
    pub worst_ns: Nanos,
    /// Time from the largest observed time to the deadline; negative if the deadline was missed.
    pub to_deadline_ns: Nanos,
    /// `to_deadline_ns` as a fraction of the deadline.
    pub share: f64,
    /// The lowest percentile that covers the share of work that must be on time, with its upper
    /// bound at 95 % confidence; absent if no miss is allowed, or if no such percentile has an
    /// upper bound.
    pub bounded: Option<BoundedMargin>,
}

/// The distance of a percentile's upper bound from the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BoundedMargin {
    /// The percentile, as a fraction of all units of work.
    pub probability: f64,
    /// Upper bound of the percentile, at 95 % confidence.
    pub upper_ns: Nanos,
    /// Time from the upper bound to the deadline.
    pub to_deadline_ns: Nanos,
}

/// The conditions under which a verdict holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conditions {
    pub runs: Vec<String>,
    /// Total length of the runs.
    pub measured_ns: Nanos,
    /// Names of the phases of all runs.
    pub phases: Vec<String>,
    /// Whether no load ran in any phase.
    pub is_idle: bool,
    /// The measured CPUs of the first run.
    pub cpus: String,
    /// Scheduling policy and priority of the probe in the first run.
    pub scheduling: Option<String>,
    /// Whether the tool limited the C-states of CPUs while it measured.
    pub is_kept_awake: bool,
    /// The clock on which the times of the runs are based.
    pub clock: ClockKind,
}

/// The judgement of one kernel.
#[derive(Debug, Clone, Serialize)]
pub struct Judgement {
    pub kernel: String,
    /// Whether the kernel has PREEMPT_RT; absent if the runs do not record it.
    pub is_real_time: Option<bool>,
    /// The kernel's preemption model; absent if the runs do not record it.
    pub preemption: Option<PreemptionModel>,
    /// The largest latency, plus the work that the model adds. Runs in virtual time have this
    /// value, too, although they get no verdict. Absent if there is nothing to judge.
    pub largest_ns: Option<Nanos>,
    /// How much longer work takes on this kernel than on the least preemptible kernel, as a
    /// fraction; absent if one of the two kernels has no cost runs.
    pub slowdown: Option<Slowdown>,
    /// The data that were judged; absent if there are none.
    pub judged: Option<Basis>,
    /// The verdict; absent without a deadline, in virtual time, or without data.
    pub verdict: Option<Verdict>,
    /// Why there is no verdict.
    pub no_verdict_because: Option<String>,
    /// The distance from the deadline.
    pub margin: Option<Margin>,
    /// How long to measure until the verdict is decided, if misses stay as rare as they were;
    /// absent if no length of measurement would decide it.
    pub measure_longer_ns: Option<Nanos>,
    /// Upper bound of the number of misses in a year, at 95 % confidence, if the conditions stay
    /// the same; absent if the measurements allow no conclusion.
    pub misses_a_year_at_most: Option<f64>,
    /// The conditions under which the verdict holds.
    pub conditions: Option<Conditions>,
    /// The warnings of the runs, most important first.
    pub warnings: Vec<Warning>,
}

/// Judges the measurements on `kernel`, using only `probe` if the user named one. `slowdown` is the
/// measured relative slowdown of work compared with its stated length.
///
/// # Errors
/// Returns [`SummaryError`] if a run cannot be read.
pub fn judgement(
    kernel: &Kernel,
    task: &Task,
    probe: Option<&str>,
    slowdown: Option<f64>,
) -> Result<Judgement, SummaryError> {
    let mut found = Judgement {
        kernel: kernel.name.clone(),
        is_real_time: kernel.is_real_time,
        preemption: kernel.model(),
        largest_ns: None,
        slowdown: None,
        judged: None,
        verdict: None,
        no_verdict_because: None,
        margin: None,
        measure_longer_ns: None,
        misses_a_year_at_most: None,
        conditions: None,
        warnings: Vec::new(),
    };
    let taken = take(kernel, task, probe, slowdown)?;
    let Some(first) = taken.first() else {
        let of_probe = probe.map_or_else(String::new, |name| format!(" by the probe {name}"));
        found.no_verdict_because = Some(format!(
            "the runs of this kernel have no latencies or completions{of_probe}: give a run made \
             by `tardy run`"
        ));
        return Ok(found);
    };
    let judged = basis(first, task, slowdown);
    found.conditions = Some(conditions(kernel, &taken));
    found.warnings = warnings(&taken);
    found.judged = Some(judged);
    found.largest_ns = largest(&taken, first.added);
    if kernel.clock == ClockKind::Virtual {
        found.no_verdict_because = Some(
            "virtual time measures code paths in instructions, and does not show when this work \
             would finish on a machine"
                .to_owned(),
        );
        return Ok(found);
    }
    let (Some(deadline), requirement) = (task.deadline_ns, first.requirement) else {
        found.no_verdict_because = Some("give a deadline (--deadline)".to_owned());
        return Ok(found);
    };
    let verdict = judge(&requirement, evidence(&taken));
    found.margin = margin(&taken, task, deadline, first.added);
    found.measure_longer_ns = time_to_decide(&verdict);
    let is_sound = verdict.evidence.due_times > 0
        && verdict.evidence.degraded.is_empty()
        && verdict.evidence.incomplete.is_empty();
    let a_year = YEAR.get() as f64 / task.period_ns.unwrap_or(first.probe().period_ns).get() as f64;
    found.misses_a_year_at_most = is_sound.then_some(verdict.share_upper * a_year);
    found.verdict = Some(verdict);
    Ok(found)
}

fn basis(taken: &JudgedProbe, task: &Task, slowdown: Option<f64>) -> Basis {
    let probe = taken.probe().probe.clone();
    match (taken.measured, task.work_ns) {
        (MeasuredTime::Completion(length_ns), _) => Basis::Completion {
            probe,
            length_ns,
            added_ns: taken.added,
        },
        (MeasuredTime::Start, None) => Basis::Start { probe },
        (MeasuredTime::Start, Some(_)) => Basis::Model {
            probe,
            work_ns: taken.added,
            slowdown,
        },
    }
}

/// Returns the evidence of all runs together, with their counts added up.
fn evidence(taken: &[JudgedProbe]) -> Evidence {
    let seen = |run: &JudgedProbe| {
        run.probe()
            .counts
            .expected
            .saturating_sub(run.probe().counts.lost)
    };
    let of = |severity| {
        let mut texts: Vec<String> = Vec::new();
        for warning in taken
            .iter()
            .flat_map(|run| &run.summary.warnings)
            .filter(|warning| warning.severity() == severity)
        {
            let text = warning.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        texts
    };
    let sum = |of: fn(&Numbers) -> u64| {
        taken
            .iter()
            .filter_map(JudgedProbe::numbers)
            .map(of)
            .sum::<u64>()
    };
    let is_limited = |run: &&JudgedProbe| {
        run.requirement.limits_skipped(
            run.probe().period_ns,
            matches!(run.measured, MeasuredTime::Completion(_)),
        )
    };
    let limited: Vec<u64> = taken
        .iter()
        .filter(is_limited)
        .filter_map(|run| Some(run.numbers()?.skipped))
        .collect();
    Evidence {
        misses: taken.iter().map(JudgedProbe::misses).sum(),
        misses_skipped: sum(|numbers| numbers.misses_skipped.unwrap_or(0)),
        misses_undecided: taken
            .iter()
            .filter_map(JudgedProbe::evidence)
            .map(|evidence| evidence.misses_undecided)
            .sum(),
        skipped: sum(|numbers| numbers.skipped),
        skipped_limited: (!limited.is_empty()).then(|| limited.iter().sum()),
        due_times: taken.iter().map(seen).sum(),
        extremal_index: least_index(taken),
        clustering: clustering(taken),
        processors: taken.iter().map(JudgedProbe::processors).max().unwrap_or(0),
        measured: taken
            .iter()
            .fold(Nanos::ZERO, |sum, run| sum + run.summary.measured_ns),
        stress: Stress::None,
        degraded: of(Severity::Degraded),
        incomplete: incomplete(of(Severity::Incomplete), taken),
    }
}

/// Adds to `warned` the texts about information that imported runs lack, and returns the result. A
/// text that is already in the list is not added.
fn incomplete(mut warned: Vec<String>, taken: &[JudgedProbe]) -> Vec<String> {
    for text in taken
        .iter()
        .filter_map(JudgedProbe::evidence)
        .flat_map(|evidence| &evidence.incomplete)
    {
        if !warned.contains(text) {
            warned.push(text.clone());
        }
    }
    warned
}

/// Returns how strongly misses cluster, computed from all runs together. The dispersions of the
/// runs are averaged, weighted by each run's number of misses. If no run has a miss, the largest
/// dispersion is used. Each run gives a maximum number of misses that one cause can trigger, even a
/// cause that did not occur. The largest of these numbers is used.
fn clustering(taken: &[JudgedProbe]) -> Option<Clustering> {
    let of_runs: Vec<(f64, Clustering)> = taken
        .iter()
        .filter_map(|run| run.numbers())
        .filter_map(|numbers| Some((numbers.misses? as f64, numbers.misses_clustering?)))
        .collect();
    let misses: f64 = of_runs.iter().map(|(misses, _)| misses).sum();
    let unseen = of_runs
        .iter()
        .map(|(_, clustering)| clustering.unseen)
        .max_by(f64::total_cmp)?;
    let variance: f64 = of_runs
        .iter()
        .map(|(misses, clustering)| misses * clustering.dispersion)
        .sum();
    let of_none = of_runs
        .iter()
        .map(|(_, clustering)| clustering.dispersion)
        .fold(1.0, f64::max);
    Some(Clustering::new(
        if misses > 0.0 {
            variance / misses
        } else {
            of_none
        },
        unseen,
    ))
}

/// Returns the smallest extremal index of all runs. The smaller the index, the more strongly late
/// samples cluster. `None` if the index of any run is unknown.
fn least_index(taken: &[JudgedProbe]) -> Option<f64> {
    let indices = taken
        .iter()
        .map(|run| run.numbers().and_then(|numbers| numbers.extremal_index))
        .collect::<Option<Vec<f64>>>()?;
    indices.into_iter().min_by(f64::total_cmp)
}

/// Returns the largest value plus `added`, the work that the model adds.
fn largest(taken: &[JudgedProbe], added: Nanos) -> Option<Nanos> {
    let values = taken
        .iter()
        .filter_map(|run| Some(Nanos(run.numbers()?.max_ns)));
    Some(values.max()? + added)
}

/// Returns the distance from the deadline. `added` is the work that the model adds to each value.
fn margin(taken: &[JudgedProbe], task: &Task, deadline: Nanos, added: Nanos) -> Option<Margin> {
    let worst = largest(taken, added)?;
    let bounded = |share: f64| {
        // Percentiles of several runs cannot be combined, so the run with the most samples is used.
        let longest = taken
            .iter()
            .max_by_key(|run| run.numbers().map(|numbers| numbers.samples))?;
        let numbers = longest.numbers()?;
        let percentiles = numbers
            .percentiles_corrected
            .as_ref()
            .unwrap_or(&numbers.percentiles);
        let enough = |percentile: &&Percentile| {
            percentile.probability >= 1.0 - share && percentile.is_bounded()
        };
        let percentile = percentiles.iter().find(enough)?;
        let upper_ns = Nanos(percentile.upper_ns?) + added;
        Some(BoundedMargin {
            probability: percentile.probability,
            upper_ns,
            to_deadline_ns: deadline - upper_ns,
        })
    };
    let to_deadline_ns = deadline - worst;
    let share = to_deadline_ns.get() as f64 / deadline.get() as f64;
    Some(Margin {
        worst_ns: worst,
        to_deadline_ns,
        share,
        bounded: task.misses_allowed().and_then(bounded),
    })
}

fn conditions(kernel: &Kernel, taken: &[JudgedProbe]) -> Conditions {
    let mut phases: Vec<String> = Vec::new();
    for phase in taken.iter().flat_map(|run| &run.summary.phases) {
        if !phases.contains(&phase.name) {
            phases.push(phase.name.clone());
        }
    }
    let first = &taken[0];
    Conditions {
        runs: taken.iter().map(|run| run.summary.run.clone()).collect(),
        measured_ns: taken
            .iter()
            .fold(Nanos::ZERO, |sum, run| sum + run.summary.measured_ns),
        is_idle: taken
            .iter()
            .flat_map(|run| &run.summary.phases)
            .all(|phase| phase.loads.is_empty()),
        phases,
        cpus: first.summary.measured_cpus.to_string(),
        scheduling: first.scheduling.clone(),
        is_kept_awake: taken.iter().any(|run| run.is_kept_awake),
        clock: kernel.clock,
    }
}

fn warnings(taken: &[JudgedProbe]) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = Vec::new();
    for warning in taken.iter().flat_map(|run| &run.summary.warnings) {
        if !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
    warnings.sort_by_key(Warning::rank);
    warnings
}
