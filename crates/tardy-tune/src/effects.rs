//! Computes the effect of each setting when runs repeat exactly. Replicas with the setting are
//! compared with replicas without it, separately under each load.
//!
//! The shift between two sets of replicas is the median of all differences, with the interval from
//! Mann and Whitney's ranks (Hodges and Lehmann, Annals of Mathematical Statistics 34, 1963). The
//! confidence holds for the effects of all settings under all loads together.
//!
//! The lab does not use the balanced design. A search in the lab shows how one word of the kernel's
//! command line affects the code path of one load, and it can afford many runs: runs in virtual
//! time are cheap, repeat exactly, and are stored. Replicas differ in their pad, which is the
//! length of a word on the kernel's command line that has no function. The pads of the replicas are
//! far apart, because neighbouring pads can feign an effect. For example, a word that does nothing
//! seemed to lower the largest latency under `io` by 5 % in an experiment with neighbouring pads
//! and seven replicas per side.

use serde::{Deserialize, Serialize};
use tardy_statistics::confidence::Confidence;

use crate::pairs::Difference;
use crate::ranks::{median, statistics_within, without_ends};
use crate::search::Outcome;

/// Smallest increase that is reported as an effect, as a factor. For a reduction, the limit is the
/// reciprocal of this factor. Even a word that has no function moves the kernel's data, which
/// changes latencies slightly.
const FACTOR_MIN: f64 = 1.05;

/// The effect of a setting under a load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    pub outcome: Outcome,
    /// Logarithm of the metric with the setting, minus the logarithm without it.
    pub difference: Difference,
}

/// Returns the effect of each setting under each load, from the logarithm of each replica's metric;
/// `None` if a side has no replica. With the probability `confidence`, the intervals of all effects
/// contain their true values at the same time.
#[must_use]
pub fn effects(
    without: &[Vec<f64>],
    with: &[Vec<Vec<f64>>],
    confidence: Confidence,
) -> Vec<Vec<Option<Effect>>> {
    let shared = confidence.shared_by(
        u32::try_from(with.len() * without.len())
            .unwrap_or(u32::MAX)
            .max(1),
    );
    let effect = |(without, with): (&Vec<f64>, &Vec<f64>)| {
        let difference = shift(without, with, shared)?;
        let is_large = difference.value.abs() >= FACTOR_MIN.ln();
        Some(Effect {
            outcome: if is_large {
                Outcome::of(&difference)
            } else {
                Outcome::NothingSeen
            },
            difference,
        })
    };
    with.iter()
        .map(|loads| without.iter().zip(loads).map(effect).collect())
        .collect()
}

/// Returns the minimum number of replicas per side with which `effects` effects can be judged
/// together at `confidence`. With fewer replicas, chance alone could make the two sides disjoint.
#[must_use]
pub fn replicas_min(effects: usize, confidence: Confidence) -> u32 {
    let probability = confidence.miss() / 2.0 / effects.max(1) as f64;
    (2..64)
        .find(|&replicas| left_out(replicas, replicas, probability) > 0)
        .and_then(|replicas| u32::try_from(replicas).ok())
        .unwrap_or(64)
}

/// Returns by how much the values in `behind` are larger than those in `before`. The interval of
/// the shift is unbounded if there are too few replicas for the confidence.
fn shift(before: &[f64], behind: &[f64], confidence: Confidence) -> Option<Difference> {
    let mut differences: Vec<f64> = before
        .iter()
        .flat_map(|one| behind.iter().map(move |other| other - one))
        .collect();
    differences.sort_unstable_by(f64::total_cmp);
    let value = median(&differences)?;
    let left_out = left_out(before.len(), behind.len(), confidence.miss() / 2.0);
    Some(Difference {
        value,
        interval: without_ends(&differences, left_out),
    })
}

