//! Tests whether a fitted generalised Pareto distribution describes its excesses.
//!
//! If both parameters are fitted, the distribution of the Anderson-Darling statistic depends only
//! on the shape (Choulakian and Stephens, Technometrics 43, 2001). The percentage points below come
//! from a parametric bootstrap that was run once, by the example `anderson_darling_table`: 40,000
//! fits of 1000 excesses for each shape. So reports need no bootstrap, and true models are rejected
//! as often as stated. If excesses are known only as counts in buckets, Pearson's chi-square test
//! is used instead, because equal values make the Anderson-Darling statistic too large.

use statrs::function::gamma::gamma_ur;

use super::anderson_darling;
use super::two_sample::Test;
use crate::gpd::Gpd;
use crate::gpd::excesses::Excesses;

/// The table below contains the percentage points for these probabilities, one in each column.
pub const PROBABILITIES: [f64; 9] = [0.75, 0.5, 0.25, 0.1, 0.05, 0.025, 0.01, 0.005, 0.001];

/// Minimum number of expected excesses in a class of the chi-square test (Cochran, Biometrics 10,
/// 1954).
const EXPECTED_MIN: f64 = 5.0;

/// Returns the statistic, and the probability that it is at least as large if the excesses follow
/// the fitted distribution.
///
/// `None` if there are no excesses, or if the buckets are so wide that fewer than four classes
/// result.
#[must_use]
pub fn tail_fit(excesses: &Excesses, model: Gpd) -> Option<Test> {
    match (excesses.values(), excesses.buckets()) {
        (Some(values), _) if !values.is_empty() => {
            let shares: Vec<f64> = values
                .iter()
                .map(|&value| model.cumulative(value))
                .collect();
            let statistic = anderson_darling(&shares);
            Some(Test {
                statistic,
                probability: probability(statistic, model.shape),
            })
        }
        (None, Some((buckets, width))) => {
            chi_square(buckets, width, excesses.count() as f64, model)
        }
        _ => None,
    }
}

/// Returns Pearson's test, with neighbouring buckets merged into classes until each class has
/// enough expected excesses.
fn chi_square(buckets: &[(f64, u64)], width: f64, total: f64, model: Gpd) -> Option<Test> {
    let mut classes: Vec<(f64, f64)> = Vec::new(); // seen, expected
    let mut class = (0.0, 0.0);
    let mut above = 1.0; // survival at the lower edge of the class
    for &(edge, count) in buckets {
        // The list omits empty buckets, so the class also covers those between the previous bucket
        // and this one.
        class.0 += count as f64;
        let end = model.survival(edge + width);
        class.1 = (above - end) * total;
        if class.1 >= EXPECTED_MIN {
            classes.push(class);
            class = (0.0, 0.0);
            above = end;
        }
    }
    // The remaining excesses, and all expected excesses above the largest one, belong to the last
    // class.
    let last = classes.last_mut()?;
    last.0 += class.0;
    last.1 += above * total;
    let statistic = classes
        .iter()
        .map(|(seen, expected)| (seen - expected).powi(2) / expected)
        .sum::<f64>();
    // Three degrees of freedom are subtracted: two for the fitted parameters, and one because the
    // classes add up to the total.
    let freedom = classes
        .len()
        .checked_sub(3)
        .filter(|&freedom| freedom > 0)? as f64;
    let probability = if statistic > 0.0 {
        gamma_ur(freedom / 2.0, statistic / 2.0)
    } else {
        1.0
    };
    Some(Test {
        statistic,
        probability,
    })
}

/// Returns the probability of a statistic, interpolated from the table. The interpolation is linear
/// in the shape and in the logarithm of the probability.
fn probability(statistic: f64, shape: f64) -> f64 {
    if !statistic.is_finite() {
        return 0.0;
    }
    let row = (shape * 10.0 + 5.0).clamp(0.0, (POINTS.len() - 1) as f64);
    let (index, share) = (
        (row as usize).min(POINTS.len() - 2),
        row - (row as usize).min(POINTS.len() - 2) as f64,
    );
    let points: [f64; 9] = std::array::from_fn(|column| {
        POINTS[index][column] * (1.0 - share) + POINTS[index + 1][column] * share
    });
    // Below the first point, the interpolation ends at probability 1 for statistic 0. Above the
    // last point, it continues with the slope of the last two points.
    let (mut left, mut right) = ((0.0, 1.0), (points[0], PROBABILITIES[0]));
    for pair in 1..points.len() {
        if statistic > right.0 {
            (left, right) = (right, (points[pair], PROBABILITIES[pair]));
        }
    }
    let slope = (right.1.ln() - left.1.ln()) / (right.0 - left.0);
    (left.1.ln() + slope * (statistic - left.0)).exp().min(1.0)
}

