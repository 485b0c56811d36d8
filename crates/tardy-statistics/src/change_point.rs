//! Finds the changes in a series that has one number per run (over commits, kernels or days). The
//! method is E-divisive with Student's t test.
//!
//! The test assumes approximately normal numbers. Callers should therefore pass the logarithm of a
//! high quantile of each run, never the raw maximum. Sources: Matteson and James, Journal of the
//! American Statistical Association 109, 2014 (the divergence); Fleming et al., "Hunter: Using
//! Change Point Detection to Hunt for Performance Regressions", ICPE 2023 (windows, weak points,
//! the test).

mod divergence;

use serde::{Deserialize, Serialize};

use super::moments::Moments;
use super::student;
use divergence::most_divergent;

/// Parameters of the search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// Number of values in a window. Windows overlap by half.
    pub window: usize,
    /// Maximum probability that chance alone causes a reported change.
    pub probability_max: f64,
    /// Minimum difference of means that counts as a change, in the unit of the series. For a series
    /// of logarithms, this is the logarithm of a ratio.
    pub difference_min: f64,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            window: 50,
            probability_max: 0.001,
            difference_min: 0.0,
        }
    }
}

/// A change between two segments of the series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangePoint {
    /// Index of the first value after the change.
    pub index: usize,
    /// Divergence between the values before and after the change. Its unit is that of the series,
    /// multiplied by a count.
    pub divergence: f64,
    /// Mean of the segment before the change.
    pub mean_before: f64,
    /// Mean of the segment after the change.
    pub mean_after: f64,
    /// Probability that chance alone causes a difference of this size.
    pub probability: f64,
}

/// Returns the changes in `series`, in their order in the series. The search uses no random
/// numbers, so the same series always gives the same changes.
///
/// The search needs `window^2` steps per half window.
#[must_use]
pub fn change_points(series: &[f64], search: Search) -> Vec<ChangePoint> {
    let mut changes = weak_changes(series, search);
    while let Some(weakest) = weakest(&changes, search) {
        changes.remove(weakest);
        // The neighbouring changes now separate longer segments, so they are tested again.
        let indexes: Vec<usize> = changes.iter().map(|change| change.index).collect();
        for neighbour in weakest.saturating_sub(1)..(weakest + 1).min(changes.len()) {
            changes[neighbour] = judged(
                series,
                &indexes,
                changes[neighbour].index,
                changes[neighbour].divergence,
            );
        }
    }
    changes
}

/// Returns the index of the change to drop next. If the probability of some change is too high, the
/// change with the highest probability is dropped. Otherwise, the smallest change is dropped if it
/// is too small. Returns `None` if every change can be kept.
fn weakest(changes: &[ChangePoint], search: Search) -> Option<usize> {
    let (index, worst) = changes.iter().enumerate().reduce(|a, b| {
        if b.1.probability > a.1.probability {
            b
        } else {
            a
        }
    })?;
    // A change whose probability is undefined is dropped.
    if worst.probability.is_nan() || worst.probability >= search.probability_max {
        return Some(index);
    }
    let size = |change: &ChangePoint| (change.mean_after - change.mean_before).abs();
    let (index, smallest) = changes
        .iter()
        .enumerate()
        .reduce(|a, b| if size(b.1) < size(a.1) { b } else { a })?;
    (size(smallest) <= search.difference_min).then_some(index)
}

