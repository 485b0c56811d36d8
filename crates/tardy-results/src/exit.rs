//! Exit codes. The codes are a contract, because scripts and continuous integration depend on them.

use std::process::ExitCode;

use tardy_core::verdict::Outcome;
use tardy_core::warning::{Severity, Warning};
use tardy_run::record::State;

use crate::summary::model::Summary;

/// Exit codes of the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded; if it gave verdicts, all of them are "passed".
    Done = 0,
    /// A verdict failed: a deadline was missed, or a latency exceeded the limit.
    Failed = 1,
    /// Wrong use or bad input.
    Usage = 2,
    /// This machine lacks a requirement of the command.
    Machine = 3,
    /// The result is inconclusive: there were too few samples, the set-up was degraded, or samples
    /// were lost or not stored.
    Inconclusive = 4,
    /// `lab check` only: the kernel does not boot, so `git bisect run` skips the commit.
    Skip = 125,
    /// `lab check` only: this machine cannot test the commit. `git bisect run` aborts at 128 and
    /// above.
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
    /// Returns the exit code of a run. A failed verdict takes precedence over an inconclusive one,
    /// and an inconclusive one over an interruption.
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
