//! Computes rank tests. For any distribution, they show which of two sides tends to have larger
//! values. Rank tests are suitable for the body of a distribution, but not for its tail, which is
//! only a thousandth of all ranks.
//!
//! With a million samples, these tests give a probability of practically 0 even for small
//! differences. Reports should therefore show how large the effect is: the probability that a value
//! of one side exceeds a value of the other side.

use serde::{Deserialize, Serialize};
use statrs::function::erf::erfc;

use crate::merged::{Step, steps};
use crate::student;
use crate::tally::Tally;

/// Results of the rank tests of the candidate's and the baseline's values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ranks {
    /// Probability that a value of the candidate exceeds a value of the baseline. Equal values
    /// count half. 0.5 means no tendency.
    pub superiority: f64,
    /// Mann and Whitney's statistic of the baseline: the number of pairs in which the baseline's
    /// value is larger.
    pub mann_whitney: f64,
    /// Probability of Mann and Whitney's test, under the hypothesis that both distributions are
    /// equal. It comes from the normal distribution, with corrections for ties and continuity.
    pub mann_whitney_probability: f64,
    /// Brunner and Munzel's statistic, which is also valid if the spreads of the two sides differ;
    /// `None` if the samples do not overlap.
    pub brunner_munzel: Option<f64>,
    /// Probability of Brunner and Munzel's test, under the hypothesis that neither side tends to be
    /// larger.
    pub brunner_munzel_probability: Option<f64>,
}

impl Ranks {
    /// Returns Cliff's delta: -1 if every value of the candidate is below every value of the
    /// baseline, 1 if every value is above, 0 for no tendency.
    #[must_use]
    pub fn cliffs_delta(&self) -> f64 {
        2.0 * self.superiority - 1.0
    }
}

/// Returns the rank tests; `None` if a side is empty. Sources: Mann and Whitney, Annals of
/// Mathematical Statistics 18, 1947; Brunner and Munzel, Biometrical Journal 42, 2000.
#[must_use]
pub fn ranks(baseline: &Tally, candidate: &Tally) -> Option<Ranks> {
    let sizes = [baseline.total() as f64, candidate.total() as f64];
    if sizes[0] == 0.0 || sizes[1] == 0.0 {
        return None;
    }
    let steps = steps(baseline, candidate);
    let pairs = sizes[0] * sizes[1];
    let rank_sum: f64 = steps
        .iter()
        .map(|step| step.at[0] as f64 * step.rank())
        .sum();
    let mann_whitney = rank_sum - sizes[0] * (sizes[0] + 1.0) / 2.0;
    let munzel = brunner_munzel(&steps, sizes);
    Some(Ranks {
        superiority: 1.0 - mann_whitney / pairs,
        mann_whitney,
        mann_whitney_probability: mann_whitney_probability(&steps, sizes, mann_whitney),
        brunner_munzel: munzel.map(|(statistic, _)| statistic),
        brunner_munzel_probability: munzel.map(|(_, probability)| probability),
    })
}

fn mann_whitney_probability(steps: &[Step], sizes: [f64; 2], statistic: f64) -> f64 {
    let n = sizes[0] + sizes[1];
    let ties = steps
        .iter()
        .map(|step| (step.at[0] + step.at[1]) as f64)
        .map(|count| count * count * count - count)
        .sum::<f64>();
    let variance = sizes[0] * sizes[1] / 12.0 * (n + 1.0 - ties / (n * (n - 1.0)));
    let distance = ((statistic - sizes[0] * sizes[1] / 2.0).abs() - 0.5).max(0.0);
    if variance.is_nan() || variance <= 0.0 {
        1.0
    } else {
        erfc(distance / (2.0 * variance).sqrt()).min(1.0)
    }
}

