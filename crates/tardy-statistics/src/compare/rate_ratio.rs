//! Compares how often two sides miss deadlines, by the ratio of their rates.
//!
//! If both sides have the same rate, the number of misses on one side, given the total number of
//! misses, has a binomial distribution. This is true whatever the rate is. The test is therefore
//! exact, and works even with few misses. Source: Przyborowski and Wilenski, Biometrika 31, 1940.

use serde::{Deserialize, Serialize};

use crate::confidence::{Confidence, Interval};
use crate::incomplete_beta::incomplete_beta;
use crate::proportion::proportion_interval;

/// The misses of one side, and how often the side could have missed. If misses cluster, both may be
/// effective numbers, which need not be whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MissCount {
    /// Number of misses, or of clusters of misses.
    pub events: f64,
    /// The exposure: a number of samples, or a length of time.
    pub exposure: f64,
}

/// The miss rate of the candidate divided by the miss rate of the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RateRatio {
    /// The ratio. It is below 1 if the candidate misses less often, infinite if only the candidate
    /// missed, and `None` if neither side missed.
    pub ratio: Option<f64>,
    /// Interval of the ratio; 0 to infinity if neither side missed.
    pub interval: Interval,
    /// Probability that chance alone divides the misses between the sides at least as unevenly as
    /// observed, in either direction, if both rates are equal.
    pub probability: f64,
}

/// Compares the rates of two sides. If a side has no exposure (no samples or no time), the result
/// is unbounded.
#[must_use]
pub fn rate_ratio(baseline: MissCount, candidate: MissCount, confidence: Confidence) -> RateRatio {
    let nothing = RateRatio {
        ratio: None,
        interval: Interval {
            lower: 0.0,
            upper: f64::INFINITY,
        },
        probability: 1.0,
    };
    let usable = |side: MissCount| {
        side.exposure > 0.0
            && side.exposure.is_finite()
            && side.events >= 0.0
            && side.events.is_finite()
    };
    let total = baseline.events + candidate.events;
    if !usable(baseline) || !usable(candidate) || total == 0.0 {
        return nothing;
    }
    // The shares of both sides are computed separately: if one share is close to 1, subtracting it
    // from 1 would lose digits.
    let share = |side: MissCount| proportion_interval(side.events, total, confidence);
    let (of_baseline, of_candidate) = (share(baseline), share(candidate));
    let per_exposure = baseline.exposure / candidate.exposure;
    let exposure = baseline.exposure + candidate.exposure;
    // Returns the probability that a side has at least its observed number of events, if the events
    // are divided between the sides in proportion to the exposures. The other side then has at most
    // its observed number.
    let at_least = |side: MissCount, other: MissCount| match side.events {
        0.0 => 1.0,
        events => incomplete_beta(
            events,
            other.events + 1.0,
            side.exposure / exposure,
            other.exposure / exposure,
        ),
    };
    let rarer = at_least(candidate, baseline).min(at_least(baseline, candidate));
    RateRatio {
        ratio: Some(candidate.events / candidate.exposure / (baseline.events / baseline.exposure)),
        interval: Interval {
            lower: of_candidate.lower / of_baseline.upper * per_exposure,
            upper: of_candidate.upper / of_baseline.lower * per_exposure,
        },
        probability: (2.0 * rarer).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counted(events: f64, exposure: f64) -> MissCount {
        MissCount { events, exposure }
    }

    #[test]
    fn ten_against_two_is_met() {
        // For 2 of 12 misses, the Clopper-Pearson interval is 0.0208626 to 0.4841378, and P(at most
        // 2 of 12) is 79 / 4096.
        let found = rate_ratio(
            counted(10.0, 1e6),
            counted(2.0, 1e6),
            Confidence::NINETY_FIVE,
        );
        assert!((found.ratio.unwrap() - 0.2).abs() < 1e-12);
        assert!((found.probability - 2.0 * 79.0 / 4096.0).abs() < 1e-12);
        assert!(
            (found.interval.lower - 0.020_862_6 / (1.0 - 0.020_862_6)).abs() < 1e-6,
            "{found:?}"
        );
        assert!(
            (found.interval.upper - 0.484_137_8 / (1.0 - 0.484_137_8)).abs() < 1e-6,
            "{found:?}"
        );
    }

    #[test]
    fn none_at_all_claims_nothing_and_none_on_one_side_has_one_end() {
        let none = rate_ratio(
            counted(0.0, 1e6),
            counted(0.0, 1e6),
            Confidence::NINETY_FIVE,
        );
        assert_eq!(
            (none.ratio, none.probability, none.interval.upper),
            (None, 1.0, f64::INFINITY)
        );
        let fixed = rate_ratio(
            counted(8.0, 1e6),
            counted(0.0, 1e6),
            Confidence::NINETY_FIVE,
        );
        assert_eq!((fixed.ratio, fixed.interval.lower), (Some(0.0), 0.0));
        assert!(
            fixed.interval.upper < 1.0 && (fixed.probability - 2.0 / 256.0).abs() < 1e-12,
            "{fixed:?}"
        );
        let broken = rate_ratio(
            counted(0.0, 1e6),
            counted(8.0, 1e6),
            Confidence::NINETY_FIVE,
        );
        assert_eq!(
            (broken.ratio, broken.interval.upper),
            (Some(f64::INFINITY), f64::INFINITY)
        );
        assert_eq!(
            rate_ratio(
                counted(1.0, 0.0),
                counted(8.0, 1e6),
                Confidence::NINETY_FIVE
            )
            .ratio,
            None
        );
    }

    proptest! {
        #[test]
        fn exchanging_the_sides_inverts_the_ratio(a in 0.0_f64..50.0, b in 0.1_f64..50.0, m in 1.0_f64..1e7, n in 1.0_f64..1e7) {
            let there = rate_ratio(counted(a, m), counted(b, n), Confidence::NINETY_FIVE);
            let back = rate_ratio(counted(b, n), counted(a, m), Confidence::NINETY_FIVE);
            prop_assert!((there.probability - back.probability).abs() < 1e-9);
            let product = there.interval.lower * back.interval.upper;
            prop_assert!((product - 1.0).abs() < 1e-6 || there.interval.lower == 0.0, "{:?} {:?}", there, back);
            if let Some(ratio) = there.ratio {
                prop_assert!(there.interval.contains(ratio));
            }
        }

        #[test]
        fn the_interval_and_the_test_agree(a in 0_u32..30, b in 0_u32..30) {
            let found = rate_ratio(counted(f64::from(a), 2e6), counted(f64::from(b), 1e6), Confidence::NINETY_FIVE);
            prop_assert_eq!(found.interval.contains(1.0), found.probability > 0.05, "{:?}", found);
        }
    }
}
