//! Finds cells that became worse or better from one release to the next with the same preemption
//! model.
//!
//! Each replica is reduced to one number: the 99.9 % quantile of its latencies, or its largest
//! latency. The test is a permutation test (`tardy_statistics::compare::permutation`) on the
//! logarithms of these numbers, because latencies under load differ by large factors. The reported
//! changes are selected so that at most 5 % of them are expected to be due to chance (Benjamini and
//! Hochberg 1995).

use serde::Serialize;
use tardy_core::units::Nanos;
use tardy_statistics::compare::permutation::permutation;

use super::{AtlasCell, AtlasKernel, CellNumbers};

/// Minimum ratio of the two medians. Smaller changes are not reported.
const RATIO_MIN: f64 = 1.25;
/// Maximum expected share of reported changes that are due to chance.
const FALSE_SHARE: f64 = 0.05;
/// The seed is fixed, so that the same cells always give the same text.
const SEED: u64 = 1;

/// Selects which number of each replica is compared with those of the other replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// The 99.9 % quantile of the latencies.
    P999,
    /// The largest latency.
    Max,
}

impl Statistic {
    /// Returns the statistics that are compared. If the 99.9 % quantile of every replica equals its
    /// maximum, as it does with fewer than 1000 samples, only the maximum is compared.
    fn of_cells(before: &CellNumbers, behind: &CellNumbers) -> &'static [Self] {
        let is_the_largest =
            |numbers: &CellNumbers| numbers.p999_of_runs_ns == numbers.max_of_runs_ns;
        if is_the_largest(before) && is_the_largest(behind) {
            &[Self::Max]
        } else {
            &[Self::P999, Self::Max]
        }
    }

    /// Returns the name of the statistic for tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::P999 => "99.9 %",
            Self::Max => "max",
        }
    }

    fn of_runs(self, numbers: &CellNumbers) -> &[Nanos] {
        match self {
            Self::P999 => &numbers.p999_of_runs_ns,
            Self::Max => &numbers.max_of_runs_ns,
        }
    }
}

/// A difference between two successive releases, measured under the same load and with the same
/// preemption model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    pub load: String,
    pub model: String,
    pub statistic: Statistic,
    /// The kernel of the earlier release.
    pub from: String,
    /// The kernel of the later release.
    pub to: String,
    /// Median over the replicas of the earlier kernel.
    pub from_ns: Nanos,
    /// Median over the replicas of the later kernel.
    pub to_ns: Nanos,
    /// Ratio of the medians, above 1 if the latency increased.
    pub ratio: f64,
    /// Probability that two cells whose kernels behave alike differ by at least this much.
    pub probability: f64,
}

/// Returns the changes, largest first, and the number of comparisons: one for each pair of cells
/// and each statistic.
pub(super) fn changes(
    kernels: &[AtlasKernel],
    loads: &[String],
    cells: &[Vec<AtlasCell>],
) -> (Vec<Change>, usize) {
    let pairs = neighbours(kernels);
    let mut found = Vec::new();
    for &(from, to) in &pairs {
        for (load, name) in loads.iter().enumerate() {
            let (Some(before), Some(behind)) =
                (&cells[from][load].numbers, &cells[to][load].numbers)
            else {
                continue;
            };
            for statistic in Statistic::of_cells(before, behind) {
                found.extend(change(
                    &kernels[from],
                    &kernels[to],
                    name,
                    *statistic,
                    before,
                    behind,
                ));
            }
        }
    }
    let compared = found.len();
    let limit = limit(found.iter().map(|change| change.probability).collect());
    found.retain(|change| {
        change.probability <= limit && change.ratio.max(1.0 / change.ratio) >= RATIO_MIN
    });
    found.sort_by(|one, other| size(other).total_cmp(&size(one)));
    (found, compared)
}

/// Returns the largest p-value that is still reported as a change, by the procedure of Benjamini
/// and Hochberg; a negative number if no change is reported.
fn limit(mut probabilities: Vec<f64>) -> f64 {
    probabilities.sort_by(f64::total_cmp);
    let all = probabilities.len() as f64;
    let counts = |(place, probability): &(usize, &f64)| {
        **probability <= (*place + 1) as f64 / all * FALSE_SHARE
    };
    probabilities
        .iter()
        .enumerate()
        .filter(counts)
        .map(|(_, probability)| *probability)
        .next_back()
        .unwrap_or(-1.0)
}

fn size(change: &Change) -> f64 {
    change.ratio.ln().abs()
}

/// Pairs each kernel with the next kernel that has the same model and command-line words, in the
/// order of the table.
fn neighbours(kernels: &[AtlasKernel]) -> Vec<(usize, usize)> {
    let next = |from: usize| {
        let kernel = &kernels[from];
        let is_next =
            |to: &usize| kernels[*to].model == kernel.model && kernels[*to].words == kernel.words;
        kernel
            .model
            .as_ref()
            .and_then(|_| (from + 1..kernels.len()).find(is_next))
            .map(|to| (from, to))
    };
    (0..kernels.len()).filter_map(next).collect()
}

