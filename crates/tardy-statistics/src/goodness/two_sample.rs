//! Tests whether two samples come from the same distribution. The tests detect that a run drifts,
//! but do not measure by how much.

use std::f64::consts::PI;

use statrs::function::gamma::gamma;

use crate::merged::{Step, steps};
use crate::tally::Tally;

/// A statistic, and the probability that it is at least as large if both samples come from the same
/// distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Test {
    pub statistic: f64,
    /// The probability, between 0 and 1.
    pub probability: f64,
}

/// Returns Kolmogorov and Smirnov's test: the largest distance between the cumulative shares.
/// `None` if a sample is empty.
///
/// The probability is exact if each sample has at most 1000 values; otherwise it comes from the
/// limit distribution. If some values are equal, the probability can be too large, but never too
/// small.
#[must_use]
pub fn kolmogorov_smirnov(first: &Tally, second: &Tally) -> Option<Test> {
    let (n, m) = (first.total(), second.total());
    if n == 0 || m == 0 {
        return None;
    }
    let distance =
        |step: &Step| (step.up_to[0] as f64 / n as f64 - step.up_to[1] as f64 / m as f64).abs();
    let statistic = steps(first, second)
        .iter()
        .map(distance)
        .fold(0.0, f64::max);
    let probability = if n.max(m) <= 1000 {
        1.0 - paths_within(n, m, statistic)
    } else {
        let effective = (n as f64 * m as f64 / (n + m) as f64).sqrt();
        kolmogorov_tail(effective * statistic)
    };
    Some(Test {
        statistic,
        probability: probability.clamp(0.0, 1.0),
    })
}

/// Returns the fraction of lattice paths along which the difference of the two cumulative shares
/// stays below `distance`. If both samples have the same distribution, all paths are equally
/// likely.
fn paths_within(n: u64, m: u64, distance: f64) -> f64 {
    let (rows, columns) = (n as usize, m as usize);
    let inside =
        |i: usize, j: usize| (i as f64 / n as f64 - j as f64 / m as f64).abs() < distance - 1e-9;
    // `row` contains, for each point, the probability that a random path reaches it and stays
    // within the distance until then. The number of such paths would overflow.
    let mut row = vec![0.0; columns + 1];
    for i in 0..=rows {
        for j in 0..=columns {
            let left_over = (rows + columns - i - j + 1) as f64;
            let from_above = if i > 0 {
                row[j] * (rows - i + 1) as f64 / left_over
            } else {
                0.0
            };
            let from_left = if j > 0 {
                row[j - 1] * (columns - j + 1) as f64 / left_over
            } else {
                0.0
            };
            let start = if i == 0 && j == 0 { 1.0 } else { 0.0 };
            row[j] = if inside(i, j) {
                from_above + from_left + start
            } else {
                0.0
            };
        }
    }
    row[columns]
}

/// Returns the probability that `sqrt(effective n) * distance` is larger than `scaled`, under the
/// limit distribution (Kolmogorov 1933).
fn kolmogorov_tail(scaled: f64) -> f64 {
    if scaled < 0.2 {
        return 1.0;
    }
    let terms = (1..=100).map(f64::from).map(|k: f64| {
        (if k % 2.0 == 1.0 { 2.0 } else { -2.0 }) * (-2.0 * k * k * scaled * scaled).exp()
    });
    terms.sum()
}

/// Returns Cramer and von Mises' test: the mean squared distance (Anderson 1962), with the limit
/// distribution. `None` if a sample is empty.
#[must_use]
pub fn cramer_von_mises(first: &Tally, second: &Tally) -> Option<Test> {
    let (n, m) = (first.total() as f64, second.total() as f64);
    if n == 0.0 || m == 0.0 {
        return None;
    }
    // The statistic compares two ranks of each value: the rank among both samples together, and the
    // rank in its own sample. Equal values share their mean rank.
    let sum_of_ranks = |side: usize, size: f64| {
        let of_step = |step: &Step| {
            let count = step.at[side] as f64;
            // Adds the sum of (rank - p)^2, where p runs through the ranks of these values in their
            // own sample.
            let middle = step.rank() - step.own_rank(side);
            count * middle * middle + count * (count * count - 1.0) / 12.0
        };
        size * steps(first, second)
            .iter()
            .filter(|step| step.at[side] > 0)
            .map(of_step)
            .sum::<f64>()
    };
    let both = n + m;
    let u = sum_of_ranks(0, n) + sum_of_ranks(1, m);
    let statistic = u / (n * m * both) - (4.0 * n * m - 1.0) / (6.0 * both);
    let mean = (1.0 + 1.0 / both) / 6.0;
    let variance = (both + 1.0) * (4.0 * n * m * both - 3.0 * (n * n + m * m) - 2.0 * n * m)
        / (45.0 * both * both * 4.0 * n * m);
    // Shifts and scales the statistic so that it has the mean 1/6 and the variance 1/45 of the
    // limit distribution.
    let scaled = 1.0 / 6.0 + (statistic - mean) / (45.0 * variance).sqrt();
    let probability = if scaled < 0.003 {
        1.0
    } else {
        (1.0 - mises_limit(scaled)).clamp(0.0, 1.0)
    };
    Some(Test {
        statistic,
        probability,
    })
}

