//! Tests whether the runs of two sides differ by more than they would if each run were assigned to
//! a side at random. The test assumes only that runs are exchangeable. It needs no particular
//! distribution and no large numbers of runs.

use serde::{Deserialize, Serialize};

use super::random::Random;

/// A split is a way to divide all runs into two sides. If there are at most this many splits, all
/// are tried. If there are more, this number of splits is drawn at random.
const SPLITS_MAX: u64 = 100_000;

/// The result of the test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Permutation {
    /// Mean of the candidate's runs minus mean of the baseline's runs.
    pub difference: f64,
    /// Share of splits whose difference is at least as far from 0 as that of the observed split.
    /// The observed split is included.
    pub probability: f64,
    /// Whether all possible splits were tried. If not, splits were drawn at random with the seed.
    pub exact: bool,
}

/// Compares one number per run, with a two-sided test. `None` if a side is empty or a number is not
/// finite.
#[must_use]
pub fn permutation(baseline: &[f64], candidate: &[f64], seed: u64) -> Option<Permutation> {
    let all: Vec<f64> = baseline.iter().chain(candidate).copied().collect();
    if baseline.is_empty() || candidate.is_empty() || all.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let total: f64 = all.iter().sum();
    let (size, rest) = (candidate.len() as f64, baseline.len() as f64);
    let difference_of = |sum: f64| sum / size - (total - sum) / rest;
    let difference = difference_of(candidate.iter().sum());
    // If the same numbers are added in another order, the last digit of the sum can differ. The
    // tolerance makes splits with equal exact sums count as equal.
    let limit = difference.abs() - 1e-12 * all.iter().map(|value| value.abs()).sum::<f64>();
    let extreme = |sum: f64| difference_of(sum).abs() >= limit;
    let splits =
        splits(all.len() as u64, candidate.len() as u64).filter(|&splits| splits <= SPLITS_MAX);
    let probability = match splits {
        Some(splits) => count_extreme(&all, candidate.len(), 0.0, &extreme) as f64 / splits as f64,
        None => share_of_drawn(all, candidate.len(), seed, extreme),
    };
    Some(Permutation {
        difference,
        probability,
        exact: splits.is_some(),
    })
}

/// Returns the probability that the maxima of all `later` runs exceed the maxima of all `earlier`
/// runs by chance, that is, if nothing changed in between.
#[must_use]
pub fn all_above_by_chance(earlier: u64, later: u64) -> f64 {
    let n = earlier.saturating_add(later);
    (1..=later)
        .map(|i| i as f64 / (n - later + i) as f64)
        .product()
}

/// Returns the number of ways to choose `some` of `all`; `None` if it exceeds 64 bits.
fn splits(all: u64, some: u64) -> Option<u64> {
    (1..=some.min(all - some)).try_fold(1_u64, |ways, i| Some(ways.checked_mul(all - i + 1)? / i))
}

/// Counts the ways to choose `left` of `values` such that `sum` plus the chosen values is extreme.
fn count_extreme(values: &[f64], left: usize, sum: f64, extreme: &impl Fn(f64) -> bool) -> u64 {
    if left == 0 {
        return u64::from(extreme(sum));
    }
    (0..=values.len() - left)
        .map(|first| count_extreme(&values[first + 1..], left - 1, sum + values[first], extreme))
        .sum()
}

fn share_of_drawn(
    mut values: Vec<f64>,
    size: usize,
    seed: u64,
    extreme: impl Fn(f64) -> bool,
) -> f64 {
    let mut random = Random::new(seed);
    let mut count = 0_u64;
    for _ in 0..SPLITS_MAX {
        // Draws a random subset by shuffling only the first `size` elements.
        for place in 0..size {
            let other = place + random.below(values.len() - place);
            values.swap(place, other);
        }
        count += u64::from(extreme(values[..size].iter().sum()));
    }
    // The observed split also counts, so the probability is never 0.
    (count + 1) as f64 / (SPLITS_MAX + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn four_runs_apart_from_four_have_the_smallest_probability_there_is() {
        let found = permutation(&[1.0, 2.0, 3.0, 4.0], &[11.0, 12.0, 13.0, 14.0], 1).unwrap();
        assert_eq!((found.difference, found.exact), (10.0, true));
        assert!((found.probability - 2.0 / 70.0).abs() < 1e-12);
        assert!((all_above_by_chance(4, 4) - 1.0 / 70.0).abs() < 1e-12);
        assert!((all_above_by_chance(5, 5) - 1.0 / 252.0).abs() < 1e-12);
        assert_eq!(all_above_by_chance(3, 0), 1.0);
    }

    #[test]
    fn equal_runs_do_not_differ_and_missing_ones_are_not_compared() {
        assert_eq!(
            permutation(&[0.1, 0.2, 0.3], &[0.3, 0.1, 0.2], 1)
                .unwrap()
                .probability,
            1.0
        );
        assert_eq!(permutation(&[], &[1.0], 1), None);
        assert_eq!(permutation(&[f64::NAN], &[1.0], 1), None);
    }

    #[test]
    fn drawn_splits_come_near_the_exact_answer_and_repeat() {
        let a: Vec<f64> = (0..15).map(|i| f64::from(i * 7 % 15)).collect();
        let b: Vec<f64> = (0..15).map(|i| f64::from(i * 4 % 15) + 3.0).collect();
        let found = permutation(&a, &b, 9).unwrap();
        assert!(!found.exact);
        assert_eq!(found, permutation(&a, &b, 9).unwrap());
        // The mean is 3, and the standard error computed from the pooled values is 1.72, so the
        // normal distribution gives a probability of 0.080.
        assert!((found.probability - 0.08).abs() < 0.01, "{found:?}");
    }

    proptest! {
        #[test]
        fn the_probability_counts_all_splits(
            a in proptest::collection::vec(-9_i32..9, 1..5), b in proptest::collection::vec(-9_i32..9, 1..5)
        ) {
            let all: Vec<i32> = a.iter().chain(&b).copied().collect();
            let total: i32 = all.iter().sum();
            let scaled = |sum: i32| (sum * a.len() as i32 - (total - sum) * b.len() as i32).abs();
            let seen = scaled(b.iter().sum());
            let choices: Vec<u32> = (0_u32..1 << all.len()).filter(|bits| bits.count_ones() as usize == b.len()).collect();
            let sum = |bits: u32| (0..all.len()).filter(|i| bits >> i & 1 == 1).map(|i| all[i]).sum::<i32>();
            let expected = choices.iter().filter(|&&bits| scaled(sum(bits)) >= seen).count() as f64 / choices.len() as f64;
            let as_floats = |values: &[i32]| values.iter().map(|&value| f64::from(value)).collect::<Vec<f64>>();
            let found = permutation(&as_floats(&a), &as_floats(&b), 0).unwrap();
            prop_assert!((found.probability - expected).abs() < 1e-12, "{:?} {}", found, expected);
        }
    }
}
