//! A fault: what is done, what must hold, and what came of trying it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use xtask::failure::Result;

use crate::place::Place;

/// A kind of fault that the tool must survive.
#[derive(Debug)]
pub(crate) struct Fault {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// What is done to the tool.
    pub(crate) done: &'static str,
    /// What must hold whenever that is done.
    pub(crate) demanded: &'static str,
    pub(crate) attempt: fn(&Ground) -> Result<Tally>,
}

/// Where faults are tried.
#[derive(Debug)]
pub(crate) struct Ground {
    /// The binary that must survive.
    pub(crate) tardy: PathBuf,
    /// A memory file system that nobody else sees.
    pub(crate) folder: PathBuf,
    /// Few tries of each fault.
    pub(crate) is_short: bool,
}

/// What came of a fault.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) tries: usize,
    /// How often what was seen.
    pub(crate) seen: BTreeMap<String, usize>,
    /// What must not be, a sentence each.
    pub(crate) failures: Vec<String>,
    /// Why it could not be tried here, or not wholly.
    pub(crate) left_out: Vec<String>,
}

impl Ground {
    /// A new folder for a try.
    pub(crate) fn place(&self) -> Result<Place> {
        Place::new(&self.tardy, &self.folder)
    }

    /// `short` tries in the short form, else `full`.
    pub(crate) fn tries(&self, short: usize, full: usize) -> usize {
        if self.is_short { short } else { full }
    }
}

impl Tally {
    /// Counts a try of which `seen` was seen, and in which `wrong` must not have been.
    pub(crate) fn count(&mut self, about: &str, seen: impl Into<String>, wrong: Vec<String>) {
        self.tries += 1;
        *self.seen.entry(seen.into()).or_default() += 1;
        self.failures.extend(wrong.into_iter().map(|failure| format!("{about}: {failure}")));
    }

    /// What was seen, the most frequent first.
    pub(crate) fn seen_text(&self) -> String {
        let mut seen: Vec<_> = self.seen.iter().collect();
        seen.sort_by_key(|&(name, times)| (std::cmp::Reverse(*times), name));
        seen.into_iter().map(|(name, times)| format!("{name}: {times}")).collect::<Vec<_>>().join("; ")
    }
}
