//! The few statistics that the figures need.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// The median; NaN of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Mean and the half-width of its two-sided interval by Student's t, which takes the values as
/// independent and about normal.
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

/// The Hodges-Lehmann estimate (median of all pairwise means) and its two-sided interval by
/// Wilcoxon's signed ranks (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3.2 and
/// 3.3, large-sample form): one disturbed round in ten moves it hardly.
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
    // Too few values for any interval at this confidence.
    if left_out < 1.0 {
        return (middle, f64::NEG_INFINITY, f64::INFINITY);
    }
    let place = left_out.floor() as usize - 1;
    (middle, means[place], means[means.len() - 1 - place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn the_middle_of_pairwise_means_resists_one_disturbed_value() {
        let mut values: Vec<f64> = (1..=20).map(f64::from).collect();
        // n = 20 at 95 %: 105 - 1.96 * sqrt(717.5) = 52.5, so that the 52nd mean from either end
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
        // t(0.975, 4) = 2.776445; the standard deviation of 1..5 is sqrt(2.5).
        let (mean, half) = mean_and_half_width(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95);
        assert!(
            (mean - 3.0).abs() < 1e-12 && (half - 2.776_445 * (2.5_f64 / 5.0).sqrt()).abs() < 1e-5,
            "{mean} {half}"
        );
    }
}
