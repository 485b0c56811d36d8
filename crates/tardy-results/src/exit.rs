//! Exit codes, which are a contract: scripts and continuous integration decide by them.

use std::process::ExitCode;

use tardy_core::verdict::Outcome;
use tardy_core::warning::{Severity, Warning};
use tardy_run::record::State;

use crate::summary::model::Summary;

/// Exit codes of the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done, and any verdict passed.
    Done = 0,
    /// A verdict failed: a deadline missed, a latency above the limit.
    Failed = 1,
    /// Wrong use or bad input.
    Usage = 2,
    /// This machine lacks a requirement.
    Machine = 3,
    /// Too few samples, a degraded set-up, samples lost or not stored.
    Inconclusive = 4,
    /// `lab check` only: the kernel does not boot, so that `git bisect run` skips it.
    Skip = 125,
    /// `lab check` only: this machine cannot decide; `git bisect run` aborts at 128 and above.
    StopBisect = 128,
    /// Stopped by a signal; the measured data are stored.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Exit {
    /// Returns the exit code of a run: a failed verdict has priority over an inconclusive one,
    /// which has priority over an interruption.
    #[must_use]
    pub fn of_run(summary: &Summary) -> Self {
        let decides_nothing = |warning: &Warning| {
            warning.severity() == Severity::Incomplete || warning.is_of_changed_probes()
        };
        let incomplete = summary.warnings.iter().any(decides_nothing);
        match (
            summary.state,
            summary.verdict.as_ref().map(|verdict| verdict.outcome),
        ) {
            (State::Stopped, _) | (_, Some(Outcome::Failed)) => Self::Failed,
            (State::EndedByWatchdog, _) | (_, Some(Outcome::Inconclusive)) => Self::Inconclusive,
            _ if incomplete => Self::Inconclusive,
            (State::Interrupted, _) => Self::Interrupted,
            _ => Self::Done,
        }
    }
}
