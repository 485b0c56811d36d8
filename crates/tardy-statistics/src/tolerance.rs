//! Computes the number of samples that a statement needs (Wilks, Annals of Mathematical Statistics
//! 12, 1941).

use super::binomial::cumulative_with_complement;
use super::confidence::Confidence;

/// Returns the smallest number of samples that suffices for this statement with `confidence`: the
/// `rank_from_top`-th largest sample is at or above the quantile `probability`. Rank 1 is the
/// maximum. `None` if no number below 2^53 suffices, or if `probability` is NaN or at least 1.
///
/// The two-sided statement "at least the fraction `probability` of all values lies between the
/// minimum and the maximum" needs as many samples as the statement above with `rank_from_top` 2.
#[must_use]
pub fn samples_needed(probability: f64, rank_from_top: u64, confidence: Confidence) -> Option<u64> {
    const LARGEST: u64 = 1 << 53;
    if probability.is_nan() || probability >= 1.0 || rank_from_top >= LARGEST {
        return None;
    }
    let rank = rank_from_top.max(1);
    let probability = probability.max(0.0);
    let tail = 1.0 - probability;
    let suffices = |samples: u64| {
        let above =
            1.0 - cumulative_with_complement((rank - 1) as f64, samples as f64, tail, probability);
        above >= confidence.get()
    };
    // Searches upwards by doubling, instead of bisecting up to `LARGEST`. The result is usually
    // near rank / tail, and the binomial distribution of a huge number of samples is slow to
    // compute near its median.
    let mut high = rank;
    while !suffices(high) {
        high = high.checked_mul(2).filter(|&high| high < LARGEST)?;
    }
    let mut low = rank;
    while low < high {
        let middle = low.midpoint(high);
        if suffices(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wilks_published_numbers_are_met() {
        let cases = [
            (0.95, 1, 59),
            (0.95, 2, 93), // also the two-sided 95/95
            (0.95, 3, 124),
            (0.99, 1, 299),
            (0.999, 1, 2995),
            (1.0 - 1e-5, 1, 299_572),
            (1.0 - 1e-6, 1, 2_995_731),
            (1.0 - 1e-7, 1, 29_957_322),
        ];
        for (probability, rank, samples) in cases {
            assert_eq!(
                samples_needed(probability, rank, Confidence::NINETY_FIVE),
                Some(samples),
                "{probability} {rank}"
            );
        }
        assert_eq!(samples_needed(0.99, 1, Confidence::NINETY_NINE), Some(459));
    }

    #[test]
    fn the_ends_need_nothing_or_more_than_there_is() {
        assert_eq!(samples_needed(0.0, 1, Confidence::NINETY_FIVE), Some(1));
        assert_eq!(samples_needed(-1.0, 4, Confidence::NINETY_FIVE), Some(4));
        assert_eq!(samples_needed(1.0, 1, Confidence::NINETY_FIVE), None);
        assert_eq!(samples_needed(f64::NAN, 1, Confidence::NINETY_FIVE), None);
        assert_eq!(samples_needed(0.5, u64::MAX, Confidence::NINETY_FIVE), None);
    }

    proptest! {
        #[test]
        fn one_sample_fewer_does_not_suffice(probability in 0.01_f64..0.999_99, rank in 1_u64..20, level in 0.5_f64..0.999) {
            let confidence = Confidence::new(level).unwrap();
            let samples = samples_needed(probability, rank, confidence).unwrap();
            let missed = |n: u64| super::super::binomial::cumulative((rank - 1) as f64, n as f64, 1.0 - probability);
            prop_assert!(1.0 - missed(samples) >= level - 1e-9);
            prop_assert!(samples == rank || 1.0 - missed(samples - 1) < level + 1e-9);
        }
    }
}
