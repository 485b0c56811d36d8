//! Counts how often the bounds of a summary hold, in generated runs of known distribution.
//!
//! The runs are generated in memory and processed by the code behind `tardy show`, from the
//! accumulator of a series to the verdict. docs/proof-archive.md has the results of 400 runs of
//! each kind.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where something is not as expected"
)]

mod count;
mod process;

use count::BoundTally;
use process::Process;

/// Spreads the generated runs over all CPUs of this machine; the number of CPUs does not change the
/// result.
fn count(process: Process, cpus: u64, length: usize, runs: u64) -> BoundTally {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let some = |thread: u64| {
        let mut counted = BoundTally::default();
        (thread..runs)
            .step_by(threads as usize)
            .for_each(|seed| counted.add_run(process, cpus, length, seed));
        counted
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || some(thread)))
            .collect();
        running
            .into_iter()
            .fold(BoundTally::default(), |mut all, thread| {
                all.merge(&thread.join().expect("making runs does not panic"));
                all
            })
    })
}

/// Fails if a bound holds in fewer than 54 of 60 runs. A kind of bound that holds in at most 85 %
/// of all runs usually fails this test.
#[test]
fn bounds_hold_however_samples_depend_on_each_other() {
    for process in Process::ALL {
        for (cpus, length) in [(1, 6_000), (8, 2_000)] {
            let counted = count(process, cpus, length, 60);
            for tally in counted
                .percentiles
                .iter()
                .chain(&counted.misses)
                .chain(&counted.misses_lower)
            {
                // The test rarely fails by chance. If the true coverage is 97.5 %, the probability
                // that at most 53 of 60 bounds hold is 0.07 %; if the true coverage is 95 %, it is
                // 3 %.
                assert!(
                    tally.coverage() > 0.89,
                    "{process:?} on {cpus}: {counted:?}"
                );
            }
        }
    }
}

#[test]
fn bounds_of_independent_samples_are_little_wider_than_the_exact_ones() {
    let counted = count(Process::Independent, 1, 20_000, 60);
    for tally in &counted.percentiles[..3] {
        assert!(
            tally.unbounded_share() == 0.0 && tally.excess_ratio().unwrap() < 1.4,
            "{counted:?}"
        );
    }
    assert!(
        counted
            .misses
            .iter()
            .all(|tally| tally.bound_ratio().unwrap() < 1.4),
        "{counted:?}"
    );
}
