//! L-moments: location, spread and skewness as sums of ordered values, which a single outlier
//! cannot dominate.
//!
//! Fits by maximum likelihood start from L-moments, which also give an independent estimate of the
//! parameters. Sources: Hosking, Journal of the Royal Statistical Society B 52, 1990; Hosking and
//! Wallis, Technometrics 29, 1987 (generalised Pareto).

use super::gpd::Gpd;

/// The first two L-moments, in the unit of the data, and the L-skewness.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LMoments {
    pub location: f64,
    /// Half of the expected distance between two random values.
    pub scale: f64,
    /// The third L-moment divided by the second: -1 to 1, and 0 for a symmetric distribution.
    pub skewness: f64,
}

/// Returns the L-moments of values in ascending order; `None` for fewer than three values, or if
/// all are equal.
#[must_use]
pub fn l_moments(sorted: &[f64]) -> Option<LMoments> {
    let n = sorted.len() as f64;
    let mut weighted = [0.0; 3];
    for (index, &value) in sorted.iter().enumerate() {
        let below = index as f64;
        weighted[0] += value;
        weighted[1] += value * below / (n - 1.0);
        weighted[2] += value * below / (n - 1.0) * (below - 1.0) / (n - 2.0);
    }
    let [b0, b1, b2] = weighted.map(|sum| sum / n);
    let scale = 2.0 * b1 - b0;
    let skewness = (6.0 * b2 - 6.0 * b1 + b0) / scale;
    (sorted.len() >= 3 && scale > 0.0 && skewness.is_finite()).then_some(LMoments {
        location: b0,
        scale,
        skewness,
    })
}

impl LMoments {
    /// Returns the generalised Pareto distribution whose excesses have these L-moments.
    #[must_use]
    pub fn gpd(&self) -> Gpd {
        let shape = 2.0 - self.location / self.scale;
        Gpd {
            scale: self.location * (1.0 - shape),
            shape,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gev::Gev;
    use crate::reference::{port_pirie, rain};

    fn assert_close(value: f64, expected: f64, tolerance: f64) {
        assert!(
            (value - expected).abs() < tolerance,
            "{value} is not {expected}"
        );
    }

    #[test]
    fn port_pirie_is_met() {
        let mut levels = port_pirie();
        levels.sort_unstable_by(f64::total_cmp);
        let moments = l_moments(&levels).unwrap();
        assert_close(moments.location, 3.980_615_38, 5e-9);
        assert_close(moments.scale, 0.134_644_23, 5e-9);
        assert_close(moments.skewness, 0.137_433_135, 5e-9);
        let gev = Gev::of_l_moments(&moments);
        assert_close(gev.shape, -0.051_477_1, 5e-8);
        assert_close(gev.scale, 0.203_267_6, 5e-8);
        assert_close(gev.location, 3.873_172_4, 5e-8);
    }

    #[test]
    fn the_rain_above_thirty_millimetres_is_met() {
        let mut excesses: Vec<f64> = rain()
            .iter()
            .filter(|&&value| value > 30.0)
            .map(|value| value - 30.0)
            .collect();
        excesses.sort_unstable_by(f64::total_cmp);
        let gpd = l_moments(&excesses).unwrap().gpd();
        assert_close(gpd.shape, 0.196_515_9, 5e-8);
        assert_close(gpd.scale, 7.299_019_0, 5e-8);
    }

    #[test]
    fn too_few_or_equal_values_have_none() {
        assert_eq!(l_moments(&[]), None);
        assert_eq!(l_moments(&[1.0, 2.0]), None);
        assert_eq!(l_moments(&[4.0; 10]), None);
    }
}
