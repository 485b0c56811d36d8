//! `tardy lab check`: tests a kernel for a regression in an ensemble of runs, for scripts and
//! `git bisect run`.

use std::path::Path;

use serde::Serialize;
use tardy_core::units::Nanos;
use tardy_lab::bisect::Answer;
use tardy_lab::comparison::{Comparison, PhaseResult};
use tardy_lab::diagnosis::Blame;
use tardy_lab::experiment::Outcome;
use tardy_lab::kernel::KernelError;
use tardy_lab::variant::Variant;
use tardy_results::compare::margin::Margin;
use tardy_results::document::Format;
use tardy_results::exit::Exit;

use super::ensemble::{Ensemble, compare, refuse_used_folder, run_all};
use super::request;
use super::run::print;
use super::setting::{LabError, Setting};
use crate::cli::lab::kernels::resolve;
use crate::cli::lab::{CheckArguments, MeasureArguments};
use crate::command::output;

/// Runs the command. If this machine lacks a requirement, the exit code aborts a bisection, because
/// `git bisect run` would interpret 3 as a bad kernel.
pub(super) fn check(arguments: &CheckArguments) -> Exit {
    run(arguments).unwrap_or_else(|error| {
        output::complain(&error);
        match (error.exit_code(), &error) {
            // A missing module does not make the kernel bad, but `git bisect run` would interpret
            // the exit code 2 as a bad kernel.
            (Exit::Machine, _) | (_, LabError::Kernel(KernelError::NoModule { .. })) => {
                Exit::StopBisect
            }
            (code, _) => code,
        }
    })
}

fn run(arguments: &CheckArguments) -> Result<Exit, LabError> {
    request::check(&arguments.measure)?;
    let setting = Setting::new(&arguments.machine)?;
    (arguments.measure.watch || arguments.sections)
        .then(|| tardy_lab::watch::check(&setting.machine))
        .transpose()?;
    let variants = arguments.kernels.variants(
        setting.machine.architecture,
        &setting.cache,
        arguments.machine.refresh,
    )?;
    let setting = setting.with_working_accelerator(&variants[0]);
    let (variants, asked) = with_baseline(arguments, &setting, variants)?;
    let scratch = setting.cache.scratch("check")?;
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| scratch.path().to_owned());
    refuse_used_folder(&out)?;
    let measure = MeasureArguments {
        watch: arguments.measure.watch || arguments.sections,
        watch_worst: arguments.measure.watch_worst.or(Some(0)),
        ..arguments.measure.clone()
    };
    let (verdict, comparison) = judge(
        &setting,
        &variants,
        &measure,
        (arguments.replicas, arguments.all),
        asked,
        &out,
    )?;
    if arguments.json {
        let json = Format::LAB_CHECK.document(&Report {
            verdict: &verdict,
            comparison: &comparison,
        });
        output::print(&json).map_err(|error| LabError::Unable(error.to_string()))?;
    } else {
        print(&comparison, false)?;
        output::print(&output::fitted(&verdict.text()))
            .map_err(|error| LabError::Unable(error.to_string()))?;
    }
    Ok(verdict.exit())
}

/// Tests one kernel, and returns the observation in words.
///
/// # Errors
/// Returns [`LabError`] if this machine cannot decide.
pub(super) fn test(
    setting: &Setting,
    variant: &Variant,
    measure: &MeasureArguments,
    replicas: u32,
    limit: Nanos,
) -> Result<(Answer, String), LabError> {
    let scratch = setting.cache.scratch("check")?;
    let asked = CheckLimits {
        limit: Some(limit),
        margin: None,
        is_of_sections: false,
    };
    let (verdict, _) = judge(
        setting,
        std::slice::from_ref(variant),
        measure,
        (replicas, false),
        asked,
        scratch.path(),
    )?;
    let max = verdict
        .max_ns
        .map_or(String::new(), |max| format!(", the largest {max}"));
    let answer = match verdict.exit() {
        Exit::Done => Answer::Good,
        Exit::Failed => Answer::Bad,
        Exit::Skip => Answer::CannotTell,
        _ => return Err(LabError::Unable(verdict.text())),
    };
    Ok((
        answer,
        format!(
            "{} of {} runs above {limit}{max}",
            verdict.above, verdict.runs
        ),
    ))
}

/// The limits for a kernel. If a margin is given, the second variant is the baseline.
#[derive(Clone, Copy)]
struct CheckLimits {
    limit: Option<Nanos>,
    margin: Option<Margin>,
    /// Whether the limit applies to sections instead of latencies.
    is_of_sections: bool,
}

