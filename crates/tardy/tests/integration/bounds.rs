//! Tests the bounds that `tardy show --json` states for generated runs whose true values are known.
//! With dependent samples the bounds must be wider.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where something is not as expected"
)]

use crate::support;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::Value;
use support::made_run::MadeRun;
use support::workplace::Workplace;

fn show(run: &MadeRun, flags: &str) -> Value {
    let place = Workplace::new();
    run.write(&place.path("run"));
    place.tardy(&format!("show run --json {flags}")).json()
}

/// A nearly normal variable: the sum of twelve uniform variables, minus six.
fn normal(random: &mut Pcg64Mcg) -> f64 {
    (0..12)
        .map(|_| random.random_range(0.0..1.0_f64))
        .sum::<f64>()
        - 6.0
}

/// Makes a run of eight CPUs whose samples are independent, except that stalls of 500 us hit all
/// CPUs in the same periods.
fn with_common_stalls(samples: usize, stalls: &[usize]) -> MadeRun {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut of_cpu = || {
        let mut latencies: Vec<i64> = (0..samples)
            .map(|_| 20_000 + (3_000.0 * normal(&mut random)) as i64)
            .collect();
        stalls.iter().for_each(|&stall| latencies[stall] = 500_000);
        latencies
    };
    MadeRun::new((0..8).map(|_| of_cpu()).collect())
}

fn shares(run: &MadeRun) -> (f64, f64) {
    let verdict = show(run, "--deadline 400us --misses 0.5")["verdict"].take();
    (
        verdict["share_lower"].as_f64().unwrap(),
        verdict["share_upper"].as_f64().unwrap(),
    )
}

#[test]
fn without_a_miss_eight_cpus_bound_the_share_no_better_than_one() {
    let (_, upper) = shares(&with_common_stalls(10_000, &[]));
    // The rule of three applies to 10,000 periods and not to 80,000 samples, because a stall hits
    // all CPUs at once. A stall may be possible although none occurred here.
    assert!((3.0e-4..4.5e-4).contains(&upper), "{upper}");
}

#[test]
fn a_stall_of_all_cpus_is_one_event() {
    let (lower, upper) = shares(&with_common_stalls(10_000, &[2_000, 7_000]));
    // There are two events in 10,000 periods; the one-sided 95 % limits for a count of two are
    // 0.355 and 6.296.
    assert!(
        (1.5e-5..3.6e-5).contains(&lower) && (6.2e-4..9.0e-4).contains(&upper),
        "{lower} {upper}"
    );
}

#[test]
fn misses_of_cpus_that_are_hit_each_by_itself_count_each() {
    let mut run = with_common_stalls(20_000, &[]);
    let mut random = Pcg64Mcg::seed_from_u64(8);
    for latencies in &mut run.latencies {
        (0..200).for_each(|_| latencies[random.random_range(0..20_000_usize)] = 500_000);
    }
    let (lower, upper) = shares(&run);
    // About 1600 misses in 160,000 samples; exact limits for independent samples are 0.0096 and
    // 0.0104.
    assert!(
        (0.0092..0.0099).contains(&lower) && (0.0101..0.0108).contains(&upper),
        "{lower} {upper}"
    );
}

#[test]
fn the_median_of_samples_that_depend_on_each_other_is_bounded_as_often_as_said() {
    let mut held = 0;
    for seed in 0..40 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut state = normal(&mut random);
        let mut next = || {
            state = 0.99 * state + f64::sqrt(1.0 - 0.99 * 0.99) * normal(&mut random);
            (20_000.0 * f64::exp(0.5 * state)) as i64
        };
        let summary = show(
            &MadeRun::new(vec![(0..50_000).map(|_| next()).collect()]),
            "",
        );
        let median = &summary["probes"][0]["numbers"]["percentiles"][0];
        held += u32::from(
            median["upper_ns"]
                .as_i64()
                .is_none_or(|upper| upper >= 20_000),
        );
        // In theory, the 50,000 dependent samples determine the median as well as 139 independent
        // ones would. The number follows from the autocorrelation of the event that a value is
        // above the median.
        let effective = median["effective_samples"].as_f64().unwrap();
        assert!((60.0..800.0).contains(&effective), "{effective}");
    }
    // The bound should hold in 97.5 % of runs. Bounds that assume independent samples hold in only
    // 80 % of the runs.
    assert!(held >= 38, "{held} of 40");
}
