//! Reduces the programs that a guest executed to the operations and amounts that a section needs.
//!
//! A section can depend on programs that the guest executed before, so the reduction works on the
//! whole list: it removes programs, then operations, and then makes amounts smaller. A shorter list
//! is kept if its guest has a section with the same call path that is nearly as long.

use tardy_core::units::Nanos;
use tardy_outside::kind::Kind;
use tardy_results::lab_hunt::{LongSection, ProgramResult};
use tardy_run::operations::{Program, Step};

use super::Bench;
use super::corpus::Found;

/// A shorter list is kept if its section has at least this percentage of the original section's
/// length.
const KEPT_PERCENT: i64 = 90;

/// Programs that were reduced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduced {
    pub programs: Vec<Program>,
    /// The result of the program with the section.
    pub result: ProgramResult,
    /// How many guests the reduction ran.
    pub guests: u32,
    /// Whether the reduction ended before it reached the maximum number of guests.
    pub is_complete: bool,
}

/// Reduces the programs of the guest in which the section was found. Runs at most `guests_max`
/// guests. If no shorter list causes the section, returns all programs of the guest. They cause the
/// section again, because a guest's run repeats exactly.
#[must_use]
pub fn reduce(found: &Found<'_>, guests_max: u32, bench: &dyn Bench) -> Reduced {
    let mut reduction = Reduction {
        bench,
        call_path: found.section.call_path(),
        length_ns: Nanos(found.section.length_ns.0 * KEPT_PERCENT / 100),
        guests_max,
        best: Reduced {
            programs: found.programs.to_vec(),
            result: found.result.clone(),
            guests: 0,
            is_complete: true,
        },
    };
    reduction.remove_programs(found.place);
    reduction.remove_operations();
    reduction.lower_amounts();
    reduction.best
}

struct Reduction<'a> {
    bench: &'a dyn Bench,
    call_path: String,
    /// Minimum length of the section.
    length_ns: Nanos,
    guests_max: u32,
    best: Reduced,
}

impl Reduction<'_> {
    /// Runs the programs in a guest. If the section occurs, these programs become the best list.
    fn is_kept(&mut self, programs: Vec<Program>) -> bool {
        if programs.is_empty() || programs == self.best.programs {
            return false;
        }
        if self.best.guests == self.guests_max {
            self.best.is_complete = false;
            return false;
        }
        self.best.guests += 1;
        let results = self.bench.run(&programs).unwrap_or_default();
        let Some(result) = results.into_iter().find(|result| self.has_section(result)) else {
            return false;
        };
        self.best.programs = programs;
        self.best.result = result;
        true
    }

    fn has_section(&self, result: &ProgramResult) -> bool {
        let is_it = |section: &LongSection| {
            section.kind == Kind::Blocked
                && section.length_ns >= self.length_ns
                && section.call_path() == self.call_path
        };
        result.sections.iter().any(is_it)
    }

    /// Removes programs other than the one with the section.
    fn remove_programs(&mut self, place: usize) {
        let all = self.best.programs.clone();
        let (before, rest) = all.split_at(place);
        let without_later = self.is_kept(all[..=place].to_vec());
        let rest = if without_later { &rest[..1] } else { rest };
        shorten(before.to_vec(), |before| {
            self.is_kept([before, rest].concat())
        });
    }

    fn remove_operations(&mut self) {
        let programs = self.best.programs.iter().enumerate();
        let steps = programs.flat_map(|(number, program)| {
            let steps = program.0.iter();
            steps.map(move |step| (number, *step))
        });
        shorten(steps.collect(), |steps| self.is_kept(grouped(steps)));
    }

    /// Sets amounts to 1, or halves them.
    fn lower_amounts(&mut self) {
        for number in 0..self.best.programs.len() {
            for place in 0..self.best.programs[number].0.len() {
                let with = |programs: &[Program], lower: fn(u64) -> u64| {
                    let mut programs = programs.to_vec();
                    let step = &mut programs[number].0[place];
                    step.amount = lower(step.amount);
                    programs
                };
                let amount = |reduction: &Self| reduction.best.programs[number].0[place].amount;
                // If an operation takes no amount, the amount of its step is 1.
                if amount(self) == 1 || self.is_kept(with(&self.best.programs, |_| 1)) {
                    continue;
                }
                while amount(self) > 3
                    && self.is_kept(with(&self.best.programs, |amount| amount / 2))
                {
                }
            }
        }
    }
}

