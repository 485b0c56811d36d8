//! Turns an interval and the user's margin into a verdict.
//!
//! The verdict names the region in which the whole interval lies: better, worse, or equivalent
//! within the margin. If the interval overlaps several regions, the verdict is inconclusive, and
//! states how much more data a decision needs.

use serde::{Deserialize, Serialize};

use crate::confidence::Interval;

/// The verdict on candidate minus baseline, where lower values are better.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Equivalence {
    /// The candidate is lower by more than the margin.
    Better,
    /// The candidate is higher by more than the margin.
    Worse,
    /// The difference is within the margin in both directions.
    Equivalent,
    /// The interval overlaps more than one of these regions.
    Inconclusive {
        /// Approximate factor by which the amount of data must grow to decide the comparison,
        /// provided that the estimate is right; `None` if the estimate lies at the margin.
        data_needed: Option<f64>,
    },
}

/// Judges `difference` with its `interval` against `margin`, which is in the same unit and not
/// negative.
///
/// If the margin is 0, any difference matters, and the verdict is almost never "equivalent".
#[must_use]
pub fn equivalence(difference: f64, interval: Interval, margin: f64) -> Equivalence {
    let margin = margin.abs();
    if interval.lower > margin {
        Equivalence::Worse
    } else if interval.upper < -margin {
        Equivalence::Better
    } else if interval.lower >= -margin && interval.upper <= margin {
        Equivalence::Equivalent
    } else {
        Equivalence::Inconclusive {
            data_needed: data_needed(difference, interval, margin),
        }
    }
}

/// Returns the factor by which the amount of data must grow for a decision. The length of an
/// interval is inversely proportional to the square root of the amount of data. So the longer half
/// of the interval must become shorter than the distance from the estimate to the nearest limit.
fn data_needed(difference: f64, interval: Interval, margin: f64) -> Option<f64> {
    let reach = (interval.upper - difference).max(difference - interval.lower);
    let way = (difference.abs() - margin).abs();
    let factor = (reach / way).powi(2);
    (way > 0.0 && factor.is_finite()).then(|| factor.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn judge(lower: f64, upper: f64, margin: f64) -> Equivalence {
        equivalence(lower.midpoint(upper), Interval { lower, upper }, margin)
    }

    #[test]
    fn each_region_has_its_verdict() {
        assert_eq!(judge(-9.0, -4.0, 3.0), Equivalence::Better);
        assert_eq!(judge(4.0, 9.0, 3.0), Equivalence::Worse);
        assert_eq!(judge(-2.0, 2.9, 3.0), Equivalence::Equivalent);
        // The whole interval lies above 0, and below the margin.
        assert_eq!(judge(0.5, 1.0, 3.0), Equivalence::Equivalent);
        assert_eq!(judge(0.5, 1.0, 0.0), Equivalence::Worse);
    }

    #[test]
    fn an_open_question_says_what_it_would_take() {
        // The difference is 5 +- 4 and the margin is 3, so the half width must fall below 2.
        assert_eq!(
            judge(1.0, 9.0, 3.0),
            Equivalence::Inconclusive {
                data_needed: Some(4.0)
            }
        );
        assert_eq!(
            judge(-7.0, 13.0, 3.0),
            Equivalence::Inconclusive { data_needed: None }
        );
        assert_eq!(
            judge(f64::NEG_INFINITY, 1.0, 3.0),
            Equivalence::Inconclusive { data_needed: None }
        );
        let infinite = equivalence(
            1.0,
            Interval {
                lower: -1.0,
                upper: f64::INFINITY,
            },
            3.0,
        );
        assert_eq!(infinite, Equivalence::Inconclusive { data_needed: None });
    }

    proptest! {
        #[test]
        fn exchanging_the_sides_exchanges_better_and_worse(middle in -9.0_f64..9.0, reach in 0.0_f64..9.0, margin in 0.0_f64..5.0) {
            let there = judge(middle - reach, middle + reach, margin);
            let back = judge(-middle - reach, -middle + reach, margin);
            match there {
                Equivalence::Better => prop_assert_eq!(back, Equivalence::Worse),
                Equivalence::Worse => prop_assert_eq!(back, Equivalence::Better),
                Equivalence::Equivalent => prop_assert_eq!(back, Equivalence::Equivalent),
                Equivalence::Inconclusive { .. } => prop_assert!(matches!(back, Equivalence::Inconclusive { .. }), "{:?}", back),
            }
        }
    }
}