/// Returns the number k for which the interval of a shift reaches from the k-th smallest to the
/// k-th largest difference. The probability that the true value lies below this interval is at most
/// `probability`; the same holds above it. Returns 0 if there are too few replicas.
fn left_out(before: usize, behind: usize, probability: f64) -> usize {
    // `ways[u]` is the number of orders of the ranks for which the statistic is u. The generating
    // function of these numbers is the product of (1 - x^(behind + i)) / (1 - x^i) over i.
    let statistics = before * behind;
    let mut ways = vec![0.0_f64; statistics + 1];
    ways[0] = 1.0;
    for rank in 1..=before {
        for sum in (behind + rank..=statistics).rev() {
            ways[sum] -= ways[sum - behind - rank];
        }
        for sum in rank..=statistics {
            ways[sum] += ways[sum - rank];
        }
    }
    statistics_within(&ways, probability)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    /// The values are from tables of the two-sided test at 5 %: the largest rejected statistic is 2
    /// for 5 and 5 replicas, 5 for 6 and 6, 13 for 8 and 8, 0 for 2 and 8. For 3 and 3, rejection
    /// is impossible.
    #[test]
    fn critical_statistics_are_those_of_the_tables() {
        for (before, behind, statistics) in [
            (5, 5, 3),
            (6, 6, 6),
            (8, 8, 14),
            (2, 8, 1),
            (8, 2, 1),
            (3, 3, 0),
        ] {
            assert_eq!(
                left_out(before, behind, 0.025),
                statistics,
                "{before} {behind}"
            );
        }
    }

    /// As in the tests of [`crate::search`], the logarithm of the metric is random with a heavy
    /// upper tail.
    #[test]
    fn ten_settings_that_do_nothing_are_called_nothing_and_one_that_does_is_found_within_its_interval()
     {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut replicas = |level: f64| -> Vec<f64> {
            let draw =
                |random: &mut Pcg64Mcg| -> f64 { random.random_range(f64::MIN_POSITIVE..1.0) };
            (0..8)
                .map(|_| level - 0.1 * (-draw(&mut random).ln()).ln())
                .collect()
        };
        let (mut wrong, mut found, mut covered) = (0, 0, 0);
        let searches = 300;
        for _ in 0..searches {
            let without = vec![replicas(0.0), replicas(2.0)];
            let with: Vec<Vec<Vec<f64>>> = (0..11)
                .map(|setting| {
                    vec![
                        replicas(0.0),
                        replicas(if setting == 10 { 1.0 } else { 2.0 }),
                    ]
                })
                .collect();
            let effects = effects(&without, &with, Confidence::NINETY_FIVE);
            let is_false =
                |effect: &Option<Effect>| effect.unwrap().outcome != Outcome::NothingSeen;
            wrong += usize::from(effects[..10].iter().flatten().any(is_false));
            let effect = effects[10][1].unwrap();
            found += usize::from(effect.outcome == Outcome::Lowers);
            covered += usize::from(effect.difference.interval.contains(-1.0));
        }
        // The expected number is 5 % of 300, which is 15. One in a thousand such tests would exceed
        // 27 by chance.
        assert!(wrong <= 27, "{wrong} of {searches}");
        assert_eq!(found, searches);
        assert!(covered * 100 >= searches * 95, "{covered} of {searches}");
    }

    #[test]
    fn replicas_that_do_not_overlap_decide_where_there_are_enough_for_all_effects() {
        let run = |level: f64| {
            (0..6)
                .map(|replica| level + 0.01 * f64::from(replica))
                .collect::<Vec<f64>>()
        };
        let found = effects(
            &[run(1.0), run(2.0)],
            &[vec![run(1.0), run(2.5)], vec![run(0.5), Vec::new()]],
            Confidence::NINETY_FIVE,
        );
        let outcome =
            |setting: usize, load: usize| found[setting][load].map(|effect| effect.outcome);
        assert_eq!(
            (outcome(0, 0), outcome(0, 1)),
            (Some(Outcome::NothingSeen), Some(Outcome::Raises))
        );
        assert_eq!(
            (outcome(1, 0), outcome(1, 1)),
            (Some(Outcome::Lowers), None)
        );
        assert!(found[0][1].unwrap().difference.interval.contains(0.5));
        // If all replicas are sorted by their values, 2 of the possible orders separate the two
        // sides completely. With three replicas per side, 2 of 20 orders are more than 5 %; with
        // four, 2 of 70 are less. With sixty effects, each gets a share of 5 % / 60, and 2 of 3432
        // orders with seven replicas are less.
        assert_eq!(
            (
                replicas_min(1, Confidence::NINETY_FIVE),
                replicas_min(60, Confidence::NINETY_FIVE)
            ),
            (4, 7)
        );
        let few = effects(
            &[run(1.0)[..3].to_vec()],
            &[vec![run(9.0)[..3].to_vec()]],
            Confidence::NINETY_FIVE,
        );
        assert!(!few[0][0].unwrap().difference.interval.is_finite());
    }
}
