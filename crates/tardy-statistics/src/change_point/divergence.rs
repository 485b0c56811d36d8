//! Finds where to split a series so that the values before and after the split differ most. The
//! difference is measured by the energy distance.

/// Returns the split of `values` whose two sides diverge most, and the divergence; `None` for fewer
/// than two values.
///
/// The part after the split may end before the last value, so that a second change later in the
/// series does not hide the first one. If several splits are equally good, the first one is
/// returned. Needs `n^2` steps and memory for `n^2` numbers.
pub(super) fn most_divergent(values: &[f64]) -> Option<(usize, f64)> {
    let n = values.len();
    // `sums[i][j]` is the sum of |values[i] - values[k]| over all k < j.
    let sums: Vec<Vec<f64>> = values
        .iter()
        .map(|from| {
            let distances = values.iter().scan(0.0, |sum, to| {
                *sum += (from - to).abs();
                Some(*sum)
            });
            std::iter::once(0.0).chain(distances).collect()
        })
        .collect();
    let mut best: Option<(usize, f64)> = None;
    let mut within_before = 0.0; // sum over the pairs before the split
    for split in 1..n {
        within_before += sums[split - 1][split - 1];
        let (mut between, mut within_after) = (0.0, 0.0);
        for end in split + 1..=n {
            between += sums[end - 1][split];
            within_after += sums[end - 1][end - 1] - sums[end - 1][split];
            let divergence = divergence(
                split as f64,
                (end - split) as f64,
                between,
                within_before,
                within_after,
            );
            if best.is_none_or(|best| divergence > best.1) {
                best = Some((split, divergence));
            }
        }
    }
    best
}

/// Returns Matteson and James' statistic with exponent 1. It is computed from sums over pairs of
/// values.
fn divergence(n: f64, m: f64, between: f64, within_before: f64, within_after: f64) -> f64 {
    let mean = |sum: f64, count: f64| {
        if count > 1.0 {
            2.0 * sum / (count * (count - 1.0))
        } else {
            0.0
        }
    };
    n * m / (n + m) * (2.0 * between / (n * m) - mean(within_before, n) - mean(within_after, m))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_pairs(before: &[f64], after: &[f64]) -> f64 {
        let within = |values: &[f64]| {
            let pairs: f64 = (0..values.len())
                .flat_map(|i| (0..i).map(move |j| (i, j)))
                .map(|(i, j)| (values[i] - values[j]).abs())
                .sum();
            let count = values.len() * (values.len() - 1) / 2;
            if count > 0 { pairs / count as f64 } else { 0.0 }
        };
        let (n, m) = (before.len() as f64, after.len() as f64);
        let between: f64 = before
            .iter()
            .flat_map(|x| after.iter().map(move |y| (x - y).abs()))
            .sum();
        n * m / (n + m) * (2.0 * between / (n * m) - within(before) - within(after))
    }

    #[test]
    fn the_split_of_the_whole_example_is_met() {
        let values = [
            3., 4., 3., 5., 4., 3., 4., 10., 11., 9., 10., 12., 10., 11., 5., 4., 6., 5., 4., 5.,
        ];
        assert!((by_pairs(&values[..7], &values[7..]) - 18.2333).abs() < 5e-5);
        let (split, divergence) = most_divergent(&values).unwrap();
        assert_eq!(split, 7);
        assert!((divergence - 40.0).abs() < 1e-9, "{divergence}");
        assert_eq!(most_divergent(&[1.0]), None);
    }

    proptest! {
        #[test]
        fn sums_give_what_pairs_give(values in proptest::collection::vec(-9.0_f64..9.0, 2..14)) {
            let mut best = f64::NEG_INFINITY;
            for split in 1..values.len() {
                for end in split + 1..=values.len() {
                    best = best.max(by_pairs(&values[..split], &values[split..end]));
                }
            }
            let (_, found) = most_divergent(&values).unwrap();
            prop_assert!((found - best).abs() < 1e-9, "{found} {best}");
        }
    }
}