fn brunner_munzel(steps: &[Step], sizes: [f64; 2]) -> Option<(f64, f64)> {
    let n = sizes[0] + sizes[1];
    let mean = |side: usize| {
        steps
            .iter()
            .map(|step| step.at[side] as f64 * step.rank())
            .sum::<f64>()
            / sizes[side]
    };
    let means = [mean(0), mean(1)];
    let variance = |side: usize| {
        let centre = means[side] - (sizes[side] + 1.0) / 2.0;
        let distance = |step: &Step| {
            step.at[side] as f64 * (step.rank() - step.own_rank(side) - centre).powi(2)
        };
        steps
            .iter()
            .filter(|step| step.at[side] > 0)
            .map(distance)
            .sum::<f64>()
            / (sizes[side] - 1.0)
    };
    let weighted = [sizes[0] * variance(0), sizes[1] * variance(1)];
    let both = weighted[0] + weighted[1];
    if !(both.is_finite() && both > 0.0) {
        return None;
    }
    let statistic = sizes[0] * sizes[1] * (means[1] - means[0]) / (n * both.sqrt());
    let freedom = both * both
        / (weighted[0].powi(2) / (sizes[0] - 1.0) + weighted[1].powi(2) / (sizes[1] - 1.0));
    Some((statistic, student::both_tails(statistic, freedom)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::fremantle;
    use proptest::prelude::*;

    #[test]
    fn the_halves_of_fremantle_are_met() {
        let levels = fremantle();
        let (first, last) = (
            Tally::from_samples(&levels[..43]),
            Tally::from_samples(&levels[levels.len() - 43..]),
        );
        let found = ranks(&first, &last).unwrap();
        assert_eq!(found.mann_whitney, 599.0);
        assert!(
            (found.mann_whitney_probability - 0.004_904_30).abs() < 5e-9,
            "{found:?}"
        );
        assert!((found.superiority - 0.676_041_1).abs() < 5e-8, "{found:?}");
        assert!(
            (found.cliffs_delta() - 0.352_082_2).abs() < 5e-8,
            "{found:?}"
        );
        assert!(
            (found.brunner_munzel.unwrap() - 3.011_664_3).abs() < 5e-8,
            "{found:?}"
        );
        assert!(
            (found.brunner_munzel_probability.unwrap() - 0.003_580_13).abs() < 5e-9,
            "{found:?}"
        );
    }

    #[test]
    fn samples_apart_have_the_full_effect_and_empty_ones_none() {
        let (low, high) = (
            Tally::from_samples(&[1.0, 2.0, 3.0]),
            Tally::from_samples(&[7.0, 8.0]),
        );
        let found = ranks(&low, &high).unwrap();
        assert_eq!(
            (
                found.superiority,
                found.cliffs_delta(),
                found.brunner_munzel
            ),
            (1.0, 1.0, None)
        );
        assert_eq!(ranks(&low, &Tally::default()), None);
        let equal = Tally::from_counts([(4.0, 1_000_000)]);
        let found = ranks(&equal, &equal).unwrap();
        assert_eq!(
            (found.superiority, found.mann_whitney_probability),
            (0.5, 1.0)
        );
    }

    proptest! {
        #[test]
        fn the_effect_is_the_share_of_pairs(
            a in proptest::collection::vec(0_i32..9, 1..30), b in proptest::collection::vec(0_i32..9, 1..30)
        ) {
            let pair = |x: i32, y: i32| f64::from(u8::from(y > x)) + f64::from(u8::from(y == x)) / 2.0;
            let share = a.iter().flat_map(|&x| b.iter().map(move |&y| pair(x, y))).sum::<f64>() / (a.len() * b.len()) as f64;
            let tally = |values: &[i32]| Tally::from_counts(values.iter().map(|&value| (f64::from(value), 1)));
            let found = ranks(&tally(&a), &tally(&b)).unwrap();
            prop_assert!((found.superiority - share).abs() < 1e-12);
            prop_assert!((0.0..=1.0).contains(&found.mann_whitney_probability));
        }
    }
}
