//! `tardy lab check`: a regression test of a kernel over an ensemble of runs, for scripts and `git bisect run`.

use serde::Serialize;
use tardy_core::units::Nanos;
use tardy_lab::comparison::{Comparison, PhaseResult};
use tardy_lab::experiment::Outcome;
use tardy_results::exit::Exit;

use super::ensemble::{compare, refuse_used_folder, run_all};
use super::request;
use super::run::print;
use super::setting::{LabError, Setting};
use crate::cli::lab::CheckArguments;
use crate::command::output;

pub(super) fn check(arguments: &CheckArguments) -> Result<Exit, LabError> {
    request::check(&arguments.measure)?;
    let setting = Setting::new(&arguments.machine)?;
    let variants = arguments.kernels.variants(setting.machine.architecture, &setting.cache, arguments.machine.refresh)?;
    let setting = setting.with_working_accelerator(&variants[0]);
    let scratch = setting.cache.scratch("check")?;
    let out = arguments.out.clone().unwrap_or_else(|| scratch.path().to_owned());
    refuse_used_folder(&out)?;
    let outcomes = run_all(&setting, &variants, &arguments.measure, (arguments.replicas, false), &out);
    let result = outcomes.map(|outcomes| {
        let comparison = compare(&setting, &variants, &outcomes);
        (Verdict::new(&comparison, &outcomes, arguments.limit), comparison)
    });
    let (verdict, comparison) = result?;
    if arguments.json {
        let json = serde_json::to_string_pretty(&Report { verdict: &verdict, comparison: &comparison }).expect("a report is plain data");
        output::print(&(json + "\n")).map_err(|error| LabError::Unable(error.to_string()))?;
    } else {
        print(&comparison, false)?;
        output::print(&(verdict.text() + "\n")).map_err(|error| LabError::Unable(error.to_string()))?;
    }
    Ok(verdict.exit())
}

#[derive(Serialize)]
struct Report<'a> {
    verdict: &'a Verdict,
    comparison: &'a Comparison,
}

/// What the ensemble says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Verdict {
    limit_ns: Nanos,
    /// Runs with samples.
    runs: usize,
    /// Of these, runs with a latency above the limit.
    above: usize,
    /// The largest latency of all.
    max_ns: Option<Nanos>,
    /// Guests whose kernel did not get as far as the measurement.
    not_booted: usize,
    /// Guests that failed otherwise.
    failed: usize,
}

impl Verdict {
    fn new(comparison: &Comparison, outcomes: &[Outcome], limit: Nanos) -> Self {
        let boot_failure = |outcome: &&Outcome| outcome.result.as_ref().is_err_and(|failure| failure.is_boot_failure());
        let not_booted = outcomes.iter().filter(boot_failure).count();
        let failed = comparison.variants.iter().flat_map(|variant| &variant.runs).filter(|run| run.failure.is_some()).count();
        let maxima: Vec<Nanos> = comparison.variants.iter().flat_map(|variant| maxima_of_runs(&variant.phases)).collect();
        // A run that ended well and has no sample proves nothing.
        let without_samples = outcomes.len() - failed - maxima.len();
        Self {
            limit_ns: limit,
            runs: maxima.len(),
            above: maxima.iter().filter(|max| **max > limit).count(),
            max_ns: maxima.into_iter().max(),
            not_booted,
            failed: failed - not_booted + without_samples,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self { not_booted: 1.., .. } => Exit::Skip,
            Self { failed: 1.., .. } => Exit::Machine,
            Self { above: 1.., .. } => Exit::Failed,
            _ => Exit::Done,
        }
    }

    fn text(&self) -> String {
        let limit = self.limit_ns;
        match self {
            Self { not_booted: 1.., .. } => format!("skipped: {} guests did not boot as far as the measurement", self.not_booted),
            Self { failed: 1.., .. } => format!("not decided: {} guests gave no samples", self.failed),
            Self { above: 1.., .. } => format!("failed: {} of {} runs have a latency above {limit}", self.above, self.runs),
            _ => format!("passed: no latency above {limit} in {} runs; this is a regression test, not a bound of any machine", self.runs),
        }
    }
}

/// The largest latency of each run; the phases under load decide where there are any.
fn maxima_of_runs(phases: &[PhaseResult]) -> Vec<Nanos> {
    let loaded = phases.iter().any(|phase| !phase.loads.is_empty());
    let mut maxima: Vec<Nanos> = Vec::new();
    for phase in phases.iter().filter(|phase| !loaded || !phase.loads.is_empty()) {
        for (index, max) in phase.max_of_runs_ns.iter().enumerate() {
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
            max_of_runs_ns: maxima.iter().copied().map(Nanos).collect(),
            max_median_ns: Nanos(0),
            max_ns: Nanos(0),
        }
    }

    #[test]
    fn the_loaded_phases_decide_and_the_worst_of_them_counts_for_each_run() {
        let phases = [phase(&[], &[900, 900]), phase(&["io"], &[10, 40]), phase(&["fork"], &[30, 20])];
        assert_eq!(maxima_of_runs(&phases), [Nanos(30), Nanos(40)]);
        assert_eq!(maxima_of_runs(&phases[..1]), [Nanos(900), Nanos(900)]);
    }

    #[test]
    fn a_kernel_that_does_not_boot_is_skipped_before_anything_else_is_said() {
        let verdict = Verdict { limit_ns: Nanos(1), runs: 10, above: 0, max_ns: None, not_booted: 0, failed: 0 };
        assert_eq!(verdict.exit(), Exit::Done);
        assert_eq!(Verdict { above: 1, ..verdict.clone() }.exit(), Exit::Failed);
        assert_eq!(Verdict { above: 1, failed: 1, ..verdict.clone() }.exit(), Exit::Machine);
        assert_eq!(Verdict { above: 1, failed: 1, not_booted: 1, ..verdict }.exit(), Exit::Skip);
    }
}
