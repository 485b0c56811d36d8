//! Draws random cases, which are the same on every machine, and checks them on all CPUs in
//! parallel.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// Returns the number in an environment variable, or `default`.
pub(crate) fn wanted(variable: &str, default: usize) -> usize {
    std::env::var(variable)
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(default)
}

/// Runs `one` with `count` seeds on all CPUs, and collects the findings.
pub(crate) fn found_in(
    count: usize,
    seed: u64,
    one: fn(&mut Pcg64Mcg) -> Vec<String>,
) -> Vec<String> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut found = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count as u64 {
                return found;
            }
            found.extend(one(&mut Pcg64Mcg::seed_from_u64(seed + index)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    })
}