fn with_baseline(
    arguments: &CheckArguments,
    setting: &Setting,
    mut variants: Vec<Variant>,
) -> Result<(Vec<Variant>, CheckLimits), LabError> {
    let Some(baseline) = &arguments.baseline else {
        return Ok((
            variants,
            CheckLimits {
                limit: arguments.limit,
                margin: None,
                is_of_sections: arguments.sections,
            },
        ));
    };
    if variants.len() != 1 {
        return Err(LabError::Usage(
            "--baseline is compared with exactly one kernel in one preemption model: give one \
             --kernel and at most one --preempt"
                .to_owned(),
        ));
    }
    let kernel = resolve(
        baseline,
        setting.machine.architecture,
        &setting.cache,
        arguments.machine.refresh,
    )?;
    let mut variant = Variant::new(
        kernel,
        variants[0].preemption.clone(),
        variants[0].words.clone(),
    );
    variant.name.push_str("-baseline");
    variants.push(variant);
    Ok((
        variants,
        CheckLimits {
            limit: arguments.limit,
            margin: Some(arguments.margin),
            is_of_sections: arguments.sections,
        },
    ))
}

/// Runs the ensemble until one guest settles the result or all have run.
fn judge(
    setting: &Setting,
    variants: &[Variant],
    measure: &MeasureArguments,
    (replicas, all): (u32, bool),
    asked: CheckLimits,
    out: &Path,
) -> Result<(Verdict, Comparison), LabError> {
    let is_decided = |outcome: &Outcome| {
        let alone = compare(setting, variants, std::slice::from_ref(outcome));
        Verdict::new(&alone, std::slice::from_ref(outcome), asked).is_decided()
    };
    let ensemble = Ensemble {
        is_decided: if all { &|_| false } else { &is_decided },
        ..Ensemble::all(replicas, false)
    };
    let outcomes = run_all(setting, variants, measure, ensemble, out)?;
    let comparison = compare(setting, variants, &outcomes);
    Ok((Verdict::new(&comparison, &outcomes, asked), comparison))
}

#[derive(Serialize)]
struct Report<'a> {
    verdict: &'a Verdict,
    comparison: &'a Comparison,
}

/// The quantity that has a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Quantity {
    Latency,
    /// The longest interval in which no other task can run.
    Section,
}

impl Quantity {
    fn word(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Section => "non-preemptible section",
        }
    }
}

/// The result of the ensemble.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Verdict {
    limit_ns: Option<Nanos>,
    /// The quantity to which the limit applies.
    of: Quantity,
    /// Number of runs with samples.
    runs: usize,
    /// Number of these runs with a latency above the limit.
    above: usize,
    /// The largest latency of all runs.
    max_ns: Option<Nanos>,
    /// Number of guests whose kernel booted, and then panicked or hung.
    broken: usize,
    /// Number of guests whose kernel did not boot, or lacks the requested preemption model.
    cannot_tell: usize,
    /// Number of guests without a result because of the host, QEMU, or the program in the guest.
    trouble: usize,
    /// The phase in which the kernel is worst, compared with the baseline.
    beside_baseline: Option<BesideBaseline>,
}

/// A phase of a kernel, compared with the baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct BesideBaseline {
    phase: String,
    /// The kernel's value: the median of the runs' 99.9th percentiles.
    p999_ns: Nanos,
    /// The baseline's value.
    baseline_p999_ns: Nanos,
    /// The allowed excess.
    margin_ns: Nanos,
}

impl BesideBaseline {
    fn new(kernel: &PhaseResult, baseline: &PhaseResult, margin: Margin) -> Self {
        let margin_ns = Nanos(margin.of(baseline.p999_ns.get() as f64).round() as i64);
        Self {
            phase: kernel.label(),
            p999_ns: kernel.p999_ns,
            baseline_p999_ns: baseline.p999_ns,
            margin_ns,
        }
    }

    fn is_worse(&self) -> bool {
        self.p999_ns > self.baseline_p999_ns + self.margin_ns
    }

    /// Returns the ratio of the kernel's value to the allowed value.
    fn beyond(&self) -> f64 {
        self.p999_ns.get() as f64 / (self.baseline_p999_ns + self.margin_ns).get().max(1) as f64
    }

    /// Returns the worst of the compared phases.
    fn worst(comparison: &Comparison, margin: Margin) -> Option<Self> {
        let [kernel, baseline] = &comparison.variants[..] else {
            return None;
        };
        let of_baseline = |phase: &PhaseResult| {
            baseline
                .phases
                .iter()
                .find(|other| (&other.phase, &other.probe) == (&phase.phase, &phase.probe))
        };
        let all = counted(&kernel.phases)
            .filter_map(|phase| Some(Self::new(phase, of_baseline(phase)?, margin)));
        all.max_by(|one, other| one.beyond().total_cmp(&other.beyond()))
    }
}

