//! Tests whether values above and below the median follow each other in random order (Wald and
//! Wolfowitz, Annals of Mathematical Statistics 11, 1940).

use serde::{Deserialize, Serialize};
use statrs::function::erf::erfc;

use super::tally::Tally;

/// The number of runs of values above or below the median, compared with the expected number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RunsTest {
    /// Number of runs; a run consists of consecutive values on the same side of the median.
    pub runs: u64,
    /// Expected number of runs if the order is random.
    pub expected: f64,
    /// Deviation of the number of runs from the expected number, in standard deviations. The
    /// deviation is negative if values stay on one side (drift), and positive if values alternate.
    pub deviate: f64,
    /// Probability that the deviation is at least this far from 0; valid for long series.
    pub probability: f64,
}

/// Tests `values`, which are in chronological order. A value that equals the median counts as above
/// it. Returns `None` if all values are on one side, or if there are fewer than two values.
#[must_use]
pub fn runs_test(values: &[f64]) -> Option<RunsTest> {
    let median = Tally::from_samples(values).median()?;
    let above = values.iter().filter(|&&value| value >= median).count() as f64;
    let n = values.len() as f64;
    let runs = 1 + values
        .windows(2)
        .filter(|pair| (pair[0] >= median) != (pair[1] >= median))
        .count() as u64;
    let expected = 2.0 * above * (n - above) / n + 1.0;
    let variance = (expected - 1.0) * (expected - 2.0) / (n - 1.0);
    if variance.is_nan() || variance <= 0.0 {
        return None;
    }
    let deviate = (runs as f64 - expected) / variance.sqrt();
    Some(RunsTest {
        runs,
        expected,
        deviate,
        probability: erfc(deviate.abs() / std::f64::consts::SQRT_2),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{dow_jones_returns, port_pirie};

    #[test]
    fn the_runs_of_the_reference_data_are_met() {
        let cases = [
            (port_pirie(), -1.123_484_2, 0.261_231_9),
            (dow_jones_returns(), 0.526_582_0, 0.598_483_9),
        ];
        for (values, deviate, probability) in cases {
            let test = runs_test(&values).unwrap();
            assert!((test.deviate - deviate).abs() < 5e-8, "{test:?}");
            assert!((test.probability - probability).abs() < 5e-8, "{test:?}");
        }
    }

    #[test]
    fn a_step_has_two_runs_and_an_alternation_many() {
        let step: Vec<f64> = (0..100).map(|i| f64::from(u8::from(i >= 50))).collect();
        let test = runs_test(&step).unwrap();
        assert_eq!(test.runs, 2);
        assert!(test.deviate < -9.0);
        let alternating: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        assert!(runs_test(&alternating).unwrap().deviate > 9.0);
    }

    #[test]
    fn one_side_only_is_no_test() {
        assert_eq!(runs_test(&[]), None);
        assert_eq!(runs_test(&[1.0]), None);
        assert_eq!(runs_test(&[2.0; 20]), None);
    }
}
