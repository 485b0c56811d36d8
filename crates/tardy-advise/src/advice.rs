//! Makes the complete advice: each kernel's verdict, the curves if two kernels were measured, the
//! path through the rules, and the conclusions.

use serde::Serialize;
use tardy_core::series::ClockKind;
use tardy_core::total_delay::Crossover;
use tardy_core::units::Nanos;
use tardy_core::verdict::requirement::Requirement;
use tardy_core::verdict::{Outcome, Verdict};
use tardy_machine::facts::MachineFacts;
use tardy_machine::root::Root;
use tardy_statistics::confidence::Interval;
use tardy_statistics::estimate::Estimate;

use super::curves::{Curves, curves};
use super::flow::{Choice, Path, Situation, path};
use super::help::{Improvements, helps};
use super::judgement::{Judgement, judgement};
use super::kernels::Kernel;
use super::slowdown::{Slowdown, slowdown};
use super::task::Task;
use tardy_results::decision::{Decision, MeasuredKernel, Question, RuleAnswer, decision};
use tardy_results::summary::read::SummaryError;
use tardy_results::summary::summarize::summarize;

#[derive(Debug, Clone, Serialize)]
pub struct Advice {
    /// The verdict on the advised kernel, as a sentence.
    pub conclusion: String,
    /// Whether PREEMPT_RT is needed.
    pub decision: Decision,
    /// Whether the advised kernel meets the deadline; absent if the user stated no deadline.
    pub outcome: Option<Outcome>,
    /// The advised kernel, one of the measured kernels.
    pub kernel: Option<String>,
    /// The user's statements about the work.
    pub task: Task,
    /// One judgement per kernel, best first.
    pub kernels: Vec<Judgement>,
    /// The path through the rules.
    pub path: Path,
    /// Comparisons of each real-time kernel with the least preemptible kernel that is not
    /// real-time.
    pub comparisons: Vec<Comparison>,
    /// Improvements for the machine on which the advised kernel was measured, or for this machine
    /// if nothing was measured.
    pub helps: Improvements,
}

/// Comparison of two kernels by the model of total delay.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The kernel that is not a real-time kernel.
    pub fast: String,
    /// The real-time kernel.
    pub real_time: String,
    /// The clock on which the times of both kernels' runs are based. In virtual time, only the
    /// lengths of code paths can be compared.
    pub clock: ClockKind,
    /// The percentile of the latencies from which the curves are computed, as a fraction. It is 1,
    /// because the curves use the largest latencies.
    pub probability: f64,
    /// How much longer work takes on the real-time kernel, as a fraction; absent if no cost run
    /// shows it. The curves then assume that there is no slowdown.
    pub slowdown: Option<Slowdown>,
    pub curves: Curves,
}