/// Groups the steps into programs. The number before each step identifies its program.
fn grouped(steps: &[(usize, Step)]) -> Vec<Program> {
    let programs = steps.chunk_by(|one, next| one.0 == next.0);
    programs
        .map(|steps| Program(steps.iter().map(|(_, step)| *step).collect()))
        .collect()
}

/// Removes items while `is_kept` accepts the rest. Tries to remove first all items, then halves,
/// quarters and so on, until no single item can be removed (delta debugging, Zeller and Hildebrandt
/// 2002).
fn shorten<T: Clone>(mut items: Vec<T>, mut is_kept: impl FnMut(&[T]) -> bool) {
    let mut part = items.len();
    while part > 0 {
        let mut is_shorter = false;
        let mut begin = 0;
        while begin < items.len() {
            let end = (begin + part).min(items.len());
            let rest = [&items[..begin], &items[end..]].concat();
            if is_kept(&rest) {
                items = rest;
                is_shorter = true;
            } else {
                begin = end;
            }
        }
        if part > 1 {
            part = part.div_ceil(2).min(items.len());
        } else if !is_shorter {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_run::operations::Action;

    use crate::hunt::NoResult;
    use crate::hunt::corpus::tests::made_result;

    /// A simulated guest. A program's timers cause a long section only if the programs before it
    /// forked at least 3 processes.
    struct NeedsEarlierProcesses;

    impl Bench for NeedsEarlierProcesses {
        fn run(&self, programs: &[Program]) -> Result<Vec<ProgramResult>, NoResult> {
            let mut processes = 0;
            let run = |program: &Program| {
                let mut result = made_result(program);
                result.sections[0].begin = "made".to_owned();
                if processes < 3 {
                    result.sections[0].length_ns = Nanos(1);
                }
                let steps = program.0.iter();
                let forks = steps.filter(|step| step.operation.action == Action::Fork);
                processes += forks.map(|step| step.amount).sum::<u64>();
                result
            };
            Ok(programs.iter().map(run).collect())
        }
    }

    fn reduced(texts: &[&str], place: usize, guests_max: u32, bench: &dyn Bench) -> Reduced {
        let programs: Vec<Program> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let results = NeedsEarlierProcesses.run(&programs).unwrap();
        let found = Found {
            section: &results[place].sections[0],
            result: &results[place],
            programs: &programs,
            place,
        };
        let reduced = reduce(&found, guests_max, bench);
        assert!(reduced.guests <= guests_max);
        reduced
    }

    fn texts(reduced: &Reduced) -> Vec<String> {
        reduced.programs.iter().map(Program::to_string).collect()
    }

    const FOUND: [&str; 7] = [
        "map=7",
        "poke,fork=100,sleep=5",
        "kill",
        "sleep=7,map=3",
        "kill,poke",
        "map=7,sleep=5,kill,timers=1000,poke",
        "timers=3",
    ];

    #[test]
    fn only_what_the_section_needs_is_left_of_all_programs() {
        let reduced = reduced(&FOUND, 5, 60, &NeedsEarlierProcesses);
        assert_eq!(texts(&reduced), ["fork=3", "timers=1000"]);
        assert_eq!(reduced.result.program.to_string(), "timers=1000");
        assert_eq!(reduced.result.longest_ns(), Nanos(1_000_001));
        assert!(reduced.is_complete);
    }

    #[test]
    fn the_maximum_number_of_guests_ends_the_reduction() {
        let reduced = reduced(&FOUND, 5, 4, &NeedsEarlierProcesses);
        assert!(!reduced.is_complete);
        assert_eq!(reduced.guests, 4);
        assert!((2..6).contains(&reduced.programs.len()), "{reduced:?}");
    }

    #[test]
    fn all_programs_are_left_if_no_shorter_list_has_the_section() {
        struct Fails;
        impl Bench for Fails {
            fn run(&self, _: &[Program]) -> Result<Vec<ProgramResult>, NoResult> {
                Err(NoResult("the kernel panicked".to_owned()))
            }
        }
        let reduced = reduced(&FOUND, 5, 1000, &Fails);
        assert_eq!(texts(&reduced), FOUND);
        assert_eq!(reduced.result.longest_ns(), Nanos(1_000_001));
        assert!(reduced.is_complete);
    }
}
