//! The Harrell-Davis estimate of a quantile: a weighted mean of all order statistics. The estimate
//! is smoother than a single order statistic.
//!
//! The estimate is suitable for the body of a distribution and for plots. In the far tail, it is
//! almost identical to the largest value. Source: Harrell and Davis, Biometrika 69, 1982.

use super::incomplete_beta::incomplete_beta;
use super::tally::Tally;

/// Returns the quantile `probability`, which must be strictly between 0 and 1. Returns `None` for
/// other probabilities, or if there are no samples.
#[must_use]
pub fn harrell_davis(tally: &Tally, probability: f64) -> Option<f64> {
    let total = tally.total();
    if total == 0 || !(probability > 0.0 && probability < 1.0) {
        return None;
    }
    let n = total as f64;
    let (a, b) = ((n + 1.0) * probability, (n + 1.0) * (1.0 - probability));
    // At more than ten standard deviations from the mean of the beta distribution, the weights are
    // negligible, so the distribution is not evaluated there.
    let reach = 10.0 * (probability * (1.0 - probability) / (n + 2.0)).sqrt() + 40.0 / n;
    let weight_up_to = |rank: u64| {
        let share = rank as f64 / n;
        if share < probability - reach {
            0.0
        } else if share > probability + reach {
            1.0
        } else {
            incomplete_beta(a, b, share, (total - rank) as f64 / n)
        }
    };
    let mut rank = 0;
    let mut below = 0.0;
    let mut sum = 0.0;
    for &(value, count) in tally.entries() {
        rank += count;
        let up_to = weight_up_to(rank);
        if up_to > below {
            sum += (up_to - below) * value;
        }
        below = up_to;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::port_pirie;

    #[test]
    fn the_quantiles_of_port_pirie_are_met() {
        let tally = Tally::from_samples(&port_pirie());
        for (probability, expected) in [
            (0.5, 3.944_603_949_1),
            (0.9, 4.312_909_561_5),
            (0.99, 4.655_358_312_5),
        ] {
            let quantile = harrell_davis(&tally, probability).unwrap();
            assert!(
                (quantile - expected).abs() < 1e-9,
                "{quantile} is not {expected}"
            );
        }
    }

    #[test]
    fn a_million_samples_are_weighed_near_the_quantile_only() {
        let tally = Tally::from_counts((0..1_000_000_u32).map(|value| (f64::from(value), 1)));
        let median = harrell_davis(&tally, 0.5).unwrap();
        assert!((median - 499_999.5).abs() < 1e-3, "{median}");
        let high = harrell_davis(&tally, 0.999).unwrap();
        assert!((high - 999_000.0).abs() < 1.0, "{high}");
    }

    #[test]
    fn what_is_not_evaluated_has_no_weight() {
        let tally = Tally::from_counts((0..5000_u32).map(|value| (f64::from(value).powi(3), 1)));
        let weight_up_to = |rank: u32| {
            incomplete_beta(
                5001.0 * 0.3,
                5001.0 * 0.7,
                f64::from(rank) / 5000.0,
                f64::from(5000 - rank) / 5000.0,
            )
        };
        let all: f64 = (0..5000_u32)
            .map(|value| (weight_up_to(value + 1) - weight_up_to(value)) * f64::from(value).powi(3))
            .sum();
        assert!((harrell_davis(&tally, 0.3).unwrap() / all - 1.0).abs() < 1e-12);
    }

    #[test]
    fn edges_have_no_estimate() {
        let tally = Tally::from_samples(&[1.0]);
        assert_eq!(harrell_davis(&tally, 0.5), Some(1.0));
        assert_eq!(harrell_davis(&tally, 0.0), None);
        assert_eq!(harrell_davis(&tally, 1.0), None);
        assert_eq!(harrell_davis(&tally, f64::NAN), None);
        assert_eq!(harrell_davis(&Tally::default(), 0.5), None);
    }
}