/// Returns the cumulative limit distribution of the Cramer-von Mises statistic (Anderson and
/// Darling 1952, equation 4.35).
fn mises_limit(x: f64) -> f64 {
    let mut sum = 0.0;
    let mut factor = 1.0; // gamma(k + 1/2) / (gamma(1/2) k!)
    for k in 0..20 {
        let root = f64::from(4 * k + 1);
        let q = root * root / (16.0 * x);
        sum += factor * root.sqrt() * (-q).exp() * bessel_k_quarter(q);
        factor *= (f64::from(k) + 0.5) / f64::from(k + 1);
    }
    sum / (PI * x.sqrt())
}

/// Returns the modified Bessel function of the second kind of order 1/4, from its integral over
/// `exp(-q cosh t) cosh(t / 4)`.
fn bessel_k_quarter(q: f64) -> f64 {
    if q < 1e-6 {
        // For arguments this small, returns only the leading term. In practice, such small
        // arguments do not occur.
        return 0.5 * gamma(0.25) * (2.0 / q).powf(0.25);
    }
    // Beyond `end`, the integrand is below 1e-17 of its largest value. The trapezoidal rule
    // converges exponentially.
    let end = (1.0 + 40.0 / q).acosh();
    let step = end / 200.0;
    let at = |t: f64| (-q * t.cosh()).exp() * (t / 4.0).cosh();
    step * ((1..200).map(|i| at(f64::from(i) * step)).sum::<f64>() + (at(0.0) + at(end)) / 2.0)
}

/// Returns Anderson and Darling's test for two samples, with the standardised statistic. Equal
/// values share their mean rank. `None` if a side has fewer than two samples, or if all values are
/// equal.
///
/// The probability is interpolated from published points between 0.25 and 0.001, and limited to
/// this range. Source: Scholz and Stephens, Journal of the American Statistical Association 82,
/// 1987, equation 7 and table 2.
#[must_use]
pub fn anderson_darling(first: &Tally, second: &Tally) -> Option<Test> {
    let sizes = [first.total() as f64, second.total() as f64];
    let n = sizes[0] + sizes[1];
    let steps = steps(first, second);
    if sizes[0] < 2.0 || sizes[1] < 2.0 || steps.len() < 2 {
        return None;
    }
    let mut statistic = 0.0;
    for (side, size) in sizes.into_iter().enumerate() {
        let of_step = |step: &Step| {
            let all = (step.at[0] + step.at[1]) as f64;
            let before = (step.up_to[0] + step.up_to[1]) as f64 - all / 2.0;
            let own = step.up_to[side] as f64 - step.at[side] as f64 / 2.0;
            let distance = n * own - before * size;
            all / n * distance * distance / (before * (n - before) - n * all / 4.0)
        };
        statistic += steps.iter().map(of_step).sum::<f64>() / size;
    }
    statistic *= (n - 1.0) / n;
    let standardised = (statistic - 1.0) / variance_of_darling(sizes).sqrt();
    Some(Test {
        statistic: standardised,
        probability: darling_probability(standardised),
    })
}

/// Returns the variance of the statistic if both samples have the same distribution (Scholz and
/// Stephens 1987, equation 4).
fn variance_of_darling(sizes: [f64; 2]) -> f64 {
    let n = sizes[0] + sizes[1];
    let reciprocals = 1.0 / sizes[0] + 1.0 / sizes[1];
    let harmonic: f64 = (1..n as u64).map(|i| 1.0 / i as f64).sum();
    // `double` is the sum of 1 / ((n - i) j) over i < j, accumulated from the end in a single pass.
    let mut tail = 0.0;
    let mut double = 0.0;
    for i in (1..n as u64 - 1).rev() {
        tail += 1.0 / (i + 1) as f64;
        double += tail / (n - i as f64);
    }
    let a = (4.0 * double - 6.0) + (10.0 - 6.0 * double) * reciprocals;
    let b = (2.0 * double - 4.0) * 4.0
        + 16.0 * harmonic
        + (2.0 * double - 14.0 * harmonic - 4.0) * reciprocals
        - 8.0 * harmonic
        + 4.0 * double
        - 6.0;
    let c = (6.0 * harmonic + 2.0 * double - 2.0) * 4.0
        + (4.0 * harmonic - 4.0 * double + 6.0) * 2.0
        + (2.0 * harmonic - 6.0) * reciprocals
        + 4.0 * harmonic;
    let d = (2.0 * harmonic + 6.0) * 4.0 - 8.0 * harmonic;
    (a * n.powi(3) + b * n * n + c * n + d) / ((n - 1.0) * (n - 2.0) * (n - 3.0))
}

