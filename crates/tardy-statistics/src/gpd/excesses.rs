//! Excesses over a threshold, known exactly or only as counts in buckets of a histogram, and the
//! likelihood of a model in each of these two cases.
//!
//! If rounded values were treated as exact, the edges of buckets would bias the fit, and equal
//! values would make goodness-of-fit tests reject valid models. The likelihood of a bucket is
//! therefore the probability that a value lies within it.

use super::{Gpd, SHAPE_ZERO};
use crate::moments::Moments;
use crate::tally::Tally;

/// The excesses, exact or as counts in buckets.
#[derive(Debug, Clone, PartialEq)]
enum ExcessData {
    /// Exact values.
    Value(Vec<f64>),
    /// The lower edge and the count of each bucket, and the common width of the buckets.
    Bucket(Vec<(f64, u64)>, f64),
}

/// Excesses over a threshold, in ascending order. Exact values are above 0; lower edges of buckets
/// are at least 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Excesses {
    known: ExcessData,
    moments: Moments,
    largest: f64,
}

/// Minimum fraction of distinct values among excesses that count as exact. If the fraction is
/// smaller, the values count as rounded, and the likelihood of buckets is used.
const DISTINCT_MIN: f64 = 0.9;

impl Excesses {
    /// Returns the excesses of `tally` over `threshold`. If almost all values differ, the excesses
    /// are treated as exact values. Otherwise, they are treated as buckets. `width` is then the
    /// resolution of the clock or histogram, and `threshold` must be the edge of a bucket.
    #[must_use]
    pub fn over(tally: &Tally, threshold: f64, width: f64) -> Self {
        let distinct = tally.entries().len()
            - tally
                .entries()
                .partition_point(|entry| entry.0 <= threshold);
        let exact = distinct as f64 >= DISTINCT_MIN * tally.count_above(threshold) as f64;
        if exact || width.is_nan() || width <= 0.0 {
            Self::above(tally, threshold)
        } else {
            Self::grouped_from(tally, threshold, width)
        }
    }

    /// Returns the excesses of the samples above `threshold`, all known exactly.
    #[must_use]
    pub fn above(tally: &Tally, threshold: f64) -> Self {
        let from = tally
            .entries()
            .partition_point(|entry| entry.0 <= threshold);
        let values = tally.entries()[from..].iter();
        Self::from_sorted(
            values
                .flat_map(|&(value, count)| std::iter::repeat_n(value - threshold, count as usize))
                .collect(),
        )
    }

    /// Returns the excesses of the samples at or above `threshold`, which must be the edge of a
    /// bucket. The values in `tally` are the lower edges of buckets of width `width`.
    #[must_use]
    pub fn grouped_from(tally: &Tally, threshold: f64, width: f64) -> Self {
        let from = tally.entries().partition_point(|entry| entry.0 < threshold);
        let buckets: Vec<(f64, u64)> = tally.entries()[from..]
            .iter()
            .map(|&(value, count)| (value - threshold, count))
            .collect();
        let mut moments = Moments::default();
        for &(edge, count) in &buckets {
            moments.push_many(edge + width / 2.0, count);
        }
        let largest = buckets.last().map_or(0.0, |bucket| bucket.0);
        Self {
            known: ExcessData::Bucket(buckets, width),
            moments,
            largest,
        }
    }

    /// Creates exact excesses from values in any order. Values that are not positive are omitted.
    #[must_use]
    pub fn from_values(values: &[f64]) -> Self {
        let mut values: Vec<f64> = values
            .iter()
            .copied()
            .filter(|&value| value > 0.0 && value.is_finite())
            .collect();
        values.sort_unstable_by(f64::total_cmp);
        Self::from_sorted(values)
    }

    fn from_sorted(values: Vec<f64>) -> Self {
        let moments = values.iter().copied().collect();
        let largest = values.last().copied().unwrap_or(0.0);
        Self {
            known: ExcessData::Value(values),
            moments,
            largest,
        }
    }

    /// Returns the number of excesses.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.moments.count()
    }

    /// Returns the largest excess, or, if only buckets are known, the lower edge of its bucket. The
    /// endpoint of a model must be above it.
    #[must_use]
    pub fn largest(&self) -> f64 {
        self.largest
    }

    /// Returns the number of excesses, their mean and their variance. An excess in a bucket counts
    /// as the centre of the bucket.
    #[must_use]
    pub fn moments(&self) -> &Moments {
        &self.moments
    }

    /// Returns the values in ascending order; `None` if only buckets are known.
    #[must_use]
    pub fn values(&self) -> Option<&[f64]> {
        match &self.known {
            ExcessData::Value(values) => Some(values),
            ExcessData::Bucket(..) => None,
        }
    }

    /// Returns the lower edges of the buckets with counts, and the width; `None` if exact values
    /// are known.
    #[must_use]
    pub fn buckets(&self) -> Option<(&[(f64, u64)], f64)> {
        match &self.known {
            ExcessData::Value(_) => None,
            ExcessData::Bucket(buckets, width) => Some((buckets, *width)),
        }
    }

    /// Returns the negative log-likelihood of `model`; infinity if the model excludes an excess.
    #[must_use]
    pub fn negative_log_likelihood(&self, model: Gpd) -> f64 {
        let Gpd { scale, shape } = model;
        let possible =
            scale > 0.0 && scale.is_finite() && shape.is_finite() && shape * self.largest > -scale;
        if !possible {
            return f64::INFINITY;
        }
        match &self.known {
            ExcessData::Value(values) => {
                let scales = if shape.abs() < SHAPE_ZERO {
                    values.iter().sum::<f64>() / scale
                } else {
                    (1.0 + 1.0 / shape) * sum_of_logarithms(values, shape / scale)
                };
                values.len() as f64 * scale.ln() + scales
            }
            ExcessData::Bucket(buckets, width) => -buckets
                .iter()
                .map(|&(edge, count)| {
                    let above = model.ln_survival(edge);
                    // This is ln(S(edge) - S(edge + width)), computed without loss of digits by
                    // cancellation.
                    count as f64
                        * (above + (-(model.ln_survival(edge + width) - above).exp_m1()).ln())
                })
                .sum::<f64>(),
        }
    }
}

