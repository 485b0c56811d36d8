//! Compares the maxima of two runs of different lengths: estimates the maximum that the longer run
//! would have had, if it had been as short as the other run. Maxima grow with the length of a run,
//! so the maxima of runs with different lengths cannot be compared directly.

use statrs::function::gamma::ln_gamma;

use crate::tally::Tally;

/// Returns the median of the maximum of `draws` samples that are drawn from `tally` without
/// replacement; `None` if `draws` is 0 or exceeds the number of samples.
///
/// `P(max <= x) = C(N(x), draws) / C(n, draws)`, where `N(x)` is the number of samples up to `x`.
#[must_use]
pub fn median_maximum(tally: &Tally, draws: u64) -> Option<f64> {
    let total = tally.total();
    if draws == 0 || draws > total {
        return None;
    }
    let (mut low, mut high) = (draws, total);
    while low < high {
        let middle = low.midpoint(high);
        if ln_share(middle, total, draws) >= -std::f64::consts::LN_2 - 1e-9 {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    tally.at_rank(low)
}

/// Returns the logarithm of `C(up_to, draws) / C(total, draws)`.
fn ln_share(up_to: u64, total: u64, draws: u64) -> f64 {
    let falling = |n: u64| ln_gamma(n as f64 + 1.0) - ln_gamma((n - draws) as f64 + 1.0);
    falling(up_to) - falling(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_samples_have_the_maximum_and_one_has_the_median() {
        let tally = Tally::from_counts((1..=99).map(|value| (f64::from(value), 1)));
        assert_eq!(median_maximum(&tally, 99), Some(99.0));
        assert_eq!(median_maximum(&tally, 1), Some(50.0));
        assert_eq!(median_maximum(&tally, 0), None);
        assert_eq!(median_maximum(&tally, 100), None);
    }

    #[test]
    fn half_of_the_samples_miss_the_largest_one_half_of_the_time() {
        // C(k, 5) for k = 5 to 10 is 1, 6, 21, 56, 126 and 252, and C(10, 5) is 252.
        let tally = Tally::from_counts((1..=10).map(|value| (f64::from(value), 1)));
        assert_eq!(median_maximum(&tally, 5), Some(9.0));
        assert!((ln_share(9, 10, 5).exp() - 0.5).abs() < 1e-12);
        assert!((ln_share(8, 10, 5).exp() - 56.0 / 252.0).abs() < 1e-12);
    }

    #[test]
    fn a_tenth_of_many_millions_leaves_the_largest_ones_out() {
        let tally = Tally::from_counts([(1.0, 65_500_000 - 7), (2.0, 4), (3.0, 3)]);
        // With probability 0.9^3 = 0.729, none of the three largest samples is drawn. With
        // probability 0.478, which is below one half, none of the seven largest samples is drawn.
        assert_eq!(median_maximum(&tally, 6_550_000), Some(2.0));
    }
}
