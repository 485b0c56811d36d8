//! Counts the values in a time interval, in buckets with a relative width of 1/1024. The counts are
//! so compact that hundreds of intervals fit into memory, and precise enough for comparisons.

use crate::tally::Tally;

/// Each value below this has a separate bucket.
const EXACT_END: u64 = 1 << BITS;
/// Number of leading binary digits of a value that determine its bucket.
const BITS: u32 = 11;

/// The counts of the current interval, by bucket. Memory is allocated only when a new largest value
/// is recorded.
#[derive(Debug, Clone, Default)]
pub struct LogBuckets {
    counts: Vec<u32>,
    touched: Option<(usize, usize)>,
    negative: Vec<i64>,
}

/// The counts of a finished interval, as buckets and counts in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stretch {
    entries: Vec<(u16, u32)>,
    /// Negative values, in ns. Such values are rare, so each one is stored separately.
    negative: Vec<i64>,
}

impl LogBuckets {
    /// Counts `value` once.
    #[inline]
    pub fn record(&mut self, value: i64) {
        let Ok(value) = u64::try_from(value) else {
            self.negative.push(value);
            return;
        };
        let index = bucket_of(value);
        if index >= self.counts.len() {
            self.counts.resize((index + 1).next_power_of_two(), 0);
        }
        self.counts[index] += 1;
        self.touched = Some(match self.touched {
            Some((low, high)) => (low.min(index), high.max(index)),
            None => (index, index),
        });
    }

    /// Returns the counts of all values that were recorded since the last call.
    pub fn take(&mut self) -> Stretch {
        let mut stretch = Stretch {
            entries: Vec::new(),
            negative: std::mem::take(&mut self.negative),
        };
        if let Some((low, high)) = self.touched.take() {
            for (offset, count) in self.counts[low..=high]
                .iter_mut()
                .enumerate()
                .filter(|(_, count)| **count > 0)
            {
                stretch
                    .entries
                    .push(((low + offset) as u16, std::mem::take(count)));
            }
        }
        stretch
    }
}

impl Stretch {
    /// Adds the counts of another interval to this one.
    pub fn merge(&mut self, other: Self) {
        if self.entries.is_empty() {
            self.entries = other.entries;
        } else {
            let mut merged = Vec::with_capacity(self.entries.len() + other.entries.len());
            let (mut own, mut others) = (
                self.entries.iter().copied().peekable(),
                other.entries.into_iter().peekable(),
            );
            loop {
                match (own.peek().copied(), others.peek().copied()) {
                    (Some(a), Some(b)) if a.0 == b.0 => {
                        merged.push((a.0, a.1.saturating_add(b.1)));
                        own.next();
                        others.next();
                    }
                    (Some(a), Some(b)) if a.0 < b.0 => merged.extend(own.next_if_eq(&a)),
                    (Some(a), None) => merged.extend(own.next_if_eq(&a)),
                    (_, Some(b)) => merged.extend(others.next_if_eq(&b)),
                    (None, None) => break,
                }
            }
            self.entries = merged;
        }
        self.negative.extend(other.negative);
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.entries
            .iter()
            .map(|entry| u64::from(entry.1))
            .sum::<u64>()
            + self.negative.len() as u64
    }

    /// Returns the sum of the values, for the mean. Each value is added as the upper end of its
    /// bucket.
    #[must_use]
    pub fn sum(&self) -> f64 {
        let positive: f64 = self
            .entries
            .iter()
            .map(|&(bucket, count)| end_of(bucket) as f64 * f64::from(count))
            .sum();
        positive + self.negative.iter().map(|&value| value as f64).sum::<f64>()
    }

    /// Returns the values in the form that rank statistics need. Each value counts as the upper end
    /// of its bucket, as in a `Histogram` of tardy-core.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let negative = self.negative.iter().map(|&value| (value as f64, 1));
        Tally::from_counts(
            negative.chain(
                self.entries
                    .iter()
                    .map(|&(bucket, count)| (end_of(bucket) as f64, u64::from(count))),
            ),
        )
    }
}

#[inline]
fn bucket_of(value: u64) -> usize {
    if value < EXACT_END {
        return value as usize;
    }
    let shift = u64::BITS - value.leading_zeros() - BITS;
    // From EXACT_END on, all values with the same number of binary digits share EXACT_END / 2
    // buckets.
    shift as usize * (EXACT_END / 2) as usize + (value >> shift) as usize
}

/// Returns the largest value of a bucket.
fn end_of(bucket: u16) -> u64 {
    let half = EXACT_END / 2;
    let bucket = u64::from(bucket);
    if bucket < EXACT_END {
        return bucket;
    }
    let shift = (bucket / half - 1) as u32;
    let mantissa = bucket - u64::from(shift) * half;
    ((mantissa + 1) << shift).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_ends_at_or_little_above_its_values(value in 0..i64::MAX as u64) {
            let end = end_of(u16::try_from(bucket_of(value)).unwrap());
            prop_assert!(end >= value && (end - value) as f64 <= value as f64 / 1024.0, "{value} {end}");
        }

        #[test]
        fn stretches_put_together_have_what_one_would_have(parts in proptest::collection::vec(proptest::collection::vec(-9_i64..5_000_000, 0..50), 1..6)) {
            let (mut buckets, mut merged) = (LogBuckets::default(), Stretch::default());
            for part in &parts {
                part.iter().for_each(|&value| buckets.record(value));
                merged.merge(buckets.take());
            }
            parts.iter().flatten().for_each(|&value| buckets.record(value));
            let whole = buckets.take();
            prop_assert_eq!(merged.count(), parts.iter().map(Vec::len).sum::<usize>() as u64);
            prop_assert_eq!(merged.tally(), whole.tally());
            prop_assert!((merged.sum() - whole.sum()).abs() < 1e-6);
        }
    }
}
