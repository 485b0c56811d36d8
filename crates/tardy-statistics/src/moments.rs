//! Computes count, extremes, mean and variance of a stream of values in constant memory. The
//! moments of two parts of a stream can be merged.
//!
//! If the mean is large compared with the spread, as for time stamps, sums of squares lose their
//! digits by cancellation. The methods used here keep the digits. Sources: Welford, Technometrics
//! 4, 1962; Chan, Golub, LeVeque, The American Statistician 37, 1983 (merging).

use serde::{Deserialize, Serialize};

/// Moments of the values that have been added.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Moments {
    count: u64,
    mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
    minimum: Option<f64>,
    maximum: Option<f64>,
}

impl Moments {
    /// Adds one value.
    pub fn push(&mut self, value: f64) {
        self.push_many(value, 1);
    }

    /// Adds the same value `count` times.
    pub fn push_many(&mut self, value: f64, count: u64) {
        if count > 0 {
            *self = self.merged(Self {
                count,
                mean: value,
                squares: 0.0,
                minimum: Some(value),
                maximum: Some(value),
            });
        }
    }

    /// Returns the moments of the values of both streams.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        if self.count == 0 {
            return other;
        }
        if other.count == 0 {
            return self;
        }
        let count = self.count + other.count;
        let share = other.count as f64 / count as f64;
        let distance = other.mean - self.mean;
        Self {
            count,
            mean: self.mean + distance * share,
            squares: self.squares + other.squares + distance * distance * self.count as f64 * share,
            minimum: self
                .minimum
                .into_iter()
                .chain(other.minimum)
                .reduce(f64::min),
            maximum: self
                .maximum
                .into_iter()
                .chain(other.maximum)
                .reduce(f64::max),
        }
    }

    /// Returns the number of values.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the arithmetic mean; `None` if there are no values.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// Returns the sample variance (divisor `n - 1`), in the square of the unit; `None` for fewer
    /// than two values.
    #[must_use]
    pub fn variance(&self) -> Option<f64> {
        (self.count > 1).then(|| self.squares / (self.count - 1) as f64)
    }

    /// Returns the square root of the sample variance.
    #[must_use]
    pub fn standard_deviation(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }

    /// Returns the population standard deviation (divisor `n`), as in the tables of mckenney2009;
    /// `None` if there are no values.
    #[must_use]
    pub fn population_standard_deviation(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.squares / self.count as f64).sqrt())
    }

    /// Returns the smallest value.
    #[must_use]
    pub const fn minimum(&self) -> Option<f64> {
        self.minimum
    }

    /// Returns the largest value.
    #[must_use]
    pub const fn maximum(&self) -> Option<f64> {
        self.maximum
    }
}

impl Extend<f64> for Moments {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, values: I) {
        for value in values {
            self.push(value);
        }
    }
}

impl FromIterator<f64> for Moments {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut moments = Self::default();
        moments.extend(values);
        moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_large_offset_does_not_eat_the_variance() {
        // Sums of squares would give a variance of 0 or below, because the square of 1e15 needs all
        // digits, and the square of the 4 is lost.
        let moments: Moments = [1e15 + 4.0, 1e15 + 7.0, 1e15 + 13.0, 1e15 + 16.0]
            .into_iter()
            .collect();
        assert_eq!(moments.mean(), Some(1e15 + 10.0));
        assert_eq!(moments.variance(), Some(30.0));
    }

    #[test]
    fn too_few_values_have_no_moment() {
        assert_eq!(
            (Moments::default().mean(), Moments::default().variance()),
            (None, None)
        );
        let one: Moments = [3.0].into_iter().collect();
        assert_eq!(
            (one.mean(), one.variance(), one.minimum(), one.maximum()),
            (Some(3.0), None, Some(3.0), Some(3.0))
        );
    }

    proptest! {
        #[test]
        fn parts_put_together_equal_the_whole(values in proptest::collection::vec(-1e6_f64..1e6, 0..60), cut in 0_usize..60) {
            let (cut, repeat) = (cut.min(values.len()), cut as u64 % 5);
            let whole: Moments = values.iter().copied().chain((0..repeat).map(|_| 7.5)).collect();
            let mut parts = values[..cut].iter().copied().collect::<Moments>().merged(values[cut..].iter().copied().collect());
            parts.push_many(7.5, repeat);
            prop_assert_eq!(whole.count(), parts.count());
            prop_assert_eq!((whole.minimum(), whole.maximum()), (parts.minimum(), parts.maximum()));
            let close = |a: Option<f64>, b: Option<f64>| match (a, b) {
                (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * (1.0 + a.abs()),
                (a, b) => a == b,
            };
            prop_assert!(close(whole.mean(), parts.mean()));
            prop_assert!(close(whole.variance(), parts.variance()));
        }
    }
}
