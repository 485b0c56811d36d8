//! Draws random programs, and makes random changes to programs. All random numbers come from the
//! caller's generator.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_run::operations::{Area, Need, OPERATIONS, Operation, Program, Step};

use super::Choice;
use super::corpus::Corpus;
use super::folder::GuestPlace;

/// The random number generator that draws a guest's programs.
pub type Random = Pcg64Mcg;

/// Maximum number of steps of a program.
const STEPS_MAX: usize = 8;
/// Maximum resources that a program may need. Every guest can give this much to a load, because
/// loads get half of a guest's memory and a quarter of its processes.
const NEED_MAX: Need = Need {
    memory: 256 << 20,
    processes: 1000,
    files: 20_000,
    signals: 10_000,
};
/// The share of new programs in a guided search; the other programs are mutations.
const NEW: f64 = 0.2;
/// The share of mutations that start from a program with one of the longest sections. [`LONGEST`]
/// is the number of these programs. The other mutations start from any of the kept programs.
const OF_THE_LONGEST: f64 = 0.6;
const LONGEST: usize = 3;

/// Returns the generator with which the programs of a guest are drawn.
#[must_use]
pub fn random_of(seed: u64, choice: Choice, place: GuestPlace) -> Random {
    let parts = [
        u64::from(choice == Choice::Random),
        u64::from(place.round),
        u64::from(place.guest),
    ];
    // The multiplier is 2^64 divided by the golden ratio, as in SplitMix64. This multiplier spreads
    // small numbers over all bits.
    let mixed = parts.iter().fold(seed, |mixed, part| {
        (mixed ^ part)
            .wrapping_add(1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    });
    Random::seed_from_u64(mixed)
}

/// Draws the next program: either a mutation of a kept program, or a new program.
#[must_use]
pub fn next(random: &mut Random, corpus: &Corpus<'_>) -> Program {
    let best = corpus.best();
    if best.is_empty() || random.random_bool(NEW) {
        return random_program(random);
    }
    let among = if random.random_bool(OF_THE_LONGEST) {
        best.len().min(LONGEST)
    } else {
        best.len()
    };
    let mut program = best[random.random_range(0..among)].program.clone();
    for _ in 0..random.random_range(1..=3) {
        let other = &best[random.random_range(0..best.len())].program;
        mutate(random, &mut program, other);
    }
    fitted(program)
}

/// Draws a program of random operations; every operation that exists can occur in it.
#[must_use]
pub fn random_program(random: &mut Random) -> Program {
    let steps = random.random_range(1..=6);
    fitted(Program((0..steps).map(|_| random_step(random)).collect()))
}

fn random_step(random: &mut Random) -> Step {
    let operation = &OPERATIONS[random.random_range(0..OPERATIONS.len())];
    Step {
        operation,
        amount: random_amount(random, operation),
    }
}

/// Draws an amount. Its logarithm is uniformly distributed, so that all orders of magnitude are
/// equally likely. If the amount is a time, the amount itself is uniformly distributed, because it
/// is a position in the probe's period.
fn random_amount(random: &mut Random, operation: &Operation) -> u64 {
    let Some((_, most)) = operation.amount else {
        return 1;
    };
    if operation.area == Area::Time {
        return random.random_range(1..=most);
    }
    let exponent = random.random_range(0.0..=1.0_f64);
    ((most as f64).powf(exponent) as u64).clamp(1, most)
}

fn mutate(random: &mut Random, program: &mut Program, other: &Program) {
    let steps = &mut program.0;
    let place = random.random_range(0..steps.len());
    match random.random_range(0..8) {
        0..=2 => change_amount(random, &mut steps[place]),
        3 => steps[place] = random_step(random),
        4 => steps.insert(place, random_step(random)),
        5 if steps.len() > 1 => {
            steps.remove(place);
        }
        6 => {
            let with = random.random_range(0..steps.len());
            steps.swap(place, with);
        }
        _ => {
            // The beginning of this program is joined with the end of the other one.
            let from = random.random_range(0..other.0.len());
            steps.truncate(place + 1);
            steps.extend_from_slice(&other.0[from..]);
        }
    }
    steps.truncate(STEPS_MAX);
}

fn change_amount(random: &mut Random, step: &mut Step) {
    let Some((_, most)) = step.operation.amount else {
        return;
    };
    step.amount = match random.random_range(0..5) {
        0 => step.amount * 2,
        1 => step.amount / 2,
        2 => most,
        3 => step.amount * random.random_range(70..=140) / 100,
        _ => random_amount(random, step.operation),
    }
    .clamp(1, most);
}

/// Halves the amount of the step that needs the most resources, until a guest can execute the
/// program.
fn fitted(mut program: Program) -> Program {
    while !program.need().fits(NEED_MAX) {
        let need_of = |step: &Step| {
            let need = Program(vec![*step]).need();
            let shares = [
                need.memory as f64 / NEED_MAX.memory as f64,
                need.processes as f64 / NEED_MAX.processes as f64,
                need.files as f64 / NEED_MAX.files as f64,
                need.signals as f64 / NEED_MAX.signals as f64,
            ];
            shares.into_iter().fold(0.0, f64::max)
        };
        let largest = program
            .0
            .iter_mut()
            .max_by(|one, other| need_of(one).total_cmp(&need_of(other)));
        if let Some(step) = largest {
            step.amount = (step.amount / 2).max(1);
        }
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tardy_outside::kind::Kind;

    use crate::hunt::corpus::Idle;
    use crate::hunt::corpus::tests::made_result;

    #[test]
    fn the_programs_of_a_guest_depend_on_seed_choice_round_and_guest() {
        let draw = |seed, choice, round, guest| {
            random_program(&mut random_of(seed, choice, GuestPlace { round, guest }))
        };
        let first = draw(1, Choice::Guided, 0, 0);
        assert_eq!(first, draw(1, Choice::Guided, 0, 0));
        for other in [
            draw(2, Choice::Guided, 0, 0),
            draw(1, Choice::Random, 0, 0),
            draw(1, Choice::Guided, 1, 0),
            draw(1, Choice::Guided, 0, 1),
        ] {
            assert_ne!(first, other);
        }
    }

    proptest! {
        #[test]
        fn every_program_can_be_read_and_fits_into_a_guest(seed in any::<u64>()) {
            let place = GuestPlace { round: 0, guest: 0 };
            let mut random = random_of(seed, Choice::Guided, place);
            let idle = Idle::default();
            let mut corpus = Corpus::new(&idle);
            for _ in 0..40 {
                let program = next(&mut random, &corpus);
                prop_assert!((1..=STEPS_MAX).contains(&program.0.len()));
                prop_assert!(program.need().fits(NEED_MAX), "{program}");
                prop_assert_eq!(&program.to_string().parse::<Program>().unwrap(), &program);
                corpus.add(&made_result(&program));
            }
        }
    }

    #[test]
    fn every_operation_is_drawn() {
        let mut random = random_of(3, Choice::Random, GuestPlace { round: 0, guest: 0 });
        let drawn: Vec<Program> = (0..500).map(|_| random_program(&mut random)).collect();
        for operation in OPERATIONS {
            let mut steps = drawn.iter().flat_map(|program| &program.0);
            assert!(
                steps.any(|step| step.operation.name == operation.name),
                "{}",
                operation.name
            );
        }
        assert_eq!(made_result(&drawn[0]).sections[0].kind, Kind::Blocked);
    }
}