/// Returns the sum of `ln(1 + rate * value)`.
///
/// Computing logarithms takes most of the time, so only one logarithm is computed for the product
/// of eight factors. A logarithm is computed for each factor if `rate * value` is so small that
/// `1 + rate * value` would lose digits, or is so large that the product could overflow.
pub(super) fn sum_of_logarithms(values: &[f64], rate: f64) -> f64 {
    let largest = values.last().copied().unwrap_or(0.0);
    let exact = (rate * largest).abs() < 1e-3 || rate * largest > 1e30;
    if exact {
        return values.iter().map(|value| (rate * value).ln_1p()).sum();
    }
    values
        .chunks(8)
        .map(|chunk| {
            chunk
                .iter()
                .map(|value| 1.0 + rate * value)
                .product::<f64>()
                .ln()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likelihood_is_the_sum_of_the_densities() {
        let excesses = Excesses::from_values(&[3.0, 0.5, -1.0, f64::NAN, 12.0]);
        assert_eq!(excesses.count(), 3);
        for shape in [-0.1, 0.0, 1e-12, 1e-6, 0.4] {
            let model = Gpd { scale: 2.0, shape };
            let step = 1e-5;
            let density =
                |y: f64| (model.survival(y - step) - model.survival(y + step)) / (2.0 * step);
            let expected: f64 = [0.5, 3.0, 12.0].iter().map(|&y| -density(y).ln()).sum();
            assert!(
                (excesses.negative_log_likelihood(model) - expected).abs() < 1e-4,
                "{shape}"
            );
        }
    }

    #[test]
    fn rounded_values_are_taken_as_buckets() {
        let exact = Tally::from_counts((0..100).map(|i| (f64::from(i) * 0.1, 1)));
        assert_eq!(
            Excesses::over(&exact, 0.95, 0.1).values().unwrap().len(),
            90
        );
        let rounded = Tally::from_counts((0..10).map(|i| (f64::from(i), 10)));
        assert_eq!(
            Excesses::over(&rounded, 2.0, 1.0)
                .buckets()
                .unwrap()
                .0
                .len(),
            8
        );
        assert_eq!(Excesses::over(&rounded, 2.0, 1.0).count(), 80);
        assert_eq!(Excesses::over(&rounded, 2.0, 0.0).count(), 70);
    }

    #[test]
    fn a_model_that_ends_below_the_largest_excess_is_impossible() {
        let excesses = Excesses::from_values(&[1.0, 4.0]);
        assert_eq!(
            excesses.negative_log_likelihood(Gpd {
                scale: 2.0,
                shape: -0.5
            }),
            f64::INFINITY
        );
        assert_eq!(
            excesses.negative_log_likelihood(Gpd {
                scale: -1.0,
                shape: 0.1
            }),
            f64::INFINITY
        );
        assert_eq!(
            excesses.negative_log_likelihood(Gpd {
                scale: f64::NAN,
                shape: 0.1
            }),
            f64::INFINITY
        );
    }

    #[test]
    fn narrow_buckets_have_the_likelihood_of_their_values_times_the_width() {
        let values = [0.1, 0.7, 0.7, 2.3, 9.9];
        let model = Gpd {
            scale: 1.5,
            shape: 0.2,
        };
        let width = 1e-6;
        let grouped = Excesses::grouped_from(&Tally::from_samples(&values), 0.0, width);
        let exact = Excesses::from_values(&values);
        let difference = grouped.negative_log_likelihood(model)
            - exact.negative_log_likelihood(model)
            + 5.0 * width.ln();
        assert!(difference.abs() < 1e-4, "{difference}");
    }

    #[test]
    fn shared_logarithms_equal_single_ones() {
        let values: Vec<f64> = (1..1000).map(|i| f64::from(i) * 0.37).collect();
        for rate in [-0.0026, 1e-9, 0.01, 3.0, 1e9, 1e40] {
            let single: f64 = values.iter().map(|value| (rate * value).ln_1p()).sum();
            assert!(
                (sum_of_logarithms(&values, rate) / single - 1.0).abs() < 1e-11,
                "{rate}"
            );
        }
    }
}
