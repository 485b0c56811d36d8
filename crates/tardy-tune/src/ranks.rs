//! Shared by rank tests: computes the exact distribution of a rank statistic, and the resulting
//! interval of sorted values.

use tardy_statistics::confidence::Interval;

/// Returns the median of sorted values.
pub(crate) fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Returns how many of the smallest values of a rank statistic have a total probability of at most
/// `probability`; 0 if the smallest value alone is more probable.
///
/// `ways[value]` is the number of orders of the ranks for which the statistic has this value.
pub(crate) fn statistics_within(ways: &[f64], probability: f64) -> usize {
    let all: f64 = ways.iter().sum();
    let mut beyond = 0.0;
    ways.iter()
        .take_while(|ways| {
            beyond += *ways / all;
            beyond <= probability
        })
        .count()
}

/// Returns the interval from the `left_out`-th smallest to the `left_out`-th largest of the sorted
/// values; unbounded if `left_out` is 0.
pub(crate) fn without_ends(sorted: &[f64], left_out: usize) -> Interval {
    match left_out.checked_sub(1) {
        Some(place) => Interval {
            lower: sorted[place],
            upper: sorted[sorted.len() - 1 - place],
        },
        None => Interval {
            lower: f64::NEG_INFINITY,
            upper: f64::INFINITY,
        },
    }
}