/// Compiles the advice. `root` is the root of this machine's files. If there is no run, the rules
/// are answered from facts about this machine. If the user named a probe, `probe` is its name, and
/// only its samples are judged.
///
/// # Errors
/// Returns [`SummaryError`] if a run cannot be read.
pub fn advice(
    kernels: &[Kernel],
    task: &Task,
    probe: Option<&str>,
    root: &Root,
) -> Result<Advice, SummaryError> {
    let here = MachineFacts::read(root);
    let is_hardware = |kernel: &&Kernel| kernel.clock != ClockKind::Virtual;
    // Every other kernel is compared with the least preemptible ordinary kernel with the same
    // clock.
    let fast = |clock: ClockKind| {
        kernels
            .iter()
            .filter(|kernel| kernel.is_real_time == Some(false) && kernel.clock == clock)
            .min_by_key(|kernel| kernel.model())
    };
    let mut judged = Vec::new();
    let mut comparisons = Vec::new();
    for kernel in kernels {
        let reference = fast(kernel.clock).filter(|fast| fast.name != kernel.name);
        let slower = reference.and_then(|fast| slowdown(task.kind, &fast.costs, &kernel.costs));
        // The user states how long the work takes on the fast kernel; on another kernel, it takes
        // longer by that kernel's measured slowdown. If a kernel's slowdown was not measured, it
        // counts as unknown for a real-time kernel, and as 0 for any other kernel.
        let measured = slower.as_ref().map(|slower| slower.estimate.value);
        let stretch = measured.or((kernel.is_real_time != Some(true)).then_some(0.0));
        let judgement = judgement(kernel, task, probe, stretch)?;
        judged.push(Judgement {
            slowdown: slower.clone(),
            ..judgement
        });
        if let Some(fast) = reference.filter(|_| kernel.is_real_time == Some(true)) {
            comparisons.extend(comparison(fast, kernel, slower)?);
        }
    }
    // Costs measured in virtual time do not give the duration of work in microseconds.
    let of_a_machine = |comparison: &&Comparison| {
        comparison.slowdown.is_some() && comparison.clock != ClockKind::Virtual
    };
    let crossover_ns = comparisons.iter().find(of_a_machine).and_then(crossover_of);
    let machine = kernels
        .iter()
        .find(is_hardware)
        .map_or(&here, |kernel| &kernel.machine);
    let path = path(&Situation {
        task,
        machine: Some(machine),
        crossover_ns,
    });
    let (outcome, conclusion) = conclude(&judged, task.deadline_ns);
    let decision = decision(&Question {
        kernels: kernels
            .iter()
            .zip(&judged)
            .filter_map(|(kernel, judgement)| measured(judgement, kernel.clock))
            .collect(),
        deadline: task.deadline_ns,
        is_virtual_machine: task
            .is_virtual
            .or_else(|| machine.virtualization.is_virtual())
            == Some(true),
        rules: rule_answer(&path).filter(|_| *task != Task::default()),
    });
    let kernel = outcome
        .and(by_rank(&judged).first().copied())
        .filter(|judgement| judgement.verdict.is_some())
        .map(|judgement| judgement.kernel.clone());
    let judged: Vec<Judgement> = by_rank(&judged).into_iter().cloned().collect();
    let of_name = |judgement: &Judgement| {
        kernels
            .iter()
            .find(|kernel| kernel.name == judgement.kernel)
            .filter(is_hardware)
    };
    let advised = judged
        .iter()
        .find_map(|judgement| Some((of_name(judgement)?, judgement)));
    let cpus = advised
        .and_then(|(found, _)| found.runs.first())
        .map(|run| run.record.measured_cpus.clone())
        .unwrap_or_default();
    let warnings = advised
        .map(|(_, judgement)| judgement.warnings.as_slice())
        .unwrap_or_default();
    let helps = helps(
        advised.map_or(&here, |(found, _)| &found.machine),
        &here,
        root,
        &cpus,
        warnings,
        decision.answer,
    );
    Ok(Advice {
        decision,
        conclusion,
        outcome,
        kernel,
        task: task.clone(),
        kernels: judged,
        path,
        comparisons,
        helps,
    })
}

fn crossover_of(comparison: &Comparison) -> Option<(f64, Option<Interval>)> {
    match comparison.curves.crossing {
        Crossover::At {
            work_ns,
            interval_ns,
        } => Some((work_ns, interval_ns)),
        Crossover::RealFastAlways => Some((0.0, None)),
        Crossover::RealTimeAlways | Crossover::Reversed { .. } => None,
    }
}

/// Compares two kernels by their largest latencies, as mckenney2009 does. Returns `None` if one of
/// the kernels has no latencies.
fn comparison(
    fast: &Kernel,
    real_time: &Kernel,
    slower: Option<Slowdown>,
) -> Result<Option<Comparison>, SummaryError> {
    let (Some(of_fast), Some(of_real_time)) = (largest(fast)?, largest(real_time)?) else {
        return Ok(None);
    };
    let share = slower
        .as_ref()
        .map_or(Estimate::exact(0.0), |slower| slower.estimate);
    let time = if real_time.clock == ClockKind::Virtual {
        " (virtual time: lengths of code paths)"
    } else {
        ""
    };
    let title = format!("{} against {}{time}", real_time.name, fast.name);
    let estimate = |largest: i64| Estimate::exact(largest as f64);
    Ok(Some(Comparison {
        fast: fast.name.clone(),
        real_time: real_time.name.clone(),
        clock: real_time.clock,
        probability: 1.0,
        slowdown: slower,
        curves: curves(title, estimate(of_fast), estimate(of_real_time), share),
    }))
}

