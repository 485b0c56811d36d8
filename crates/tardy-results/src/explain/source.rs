//! Chooses the trace that explains a run: its kernel trace, or the plugin trace of its guest.

use std::io;
use std::path::Path;

use tardy_run::folder;

use super::outside::{explain_outside, facts_of, perfetto_outside};
use super::run::{RunError, RunExplanation, RunQuestion, explain_traced, perfetto_traced};

/// Explains the run in `folder`.
///
/// # Errors
/// Fails with a [`RunError`] if the run cannot be explained.
pub fn explain_run(folder: &Path, question: RunQuestion) -> Result<RunExplanation, RunError> {
    if question.from_outside || folder::open(folder)?.tracing.is_none() {
        match facts_of(folder)? {
            Some(facts) => return explain_outside(folder, question, facts),
            None if question.from_outside => return Err(RunError::NotWatched),
            None => {}
        }
    }
    explain_traced(folder, question)
}

/// Writes the events around the worst samples of the run in `folder` for Perfetto.
///
/// # Errors
/// Fails with a [`RunError`] if the events cannot be read or written.
pub fn perfetto(folder: &Path, out: &mut dyn io::Write) -> Result<(), RunError> {
    if folder::open(folder)?.tracing.is_none() && facts_of(folder)?.is_some() {
        return perfetto_outside(folder, out);
    }
    perfetto_traced(folder, out)
}
