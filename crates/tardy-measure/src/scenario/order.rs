//! The order of the phases of a run.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

use super::{Order, PhaseRequest, Scenario};

/// Returns all phases, including repeats, in the order of the run. The same seed gives the same
/// order.
#[must_use]
pub fn in_order(scenario: &Scenario, seed: u64) -> Vec<PhaseRequest> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut phases = Vec::new();
    for _ in 0..scenario.repeats {
        let mut round = scenario.phases.clone();
        if scenario.order == Order::Shuffled {
            round.shuffle(&mut random);
        }
        phases.extend(round);
    }
    phases
}
