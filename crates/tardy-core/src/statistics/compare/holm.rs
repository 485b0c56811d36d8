//! Several tests at once: probabilities made larger, so that the chance of any wrong rejection stays what one test promises.

/// Holm's adjustment (Scandinavian Journal of Statistics 6, 1979), in the order given. NaN counts as 1.
#[must_use]
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let known = |index: usize| if probabilities[index].is_nan() { 1.0 } else { probabilities[index] };
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&a, &b| known(a).total_cmp(&known(b)));
    let mut adjusted = vec![0.0; probabilities.len()];
    let mut highest = 0.0_f64;
    for (place, &index) in order.iter().enumerate() {
        highest = highest.max(known(index) * (probabilities.len() - place) as f64).min(1.0);
        adjusted[index] = highest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_pays_for_all_and_none_overtakes() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (value, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((value - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[0.9, f64::NAN, 0.6]), [1.0, 1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }
}
