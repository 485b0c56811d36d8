//! The binomial distribution, extended to real numbers of trials and events.

use super::incomplete_beta::incomplete_beta;

/// Returns the probability of at most `events` events in `trials` trials, if each event has
/// probability `probability`.
///
/// The arguments `trials` and `events` may be real numbers, because the incomplete beta function
/// extends the distribution to them. The result is monotone in each argument. The result is 0 for
/// negative `events`, and 1 if `events` is at least `trials`. A probability below 0 counts as 0,
/// and a probability above 1 counts as 1.
#[must_use]
pub fn cumulative(events: f64, trials: f64, probability: f64) -> f64 {
    cumulative_with_complement(events, trials, probability, 1.0 - probability)
}

/// Works like [`cumulative`], for callers that know `complement` (1 - `probability`) more exactly
/// than a subtraction can compute it.
#[must_use]
pub fn cumulative_with_complement(
    events: f64,
    trials: f64,
    probability: f64,
    complement: f64,
) -> f64 {
    if events < 0.0 || events.is_nan() || trials.is_nan() {
        return 0.0;
    }
    if events >= trials {
        return 1.0;
    }
    incomplete_beta(trials - events, events + 1.0, complement, probability)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whole_numbers_give_the_sum(trials in 1_u32..60, events in 0_u32..60, probability in 0.001_f64..0.999) {
            let events = events.min(trials);
            let mut term = (1.0 - probability).powi(trials as i32);
            let mut sum = term;
            for i in 0..events {
                term *= f64::from(trials - i) / f64::from(i + 1) * probability / (1.0 - probability);
                sum += term;
            }
            prop_assert!((cumulative(f64::from(events), f64::from(trials), probability) - sum).abs() < 1e-11);
        }

        #[test]
        fn it_grows_with_the_events(n in 0.0_f64..1e5, fewer in -1.0_f64..1e5, more in 0.0_f64..1e5, p in 0.0_f64..=1.0) {
            let more = fewer + more;
            prop_assert!(cumulative(fewer, n, p) <= cumulative(more, n, p) + 1e-12);
        }
    }

    #[test]
    fn the_ends_are_exact() {
        assert_eq!(cumulative(0.0, 0.0, 0.5), 1.0);
        assert_eq!(cumulative(-0.5, 10.0, 0.5), 0.0);
        assert_eq!(cumulative(10.0, 10.0, 1.0), 1.0);
        assert_eq!(cumulative(9.0, 10.0, 1.0), 0.0);
        assert_eq!(cumulative(0.0, 10.0, 0.0), 1.0);
        assert_eq!(cumulative(f64::NAN, 10.0, 0.5), 0.0);
    }
}
