//! `tardy lab check`: a regression test of a kernel over an ensemble of runs, for scripts and `git bisect run`.

use serde::Serialize;
use tardy_core::units::Nanos;
use tardy_lab::comparison::{Comparison, PhaseResult};
use tardy_lab::diagnosis::Blame;
use tardy_lab::experiment::Outcome;
use tardy_results::exit::Exit;

use super::ensemble::{Ensemble, compare, refuse_used_folder, run_all};
use super::request;
use super::run::print;
use super::setting::{LabError, Setting};
use crate::cli::lab::CheckArguments;
use crate::command::output;

/// What this machine cannot do stops a bisection: `git bisect run` would take 3 for a bad kernel.
pub(super) fn check(arguments: &CheckArguments) -> Exit {
    run(arguments).unwrap_or_else(|error| {
        eprintln!("tardy: {error}");
        match error.exit_code() {
            Exit::Machine => Exit::StopBisect,
            code => code,
        }
    })
}

fn run(arguments: &CheckArguments) -> Result<Exit, LabError> {
    request::check(&arguments.measure)?;
    let setting = Setting::new(&arguments.machine)?;
    let variants = arguments.kernels.variants(setting.machine.architecture, &setting.cache, arguments.machine.refresh)?;
    let setting = setting.with_working_accelerator(&variants[0]);
    let scratch = setting.cache.scratch("check")?;
    let out = arguments.out.clone().unwrap_or_else(|| scratch.path().to_owned());
    refuse_used_folder(&out)?;
    let is_decided = |outcome: &Outcome| {
        let alone = compare(&setting, &variants, std::slice::from_ref(outcome));
        Verdict::new(&alone, std::slice::from_ref(outcome), arguments.limit).is_decided()
    };
    let ensemble =
        Ensemble { is_decided: if arguments.all { &|_| false } else { &is_decided }, ..Ensemble::all(arguments.replicas, false) };
    let outcomes = run_all(&setting, &variants, &arguments.measure, ensemble, &out);
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
    /// Guests whose kernel booted, and then panicked or hung.
    broken: usize,
    /// Guests whose kernel did not boot, or lacks the preemption model asked for.
    cannot_tell: usize,
    /// Guests that the host, QEMU or the program in them kept from a result.
    trouble: usize,
}

impl Verdict {
    fn new(comparison: &Comparison, outcomes: &[Outcome], limit: Nanos) -> Self {
        let blamed =
            |blame: Blame| outcomes.iter().filter(|outcome| outcome.result.as_ref().is_err_and(|failure| failure.blame() == blame)).count();
        let (broken, cannot_tell) = (blamed(Blame::Kernel), blamed(Blame::CannotTell));
        let failed = comparison.variants.iter().flat_map(|variant| &variant.runs).filter(|run| run.failure.is_some()).count();
        let maxima: Vec<Nanos> = comparison.variants.iter().flat_map(|variant| maxima_of_runs(&variant.phases)).collect();
        // A run that ended well and has no sample proves nothing.
        let without_samples = outcomes.len() - failed - maxima.len();
        Self {
            limit_ns: limit,
            runs: maxima.len(),
            above: maxima.iter().filter(|max| **max > limit).count(),
            max_ns: maxima.into_iter().max(),
            broken,
            cannot_tell,
            trouble: failed - broken - cannot_tell + without_samples,
        }
    }

    /// What was seen of a kernel stands, whatever other guests came to; trouble of the host says nothing of it.
    fn exit(&self) -> Exit {
        match self {
            Self { above: 1.., .. } | Self { broken: 1.., .. } => Exit::Failed,
            Self { trouble: 1.., .. } => Exit::StopBisect,
            Self { cannot_tell: 1.., .. } => Exit::Skip,
            _ => Exit::Done,
        }
    }

    /// Whether further guests of the ensemble could change nothing.
    fn is_decided(&self) -> bool {
        self.above > 0 || self.broken > 0
    }

    fn text(&self) -> String {
        let limit = self.limit_ns;
        match self {
            Self { above: 1.., .. } => format!("failed: {} of {} runs have a latency above {limit}", self.above, self.runs),
            Self { broken: 1.., .. } => format!("failed: {} guests booted, and panicked or hung before they had measured", self.broken),
            Self { trouble: 1.., .. } => format!("not decided: {} guests gave no samples, and not for the kernel's sake", self.trouble),
            Self { cannot_tell: 1.., .. } => {
                format!("skipped: {} guests did not boot as far as the measurement, or lack the preemption model", self.cannot_tell)
            }
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
    fn what_was_seen_of_the_kernel_goes_before_trouble_of_the_host_and_that_before_a_skip() {
        let verdict = Verdict { limit_ns: Nanos(1), runs: 10, above: 0, max_ns: None, broken: 0, cannot_tell: 0, trouble: 0 };
        assert_eq!(verdict.exit(), Exit::Done);
        assert_eq!(Verdict { cannot_tell: 1, ..verdict.clone() }.exit(), Exit::Skip);
        assert_eq!(Verdict { cannot_tell: 1, trouble: 1, ..verdict.clone() }.exit(), Exit::StopBisect);
        for decided in [Verdict { above: 1, trouble: 1, cannot_tell: 1, ..verdict.clone() }, Verdict { broken: 1, trouble: 1, ..verdict }] {
            assert_eq!((decided.exit(), decided.is_decided()), (Exit::Failed, true));
        }
        // git bisect skips at 125 and stops from 128 on; it takes everything else up to 127 for bad.
        assert_eq!((Exit::Skip as u8, Exit::StopBisect as u8), (125, 128));
    }
}
