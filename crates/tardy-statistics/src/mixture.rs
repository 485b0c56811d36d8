//! Tests whether the largest values belong to the same tail as the values below them.
//!
//! A latency has several causes, such as interrupts, page faults and firmware. The rarest cause
//! with the longest delays affects only the few largest samples. A single fit of all values
//! describes neither these samples nor the others. The test therefore fits the lower excesses, and
//! then adds the largest excesses one by one. If an added excess moves the fitted shape out of the
//! confidence interval of the previous fit, another cause starts at this excess. Source: Manau et
//! al., "Detecting Low-Density Mixtures in High-Quantile Tails for pWCET Estimation", ECRTS 2025
//! (TailID).

use serde::{Deserialize, Serialize};

use super::confidence::Confidence;
use super::gpd::excesses::Excesses;
use super::gpd::fit::fit;
use super::profile::normal_deviate;

/// The largest excesses are tested one by one; this is their share of all excesses (the paper's
/// percentile of candidates).
const CANDIDATES: f64 = 0.05;
/// If the other cause has more excesses than this, it can be fitted alone (the paper's "minimum of
/// samples").
pub const POINTS_FOR_OWN_FIT: usize = 40;
/// The confidence of the interval of the shape, as in the paper. A high confidence ensures that an
/// excess is reported only if it clearly moves the shape.
const CONFIDENCE: f64 = 0.9999;

/// What the test found among the largest excesses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mixture {
    /// Number of excesses that were tested one by one.
    pub candidates: usize,
    /// The smallest excess that does not fit the excesses below it, and all larger ones, in
    /// ascending order; empty if all fit.
    pub foreign: Vec<f64>,
}

impl Mixture {
    /// Returns the excess above which the other cause can be fitted alone; `None` if the other
    /// cause has too few excesses.
    #[must_use]
    pub fn own_threshold(&self) -> Option<f64> {
        (self.foreign.len() > POINTS_FOR_OWN_FIT).then(|| self.foreign[0])
    }
}

/// Tests exact excesses over a threshold. Returns `None` if there are fewer than 20 excesses, if
/// they are known only as counts in buckets, or if they cannot be fitted.
#[must_use]
pub fn mixture(excesses: &Excesses) -> Option<Mixture> {
    let values = excesses.values()?;
    let candidates = ((values.len() as f64 * CANDIDATES).ceil() as usize).max(1);
    if values.len() < 20 {
        return None;
    }
    let deviate =
        normal_deviate(Confidence::new(CONFIDENCE).expect("the confidence lies between 0 and 1"));
    let first = values.len() - candidates;
    let shape_of = |count: usize| {
        fit(&Excesses::from_values(&values[..count]))
            .ok()
            .map(|fit| fit.model.shape)
    };
    let mut shape = shape_of(first)?;
    for end in first + 1..=values.len() {
        // The variance of the shape, from the expected information, is (1 + shape)^2 / count.
        let reach = deviate * (1.0 + shape) / ((end - 1) as f64).sqrt();
        let next = shape_of(end)?;
        if (next - shape).abs() > reach {
            return Some(Mixture {
                candidates,
                foreign: values[end - 1..].to_vec(),
            });
        }
        shape = next;
    }
    Some(Mixture {
        candidates,
        foreign: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpd::Gpd;
    use rand::{RngExt, SeedableRng};

    fn excesses(seed: u64, count: usize, others: &[f64]) -> Excesses {
        let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
        let model = Gpd {
            scale: 5.0,
            shape: -0.1,
        };
        let values: Vec<f64> = (0..count)
            .map(|_| model.excess_at(random.random::<f64>()))
            .chain(others.iter().copied())
            .collect();
        Excesses::from_values(&values)
    }

    #[test]
    fn one_tail_is_left_in_peace() {
        let alarms = (0..40)
            .filter(|&seed| {
                !mixture(&excesses(seed, 500, &[]))
                    .unwrap()
                    .foreign
                    .is_empty()
            })
            .count();
        assert_eq!(alarms, 0);
    }

    #[test]
    fn a_rare_long_cause_is_found_where_it_begins() {
        // Three firmware stalls of 2 to 3 ms, above a tail that ends at 50 us.
        for seed in 0..10 {
            let found = mixture(&excesses(seed, 500, &[2100.0, 2500.0, 2900.0])).unwrap();
            assert_eq!(found.foreign, [2100.0, 2500.0, 2900.0]);
            assert_eq!((found.candidates, found.own_threshold()), (26, None));
        }
    }

    #[test]
    fn enough_points_of_the_other_cause_are_a_tail_of_their_own() {
        let others: Vec<f64> = (0..45).map(|i| 5000.0 + f64::from(i)).collect();
        let found = mixture(&excesses(1, 1000, &others)).unwrap();
        assert_eq!(found.own_threshold(), Some(5000.0));
    }

    #[test]
    fn too_few_or_grouped_excesses_are_not_judged() {
        assert_eq!(mixture(&excesses(1, 19, &[])), None);
        let tally = crate::tally::Tally::from_counts((0..40).map(|i| (f64::from(i), 3)));
        assert_eq!(mixture(&Excesses::grouped_from(&tally, 0.0, 1.0)), None);
    }
}