/// Returns, for each window, the candidates for changes. At this stage, probabilities up to ten
/// times higher than in the final test are accepted. A stricter test would miss a pair of opposite
/// changes, because the first split of such a pair is not significant on its own.
fn weak_changes(series: &[f64], search: Search) -> Vec<ChangePoint> {
    let lenient = match search.probability_max {
        strict if strict < 0.05 => strict * 10.0,
        strict if strict < 0.5 => strict * 2.0,
        strict => strict,
    };
    let window = search.window.max(2);
    let mut found: Vec<(usize, f64)> = Vec::new();
    let mut start = 0;
    while start < series.len() {
        let end = (start + window).min(series.len());
        let within = changes_within(&series[start..end], lenient);
        let last = within.last().map_or(0, |change| start + change.0);
        for (index, divergence) in within {
            if !found.iter().any(|change| change.0 == start + index) {
                found.push((start + index, divergence));
            }
        }
        start = last.max(start + window / 2);
    }
    found.sort_unstable_by_key(|change| change.0);
    let indexes: Vec<usize> = found.iter().map(|change| change.0).collect();
    found
        .into_iter()
        .map(|(index, divergence)| judged(series, &indexes, index, divergence))
        .collect()
}

/// Splits the segments repeatedly, at the index with the largest divergence, as long as the two
/// sides of a split differ significantly.
fn changes_within(values: &[f64], probability_max: f64) -> Vec<(usize, f64)> {
    let mut found: Vec<(usize, f64)> = Vec::new();
    loop {
        let edges: Vec<usize> = std::iter::once(0)
            .chain(found.iter().map(|change| change.0))
            .chain([values.len()])
            .collect();
        let candidates = edges.windows(2).filter_map(|edge| {
            let (index, divergence) = most_divergent(&values[edge[0]..edge[1]])?;
            Some((edge[0], edge[0] + index, edge[1], divergence))
        });
        let Some((from, index, to, divergence)) =
            candidates.reduce(|a, b| if b.3 > a.3 { b } else { a })
        else {
            return found;
        };
        let (_, _, probability) = compared(&values[from..index], &values[index..to]);
        if probability.is_nan() || probability > probability_max {
            return found;
        }
        found.insert(
            found.partition_point(|change| change.0 < index),
            (index, divergence),
        );
    }
}

/// Tests a change. Compares the segment from the previous change to this one with the segment from
/// this one to the next change.
fn judged(series: &[f64], indexes: &[usize], index: usize, divergence: f64) -> ChangePoint {
    let place = indexes.partition_point(|&other| other < index);
    let from = place.checked_sub(1).map_or(0, |before| indexes[before]);
    let to = indexes.get(place + 1).copied().unwrap_or(series.len());
    let (mean_before, mean_after, probability) = compared(&series[from..index], &series[index..to]);
    ChangePoint {
        index,
        divergence,
        mean_before,
        mean_after,
        probability,
    }
}

