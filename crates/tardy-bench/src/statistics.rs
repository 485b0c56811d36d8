//! The statistics that figures need.

use crate::failure::Result;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Returns the median; NaN if there are no values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Returns the mean and the half-width of its two-sided interval by Student's t, which assumes
/// independent and roughly normal values.
pub(crate) fn mean_and_half_width(values: &[f64], confidence: f64) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return (mean, f64::INFINITY);
    }
    let variance = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>()
        / (n - 1.0);
    let t = StudentsT::new(0.0, 1.0, n - 1.0)
        .map_or(f64::NAN, |t| t.inverse_cdf(f64::midpoint(1.0, confidence)));
    (mean, t * (variance / n).sqrt())
}

/// Returns the Hodges-Lehmann estimate (median of all pairwise means) and its two-sided interval by
/// Wilcoxon's signed ranks (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3.2 and
/// 3.3, large-sample form). One disturbed round in ten hardly affects it.
pub(crate) fn middle_and_interval(values: &[f64], confidence: f64) -> (f64, f64, f64) {
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
    // There are too few values for an interval at this confidence.
    if left_out < 1.0 {
        return (middle, f64::NEG_INFINITY, f64::INFINITY);
    }
    let place = left_out.floor() as usize - 1;
    (middle, means[place], means[means.len() - 1 - place])
}

/// Results of tardy and of a peer, in pairs.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    pub(crate) own: Vec<f64>,
    pub(crate) peer: Vec<f64>,
}

/// Text for notes: how differences and ratios of [`Pairs`] are estimated.
pub(crate) const ESTIMATE: &str = "Hodges-Lehmann estimate over the pairs, with an interval from \
                                   Wilcoxon's signed-rank test";

impl Pairs {
    /// Measures both sides alternately. Each side is first in every second pair, so that drift of
    /// the machine affects both alike.
    pub(crate) fn measure(
        count: usize,
        own: impl Fn() -> Result<f64>,
        peer: impl Fn() -> Result<f64>,
    ) -> Result<Self> {
        let mut pairs = Self::default();
        for pair in 0..count {
            if pair % 2 == 0 {
                pairs.own.push(own()?);
                pairs.peer.push(peer()?);
            } else {
                pairs.peer.push(peer()?);
                pairs.own.push(own()?);
            }
            eprint!("\rpair {} of {count}", pair + 1);
        }
        eprintln!();
        Ok(pairs)
    }

    fn each(&self, of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        let pairs = self.own.iter().zip(&self.peer);
        pairs.map(|(own, peer)| of(*own, *peer)).collect()
    }

    /// Returns the differences, tardy minus the peer.
    pub(crate) fn differences(&self) -> Vec<f64> {
        self.each(|own, peer| own - peer)
    }

    /// Returns the ratio of tardy's results to the peer's, and its interval at 95 %.
    pub(crate) fn ratio(&self) -> (f64, f64, f64) {
        let (middle, lower, upper) =
            middle_and_interval(&self.each(|own, peer| (own / peer).ln()), 0.95);
        (middle.exp(), lower.exp(), upper.exp())
    }

    /// Returns the margin within which latencies in us are equivalent: 5 % of the peer's, but at
    /// least 1 us.
    pub(crate) fn margin(&self) -> f64 {
        (median(&self.peer) * 0.05).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_take_turns_in_being_first() {
        let order = std::cell::RefCell::new(String::new());
        let side = |name: char| {
            order.borrow_mut().push(name);
            Ok(if name == 'o' { 2.0 } else { 1.0 })
        };
        let pairs = Pairs::measure(12, || side('o'), || side('p')).unwrap();
        assert!(order.borrow().starts_with("oppoop"), "{}", order.borrow());
        assert_eq!(pairs.ratio().0, 2.0);
    }

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn the_middle_of_pairwise_means_resists_one_disturbed_value() {
        let mut values: Vec<f64> = (1..=20).map(f64::from).collect();
        // For n = 20 at 95 %: 105 - 1.96 * sqrt(717.5) = 52.5, so the 52nd mean from either end
        // bounds the interval.
        let (middle, lower, upper) = middle_and_interval(&values, 0.95);
        assert_eq!((middle, lower, upper), (10.5, 7.5, 13.5));
        values[19] = 1e6;
        let (disturbed, _, upper) = middle_and_interval(&values, 0.95);
        assert!(
            (10.5..11.6).contains(&disturbed) && upper < 15.0,
            "{disturbed} {upper}"
        );
        assert_eq!(middle_and_interval(&[1.0, 2.0], 0.95).2, f64::INFINITY);
    }

    #[test]
    fn the_interval_is_students() {
        // t(0.975, 4) = 2.776445, and the standard deviation of 1..5 is sqrt(2.5).
        let (mean, half) = mean_and_half_width(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95);
        assert!(
            (mean - 3.0).abs() < 1e-12 && (half - 2.776_445 * (2.5_f64 / 5.0).sqrt()).abs() < 1e-5,
            "{mean} {half}"
        );
    }
}
