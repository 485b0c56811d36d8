//! Bins of latencies for charts. All bins have equal visual width on the axis.

use tardy_core::histogram::Histogram;

use super::scale::Scale;

/// Adjacent bins whose edges are whole ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bins {
    /// First value of each bin in ascending order, and the value after the last bin.
    edges: Vec<i64>,
}

impl Bins {
    /// Makes about `count` bins of equal width on `scale`, from `min` to `max` inclusive. Each bin
    /// is at least as wide as `resolution`, the smallest distance between two possible values,
    /// because a narrower bin could contain no possible value.
    #[must_use]
    pub fn over(min: i64, max: i64, scale: Scale, count: usize, resolution: i64) -> Self {
        let resolution = resolution.max(1);
        let low = min.div_euclid(resolution) * resolution;
        let end = (max.div_euclid(resolution) + 1).saturating_mul(resolution);
        let (from, to) = (scale.place(low as f64), scale.place(end as f64));
        let mut edges = vec![low];
        for index in 1..count.max(1) {
            let edge = scale.value(from + (to - from) * index as f64 / count as f64);
            let edge = (edge / resolution as f64).round() as i64 * resolution;
            if edge > *edges.last().unwrap_or(&low) && edge < end {
                edges.push(edge);
            }
        }
        edges.push(end);
        Self { edges }
    }

    /// Returns the number of bins.
    #[must_use]
    pub fn len(&self) -> usize {
        self.edges.len() - 1
    }

    /// Returns `false`, because there is always at least one bin.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the first value of bin `index` and the first value after the bin.
    #[must_use]
    pub fn edges(&self, index: usize) -> (i64, i64) {
        (self.edges[index], self.edges[index + 1])
    }

    /// Returns the bin of `value`. A value before the first bin belongs to the first bin, and a
    /// value after the last bin belongs to the last bin.
    #[must_use]
    pub fn index(&self, value: i64) -> usize {
        self.edges
            .partition_point(|&edge| edge <= value)
            .saturating_sub(1)
            .min(self.len() - 1)
    }

    /// Returns how many values of `histogram` fall into each bin.
    #[must_use]
    pub fn counts(&self, histogram: &Histogram) -> Vec<u64> {
        let mut counts = vec![0; self.len()];
        let mut index = 0;
        histogram.for_each(|value, count| {
            while index + 1 < self.len() && self.edges[index + 1] <= value {
                index += 1;
            }
            counts[index] += count;
        });
        counts
    }
}

/// Returns the resolution of the values: 1000 ns if the values come from a tool that counts in us,
/// otherwise 1 ns. Every value is a multiple of the resolution.
#[must_use]
pub fn resolution<'a>(histograms: impl IntoIterator<Item = &'a Histogram>) -> i64 {
    let mut resolution = 1_000_000;
    for histogram in histograms {
        histogram.for_each(|value, _| {
            while value % resolution != 0 {
                resolution = if resolution > 1_000 { 1_000 } else { 1 };
            }
        });
    }
    // At most 1 us is returned, because in a very short run, all values can be whole milliseconds
    // by chance.
    resolution.min(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tardy_core::histogram::Budget;

    fn histogram(values: &[i64]) -> Histogram {
        let mut histogram = Histogram::new(Budget::ANALYSIS);
        values.iter().for_each(|&value| histogram.record(value));
        histogram
    }

    #[test]
    fn values_of_a_coarser_unit_leave_no_empty_bins_between_them() {
        let values: Vec<i64> = (1..=40).map(|micros| micros * 1_000).collect();
        let histogram = histogram(&values);
        let bins = Bins::over(1_000, 40_000, Scale::Log, 200, resolution([&histogram]));
        assert!(bins.counts(&histogram).iter().all(|&count| count > 0));
    }

    proptest! {
        #[test]
        fn every_value_is_in_the_bin_that_contains_it(values in proptest::collection::vec(-50_000_i64..5_000_000, 1..200), count in 1_usize..100) {
            let histogram = histogram(&values);
            let (min, max) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
            for scale in [Scale::of_latency(min), Scale::Linear] {
                let bins = Bins::over(min, max, scale, count, resolution([&histogram]));
                prop_assert!(bins.len() <= count);
                let mut expected = vec![0; bins.len()];
                for &value in &values {
                    let (begin, end) = bins.edges(bins.index(value));
                    prop_assert!(begin <= value && value < end);
                    expected[bins.index(value)] += 1;
                }
                prop_assert_eq!(bins.counts(&histogram), expected);
            }
        }
    }
}