impl Verdict {
    fn new(comparison: &Comparison, outcomes: &[Outcome], asked: CheckLimits) -> Self {
        // The baseline is the second variant, if there is one. Failures of the baseline prove
        // nothing about the kernel.
        let is_kernel = |variant: usize| asked.margin.is_none() || variant == 0;
        let blamed = |blame: Blame| {
            let of_kernel = outcomes.iter().filter(|outcome| is_kernel(outcome.variant));
            of_kernel
                .filter(|outcome| {
                    outcome
                        .result
                        .as_ref()
                        .is_err_and(|failure| failure.blame() == blame)
                })
                .count()
        };
        let (broken, cannot_tell) = (blamed(Blame::Kernel), blamed(Blame::CannotTell));
        let failed = comparison
            .variants
            .iter()
            .flat_map(|variant| &variant.runs)
            .filter(|run| run.failure.is_some())
            .count();
        let all: Vec<Vec<Nanos>> = comparison
            .variants
            .iter()
            .map(|variant| maxima_of_runs(&variant.phases, asked.is_of_sections))
            .collect();
        // A run without samples proves nothing, even if it ended normally.
        let without_samples = outcomes.len() - failed - all.iter().map(Vec::len).sum::<usize>();
        // A run whose load did not work proves nothing either, because its phase is idle, but would
        // count as the kernel under load.
        let without_load: usize = comparison
            .variants
            .iter()
            .map(|variant| variant.without_samples.len())
            .sum();
        let maxima: Vec<Nanos> = all
            .into_iter()
            .enumerate()
            .filter(|(variant, _)| is_kernel(*variant))
            .flat_map(|(_, maxima)| maxima)
            .collect();
        Self {
            limit_ns: asked.limit,
            of: if asked.is_of_sections {
                Quantity::Section
            } else {
                Quantity::Latency
            },
            runs: maxima.len(),
            above: maxima
                .iter()
                .filter(|max| asked.limit.is_some_and(|limit| **max > limit))
                .count(),
            max_ns: maxima.into_iter().max(),
            broken,
            cannot_tell,
            trouble: failed - broken - cannot_tell + without_samples + without_load,
            beside_baseline: asked
                .margin
                .and_then(|margin| BesideBaseline::worst(comparison, margin)),
        }
    }

    /// Returns the exit code. If the kernel exceeded the limit, panicked or hung in one guest, the
    /// check fails, even if other guests passed. A failure of the host proves nothing about the
    /// kernel.
    fn exit(&self) -> Exit {
        match self {
            Self { above: 1.., .. } | Self { broken: 1.., .. } => Exit::Failed,
            Self { trouble: 1.., .. } => Exit::StopBisect,
            Self {
                cannot_tell: 1.., ..
            } => Exit::Skip,
            Self {
                beside_baseline: Some(beside),
                ..
            } if beside.is_worse() => Exit::Failed,
            _ => Exit::Done,
        }
    }

    /// Returns whether the result is final, because no further guest can change it.
    fn is_decided(&self) -> bool {
        self.above > 0 || self.broken > 0
    }

    fn text(&self) -> String {
        let limit = self
            .limit_ns
            .map_or(String::new(), |limit| format!(" above {limit}"));
        match self {
            Self { above: 1.., .. } => format!(
                "failed: {} of {} runs have a {}{limit}",
                self.above,
                self.runs,
                self.of.word()
            ),
            Self { broken: 1.., .. } => format!(
                "failed: {} guests booted, then panicked or hung before measuring",
                self.broken
            ),
            Self { trouble: 1.., .. } => {
                format!(
                    "not decided: {} guests or loads gave no samples, for reasons other than the \
                     kernel",
                    self.trouble
                )
            }
            Self {
                cannot_tell: 1.., ..
            } => {
                format!(
                    "skipped: {} guests did not boot far enough to measure, or lack the \
                     preemption model",
                    self.cannot_tell
                )
            }
            Self {
                beside_baseline: Some(beside),
                ..
            } if beside.is_worse() => {
                let BesideBaseline {
                    phase,
                    p999_ns,
                    baseline_p999_ns,
                    margin_ns,
                } = beside;
                format!(
                    "failed: under {phase}, 99.9 % of latencies are within {p999_ns}; in the \
                     baseline they are within {baseline_p999_ns}, and the allowed excess is \
                     {margin_ns}"
                )
            }
            _ => {
                let no_latency = self
                    .limit_ns
                    .map(|_| format!("0 of {} runs have a {}{limit}", self.runs, self.of.word()));
                let beside = self.beside_baseline.as_ref().map(|beside| {
                    format!(
                        "the 99.9 % latency is within the margin of the baseline ({} against {}, \
                         under {})",
                        beside.p999_ns, beside.baseline_p999_ns, beside.phase
                    )
                });
                let both = no_latency
                    .into_iter()
                    .chain(beside)
                    .collect::<Vec<_>>()
                    .join("; ");
                format!(
                    "passed: {both}; this is a regression test, not a latency bound for any \
                     machine"
                )
            }
        }
    }
}

