//! Interleaved measurements, and the statistics that figures need.

use crate::failure::Result;
use statrs::distribution::{ContinuousCDF, Normal};
use tardy_results::cost::summary;

/// Text for notes: it explains how an [`Estimate`] is computed.
pub(crate) const ESTIMATE: &str = "Hodges-Lehmann estimate over the rounds, with an interval from \
                                   Wilcoxon's signed-rank test";

/// An estimate and its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) middle: f64,
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

/// Measures each of `SIDES` sides once per round. The side that goes first changes from round to
/// round, so that drift of the machine affects all sides alike. Returns the results of each side,
/// in the order of the rounds.
pub(crate) fn in_turn<T, const SIDES: usize>(
    rounds: usize,
    mut measure: impl FnMut(usize) -> Result<T>,
) -> Result<[Vec<T>; SIDES]> {
    let mut results: [Vec<T>; SIDES] = std::array::from_fn(|_| Vec::new());
    for round in 0..rounds {
        for place in 0..SIDES {
            let side = (round + place) % SIDES;
            results[side].push(measure(side)?);
        }
        eprint!("\rround {} of {rounds}", round + 1);
    }
    eprintln!();
    Ok(results)
}

/// Returns the median; NaN if there are no values.
pub(crate) fn median(values: &[f64]) -> f64 {
    summary::median(values).unwrap_or(f64::NAN)
}

/// Returns an estimate of the ratio between two sides.
pub(crate) fn ratio(own: &[f64], peer: &[f64], confidence: f64) -> Estimate {
    let pairs = own.iter().zip(peer);
    let differences: Vec<f64> = pairs.map(|(own, peer)| own.ln() - peer.ln()).collect();
    let found = middle_and_interval(&differences, confidence);
    Estimate {
        middle: found.middle.exp(),
        lower: found.lower.exp(),
        upper: found.upper.exp(),
    }
}

/// Returns the Hodges-Lehmann estimate (median of all pairwise means) and its two-sided interval by
/// Wilcoxon's signed ranks (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3.2 and
/// 3.3, large-sample form). A disturbance in one round of ten hardly changes the estimate.
fn middle_and_interval(values: &[f64], confidence: f64) -> Estimate {
    let n = values.len();
    let mut means: Vec<f64> = Vec::with_capacity(n * (n + 1) / 2);
    for (place, one) in values.iter().enumerate() {
        means.extend(
            values[place..]
                .iter()
                .map(|other| f64::midpoint(*one, *other)),
        );
    }
    means.sort_by(f64::total_cmp);
    let (count, middle) = (n as f64, median(&means));
    let z = Normal::standard().inverse_cdf(f64::midpoint(1.0, confidence));
    let left_out = count * (count + 1.0) / 4.0
        - z * (count * (count + 1.0) * (2.0 * count + 1.0) / 24.0).sqrt();
    // A rank below 1 means that there are too few values for an interval at this confidence.
    let (lower, upper) = if left_out < 1.0 {
        (f64::NEG_INFINITY, f64::INFINITY)
    } else {
        let place = left_out.floor() as usize - 1;
        (means[place], means[means.len() - 1 - place])
    };
    Estimate {
        middle,
        lower,
        upper,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_take_turns_in_being_first() {
        let mut order = String::new();
        let sides: [Vec<f64>; 2] = in_turn(12, |side| {
            order.push(['o', 'p'][side]);
            Ok([2.0, 1.0][side])
        })
        .unwrap();
        assert!(order.starts_with("oppoop"), "{order}");
        assert_eq!(ratio(&sides[0], &sides[1], 0.95).middle, 2.0);
    }

    #[test]
    fn the_middle_of_pairwise_means_resists_one_disturbed_value() {
        let mut values: Vec<f64> = (1..=20).map(f64::from).collect();
        // For n = 20 at 95 %: 105 - 1.96 * sqrt(717.5) = 52.5, so the 52nd mean from either end
        // bounds the interval.
        let found = middle_and_interval(&values, 0.95);
        assert_eq!((found.middle, found.lower, found.upper), (10.5, 7.5, 13.5));
        values[19] = 1e6;
        let disturbed = middle_and_interval(&values, 0.95);
        assert!(
            (10.5..11.6).contains(&disturbed.middle) && disturbed.upper < 15.0,
            "{disturbed:?}"
        );
        assert_eq!(middle_and_interval(&[1.0, 2.0], 0.95).upper, f64::INFINITY);
    }
}
