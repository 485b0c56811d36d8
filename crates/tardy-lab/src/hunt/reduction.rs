//! Reduces a program to the steps and amounts without which its section does not occur.

use tardy_core::units::Nanos;
use tardy_outside::kind::Kind;
use tardy_results::lab_hunt::{LongSection, ProgramResult};
use tardy_run::operations::Program;

use super::{Bench, NoResult};

/// A shorter program is accepted if its section has at least this share of the length, in percent.
const KEPT_PERCENT: i64 = 90;
/// Maximum number of guests that one reduction may run.
const GUESTS_MAX: u32 = 40;

/// The result of reducing a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduced {
    pub result: ProgramResult,
    /// How many guests the reduction ran.
    pub guests: u32,
}

/// Runs the program alone. Then removes steps and halves amounts, and keeps each change after which
/// the program still has a section with the same call path and about the same length.
///
/// # Errors
/// Returns why the program has no result, or has no section when it runs alone.
pub fn reduce(program: &Program, bench: &dyn Bench) -> Result<Reduced, NoResult> {
    let mut runs = Runs { bench, guests: 0 };
    let mut best = runs.alone(program)?;
    let none = || NoResult("no section was seen while the program ran alone".to_owned());
    let section = best.longest().ok_or_else(none)?.clone();
    let wanted = Wanted {
        call_path: section.call_path(),
        length_ns: Nanos(section.length_ns.0 * KEPT_PERCENT / 100),
    };
    // Steps are tried from the last to the first, so that a removal does not change the indices of
    // the steps not yet tried.
    for place in (0..program.0.len()).rev() {
        let shorter = without(&best.program, place);
        best = runs.if_kept(shorter, &wanted).unwrap_or(best);
    }
    for place in 0..best.program.0.len() {
        while let Some(smaller) = runs.if_kept(halved(&best.program, place), &wanted) {
            best = smaller;
        }
    }
    Ok(Reduced {
        result: best,
        guests: runs.guests,
    })
}

struct Wanted {
    call_path: String,
    length_ns: Nanos,
}

impl Wanted {
    fn is_in(&self, result: &ProgramResult) -> bool {
        let is_it = |section: &LongSection| {
            section.kind == Kind::Blocked
                && section.length_ns >= self.length_ns
                && section.call_path() == self.call_path
        };
        result.sections.iter().any(is_it)
    }
}

struct Runs<'a> {
    bench: &'a dyn Bench,
    guests: u32,
}

impl Runs<'_> {
    fn alone(&mut self, program: &Program) -> Result<ProgramResult, NoResult> {
        self.guests += 1;
        let mut results = self.bench.run(std::slice::from_ref(program))?;
        results
            .pop()
            .ok_or_else(|| NoResult("the guest left no result".to_owned()))
    }

    /// Returns the result of the program if it still causes the section.
    fn if_kept(&mut self, program: Option<Program>, wanted: &Wanted) -> Option<ProgramResult> {
        let program = program.filter(|_| self.guests < GUESTS_MAX)?;
        let result = self.alone(&program).ok()?;
        wanted.is_in(&result).then_some(result)
    }
}

/// Returns the program without this step; `None` if it has no other step.
fn without(program: &Program, place: usize) -> Option<Program> {
    let mut steps = program.0.clone();
    steps.remove(place);
    (!steps.is_empty()).then_some(Program(steps))
}

/// Returns the program with half the amount in this step; `None` if the step has no smaller amount.
fn halved(program: &Program, place: usize) -> Option<Program> {
    let mut steps = program.0.clone();
    let step = &mut steps[place];
    let has_smaller = step.operation.amount.is_some() && step.amount > 1;
    step.amount /= 2;
    has_smaller.then_some(Program(steps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_run::operations::Action;

    use crate::hunt::corpus::tests::made_result;

    /// Stands for a guest in which the section occurs if the program has at least 3 processes
    /// before its timers.
    struct NeedsProcesses;

    impl Bench for NeedsProcesses {
        fn run(&self, programs: &[Program]) -> Result<Vec<ProgramResult>, NoResult> {
            let run = |program: &Program| {
                let place = |action| {
                    program
                        .0
                        .iter()
                        .position(|step| step.operation.action == action)
                };
                let before = place(Action::Timers).unwrap_or(0);
                let forks = program.0[..before].iter();
                let processes = forks.filter(|step| step.operation.action == Action::Fork);
                let mut result = made_result(program);
                result.sections[0].begin = "made".to_owned();
                if processes.map(|step| step.amount).sum::<u64>() < 3 {
                    result.sections[0].length_ns = Nanos(1);
                }
                result
            };
            Ok(programs.iter().map(run).collect())
        }
    }

    #[test]
    fn only_what_the_section_needs_is_left() {
        let program = "map=7,fork=100,sleep=5,kill,timers=1000,poke"
            .parse()
            .unwrap();
        let reduced = reduce(&program, &NeedsProcesses).unwrap();
        assert_eq!(reduced.result.program.to_string(), "fork=3,timers=1000");
        assert_eq!(reduced.result.longest_ns(), Nanos(1_000_001));
        assert!(reduced.guests <= GUESTS_MAX);
    }

    #[test]
    fn a_program_that_fails_alone_is_not_reduced() {
        struct Fails;
        impl Bench for Fails {
            fn run(&self, _: &[Program]) -> Result<Vec<ProgramResult>, NoResult> {
                Err(NoResult("the kernel panicked".to_owned()))
            }
        }
        let error = reduce(&"kill".parse().unwrap(), &Fails).unwrap_err();
        assert_eq!(error.to_string(), "the kernel panicked");
    }
}