/// Returns the probability of a standardised statistic, from a parabola that is fitted to the
/// logarithms of the published probabilities.
fn darling_probability(standardised: f64) -> f64 {
    #[expect(clippy::approx_constant, reason = "2.718 is a percentage point, not e")]
    const POINTS: [(f64, f64); 7] = [
        (0.25, 0.325),
        (0.1, 1.226),
        (0.05, 1.961),
        (0.025, 2.718),
        (0.01, 3.752),
        (0.005, 4.592),
        (0.001, 6.546),
    ];
    if standardised <= POINTS[0].1 {
        return 0.25;
    }
    if standardised >= POINTS[6].1 {
        return 0.001;
    }
    let [constant, linear, square] =
        parabola(POINTS.map(|(probability, point)| (point, probability.ln())));
    (constant + linear * standardised + square * standardised * standardised).exp()
}

/// Returns the constant, linear and square coefficient of the parabola with the least squared
/// distance from the points.
fn parabola(points: [(f64, f64); 7]) -> [f64; 3] {
    let power = |exponent: i32| {
        points
            .iter()
            .map(|point| point.0.powi(exponent))
            .sum::<f64>()
    };
    let product = |exponent: i32| {
        points
            .iter()
            .map(|point| point.0.powi(exponent) * point.1)
            .sum::<f64>()
    };
    let s: [f64; 5] = std::array::from_fn(|exponent| power(exponent as i32));
    let t: [f64; 3] = std::array::from_fn(|exponent| product(exponent as i32));
    let determinant = |m: [[f64; 3]; 3]| {
        m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1])
            - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
            + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
    };
    let matrix = [[s[0], s[1], s[2]], [s[1], s[2], s[3]], [s[2], s[3], s[4]]];
    let whole = determinant(matrix);
    std::array::from_fn(|column| {
        let mut replaced = matrix;
        for (row, value) in replaced.iter_mut().zip(t) {
            row[column] = value;
        }
        determinant(replaced) / whole
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::fremantle;
    use proptest::prelude::*;

    fn halves() -> (Tally, Tally) {
        let levels = fremantle();
        (
            Tally::from_samples(&levels[..43]),
            Tally::from_samples(&levels[levels.len() - 43..]),
        )
    }

    fn assert_test(test: Option<Test>, statistic: f64, probability: f64) {
        let test = test.unwrap();
        assert!((test.statistic - statistic).abs() < 1e-6, "{test:?}");
        assert!((test.probability - probability).abs() < 5e-7, "{test:?}");
    }

    #[test]
    fn the_halves_of_fremantle_are_met() {
        let (first, last) = halves();
        assert_test(kolmogorov_smirnov(&first, &last), 0.302_325_6, 0.038_707_3);
        assert_test(cramer_von_mises(&first, &last), 0.859_653_9, 0.005_209_83);
        assert_test(anderson_darling(&first, &last), 5.582_670_2, 0.002_156_65);
    }

    #[test]
    fn the_limit_laws_meet_their_tables() {
        // Kolmogorov: 1.358 at 5 %, 1.628 at 1 %. Cramer-von Mises: 0.46136 at 5 %, 0.74346 at 1 %
        // (Anderson and Darling 1952).
        assert!((kolmogorov_tail(1.358_1) - 0.05).abs() < 1e-5);
        assert!((kolmogorov_tail(1.627_6) - 0.01).abs() < 1e-5);
        assert!((mises_limit(0.461_36) - 0.95).abs() < 1e-5);
        assert!((mises_limit(0.743_46) - 0.99).abs() < 1e-5);
    }

    #[test]
    fn empty_and_equal_samples_are_no_difference() {
        let (none, one) = (Tally::default(), Tally::from_samples(&[1.0; 5]));
        assert_eq!(
            (
                kolmogorov_smirnov(&none, &one),
                cramer_von_mises(&none, &one),
                anderson_darling(&one, &one)
            ),
            (None, None, None)
        );
        assert_eq!(kolmogorov_smirnov(&one, &one).unwrap().probability, 1.0);
    }

    proptest! {
        #[test]
        fn exchanging_the_samples_changes_nothing(
            a in proptest::collection::vec(0_i32..9, 2..40), b in proptest::collection::vec(0_i32..9, 2..40)
        ) {
            let tally = |values: &[i32]| Tally::from_counts(values.iter().map(|&value| (f64::from(value), 1)));
            let (a, b) = (tally(&a), tally(&b));
            for test in [kolmogorov_smirnov, cramer_von_mises, anderson_darling] {
                if let (Some(one), Some(other)) = (test(&a, &b), test(&b, &a)) {
                    prop_assert!((one.statistic - other.statistic).abs() < 1e-9);
                    prop_assert!((one.probability - other.probability).abs() < 1e-9);
                    prop_assert!((0.0..=1.0).contains(&one.probability));
                }
            }
        }
    }
}
