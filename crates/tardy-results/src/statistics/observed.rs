//! Observations: all numbers that williams2002 printed about a run.

use serde::Serialize;
use tardy_core::histogram::Histogram;
use tardy_core::units::Nanos;
use tardy_statistics::moments::Moments;

/// Observations: the first of the three layers ([`crate::statistics`]).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObservedStatistics {
    /// Number of samples.
    pub samples: u64,
    /// Width of the buckets that `buckets` counts and from which the mode is found.
    pub bucket_ns: Nanos,
    /// Number of buckets with a sample.
    pub buckets: u64,
    /// The smallest value.
    pub min_ns: i64,
    /// The largest value.
    pub max_ns: i64,
    /// The arithmetic mean.
    pub mean_ns: f64,
    /// The middle value, or the smaller one of the two middle values; absent if it is unknown in an
    /// import.
    pub median_ns: Option<i64>,
    /// Lower edge of the bucket with the most samples. If there are several, the lowest one.
    pub mode_ns: i64,
    /// Centre of the same bucket, which williams2002 prints.
    pub mode_middle_ns: i64,
    pub mode_samples: u64,
    /// Sample variance (divisor n - 1); absent for a single sample.
    pub variance_ns2: Option<f64>,
    pub standard_deviation_ns: Option<f64>,
    /// For each limit, the share of samples below it.
    pub below: Vec<ShareBelow>,
    /// The smallest value that 99.999 % of the samples do not exceed; absent for fewer than 100,000
    /// samples.
    pub five_nines_ns: Option<i64>,
}

/// The fraction of samples below a limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ShareBelow {
    pub limit_ns: Nanos,
    /// Number of samples below the limit.
    pub samples: u64,
    /// Share of samples below the limit.
    pub share: f64,
}

/// Computes the observations for one series or several together; `None` if there are no samples.
/// `limits` must be in ascending order.
#[must_use]
pub fn observed(
    histogram: &Histogram,
    bucket: Nanos,
    limits: &[Nanos],
) -> Option<ObservedStatistics> {
    let samples = histogram.count();
    let width = bucket.get().max(1);
    let mut moments = Moments::default();
    let (mut buckets, mut open, mut mode) = (0, None, (0, 0));
    let mut below: Vec<u64> = vec![0; limits.len()];
    histogram.for_each(|value, count| {
        moments.push_many(value as f64, count);
        let edge = value.div_euclid(width).saturating_mul(width);
        let filled = match open {
            Some((at, filled)) if at == edge => filled + count,
            _ => {
                buckets += 1;
                count
            }
        };
        open = Some((edge, filled));
        if filled > mode.1 {
            mode = (edge, filled);
        }
        let first = limits.partition_point(|limit| limit.get() <= value);
        below[first..]
            .iter_mut()
            .for_each(|samples| *samples += count);
    });
    let ranks = [samples.div_ceil(2), samples - samples / 100_000];
    let [median, five_nines] = histogram.values_at(&ranks)[..] else {
        return None;
    };
    let share = |samples_below: u64| samples_below as f64 / samples as f64;
    Some(ObservedStatistics {
        samples,
        bucket_ns: Nanos(width),
        buckets,
        min_ns: histogram.min()?,
        max_ns: histogram.max()?,
        mean_ns: moments.mean()?,
        median_ns: median,
        mode_ns: mode.0,
        mode_middle_ns: mode.0.saturating_add(width / 2),
        mode_samples: mode.1,
        variance_ns2: moments.variance(),
        standard_deviation_ns: moments.standard_deviation(),
        below: limits
            .iter()
            .zip(below)
            .map(|(&limit_ns, samples)| ShareBelow {
                limit_ns,
                samples,
                share: share(samples),
            })
            .collect(),
        five_nines_ns: five_nines.filter(|_| samples >= 100_000),
    })
}

impl ObservedStatistics {
    /// Removes numbers that are unknown because the individual values of samples at or above `open`
    /// are unknown.
    pub fn forget_from(&mut self, open: Nanos) {
        let is_known = |value: &i64| *value < open.get();
        self.median_ns = self.median_ns.filter(is_known);
        self.five_nines_ns = self.five_nines_ns.filter(is_known);
        (self.variance_ns2, self.standard_deviation_ns) = (None, None);
        self.below.retain(|below| below.limit_ns <= open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tardy_core::histogram::Budget;

    fn of(values: &[i64]) -> Option<ObservedStatistics> {
        let mut histogram = Histogram::new(Budget::ANALYSIS);
        values.iter().for_each(|&value| histogram.record(value));
        observed(&histogram, Nanos(1_000), &[Nanos(10_000), Nanos(20_000)])
    }

    #[test]
    fn a_few_values_by_hand() {
        let found = of(&[1_000, 1_999, 2_000, 10_000, -1]).unwrap();
        assert_eq!(
            (
                found.samples,
                found.buckets,
                found.median_ns,
                found.mode_ns,
                found.mode_samples
            ),
            (5, 4, Some(1_999), 1_000, 2)
        );
        assert_eq!(found.mode_middle_ns, 1_500);
        assert_eq!(
            found
                .below
                .iter()
                .map(|below| below.samples)
                .collect::<Vec<_>>(),
            [4, 5]
        );
        assert!((found.mean_ns - 2_999.6).abs() < 1e-9);
        assert_eq!(found.five_nines_ns, None);
        assert!(of(&[]).is_none());
    }

    proptest! {
        #[test]
        fn they_are_those_of_the_sorted_values(values in proptest::collection::vec(-5_000_i64..40_000, 1..300)) {
            let found = of(&values).unwrap();
            let mut sorted = values.clone();
            sorted.sort_unstable();
            prop_assert_eq!(found.median_ns, Some(sorted[(sorted.len() - 1) / 2]));
            for below in &found.below {
                prop_assert_eq!(below.samples, values.iter().filter(|&&value| value < below.limit_ns.get()).count() as u64);
            }
            let mut edges: Vec<i64> = values.iter().map(|value| value.div_euclid(1_000)).collect();
            edges.sort_unstable();
            edges.dedup();
            prop_assert_eq!(found.buckets, edges.len() as u64);
            let mean = values.iter().sum::<i64>() as f64 / values.len() as f64;
            prop_assert!((found.mean_ns - mean).abs() < 1e-6);
        }
    }
}
