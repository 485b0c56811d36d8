//! A fault: how the tool is disturbed, what the tool must do nevertheless, and the results of the
//! attempts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use xtask::failure::Result;

use crate::place::Place;

/// A kind of fault that the tool must survive.
#[derive(Debug)]
pub(crate) struct Fault {
    /// Name of the fault on the command line.
    pub(crate) name: &'static str,
    /// How the fault disturbs the tool.
    pub(crate) done: &'static str,
    /// What the tool must do during and after the fault.
    pub(crate) demanded: &'static str,
    pub(crate) attempt: fn(&Ground) -> Result<Tally>,
}

/// How many attempts are made for each fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Only one or two attempts for each variant of a fault (a variant is, for example, the system
    /// call that fails). The attempts are made at the points where the tool is most likely to fail.
    /// Every change is tested in this form, which takes about a minute.
    Brief,
    /// A few attempts.
    Short,
    Full,
}

/// The environment of all attempts.
#[derive(Debug)]
pub(crate) struct Ground {
    /// The tested binary.
    pub(crate) tardy: PathBuf,
    /// A private memory file system, in which each attempt gets a folder.
    pub(crate) folder: PathBuf,
    pub(crate) form: Form,
    /// Duration of the soak, if the user gave a duration.
    pub(crate) soak_for: Option<Duration>,
    /// A text; if given, only command lines that contain this text are tried.
    pub(crate) line: Option<String>,
}

/// The results of a fault.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) tries: usize,
    /// Each observation, with the number of attempts in which it was made.
    pub(crate) seen: BTreeMap<String, usize>,
    /// The violations, one sentence each.
    pub(crate) failures: Vec<String>,
    /// Why this machine could not try the fault or a part of it.
    pub(crate) left_out: Vec<String>,
}

impl Ground {
    /// Makes a new folder for an attempt.
    pub(crate) fn place(&self) -> Result<Place> {
        Place::new(&self.tardy, &self.folder)
    }

    /// Returns the number of attempts: `short` in the short form, `full` in the full form, and at
    /// most one in the brief form.
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
    /// Adds an attempt in which `seen` was observed, and which violated the requirements in
    /// `wrong`.
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
