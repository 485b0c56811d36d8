//! The effect of each setting if a run repeats exactly: replicas with it against replicas without,
//! under each load separately.
//!
//! The shift between two sets of replicas is the median of all differences, with the interval of
//! Mann and Whitney's ranks (J. L. Hodges and E. L. Lehmann, Ann. Math. Stat. 34, 1963). Every
//! setting under every load gets a share of the confidence.
//!
//! The lab compares each word of the kernel's command line separately, under each load separately,
//! not by the balanced design: a search there shows the effect of one word on a code path, and its
//! cells are cheap, exact and kept. Replicas have distant pads: with neighbouring pads, an option
//! without any effect once lowered the largest latency under `io` by 5 %, seven replicas against
//! seven.

use serde::{Deserialize, Serialize};
use tardy_statistics::confidence::Confidence;

use crate::pairs::Difference;
use crate::ranks::{median, statistics_within, without_ends};
use crate::search::Outcome;

/// A smaller effect does not count: a word without function moves the kernel's data, too.
const FACTOR_MIN: f64 = 1.05;

/// The effect of a setting under a load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    pub outcome: Outcome,
    /// Difference of logarithms of the goal: with the setting, minus without.
    pub difference: Difference,
}

/// Effects by setting and load, from logarithms of the goal of each replica; `None` if a side has
/// no replica. All hold together at `confidence`.
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

/// Returns the minimum number of replicas per side for conclusions about this many effects at once:
/// with fewer, even disjoint replicas may occur by chance.
#[must_use]
pub fn replicas_min(effects: usize, confidence: Confidence) -> u32 {
    let probability = confidence.miss() / 2.0 / effects.max(1) as f64;
    (2..64)
        .find(|&replicas| left_out(replicas, replicas, probability) > 0)
        .and_then(|replicas| u32::try_from(replicas).ok())
        .unwrap_or(64)
}

/// Returns the shift from `before` to `behind`; unbounded with too few replicas for the confidence.
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

/// Returns how many differences are outside on each side, so that Mann and Whitney's statistic is
/// beyond them with at most this probability.
fn left_out(before: usize, behind: usize, probability: f64) -> usize {
    // Ways to choose ranks by their number and sum above the least: products of (1 - x^(behind +
    // i)) / (1 - x^i).
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

    /// Tables of the test at 5 % on both sides: the largest statistic that is refused is 2 of 5 and
    /// 5, 5 of 6 and 6, 13 of 8 and 8, and 0 of 2 and 8; none of 3 and 3.
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

    /// Tested like [`crate::search`]: a heavy upper tail, whose spread makes a twentieth of the
    /// goal random.
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
        // 5 % of 300, plus the random excess in one of a thousand such tests.
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
        // 2 of 70 is too much for a twentieth, 2 of 252 is not; of sixty effects each has a twelfth
        // of a thousandth.
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
