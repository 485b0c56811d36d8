//! Why a task could not be done: one sentence for the person at the terminal, ending in the remedy
//! where there is one.

use std::fmt;
use std::process::ExitCode;

/// A task that could not be done.
#[derive(Debug)]
pub struct Failure(String);

/// What tasks return.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure in these words.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a task's program ends; a failure is told first.
pub fn exit_code(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Says what was being done when something failed.
pub trait While<T> {
    /// `doing` completes "while ...".
    fn while_doing(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> While<T> for std::result::Result<T, E> {
    fn while_doing(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Failure(format!("while {}: {error}", doing())))
    }
}
