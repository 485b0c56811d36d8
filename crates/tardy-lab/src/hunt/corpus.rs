//! The best programs of a round: for each call path of a long section, the program that caused the
//! longest section with this path; in addition, the program with the largest latency.

use std::collections::BTreeMap;

use tardy_core::units::Nanos;
use tardy_outside::kind::Kind;
use tardy_results::lab_hunt::{LongSection, ProgramResult};
use tardy_run::operations::Program;

use super::folder::GuestResult;

/// The key of the program with the largest latency. All other keys contain a call path.
const LATENCY: &str = "latency";

/// The sections that occur in a guest while no program runs. They come from the tool and the kernel
/// themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Idle(BTreeMap<String, Nanos>);

/// A program's section may have the same call path as a section of an idle guest. Such a section
/// counts only if its length exceeds this percentage of the length of the idle guest's section.
const LONGER_PERCENT: i64 = 125;

impl Idle {
    /// Collects the sections that occur with programs that do nothing.
    #[must_use]
    pub fn new(results: &[ProgramResult]) -> Self {
        let mut idle: BTreeMap<String, Nanos> = BTreeMap::new();
        for section in results.iter().flat_map(|result| &result.sections) {
            let known = idle.entry(key(section)).or_default();
            *known = (*known).max(section.length_ns);
        }
        Self(idle)
    }

    /// Returns true if an idle guest also has a section of this kind with this call path, and
    /// `section` is at most 25 % longer than that section.
    #[must_use]
    pub fn explains(&self, section: &LongSection) -> bool {
        let known = self.0.get(&key(section));
        known.is_some_and(|known| section.length_ns.0 * 100 <= known.0 * LONGER_PERCENT)
    }

    /// Returns the longest section of the idle guest.
    #[must_use]
    pub fn longest_ns(&self) -> Nanos {
        self.0.values().copied().max().unwrap_or_default()
    }
}

fn key(section: &LongSection) -> String {
    format!("{}: {}", section.kind.title(), section.call_path())
}

/// A kept program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub length_ns: Nanos,
    pub program: Program,
}

/// The kept programs.
#[derive(Debug, Clone)]
pub struct Corpus<'a> {
    idle: &'a Idle,
    entries: BTreeMap<String, Entry>,
}

impl<'a> Corpus<'a> {
    /// Makes an empty corpus.
    #[must_use]
    pub fn new(idle: &'a Idle) -> Self {
        Self {
            idle,
            entries: BTreeMap::new(),
        }
    }

    /// Keeps the program if it causes a section with a new call path, the longest section of a
    /// known call path, or the largest latency. If several programs have equal results, the first
    /// one is kept.
    pub fn add(&mut self, result: &ProgramResult) {
        let sections = result.sections.iter();
        let lengths = sections
            .filter(|section| !self.idle.explains(section))
            .map(|section| (key(section), section.length_ns));
        let latency = result
            .largest_latency_ns
            .map(|latency| (LATENCY.to_owned(), latency));
        let lengths: Vec<_> = lengths.chain(latency).collect();
        for (key, length_ns) in lengths {
            let entry = || Entry {
                length_ns,
                program: result.program.clone(),
            };
            let kept = self.entries.entry(key).or_insert_with(entry);
            if kept.length_ns < length_ns {
                *kept = entry();
            }
        }
    }

    /// Returns the kept programs in the order of their sections' lengths, longest first.
    #[must_use]
    pub fn best(&self) -> Vec<&Entry> {
        let mut entries: Vec<&Entry> = self.entries.values().collect();
        // The map is ordered and the sort is stable, so the same entries always come out in the
        // same order.
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.length_ns));
        entries
    }
}

/// A section of a guest.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    pub section: &'a LongSection,
    /// The result of the program that ran during the section.
    pub result: &'a ProgramResult,
    /// All programs of the guest, in their order.
    pub programs: &'a [Program],
    /// The index of the program that ran during the section.
    pub place: usize,
}

