//! Computes the extremal index, which shows how strongly exceedances cluster, from 0 (long
//! clusters) to 1 (independent exceedances).
//!
//! Source: Ferro and Segers, "Inference for clusters of extreme values", Journal of the Royal
//! Statistical Society B 65, 2003, equations 5 and 7.

/// Returns the intervals estimator of the extremal index. `positions` are the sample numbers of the
/// exceedances in strictly ascending order. Returns `None` for fewer than two exceedances.
///
/// The reciprocal of the extremal index is the mean number of exceedances in a cluster. The index
/// is an estimate that has no confidence bound, and it is unreliable if there are few exceedances.
#[must_use]
pub fn extremal_index(positions: &[u64]) -> Option<f64> {
    if positions.len() < 2 {
        return None;
    }
    let count = (positions.len() - 1) as f64;
    // Within a cluster, distances are short. The paper's formula contains `gap - 1` and `gap - 2`
    // instead of `gap`, so that these short distances do not bias the limit distribution of the
    // long ones.
    let (sum, weight) = gaps(positions)
        .map(|gap| gap as f64)
        .fold((0.0, 0.0), |(sum, weight), gap| {
            (sum + gap - 1.0, weight + (gap - 1.0) * (gap - 2.0))
        });
    if weight == 0.0 {
        // If all distances are at most 2, the paper uses another estimator, 2 (sum T)^2 / (count
        // sum T^2). It is then at least 16/9, so the result is limited to 1.
        return Some(1.0);
    }
    Some((2.0 * sum * sum / (count * weight)).min(1.0))
}

/// Returns the distances between neighbouring positions, at least 1 each.
pub(super) fn gaps(positions: &[u64]) -> impl Iterator<Item = u64> + '_ {
    positions
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{dow_jones_returns, rain};
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};

    fn exceedances(values: &[f64], threshold: f64) -> Vec<u64> {
        values
            .iter()
            .enumerate()
            .filter(|&(_, &value)| value > threshold)
            .map(|(index, _)| index as u64)
            .collect()
    }

    #[test]
    fn the_indexes_of_the_reference_data_are_met() {
        let cases = [
            (rain(), 30.0, 0.941_939_6),
            (rain(), 10.0, 0.622_624_5),
            (dow_jones_returns(), 2.0, 0.495_942_7),
        ];
        for (values, threshold, expected) in cases {
            let index = extremal_index(&exceedances(&values, threshold)).unwrap();
            assert!((index - expected).abs() < 5e-8, "{index} is not {expected}");
        }
    }

    #[test]
    fn clusters_of_four_give_about_a_quarter() {
        let mut random = rand_pcg::Pcg64::seed_from_u64(7);
        let mut positions = Vec::new();
        let mut at = 0;
        for _ in 0..2000 {
            at += 10 + (-1e5 * f64::ln(random.random_range(1e-9..1.0))) as u64;
            positions.extend((0..4).map(|i| at + i));
        }
        let index = extremal_index(&positions).unwrap();
        assert!((index - 0.25).abs() < 0.02, "{index}");
    }

    #[test]
    fn too_few_exceedances_have_no_index() {
        assert_eq!(extremal_index(&[]), None);
        assert_eq!(extremal_index(&[9]), None);
        assert_eq!(extremal_index(&[1, 2]), Some(1.0));
    }

    proptest! {
        #[test]
        fn the_index_lies_between_zero_and_one(positions in proptest::collection::btree_set(any::<u64>(), 2..200)) {
            let positions: Vec<u64> = positions.into_iter().collect();
            let index = extremal_index(&positions).unwrap();
            prop_assert!(index > 0.0 && index <= 1.0, "{index}");
        }
    }
}
