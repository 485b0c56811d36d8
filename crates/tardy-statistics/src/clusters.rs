//! Groups exceedances into clusters by the runs method. The extremal index determines the distance
//! that separates clusters.

use std::ops::Range;

use super::extremal_index::{extremal_index, gaps};

/// The clusters in a list of exceedances.
#[derive(Debug, Clone, PartialEq)]
pub struct Clusters {
    /// The extremal index from which `gap` was derived.
    pub extremal_index: f64,
    /// If two neighbouring exceedances are more than this number of samples apart, they belong to
    /// different clusters.
    pub gap: u64,
    /// The clusters as ranges of indices into the list of positions, in order and without gaps.
    pub ranges: Vec<Range<usize>>,
}

/// Returns the clusters that the intervals estimator finds. The estimator assumes
/// `C = floor(index * N) + 1` clusters, so the C-th largest distance is the largest distance within
/// a cluster. Gaps of equal length are treated alike: either all of them separate clusters, or none
/// does. Returns `None` if there are fewer than two exceedances.
///
/// `positions` are the sample numbers of the exceedances in strictly ascending order. Source: Ferro
/// and Segers 2003, section 4.
#[must_use]
pub fn clusters(positions: &[u64]) -> Option<Clusters> {
    let extremal_index = extremal_index(positions)?;
    let count = (extremal_index * positions.len() as f64).floor() as usize + 1;
    let mut distances: Vec<u64> = gaps(positions).collect();
    let gap = if count > distances.len() {
        0
    } else {
        *distances
            .select_nth_unstable_by(count - 1, |a, b| b.cmp(a))
            .1
    };
    Some(Clusters {
        extremal_index,
        gap,
        ranges: runs(positions, gap),
    })
}

/// Returns clusters by the runs method: a new cluster starts if the distance to the previous
/// exceedance is more than `gap` samples.
#[must_use]
pub fn runs(positions: &[u64], gap: u64) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    for (index, distance) in gaps(positions).enumerate() {
        if distance > gap {
            ranges.push(start..index + 1);
            start = index + 1;
        }
    }
    if !positions.is_empty() {
        ranges.push(start..positions.len());
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbours_within_the_gap_share_a_cluster() {
        assert_eq!(runs(&[1, 2, 4, 9, 10, 30], 2), [0..3, 3..5, 5..6]);
        assert_eq!(runs(&[], 2), []);
    }

    #[test]
    fn clusters_far_apart_are_found_without_a_given_gap() {
        let positions: Vec<u64> = (0..50_u64)
            .flat_map(|i| [i * i * 1000 + 100, i * i * 1000 + 101, i * i * 1000 + 103])
            .collect();
        let clusters = clusters(&positions).unwrap();
        assert!(clusters.extremal_index < 0.5, "{clusters:?}");
        assert!(
            clusters.ranges.iter().all(|range| range.len() % 3 == 0),
            "{clusters:?}"
        );
    }

    proptest! {
        #[test]
        fn every_exceedance_is_in_exactly_one_cluster(set in proptest::collection::btree_set(0_u64..100_000, 0..300), gap in 0_u64..5000) {
            let positions: Vec<u64> = set.into_iter().collect();
            let ranges = runs(&positions, gap);
            let all: Vec<usize> = ranges.iter().cloned().flatten().collect();
            prop_assert_eq!(all, (0..positions.len()).collect::<Vec<_>>());
            for pair in ranges.windows(2) {
                prop_assert!(positions[pair[1].start] - positions[pair[0].end - 1] > gap);
            }
        }
    }
}
