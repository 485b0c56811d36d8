//! Computes how much slower work is on one kernel than on another, from runs of `tardy cost` on
//! both.
//!
//! Times of a whole program are preferred to times of single kernel services, because a program
//! uses the services in a realistic mix; mckenney2009 also timed programs. For services, the
//! slowdown is the geometric mean over the services that both kernels have. The mean is computed
//! per round. Each round prepares everything again, so rounds vary independently.

use serde::Serialize;
use tardy_core::series::ClockKind;
use tardy_run::cost::{CostSet, Group};
use tardy_statistics::compare::ratio_of_means;
use tardy_statistics::confidence::Confidence;
use tardy_statistics::estimate::Estimate;

use super::task::WorkKind;
use tardy_results::cost::summary::{CostSummary, MetricSummary, median};

/// A slowdown and its source.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slowdown {
    /// Slowdown as a fraction: 0 for none, negative if work is faster.
    pub estimate: Estimate,
    /// The measurement on which the estimate is based, as text.
    pub measured_by: String,
}

/// Returns how much slower work of `kind` is in the runs `slow` than in the runs `fast`; `None` if
/// the two have no suitable metric in common.
#[must_use]
pub fn slowdown(
    kind: Option<WorkKind>,
    fast: &[CostSummary],
    slow: &[CostSummary],
) -> Option<Slowdown> {
    let pairs = || {
        fast.iter()
            .flat_map(|base| slow.iter().map(move |other| (base, other)))
            .filter(|(base, other)| is_alike(base, other))
    };
    pairs()
        .find_map(|(base, other)| of_program(kind, base, other))
        .or_else(|| pairs().find_map(|(base, other)| of_services(kind?, base, other)))
}

fn is_alike(base: &CostSummary, other: &CostSummary) -> bool {
    let is_time = |run: &CostSummary| run.clock != ClockKind::Virtual && run.how.unit == "ns";
    is_time(base)
        && is_time(other)
        && base.how.set == other.how.set
        && base.how.command == other.how.command
}

/// Returns the slowdown of a timed program, for work of kind `kind`. Compares the program's elapsed
/// time if `kind` is not given, its system time for work in the kernel (both as in mckenney2009),
/// and its user time for computation. Returns `None` for work in memory, because none of these
/// times measures it.
fn of_program(kind: Option<WorkKind>, base: &CostSummary, other: &CostSummary) -> Option<Slowdown> {
    if base.how.set == CostSet::Metrics {
        return None;
    }
    let time = match kind {
        None => "real",
        Some(WorkKind::Compute) => "user",
        Some(WorkKind::Syscalls) => "sys",
        Some(WorkKind::Memory) => return None,
    };
    let values = |run: &'_ CostSummary| {
        run.metrics
            .iter()
            .find(|metric| metric.name == time)
            .map(|metric| metric.values.clone())
    };
    let (fast, slow) = (values(base)?, values(other)?);
    let estimate = ratio_of_means::slowdown(&fast, &slow, Confidence::NINETY_FIVE)?;
    let program = if base.how.command.is_empty() {
        "a build".to_owned()
    } else {
        format!("`{}`", base.how.command.join(" "))
    };
    Some(Slowdown {
        estimate,
        measured_by: format!(
            "`{time}` time of {program}: {} trials on the ordinary kernel, {} on the real-time \
             kernel",
            fast.len(),
            slow.len()
        ),
    })
}

fn of_services(kind: WorkKind, base: &CostSummary, other: &CostSummary) -> Option<Slowdown> {
    if base.how.set != CostSet::Metrics {
        return None;
    }
    let is_wanted = |group: Group| match kind {
        // Arithmetic uses no kernel services.
        WorkKind::Compute => false,
        WorkKind::Syscalls => matches!(
            group,
            Group::Processor | Group::ContextSwitch | Group::Communication | Group::FileAndMemory
        ),
        WorkKind::Memory => group == Group::Bandwidth,
    };
    let shared: Vec<(&MetricSummary, &MetricSummary)> = base
        .metrics
        .iter()
        .filter(|metric| is_wanted(metric.group))
        .filter_map(|metric| {
            Some((
                metric,
                other
                    .metrics
                    .iter()
                    .find(|candidate| candidate.name == metric.name)?,
            ))
        })
        .collect();
    let of_rounds = |run: &CostSummary, metrics: Vec<&MetricSummary>| -> Option<Vec<f64>> {
        let trials = run.how.trials as usize;
        let whole = |metric: &&MetricSummary| {
            metric.values.len() == trials * run.how.rounds as usize && trials > 0
        };
        metrics.iter().all(whole).then_some(())?;
        (0..run.how.rounds as usize)
            .map(|round| {
                let logarithms = metrics.iter().map(|metric| {
                    Some(median(&metric.values[round * trials..(round + 1) * trials])?.ln())
                });
                let sum: f64 = logarithms.sum::<Option<f64>>()?;
                Some((sum / metrics.len() as f64).exp())
            })
            .collect()
    };
    if shared.is_empty() {
        return None;
    }
    let fast = of_rounds(base, shared.iter().map(|(metric, _)| *metric).collect())?;
    let slow = of_rounds(other, shared.iter().map(|(_, metric)| *metric).collect())?;
    let estimate = ratio_of_means::slowdown(&fast, &slow, Confidence::NINETY_FIVE)?;
    let measured_by = format!(
        "geometric mean of {} costs: {} rounds on the ordinary kernel, {} on the real-time kernel",
        shared.len(),
        fast.len(),
        slow.len()
    );
    Some(Slowdown {
        estimate,
        measured_by,
    })
}