/// Returns the longest section of each call path, sorted by length with the longest first.
/// Considers only sections in which no other task could run, and leaves out those for which
/// [`Idle::explains`] returns true.
#[must_use]
pub fn longest_of_paths<'a>(
    guests: impl Iterator<Item = &'a GuestResult>,
    idle: &Idle,
) -> Vec<Found<'a>> {
    let mut longest: BTreeMap<String, Found<'a>> = BTreeMap::new();
    for guest in guests {
        for (place, result) in guest.results.iter().flatten().enumerate() {
            for section in &result.sections {
                if section.kind != Kind::Blocked || idle.explains(section) {
                    continue;
                }
                let found = Found {
                    section,
                    result,
                    programs: &guest.programs,
                    place,
                };
                let kept = longest.entry(section.call_path()).or_insert(found);
                if kept.section.length_ns < section.length_ns {
                    *kept = found;
                }
            }
        }
    }
    let mut longest: Vec<_> = longest.into_values().collect();
    longest.sort_by_key(|found| std::cmp::Reverse(found.section.length_ns));
    longest
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use tardy_results::lab_hunt::HuntQuestion;
    use tardy_run::operations::Action;

    pub(crate) fn question() -> HuntQuestion {
        HuntQuestion {
            kernel: "6.1".to_owned(),
            package: None,
            guest: "ab".to_owned(),
            seed: 7,
            guests_a_round: 3,
            programs_a_guest: 8,
            meaning: "made".to_owned(),
        }
    }

    /// A result in which the section lasts one us per timer of the program, and the path is the
    /// program's first operation.
    pub(crate) fn made_result(program: &Program) -> ProgramResult {
        let steps = program.0.iter();
        let timers = steps.filter(|step| step.operation.action == Action::Timers);
        let timers: u64 = timers.map(|step| step.amount).sum();
        ProgramResult {
            program: program.clone(),
            largest_latency_ns: Some(Nanos(500)),
            sections: vec![LongSection {
                kind: Kind::Blocked,
                length_ns: Nanos(1000 * timers as i64 + 1),
                begin: program.0[0].operation.name.to_owned(),
                end: "end".to_owned(),
                task: "made".to_owned(),
                path: Vec::new(),
            }],
        }
    }

    fn guest(texts: &[&str]) -> GuestResult {
        let programs: Vec<Program> = texts.iter().map(|text| text.parse().unwrap()).collect();
        GuestResult {
            results: Ok(programs.iter().map(made_result).collect()),
            programs,
        }
    }

    #[test]
    fn the_longest_of_each_path_is_kept() {
        let idle = Idle::default();
        let mut corpus = Corpus::new(&idle);
        let guest = guest(&["timers=5", "timers=9", "timers=7", "kill,timers=8", "kill"]);
        let results = guest.results.iter().flatten();
        results.for_each(|result| corpus.add(result));
        let best: Vec<String> = corpus
            .best()
            .iter()
            .map(|entry| entry.program.to_string())
            .collect();
        // The last entry is kept for its latency. All latencies are equal, so the first program is
        // kept.
        assert_eq!(best, ["timers=9", "kill,timers=8", "timers=5"]);
        let longest = longest_of_paths(std::iter::once(&guest), &idle);
        let places: Vec<usize> = longest.iter().map(|found| found.place).collect();
        assert_eq!(places, [1, 3]);
        for found in longest {
            assert_eq!(found.result.program, found.programs[found.place]);
        }
    }

    #[test]
    fn what_an_idle_guest_shows_does_not_count() {
        let idle = guest(&["timers=100", "kill,timers=3"]).results.unwrap();
        let idle = Idle::new(&idle);
        assert_eq!(idle.longest_ns(), Nanos(100_001));
        let mut corpus = Corpus::new(&idle);
        let guest = guest(&["timers=125", "kill,timers=5"]);
        let results = guest.results.iter().flatten();
        results.for_each(|result| corpus.add(result));
        // The corpus keeps the first program for its latency, and the second one for its section:
        // only that section is much longer than the idle guest's section with the same call path.
        assert_eq!(corpus.best()[0].program.to_string(), "kill,timers=5");
        assert_eq!(longest_of_paths(std::iter::once(&guest), &idle).len(), 1);
    }
}
