//! Values with their counts, in ascending order. They are the input of rank statistics for millions
//! of samples.

/// Distinct values and their counts. NaN values are omitted, so all values can be ordered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tally {
    entries: Vec<(f64, u64)>,
    /// `cumulative[i]` is the number of samples at or below the value of entry `i`.
    cumulative: Vec<u64>,
}

impl Tally {
    /// Creates a tally from values with counts, in any order. The counts of equal values are added.
    #[must_use]
    pub fn from_counts(counts: impl IntoIterator<Item = (f64, u64)>) -> Self {
        let mut raw: Vec<(f64, u64)> = counts
            .into_iter()
            .filter(|&(value, count)| !value.is_nan() && count > 0)
            .collect();
        if !raw.is_sorted_by(|a, b| a.0 <= b.0) {
            raw.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        }
        let mut entries: Vec<(f64, u64)> = Vec::with_capacity(raw.len());
        for (value, count) in raw {
            match entries.last_mut() {
                Some(last) if last.0 == value => last.1 += count,
                _ => entries.push((value, count)),
            }
        }
        let cumulative = entries
            .iter()
            .scan(0_u64, |sum, entry| {
                *sum += entry.1;
                Some(*sum)
            })
            .collect();
        Self {
            entries,
            cumulative,
        }
    }

    /// Creates a tally from samples in any order.
    #[must_use]
    pub fn from_samples(samples: &[f64]) -> Self {
        Self::from_counts(samples.iter().map(|&value| (value, 1)))
    }

    /// Returns the distinct values with their counts, in ascending order.
    #[must_use]
    pub fn entries(&self) -> &[(f64, u64)] {
        &self.entries
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.cumulative.last().copied().unwrap_or(0)
    }

    /// Returns the value of a rank (1 is the smallest value); `None` if the rank is not between 1
    /// and the number of samples.
    #[must_use]
    pub fn at_rank(&self, rank: u64) -> Option<f64> {
        if rank == 0 {
            return None;
        }
        self.entries
            .get(self.cumulative.partition_point(|&sum| sum < rank))
            .map(|entry| entry.0)
    }

    /// Returns the smallest value such that at least the fraction `probability` of the samples is
    /// less than or equal to it; `None` if there are no samples.
    #[must_use]
    pub fn quantile(&self, probability: f64) -> Option<f64> {
        let rank = (probability.clamp(0.0, 1.0) * self.total() as f64).ceil() as u64;
        self.at_rank(rank.clamp(1, self.total().max(1)))
    }

    /// Returns the middle value, or the mean of the two middle values.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        let total = self.total();
        Some(
            self.at_rank(total.div_ceil(2))?
                .midpoint(self.at_rank(total / 2 + 1)?),
        )
    }

    /// Returns the most frequent value and its count. If several values are equally frequent,
    /// returns the smallest one.
    #[must_use]
    pub fn mode(&self) -> Option<(f64, u64)> {
        self.entries
            .iter()
            .copied()
            .reduce(|best, entry| if entry.1 > best.1 { entry } else { best })
    }

    /// Returns the number of samples at or below `value`.
    #[must_use]
    pub fn count_up_to(&self, value: f64) -> u64 {
        match self.entries.partition_point(|entry| entry.0 <= value) {
            0 => 0,
            index => self.cumulative[index - 1],
        }
    }

    /// Returns the number of samples above `value`.
    #[must_use]
    pub fn count_above(&self, value: f64) -> u64 {
        self.total() - self.count_up_to(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_has_no_median_and_no_mode() {
        let tally = Tally::default();
        assert_eq!(
            (
                tally.median(),
                tally.mode(),
                tally.quantile(0.5),
                tally.at_rank(1)
            ),
            (None, None, None, None)
        );
        assert_eq!(tally.count_above(0.0), 0);
    }

    #[test]
    fn of_two_modes_the_smaller_is_given() {
        let tally = Tally::from_counts([(5.0, 3), (2.0, 1), (1.0, 3), (2.0, 1), (f64::NAN, 9)]);
        assert_eq!(tally.mode(), Some((1.0, 3)));
        assert_eq!(tally.entries(), [(1.0, 3), (2.0, 2), (5.0, 3)]);
    }

    proptest! {
        #[test]
        fn ranks_median_and_counts_agree_with_the_sorted_list(values in proptest::collection::vec(0_i32..50, 1..80), at in -1_i32..51) {
            let mut sorted: Vec<f64> = values.iter().map(|&value| f64::from(value)).collect();
            let tally = Tally::from_samples(&sorted);
            sorted.sort_unstable_by(f64::total_cmp);
            let n = sorted.len();
            for (index, &value) in sorted.iter().enumerate() {
                prop_assert_eq!(tally.at_rank(index as u64 + 1), Some(value));
            }
            prop_assert_eq!(tally.median(), Some((sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0));
            prop_assert_eq!(tally.count_above(f64::from(at)), sorted.iter().filter(|&&value| value > f64::from(at)).count() as u64);
            prop_assert_eq!(tally.at_rank(n as u64 + 1), None);
        }
    }
}
