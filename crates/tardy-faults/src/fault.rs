//! A fault: the action, the requirement, and the result of trying it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use xtask::failure::Result;

use crate::place::Place;

/// A kind of fault that the tool must survive.
#[derive(Debug)]
pub(crate) struct Fault {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// The action against the tool.
    pub(crate) done: &'static str,
    /// The requirement during and after the action.
    pub(crate) demanded: &'static str,
    pub(crate) attempt: fn(&Ground) -> Result<Tally>,
}

/// The effort for each fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Once, at its most likely place: for every change, in about a minute.
    Brief,
    /// A few times.
    Short,
    Full,
}

/// The place for faults.
#[derive(Debug)]
pub(crate) struct Ground {
    /// The binary that must survive.
    pub(crate) tardy: PathBuf,
    /// A private memory file system.
    pub(crate) folder: PathBuf,
    pub(crate) form: Form,
    /// Duration of the soak, if given explicitly.
    pub(crate) soak_for: Option<Duration>,
    /// Only command lines with this text are tried, if it is given.
    pub(crate) line: Option<String>,
}

/// The result of a fault.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) tries: usize,
    /// Counts of observations.
    pub(crate) seen: BTreeMap<String, usize>,
    /// Violations, a sentence each.
    pub(crate) failures: Vec<String>,
    /// Why it could not be tried here, or not wholly.
    pub(crate) left_out: Vec<String>,
}

impl Ground {
    /// A new folder for a try.
    pub(crate) fn place(&self) -> Result<Place> {
        Place::new(&self.tardy, &self.folder)
    }

    /// `short` tries in the short form, `full` in the full one, and at most one in the brief one.
    pub(crate) fn tries(&self, short: usize, full: usize) -> usize {
        match self.form {
            Form::Brief => short.min(1),
            Form::Short => short,
            Form::Full => full,
        }
    }

    pub(crate) fn is_brief(&self) -> bool {
        self.form == Form::Brief
    }
}

impl Tally {
    /// Counts an attempt with the observation `seen`, and the violations `wrong`.
    pub(crate) fn count(&mut self, about: &str, seen: impl Into<String>, wrong: Vec<String>) {
        self.tries += 1;
        *self.seen.entry(seen.into()).or_default() += 1;
        self.failures.extend(
            wrong
                .into_iter()
                .map(|failure| format!("{about}: {failure}")),
        );
    }

    /// Adds the results of other attempts.
    pub(crate) fn add(&mut self, other: Self) {
        self.tries += other.tries;
        for (seen, times) in other.seen {
            *self.seen.entry(seen).or_default() += times;
        }
        self.failures.extend(other.failures);
        self.left_out.extend(other.left_out);
    }

    /// Returns the observations, the most frequent first.
    pub(crate) fn seen_text(&self) -> String {
        let mut seen: Vec<_> = self.seen.iter().collect();
        seen.sort_by_key(|&(name, times)| (std::cmp::Reverse(*times), name));
        seen.into_iter()
            .map(|(name, times)| format!("{name}: {times}"))
            .collect::<Vec<_>>()
            .join("; ")
    }
}