/// One row for each shape from -0.5 to 1.0, in steps of 0.1. Columns: [`PROBABILITIES`].
#[expect(clippy::approx_constant, reason = "2.718 is a percentage point, not e")]
const POINTS: [[f64; 9]; 16] = [
    [
        0.323, 0.464, 0.681, 0.981, 1.216, 1.448, 1.777, 2.014, 2.718,
    ],
    [
        0.316, 0.449, 0.654, 0.937, 1.153, 1.383, 1.685, 1.919, 2.357,
    ],
    [
        0.306, 0.435, 0.626, 0.891, 1.096, 1.315, 1.640, 1.885, 2.427,
    ],
    [
        0.299, 0.422, 0.612, 0.867, 1.064, 1.271, 1.543, 1.743, 2.320,
    ],
    [
        0.289, 0.408, 0.586, 0.826, 1.022, 1.225, 1.491, 1.706, 2.175,
    ],
    [
        0.282, 0.394, 0.565, 0.792, 0.976, 1.158, 1.429, 1.637, 2.032,
    ],
    [
        0.276, 0.387, 0.550, 0.766, 0.943, 1.126, 1.354, 1.547, 1.978,
    ],
    [
        0.272, 0.377, 0.537, 0.744, 0.910, 1.078, 1.284, 1.452, 1.896,
    ],
    [
        0.266, 0.368, 0.517, 0.716, 0.866, 1.020, 1.251, 1.435, 1.809,
    ],
    [
        0.263, 0.364, 0.510, 0.698, 0.845, 0.987, 1.184, 1.357, 1.795,
    ],
    [
        0.259, 0.357, 0.497, 0.681, 0.824, 0.973, 1.190, 1.349, 1.732,
    ],
    [
        0.256, 0.349, 0.489, 0.670, 0.812, 0.959, 1.157, 1.332, 1.768,
    ],
    [
        0.254, 0.345, 0.484, 0.661, 0.796, 0.938, 1.132, 1.296, 1.681,
    ],
    [
        0.251, 0.343, 0.475, 0.649, 0.781, 0.916, 1.106, 1.245, 1.611,
    ],
    [
        0.249, 0.338, 0.470, 0.638, 0.769, 0.906, 1.091, 1.222, 1.600,
    ],
    [
        0.248, 0.336, 0.466, 0.641, 0.764, 0.892, 1.080, 1.218, 1.507,
    ],
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpd::fit::fit;
    use crate::reference::rain;
    use crate::tally::Tally;
    use rand::{RngExt, SeedableRng};

    fn rejected(
        repetitions: u32,
        mut excesses: impl FnMut(&mut rand_pcg::Pcg64) -> Excesses,
    ) -> f64 {
        let mut random = rand_pcg::Pcg64::seed_from_u64(17);
        let rejections = (0..repetitions).filter(|_| {
            let excesses = excesses(&mut random);
            let model = fit(&excesses).unwrap().model;
            tail_fit(&excesses, model).is_some_and(|test| test.probability <= 0.05)
        });
        f64::from(rejections.count() as u32) / f64::from(repetitions)
    }

    fn draw(random: &mut rand_pcg::Pcg64, count: usize, shape: f64) -> Vec<f64> {
        let model = Gpd { scale: 20.0, shape };
        (0..count)
            .map(|_| model.excess_at(random.random::<f64>()))
            .collect()
    }

    #[test]
    fn true_models_are_rejected_as_often_as_said() {
        // The share of rejections in 1500 repetitions at 5 % has a standard deviation of 0.6 %.
        for (shape, count) in [(-0.25, 200), (0.0, 60), (0.35, 100)] {
            let share = rejected(1500, |random| {
                Excesses::from_values(&draw(random, count, shape))
            });
            assert!((share - 0.05).abs() < 0.02, "{share} at shape {shape}");
        }
    }

    #[test]
    fn true_models_of_rounded_values_are_rejected_as_often_as_said() {
        let share = rejected(600, |random| {
            let floored: Vec<f64> = draw(random, 300, 0.1).into_iter().map(f64::floor).collect();
            Excesses::grouped_from(&Tally::from_samples(&floored), 0.0, 1.0)
        });
        assert!((share - 0.05).abs() < 0.03, "{share}");
    }

    #[test]
    fn a_low_threshold_on_the_rain_is_rejected_and_a_high_one_is_not() {
        let test = |threshold: f64| {
            let excesses = Excesses::above(&Tally::from_samples(&rain()), threshold);
            tail_fit(&excesses, fit(&excesses).unwrap().model).unwrap()
        };
        let low = test(10.0);
        assert!(
            (low.statistic - 2.078_3).abs() < 1e-4 && low.probability < 0.003,
            "{low:?}"
        );
        let high = test(30.0);
        assert!(high.probability > 0.4, "{high:?}");
    }

    #[test]
    fn the_table_is_met_at_its_points_and_monotone_between_them() {
        for (row, shape) in POINTS.iter().zip(-5..) {
            for (point, expected) in row.iter().zip(PROBABILITIES) {
                assert!(
                    (probability(*point, f64::from(shape) / 10.0) / expected - 1.0).abs() < 1e-6
                );
            }
        }
        let along: Vec<f64> = (0..60)
            .map(|i| probability(f64::from(i) * 0.1, 0.07))
            .collect();
        assert!(
            along.is_sorted_by(|a, b| a >= b) && along[0] == 1.0 && along[59] < 1e-6,
            "{along:?}"
        );
        assert_eq!(probability(f64::INFINITY, 0.0), 0.0);
        assert!(probability(1.0, -3.0) > probability(1.0, 9.0));
    }

    #[test]
    fn too_few_classes_cannot_be_tested() {
        let coarse = Excesses::grouped_from(
            &Tally::from_counts([(0.0, 90), (50.0, 8), (100.0, 2)]),
            0.0,
            50.0,
        );
        assert_eq!(
            tail_fit(
                &coarse,
                Gpd {
                    scale: 20.0,
                    shape: 0.0
                }
            ),
            None
        );
        assert_eq!(
            tail_fit(
                &Excesses::from_values(&[]),
                Gpd {
                    scale: 20.0,
                    shape: 0.0
                }
            ),
            None
        );
    }
}
