//! Judges whether work was in time on one kernel: applies [`tardy_core::verdict`] to the
//! measurements, and adds the margin, the conditions, and what would decide an inconclusive case.
//!
//! The data judged are, best first: measured completions of work; latencies of the start, against
//! the time that the model leaves for them; latencies of the start alone. A run in virtual time is
//! never judged: it measures lengths of code paths, which do not decide whether a deadline is met.
//!
//! Advice uses the same `verdict::judge` as a run, on one probe's counts, over all runs of a
//! kernel. Completions take precedence over late starts. Late starts are judged against the time
//! that the stated work leaves, extended by a measured slowdown, and are called a model.
//! Measurements take precedence over the rules, which break ties; a run in virtual time has no
//! verdict here.

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
    /// Work was done and timed from due to done.
    Completion {
        /// The judged probe.
        probe: String,
        /// How long the timed work takes alone; absent if the run does not record it.
        length_ns: Option<Nanos>,
        /// The time that the model adds because the user's work is longer; negative if it is
        /// shorter, 0 if equal.
        added_ns: Nanos,
    },
    /// Late starts were timed; the work is added by the model.
    Model {
        /// The judged probe.
        probe: String,
        /// The work as stretched.
        work_ns: Nanos,
        /// The share by which it was stretched; absent if that was not measured, and none was
        /// taken.
        slowdown: Option<f64>,
    },
    /// Late starts were timed, and the length of the work is not known.
    Start {
        /// The judged probe.
        probe: String,
    },
}

/// The distance from the deadline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Margin {
    /// The worst that was seen, from due to done (or to started, if no work is known).
    pub worst_ns: Nanos,
    /// Time from there to the deadline; negative after it.
    pub to_deadline_ns: Nanos,
    /// The distance as a share of the deadline.
    pub share: f64,
    /// The least percentile at or above the share that must be in time, and its upper bound at 95
    /// %; absent if no miss is allowed, or nothing bounds it.
    pub bounded: Option<BoundedMargin>,
}

/// The minimum distance of a percentile from the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BoundedMargin {
    /// The share of work that is done by then.
    pub probability: f64,
    /// Upper bound, at 95 %.
    pub upper_ns: Nanos,
    /// Time from there to the deadline.
    pub to_deadline_ns: Nanos,
}

/// The conditions of a verdict; it says nothing about others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conditions {
    pub runs: Vec<String>,
    /// Their length together.
    pub measured_ns: Nanos,
    /// Names of their phases.
    pub phases: Vec<String>,
    /// Whether no load ran in any of them.
    pub is_idle: bool,
    /// CPUs, as in the first run.
    pub cpus: String,
    /// Policy and priority of the probe, as in the first run.
    pub scheduling: Option<String>,
    /// Whether sleep states of CPUs were held off by the tool while it measured.
    pub is_kept_awake: bool,
    /// Whose time.
    pub clock: ClockKind,
}

/// The judgement of one kernel.
#[derive(Debug, Clone, Serialize)]
pub struct Judgement {
    pub kernel: String,
    /// Whether it is PREEMPT_RT; absent if the runs do not record it.
    pub is_real_time: Option<bool>,
    /// Its preemption model; absent if the runs do not record it.
    pub preemption: Option<PreemptionModel>,
    /// The largest latency, in virtual time too, with the work that the model adds; absent if there
    /// is nothing to judge.
    pub largest_ns: Option<Nanos>,
    /// Relative slowdown of work compared with the kernel that changes least; absent without runs
    /// of costs of both.
    pub slowdown: Option<Slowdown>,
    /// The data that were judged; absent if there are none.
    pub judged: Option<Basis>,
    /// The verdict; absent without a deadline, in virtual time, or without data.
    pub verdict: Option<Verdict>,
    /// Why there is no verdict.
    pub no_verdict_because: Option<String>,
    /// The distance from the deadline.
    pub margin: Option<Margin>,
    /// How much longer to measure, if that would decide and misses stay as rare as so far.
    pub measure_longer_ns: Option<Nanos>,
    /// Misses in a year at most, at 95 %, if the conditions last all year; absent if nothing may be
    /// concluded.
    pub misses_a_year_at_most: Option<f64>,
    /// Under which conditions.
    pub conditions: Option<Conditions>,
    /// The warnings of the runs, the most important first.
    pub warnings: Vec<Warning>,
}

/// Judges the measurements on `kernel`, by the named probe if there is one; `slowdown` is the
/// measured relative slowdown of work compared with the stated length.
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
            "no run of this kernel has latencies or completions{of_probe}: give a run that `tardy \
             run` made"
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

/// Returns all runs together: counts add up.
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

/// Returns `warned`, and information that an import lacks, each once.
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

/// Returns the runs follow each other: each adds its own variance, and an event that was not seen
/// may be as large as in the worst of them.
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

/// Returns how strongly late samples cluster in the run in which they do most; `None` if it is
/// unknown for one run.
fn least_index(taken: &[JudgedProbe]) -> Option<f64> {
    let indices = taken
        .iter()
        .map(|run| run.numbers().and_then(|numbers| numbers.extremal_index))
        .collect::<Option<Vec<f64>>>()?;
    indices.into_iter().min_by(f64::total_cmp)
}

/// Returns the largest value plus the work added by the model.
fn largest(taken: &[JudgedProbe], added: Nanos) -> Option<Nanos> {
    let values = taken
        .iter()
        .filter_map(|run| Some(Nanos(run.numbers()?.max_ns)));
    Some(values.max()? + added)
}

/// `added` is the work that the model adds after each start.
fn margin(taken: &[JudgedProbe], task: &Task, deadline: Nanos, added: Nanos) -> Option<Margin> {
    let worst = largest(taken, added)?;
    let bounded = |share: f64| {
        // Of several runs the longest one: percentiles of several cannot be combined.
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