/// Returns both means, and the probability from Student's test with a common variance.
///
/// For each side, the sum of squares is divided by the number of values, not by this number minus
/// one. The thresholds published for Hunter were tuned in this way, and its maintained
/// implementation does the same.
fn compared(before: &[f64], after: &[f64]) -> (f64, f64, f64) {
    let moments = |values: &[f64]| {
        let moments: Moments = values.iter().copied().collect();
        let n = values.len() as f64;
        (
            n,
            moments.mean().unwrap_or(0.0),
            moments.variance().unwrap_or(0.0) * (n - 1.0) / n,
        )
    };
    let ((n, mean_before, variance_before), (m, mean_after, variance_after)) =
        (moments(before), moments(after));
    let freedom = n + m - 2.0;
    if freedom <= 0.0 {
        return (mean_before, mean_after, 1.0);
    }
    let pooled = ((n - 1.0) * variance_before + (m - 1.0) * variance_after) / freedom;
    let statistic = (mean_after - mean_before) / (pooled * (1.0 / n + 1.0 / m)).sqrt();
    (
        mean_before,
        mean_after,
        student::both_tails(statistic, freedom),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STEPS: [f64; 20] = [
        3., 4., 3., 5., 4., 3., 4., 10., 11., 9., 10., 12., 10., 11., 5., 4., 6., 5., 4., 5.,
    ];

    fn assert_changes(found: &[ChangePoint], expected: &[(usize, f64, f64)]) {
        assert_eq!(
            found.iter().map(|change| change.index).collect::<Vec<_>>(),
            expected.iter().map(|e| e.0).collect::<Vec<_>>()
        );
        for (change, (_, divergence, probability)) in found.iter().zip(expected) {
            assert!(
                (change.divergence / divergence - 1.0).abs() < 1e-7,
                "{change:?}"
            );
            assert!(
                (change.probability / probability - 1.0).abs() < 1e-5,
                "{change:?}"
            );
        }
    }

    #[test]
    fn the_steps_of_the_reference_implementation_are_met() {
        let found = change_points(
            &STEPS,
            Search {
                window: 20,
                ..Search::default()
            },
        );
        assert_changes(
            &found,
            &[(7, 40.0, 2.584_66e-9), (14, 29.661_538_5, 8.436_63e-8)],
        );
        assert!(
            (found[0].mean_before - 26.0 / 7.0).abs() < 1e-12
                && (found[0].mean_after - 73.0 / 7.0).abs() < 1e-12
        );
    }

    /// Returns four segments of normal numbers: 10 +- 1, 11.5 +- 1, 11.5 +- 3 and 8 +- 1, with 40,
    /// 35, 30 and 50 values. The expected changes are those that Otava 0.8.0 finds in these
    /// numbers.
    fn noisy() -> Vec<f64> {
        let text = include_str!("../tests/data/changes.csv");
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.parse().unwrap())
            .collect()
    }

    #[test]
    fn a_noisy_series_gives_what_the_reference_implementation_gives() {
        let found = change_points(
            &noisy(),
            Search {
                window: 30,
                ..Search::default()
            },
        );
        assert_changes(
            &found,
            &[
                (40, 10.966_780_952_38, 5.700_583e-5),
                (104, 21.666_495_726_5, 2.191_400e-18),
            ],
        );
        let found = change_points(
            &noisy(),
            Search {
                window: 50,
                probability_max: 0.01,
                ..Search::default()
            },
        );
        let expected = [
            (40, 14.323_569_230_77, 5.700_583e-5),
            (104, 22.353_819_787_23, 0.001_004_879_37),
            (112, 4.333_333_333_33, 0.006_578_252_7),
            (123, 4.216, 0.005_469_982_76),
            (131, 3.743_777_777_78, 0.008_072_352_8),
        ];
        for (change, expected) in found.iter().zip(expected) {
            assert_eq!(change.index, expected.0);
            assert!(
                (change.probability / expected.2 - 1.0).abs() < 1e-4,
                "{change:?}"
            );
        }
        assert_eq!(found.len(), 5);
    }

    #[test]
    fn a_small_change_is_dropped_when_asked() {
        let search = Search {
            window: 30,
            difference_min: 2.0,
            ..Search::default()
        };
        let found: Vec<usize> = change_points(&noisy(), search)
            .iter()
            .map(|change| change.index)
            .collect();
        assert_eq!(found, [104]);
    }

    #[test]
    fn nothing_changes_in_nothing_and_in_a_constant() {
        assert!(change_points(&[], Search::default()).is_empty());
        assert!(change_points(&[1.0], Search::default()).is_empty());
        assert!(change_points(&[1.0; 60], Search::default()).is_empty());
        assert!(
            change_points(
                &[1.0, 2.0],
                Search {
                    window: 0,
                    ..Search::default()
                }
            )
            .is_empty()
        );
    }

    proptest! {
        #[test]
        fn every_change_is_significant_and_inside(values in proptest::collection::vec(0.0_f64..10.0, 0..120), window in 2_usize..60) {
            let search = Search { window, ..Search::default() };
            let found = change_points(&values, search);
            prop_assert!(found.is_sorted_by(|a, b| a.index < b.index));
            for change in found {
                prop_assert!(change.index > 0 && change.index < values.len() && change.probability < search.probability_max);
            }
        }
    }
}
