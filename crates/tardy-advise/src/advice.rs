//! All of the advice: each kernel's verdict, the curves where two kernels were measured, the path
//! through the rules, and what follows from these together.

use serde::Serialize;
use tardy_core::series::ClockKind;
use tardy_core::summary::numbers::Percentile;
use tardy_core::total_delay::Crossover;
use tardy_core::verdict::Outcome;
use tardy_core::verdict::requirement::Requirement;
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
use tardy_results::summary::read::SummaryError;
use tardy_results::summary::summarize::summarize;

#[derive(Debug, Clone, Serialize)]
pub struct Advice {
    /// What it comes to, in a sentence.
    pub conclusion: String,
    /// What is concluded about the deadline, for the kernel advised; absent without a deadline.
    pub outcome: Option<Outcome>,
    /// The kernel advised, of those measured.
    pub kernel: Option<String>,
    /// What the user said.
    pub task: Task,
    /// What is said of each kernel, in the order of the runs.
    pub kernels: Vec<Judgement>,
    /// The path through the rules.
    pub path: Path,
    /// Each real-time kernel against the first one that is not.
    pub comparisons: Vec<Comparison>,
    /// What would help on the machine of the kernel advised, or on this one where nothing was
    /// measured.
    pub helps: Improvements,
}

/// Two kernels by the model.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The kernel that is fast.
    pub fast: String,
    /// The real-time kernel.
    pub real_time: String,
    /// Whose time both were measured in; of virtual time only the lengths of code paths compare.
    pub clock: ClockKind,
    /// Share of wake-ups that the latencies of the curves hold for.
    pub probability: f64,
    /// By which share work takes longer on the real-time kernel; absent where no runs of costs
    /// tell, and the curves have none.
    pub slowdown: Option<Slowdown>,
    pub curves: Curves,
}

