//! The few statistics that the figures need.

use statrs::distribution::{ContinuousCDF, StudentsT};

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

/// Mean and the half-width of its two-sided interval by Student's t, which takes the values as independent and about normal.
pub(crate) fn mean_and_half_width(values: &[f64], confidence: f64) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return (mean, f64::INFINITY);
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let t = StudentsT::new(0.0, 1.0, n - 1.0).map_or(f64::NAN, |t| t.inverse_cdf(f64::midpoint(1.0, confidence)));
    (mean, t * (variance / n).sqrt())
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
    fn the_interval_is_students() {
        // t(0.975, 4) = 2.776445; the standard deviation of 1..5 is sqrt(2.5).
        let (mean, half) = mean_and_half_width(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95);
        assert!((mean - 3.0).abs() < 1e-12 && (half - 2.776_445 * (2.5_f64 / 5.0).sqrt()).abs() < 1e-5, "{mean} {half}");
    }
}
