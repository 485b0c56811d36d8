//! Counts records: values that exceed all earlier values. Too many records are a sign of drift, and
//! counting them is cheap. Independent values of a single distribution give about `ln n` records,
//! which is 14 for a million samples. So thirty records in a million samples show that the machine
//! warms up, or that its latencies grow.
//!
//! Source: Renyi, Colloquium on Combinatorial Methods, Aarhus 1962: the i-th value is a record with
//! probability `1/i`, independent of the others.

use serde::{Deserialize, Serialize};

/// The records of a series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Records {
    /// Number of values that exceed all earlier values. The first value counts.
    pub seen: u64,
    /// Expected number of records for independent values without ties. If some values are equal,
    /// fewer records are expected.
    pub expected: f64,
    /// Standard deviation of the number of records for independent values.
    pub deviation: f64,
}

impl Records {
    /// Returns the deviation from the expected number, in standard deviations.
    #[must_use]
    pub fn deviate(&self) -> f64 {
        if self.deviation > 0.0 {
            (self.seen as f64 - self.expected) / self.deviation
        } else {
            0.0
        }
    }
}

/// Counts the records among values in chronological order.
#[must_use]
pub fn records(values: impl IntoIterator<Item = f64>) -> Records {
    let mut highest = None;
    let (mut seen, mut length) = (0, 0_u64);
    for value in values {
        length += 1;
        if highest.is_none_or(|highest| value > highest) {
            highest = Some(value);
            seen += 1;
        }
    }
    let (expected, variance) = moments_of_records(length);
    Records {
        seen,
        expected,
        deviation: variance.sqrt(),
    }
}

/// Returns the mean and the variance of the number of records. The mean is the sum of `1/i`, and
/// the variance is the sum of `1/i - 1/i^2`.
fn moments_of_records(length: u64) -> (f64, f64) {
    const EULER: f64 = 0.577_215_664_901_532_9;
    if length > 10_000 {
        // The error of these expansions is below 1e-9.
        let n = length as f64;
        let mean = n.ln() + EULER + 0.5 / n;
        return (mean, mean - std::f64::consts::PI.powi(2) / 6.0 + 1.0 / n);
    }
    let terms = || (1..=length).map(|i| 1.0 / i as f64);
    (
        terms().sum(),
        terms().map(|share| share - share * share).sum(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::seq::SliceRandom;

    #[test]
    fn the_closed_form_meets_the_sum() {
        let (mean, variance) = (1..=20_000)
            .map(|i| 1.0 / f64::from(i))
            .fold((0.0, 0.0), |(m, v), share| {
                (m + share, v + share - share * share)
            });
        let (expected, spread) = moments_of_records(20_000);
        assert!(
            (mean - expected).abs() < 1e-9 && (variance - spread).abs() < 1e-8,
            "{mean} {expected} {variance} {spread}"
        );
    }

    #[test]
    fn random_order_gives_as_many_as_expected_and_drift_far_more() {
        let mut values: Vec<f64> = (0..2000).map(f64::from).collect();
        assert!(records(values.iter().copied()).deviate() > 100.0);
        let mut random = rand_pcg::Pcg64::seed_from_u64(3);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..2000 {
            values.shuffle(&mut random);
            let deviate = records(values.iter().copied()).deviate();
            sum += deviate;
            squares += deviate * deviate;
        }
        assert!(
            (sum / 2000.0).abs() < 0.1 && (squares / 2000.0 - 1.0).abs() < 0.15,
            "{sum} {squares}"
        );
    }

    #[test]
    fn equal_values_are_one_record_and_nothing_is_none() {
        assert_eq!(records([4.0; 50]).seen, 1);
        assert_eq!(
            records([]),
            Records {
                seen: 0,
                expected: 0.0,
                deviation: 0.0
            }
        );
        assert_eq!(records([1.0]).deviate(), 0.0);
    }
}