/// Returns the largest latency of all runs of a kernel, in ns; `None` if no run has latencies.
fn largest(kernel: &Kernel) -> Result<Option<i64>, SummaryError> {
    let mut largest = None;
    for run in &kernel.runs {
        let summary = summarize(&run.folder, &Requirement::default())?;
        let of_run = summary
            .probes
            .into_iter()
            .find(|probe| probe.quantity == "latency")
            .and_then(|probe| probe.numbers);
        largest = largest.max(of_run.map(|numbers| numbers.max_ns));
    }
    Ok(largest)
}

/// Returns the kernels from the most to the least suitable. Kernels that meet the deadline come
/// first, then the inconclusive ones, then those that miss it. Among kernels that meet the
/// deadline, the least preemptible comes first; the other kernels are sorted by their largest
/// latency.
fn by_rank(judged: &[Judgement]) -> Vec<&Judgement> {
    let mut ranked: Vec<&Judgement> = judged.iter().collect();
    ranked.sort_by_key(|judgement| {
        let outcome = judgement.verdict.as_ref().map(|verdict| verdict.outcome);
        let rank = match outcome {
            Some(Outcome::Passed) => 0,
            Some(Outcome::Inconclusive) => 1,
            Some(Outcome::Failed) => 2,
            None => 3,
        };
        let least = judgement.preemption.filter(|_| rank == 0);
        let is_unknown = rank == 0 && judgement.preemption.is_none();
        (rank, is_unknown, least, judgement.largest_ns)
    });
    ranked
}

/// Returns the outcome for the most suitable kernel, and the conclusion as a sentence.
fn conclude(judged: &[Judgement], deadline: Option<Nanos>) -> (Option<Outcome>, String) {
    let ranked = by_rank(judged);
    let best = ranked
        .first()
        .and_then(|best| Some((*best, best.verdict.as_ref()?.outcome, deadline?)));
    let Some((best, outcome, deadline)) = best else {
        let why = judged
            .iter()
            .find_map(|judgement| judgement.no_verdict_because.clone());
        let why = why.unwrap_or_else(|| "a measurement is missing".to_owned());
        return (deadline.map(|_| Outcome::Inconclusive), why);
    };
    let (name, deadline) = (&best.kernel, deadline.exact());
    let judged_kernels = ranked
        .iter()
        .filter(|judgement| judgement.verdict.is_some())
        .count();
    let sentence = match outcome {
        Outcome::Passed => format!("{name} met the deadline of {deadline}"),
        Outcome::Inconclusive => format!(
            "the samples of {name} do not decide whether it meets the deadline of {deadline}"
        ),
        Outcome::Failed if judged_kernels == 1 => {
            format!("{name} missed the deadline of {deadline}")
        }
        Outcome::Failed => {
            format!("every measured kernel missed the deadline of {deadline}; {name} came nearest")
        }
    };
    (Some(outcome), sentence)
}

fn measured(judgement: &Judgement, clock: ClockKind) -> Option<MeasuredKernel> {
    Some(MeasuredKernel {
        name: judgement.kernel.clone(),
        model: judgement.preemption,
        outcome: judgement.verdict.as_ref().map(|verdict| verdict.outcome),
        skipped_too_many: judgement
            .verdict
            .as_ref()
            .is_some_and(Verdict::fails_by_skipped_periods_alone),
        largest: judgement.largest_ns?,
        is_idle: judgement
            .conditions
            .as_ref()
            .is_some_and(|conditions| conditions.is_idle),
        is_virtual_time: clock == ClockKind::Virtual,
    })
}

/// Returns the conclusion that follows from the rules.
fn rule_answer(path: &Path) -> Option<RuleAnswer> {
    let last = path.steps.last()?;
    let yes = if last.is_yes { "yes" } else { "no" };
    Some(RuleAnswer {
        needs_real_time: path.choice == Choice::RealTime,
        reason: format!(
            "asks \"{}\", and the answer is {yes} ({})",
            last.question, last.reason
        ),
        source: "mckenney2009, section 5".to_owned(),
    })
}