/// Puts the advice together; `root` is this machine, which rules are answered from where there is
/// no run; `probe` is the one to judge by, where the user named one.
///
/// # Errors
/// [`SummaryError`] where a run cannot be read.
pub fn advice(
    kernels: &[Kernel],
    task: &Task,
    probe: Option<&str>,
    root: &Root,
) -> Result<Advice, SummaryError> {
    let here = MachineFacts::read(root);
    let is_hardware = |kernel: &&Kernel| kernel.clock != ClockKind::Virtual;
    let fast = |clock: ClockKind| {
        kernels
            .iter()
            .find(|kernel| kernel.is_real_time == Some(false) && kernel.clock == clock)
    };
    let mut judged = Vec::new();
    let mut comparisons = Vec::new();
    for kernel in kernels {
        let of_kernel = fast(kernel.clock).filter(|_| kernel.is_real_time == Some(true));
        let slower = of_kernel.and_then(|fast| slowdown(task.kind, &fast.costs, &kernel.costs));
        // The work's length is that on the fast kernel: it is not stretched there, and elsewhere by
        // what was measured.
        let stretch = if kernel.is_real_time == Some(true) {
            slower.as_ref().map(|slower| slower.estimate.value)
        } else {
            Some(0.0)
        };
        judged.push(judgement(kernel, task, probe, stretch)?);
        if let Some(fast) = of_kernel {
            comparisons.extend(comparison(fast, kernel, slower)?);
        }
    }
    // What code paths cost in an emulated machine does not tell how long work of so many
    // microseconds is.
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
    let (kernel, outcome, conclusion) = conclude(&path, &judged, task);
    let advised = kernels.iter().zip(&judged).find(|(found, _)| {
        kernel.as_ref().is_none_or(|name| found.name == *name) && is_hardware(found)
    });
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
        path.choice,
    );
    Ok(Advice {
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

/// The curves of two kernels at the highest percentile that both bound; absent where one has no
/// latencies.
fn comparison(
    fast: &Kernel,
    real_time: &Kernel,
    slower: Option<Slowdown>,
) -> Result<Option<Comparison>, SummaryError> {
    let (of_fast, of_real_time) = (percentiles(fast)?, percentiles(real_time)?);
    let bounded = of_fast
        .iter()
        .zip(&of_real_time)
        .rfind(|(a, b)| a.is_bounded() && b.is_bounded());
    let Some((a, b)) = bounded else {
        return Ok(None);
    };
    let estimate = |percentile: &Percentile| Estimate {
        value: percentile.value_ns as f64,
        interval: percentile
            .lower_ns
            .zip(percentile.upper_ns)
            .map(|(lower, upper)| Interval {
                lower: lower as f64,
                upper: upper as f64,
            }),
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
    Ok(Some(Comparison {
        fast: fast.name.clone(),
        real_time: real_time.name.clone(),
        clock: real_time.clock,
        probability: a.probability,
        slowdown: slower,
        curves: curves(title, estimate(a), estimate(b), share),
    }))
}

/// The percentiles of the longest run of latencies; none where there is no such run.
fn percentiles(kernel: &Kernel) -> Result<Vec<Percentile>, SummaryError> {
    let mut longest: Option<(u64, Vec<Percentile>)> = None;
    for run in &kernel.runs {
        let summary = summarize(&run.folder, &Requirement::default())?;
        let found = summary
            .probes
            .into_iter()
            .find(|probe| probe.quantity == "latency")
            .and_then(|probe| probe.numbers);
        if let Some(numbers) = found
            && longest
                .as_ref()
                .is_none_or(|(samples, _)| *samples < numbers.samples)
        {
            longest = Some((
                numbers.samples,
                numbers.percentiles_corrected.unwrap_or(numbers.percentiles),
            ));
        }
    }
    Ok(longest
        .map(|(_, percentiles)| percentiles)
        .unwrap_or_default())
}

fn word(choice: Choice) -> &'static str {
    match choice {
        Choice::RealTime => "a real-time kernel",
        Choice::RealFast => "an ordinary kernel, which starts work later and gets more of it done",
    }
}

/// What was measured goes before the rules, which only break ties: "measure to confirm"
/// (mckenney2009, section 5).
fn conclude(
    path: &Path,
    judged: &[Judgement],
    task: &Task,
) -> (Option<String>, Option<Outcome>, String) {
    let by_rules = word(path.choice);
    let is_chosen = |judgement: &Judgement| {
        judgement
            .is_real_time
            .map(|is_real_time| is_real_time == (path.choice == Choice::RealTime))
    };
    let with_verdict: Vec<(&Judgement, Outcome)> = judged
        .iter()
        .filter_map(|judgement| Some((judgement, judgement.verdict.as_ref()?.outcome)))
        .collect();
    let rank = |outcome: Outcome| match outcome {
        Outcome::Passed => 0,
        Outcome::Inconclusive => 1,
        Outcome::Failed => 2,
    };
    let left = |judgement: &Judgement| {
        judgement
            .margin
            .as_ref()
            .map_or(i64::MIN, |margin| margin.to_deadline_ns.get())
    };
    // Of those that were late, the one that was least so; of others, the one that the rules lead
    // to.
    let best = with_verdict.iter().min_by_key(|(judgement, outcome)| {
        let later = std::cmp::Reverse(left(judgement));
        let by_margin = if *outcome == Outcome::Failed {
            Some(later)
        } else {
            None
        };
        (
            rank(*outcome),
            by_margin,
            is_chosen(judgement) != Some(true),
            later,
        )
    });
    let Some(&(best, outcome)) = best else {
        let why = match judged
            .iter()
            .find_map(|judgement| judgement.no_verdict_because.as_ref())
        {
            Some(why) => format!("no verdict ({why})"),
            None => {
                "nothing was measured: confirm it with `tardy run`, idle and under load".to_owned()
            }
        };
        let outcome = task.deadline_ns.map(|_| Outcome::Inconclusive);
        return (None, outcome, format!("by the rules {by_rules}; {why}"));
    };
    let name = &best.kernel;
    let rules = match is_chosen(best) {
        Some(true) => format!("the rules lead to {by_rules} too"),
        Some(false) => format!("the rules alone would lead to {by_rules}"),
        None => {
            format!("the rules lead to {by_rules}; the run does not tell which kind this kernel is")
        }
    };
    let others = with_verdict
        .iter()
        .filter(|(judgement, other)| judgement.kernel != *name && *other == Outcome::Passed);
    let not_needed = if outcome == Outcome::Passed
        && best.is_real_time == Some(true)
        && others.clone().count() > 0
    {
        let names: Vec<&str> = others
            .map(|(judgement, _)| judgement.kernel.as_str())
            .collect();
        format!(
            "; these runs do not show that real time is needed: {} had no miss to object to either",
            names.join(", ")
        )
    } else {
        String::new()
    };
    let sentence = match outcome {
        Outcome::Passed => {
            format!("{name}: nothing that was measured speaks against it; {rules}{not_needed}")
        }
        Outcome::Inconclusive => format!(
            "cannot say: {name} comes nearest, and what was measured of it does not decide; \
             {rules}"
        ),
        Outcome::Failed if with_verdict.len() == 1 => {
            format!("{name} was late; the rules lead to {by_rules}")
        }
        Outcome::Failed => format!(
            "every kernel measured was late; {name} comes nearest; the rules lead to {by_rules}"
        ),
    };
    (Some(name.clone()), Some(outcome), sentence)
}
