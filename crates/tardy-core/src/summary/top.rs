//! Stores the largest samples of a series with their indices; from these, the clustering of late
//! wake-ups is computed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tardy_statistics::extremal_index::extremal_index;

/// Maximum number of stored samples.
const KEPT: usize = 1000;
/// Minimum number of exceedances for an estimate of clustering.
const EXCEEDANCES_MIN: usize = 50;
/// Minimum number of samples per exceedance, because the extremal index describes the tail only.
const SAMPLES_PER_EXCEEDANCE: u64 = 20;

/// The largest latencies so far, each with its index in the series (in due times, or cycles).
#[derive(Debug, Clone, Default)]
pub struct Top {
    largest: BinaryHeap<Reverse<(i64, u64)>>,
}

impl Top {
    /// Returns the threshold that a latency must exceed for its sample to be stored.
    #[inline]
    #[must_use]
    pub fn threshold(&self) -> i64 {
        match self.largest.peek() {
            Some(&Reverse((latency, _))) if self.largest.len() >= KEPT => latency,
            _ => i64::MIN,
        }
    }

    /// Adds a sample if it is among the largest.
    pub fn add(&mut self, latency: i64, place: u64) {
        if self.largest.len() < KEPT {
            self.largest.push(Reverse((latency, place)));
        } else if latency > self.threshold() {
            self.largest.pop();
            self.largest.push(Reverse((latency, place)));
        }
    }

    /// Adds the largest samples of another part of the same series.
    pub fn merge(&mut self, other: &Self) {
        for &Reverse((latency, place)) in &other.largest {
            self.add(latency, place);
        }
    }

    /// Drops values that [`Top::extremal_index`] does not need for a series of `samples` samples or
    /// for a part of it.
    pub fn trim(&mut self, samples: u64) {
        // The largest value that is not an exceedance stays as the threshold.
        let needed = usize::try_from(samples / SAMPLES_PER_EXCEEDANCE + 1).unwrap_or(usize::MAX);
        while self.largest.len() > needed {
            self.largest.pop();
        }
        self.largest.shrink_to_fit();
    }

    /// Returns the extremal index of a series of `samples` samples: 1 for independent late samples,
    /// less if they cluster; `None` if there are too few.
    ///
    /// Latencies equal to the threshold are left out. Only some of the samples with this latency
    /// are stored. The order of the samples alone decides which of them are stored, so they would
    /// look like a cluster.
    #[must_use]
    pub fn extremal_index(&self, samples: u64) -> Option<f64> {
        let count = self
            .largest
            .len()
            .min(usize::try_from(samples / SAMPLES_PER_EXCEEDANCE).unwrap_or(usize::MAX));
        if count < EXCEEDANCES_MIN {
            return None;
        }
        let mut sorted: Vec<(i64, u64)> =
            self.largest.iter().map(|&Reverse(sample)| sample).collect();
        sorted.sort_unstable_by_key(|&(latency, _)| Reverse(latency));
        let edge = sorted
            .get(count)
            .or(sorted.last())
            .map_or(i64::MIN, |&(latency, _)| latency);
        let mut places: Vec<u64> = sorted
            .iter()
            .take_while(|&&(latency, _)| latency > edge)
            .map(|&(_, place)| place)
            .collect();
        if places.len() < EXCEEDANCES_MIN {
            return None;
        }
        places.sort_unstable();
        extremal_index(&places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trimming_leaves_the_index_of_a_short_series_as_it_was() {
        let mut top = Top::default();
        // Of the 6000 samples, 300 are exceedances; some are neighbours, some are equal.
        (0..6000_u64).for_each(|place| top.add((place * place % 977) as i64, place));
        let mut trimmed = top.clone();
        trimmed.trim(6000);
        assert_eq!(trimmed.largest.len(), 301);
        assert_eq!(trimmed.extremal_index(6000), top.extremal_index(6000));
        assert!(top.extremal_index(6000).is_some());
    }

    #[test]
    fn the_largest_are_kept_in_whatever_order_they_come() {
        let mut top = Top::default();
        (0..10_000_u64).for_each(|place| top.add((place * 7919 % 10_000) as i64, place));
        assert_eq!(top.threshold(), 9_000);
    }

    #[test]
    fn equal_samples_at_the_edge_are_no_cluster() {
        let with_late_each = |each: u64| {
            let mut top = Top::default();
            // Simulates a coarse clock: nearly all samples are equal, and only some of the equal
            // samples are stored.
            (0..100_000_u64).for_each(|place| {
                top.add(
                    if place % each == 0 {
                        300 + place as i64
                    } else {
                        10
                    },
                    place,
                )
            });
            top.extremal_index(100_000)
        };
        assert_eq!(with_late_each(2_500), None, "40 late samples are too few");
        assert_eq!(
            with_late_each(1_000),
            Some(1.0),
            "100 late samples far apart do not cluster"
        );
    }

    #[test]
    fn late_samples_in_pairs_have_an_index_of_one_half() {
        use rand::{RngExt, SeedableRng};
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(1);
        let mut top = Top::default();
        let mut place = 0;
        for cluster in 0..500_u64 {
            // If clusters are independent, the distances between them are exponential.
            place += 2 + (-1000.0 * (1.0 - random.random_range(0.0..1.0_f64)).ln()) as u64;
            top.add(1_000 + cluster as i64, place);
            top.add(1_000 + cluster as i64, place + 1);
        }
        let index = top.extremal_index(1_000_000).unwrap();
        assert!((0.35..0.65).contains(&index), "{index}");
        assert_eq!(top.extremal_index(900), None, "45 exceedances are too few");
    }
}