/// Returns the change between two cells; `None` if one of them has no replicas with samples.
fn change(
    from: &AtlasKernel,
    to: &AtlasKernel,
    load: &str,
    statistic: Statistic,
    before: &CellNumbers,
    behind: &CellNumbers,
) -> Option<Change> {
    let logarithms = |numbers| {
        statistic
            .of_runs(numbers)
            .iter()
            .map(|value| (value.get().max(1) as f64).ln())
            .collect::<Vec<f64>>()
    };
    let probability = permutation(&logarithms(before), &logarithms(behind), SEED)?.probability;
    let (from_ns, to_ns) = (
        median(statistic.of_runs(before))?,
        median(statistic.of_runs(behind))?,
    );
    Some(Change {
        load: load.to_owned(),
        model: from.model.clone()?,
        statistic,
        from: from.name.clone(),
        to: to.name.clone(),
        from_ns,
        to_ns,
        ratio: to_ns.get().max(1) as f64 / from_ns.get().max(1) as f64,
        probability,
    })
}

/// Returns the lower median, which is always one of the values.
fn median(values: &[Nanos]) -> Option<Nanos> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str, model: &str) -> AtlasKernel {
        AtlasKernel {
            name: name.into(),
            package: None,
            words: vec![],
            release: None,
            model: Some(model.into()),
        }
    }

    fn cell(max_us: &[i64]) -> AtlasCell {
        let runs: Vec<Nanos> = max_us.iter().map(|&us| Nanos::from_micros(us)).collect();
        let numbers = CellNumbers {
            samples: 10,
            median_ns: runs[0],
            p99_ns: runs[0],
            p999_ns: runs[0],
            max_ns: runs[0],
            p999_of_runs_ns: vec![Nanos(1000); runs.len()],
            max_of_runs_ns: runs,
        };
        AtlasCell {
            runs: u32::try_from(max_us.len()).unwrap(),
            failures: vec![],
            numbers: Some(numbers),
        }
    }

    #[test]
    fn a_change_is_found_between_neighbours_of_one_model_and_named_with_its_ratio() {
        let kernels = [
            kernel("6.1-full", "full"),
            kernel("6.1-rt", "rt"),
            kernel("6.12-full", "full"),
            kernel("6.12-rt", "rt"),
        ];
        let spread = |center: i64| (0..10).map(|run| center + run).collect::<Vec<_>>();
        let cells: Vec<Vec<AtlasCell>> = [100, 20, 300, 21]
            .map(|center| vec![cell(&spread(center))])
            .into();
        let (found, compared) = changes(&kernels, &["fork".to_owned()], &cells);
        assert_eq!(compared, 4, "two models, two statistics");
        let [change] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(
            (change.from.as_str(), change.to.as_str(), change.statistic),
            ("6.1-full", "6.12-full", Statistic::Max)
        );
        assert!(change.ratio > 2.8 && change.ratio < 3.0, "{change:?}");
        assert_eq!(
            (change.from_ns, change.to_ns),
            (Nanos::from_micros(104), Nanos::from_micros(304))
        );
    }

    #[test]
    fn a_largest_latency_that_is_the_99_9_percent_too_is_compared_once() {
        let kernels = [kernel("a", "full"), kernel("b", "full")];
        let short = |max_us: &[i64]| {
            let mut cell = cell(max_us);
            let numbers = cell.numbers.as_mut().unwrap();
            numbers.p999_of_runs_ns.clone_from(&numbers.max_of_runs_ns);
            cell
        };
        let (found, compared) = changes(
            &kernels,
            &["x".to_owned()],
            &[vec![short(&[900; 8])], vec![short(&[100; 8])]],
        );
        assert_eq!((found.len(), compared), (1, 1));
        assert_eq!(found[0].statistic, Statistic::Max);
    }

    #[test]
    fn what_chance_or_too_few_replicas_may_have_made_is_no_change() {
        let kernels = [kernel("a", "full"), kernel("b", "full")];
        let of = |before: &[i64], behind: &[i64]| {
            changes(
                &kernels,
                &["x".to_owned()],
                &[vec![cell(before)], vec![cell(behind)]],
            )
            .0
        };
        assert_eq!(
            of(
                &[100, 900, 110, 950, 120, 980],
                &[940, 130, 910, 115, 990, 105]
            ),
            [],
            "overlapping"
        );
        assert_eq!(
            of(&[100, 101, 102], &[900, 901, 902]),
            [],
            "three replicas per side"
        );
        assert_eq!(of(&[100; 8], &[110; 8]), [], "a tenth more");
        assert_eq!(of(&[900; 8], &[100; 8]).len(), 1);
    }

    // The example of Benjamini and Hochberg (1995), section 3.2: of fifteen probabilities, the
    // procedure keeps four.
    #[test]
    fn the_procedures_published_example_is_reproduced() {
        let published = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        assert_eq!(limit(published.iter().rev().copied().collect()), 0.0095);
        assert_eq!(limit(vec![0.9, 0.6]), -1.0);
    }

    #[test]
    fn kernels_with_other_words_or_without_a_model_have_no_neighbours() {
        let with_words = AtlasKernel {
            words: vec!["x=1".into()],
            ..kernel("b", "full")
        };
        assert_eq!(
            neighbours(&[
                kernel("a", "full"),
                with_words,
                AtlasKernel {
                    model: None,
                    ..kernel("c", "full")
                }
            ]),
            []
        );
    }
}