/// Returns the phases under load, or all phases if none is under load.
fn counted(phases: &[PhaseResult]) -> impl Iterator<Item = &PhaseResult> {
    let loaded = phases.iter().any(|phase| !phase.loads.is_empty());
    phases
        .iter()
        .filter(move |phase| !loaded || !phase.loads.is_empty())
}

/// Returns the largest latency of each run, or its longest section. If there are phases under load,
/// only these count.
fn maxima_of_runs(phases: &[PhaseResult], is_of_sections: bool) -> Vec<Nanos> {
    let mut maxima: Vec<Nanos> = Vec::new();
    for phase in counted(phases) {
        let of_runs = if is_of_sections {
            &phase.longest_section_of_runs_ns
        } else {
            &phase.max_of_runs_ns
        };
        for (index, max) in of_runs.iter().enumerate() {
            match maxima.get_mut(index) {
                Some(known) => *known = (*known).max(*max),
                None => maxima.push(*max),
            }
        }
    }
    maxima
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(loads: &[&str], maxima: &[i64]) -> PhaseResult {
        PhaseResult {
            phase: "x".into(),
            loads: loads.iter().map(|load| (*load).to_owned()).collect(),
            probe: "cyclic".into(),
            samples: 1,
            median_ns: Nanos(0),
            p99_ns: Nanos(0),
            p999_ns: Nanos(0),
            max_of_runs_ns: maxima.iter().copied().map(Nanos).collect(),
            max_median_ns: Nanos(0),
            max_ns: Nanos(0),
            longest_section_of_runs_ns: maxima.iter().map(|max| Nanos(max / 2)).collect(),
        }
    }

    #[test]
    fn the_loaded_phases_decide_and_the_worst_of_them_counts_for_each_run() {
        let phases = [
            phase(&[], &[900, 900]),
            phase(&["io"], &[10, 40]),
            phase(&["fork"], &[30, 20]),
        ];
        assert_eq!(maxima_of_runs(&phases, false), [Nanos(30), Nanos(40)]);
        assert_eq!(
            maxima_of_runs(&phases[..1], false),
            [Nanos(900), Nanos(900)]
        );
        assert_eq!(maxima_of_runs(&phases, true), [Nanos(15), Nanos(20)]);
    }

    #[test]
    fn what_was_seen_of_the_kernel_goes_before_trouble_of_the_host_and_that_before_a_skip() {
        let verdict = Verdict {
            limit_ns: Some(Nanos(1)),
            of: Quantity::Latency,
            runs: 10,
            above: 0,
            max_ns: None,
            broken: 0,
            cannot_tell: 0,
            trouble: 0,
            beside_baseline: None,
        };
        assert_eq!(verdict.exit(), Exit::Done);
        let margin: Margin = "20%".parse().unwrap();
        let of = |p999: i64| PhaseResult {
            p999_ns: Nanos(p999),
            ..phase(&["io"], &[1])
        };
        let beside = |p999: i64| Verdict {
            beside_baseline: Some(BesideBaseline::new(&of(p999), &of(1000), margin)),
            ..verdict.clone()
        };
        assert_eq!(
            (beside(1200).exit(), beside(1201).exit()),
            (Exit::Done, Exit::Failed)
        );
        assert!(
            beside(1201).text().contains("under io")
                && beside(1200).text().contains("within the margin"),
            "{}",
            beside(1201).text()
        );
        assert_eq!(
            Verdict {
                trouble: 1,
                ..beside(9999)
            }
            .exit(),
            Exit::StopBisect,
            "half of an ensemble compares nothing"
        );
        assert_eq!(
            Verdict {
                cannot_tell: 1,
                ..verdict.clone()
            }
            .exit(),
            Exit::Skip
        );
        assert_eq!(
            Verdict {
                cannot_tell: 1,
                trouble: 1,
                ..verdict.clone()
            }
            .exit(),
            Exit::StopBisect
        );
        for decided in [
            Verdict {
                above: 1,
                trouble: 1,
                cannot_tell: 1,
                ..verdict.clone()
            },
            Verdict {
                broken: 1,
                trouble: 1,
                ..verdict
            },
        ] {
            assert_eq!((decided.exit(), decided.is_decided()), (Exit::Failed, true));
        }
        // At exit code 125, git bisect skips the kernel; at 128 and above, it aborts; it interprets
        // all other codes from 1 to 127 as bad.
        assert_eq!((Exit::Skip as u8, Exit::StopBisect as u8), (125, 128));
    }
}
