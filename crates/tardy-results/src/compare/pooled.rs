//! One side of a table: its runs, all their samples together, and the number of independent
//! samples.

use tardy_core::histogram::{Budget, Histogram};
use tardy_core::summary::numbers::{Numbers, Percentile};
use tardy_core::units::Nanos;
use tardy_statistics::confidence::Confidence;
use tardy_statistics::quantile::quantile_ranks_of_clustered;
use tardy_statistics::tally::Tally;

use super::group::RunGroup;
use super::model::Body;

/// The runs of one side that have samples of the same key.
pub(super) struct PooledRuns<'a> {
    pub(super) runs: &'a [RunGroup],
    pub(super) exact: Histogram,
    /// Extremal index: the number of clusters of late samples, divided by the number of late
    /// samples.
    pub(super) index: f64,
}

impl<'a> PooledRuns<'a> {
    pub(super) fn new(runs: &'a [RunGroup]) -> Self {
        let mut exact = Histogram::new(Budget::ANALYSIS);
        runs.iter().for_each(|run| exact.merge(&run.exact));
        let numbers = || runs.iter().filter_map(|run| run.numbers.as_ref());
        let samples: u64 = numbers().map(|numbers| numbers.samples).sum();
        let effective: f64 = numbers()
            .map(|numbers| numbers.samples as f64 * numbers.extremal_index.unwrap_or(1.0))
            .sum();
        Self {
            runs,
            exact,
            index: if samples > 0 {
                effective / samples as f64
            } else {
                1.0
            },
        }
    }

    pub(super) fn tally(&self) -> Tally {
        tally(&self.exact)
    }

    pub(super) fn body(&self) -> Body {
        let numbers = || self.runs.iter().filter_map(|run| run.numbers.as_ref());
        let mut sum = 0.0;
        for run in self.runs {
            match run.stated_mean_ns {
                Some(mean) => sum += mean * run.exact.count() as f64,
                None => run
                    .exact
                    .for_each(|value, count| sum += value as f64 * count as f64),
            }
        }
        Body {
            runs: self.runs.len(),
            samples: self.exact.count(),
            skipped: numbers().map(|numbers| numbers.skipped).sum(),
            min_ns: numbers()
                .map(|numbers| numbers.min_ns)
                .min()
                .or(self.exact.min())
                .unwrap_or_default(),
            mean_ns: sum / self.exact.count().max(1) as f64,
            max_ns: self.exact.max().unwrap_or_default(),
        }
    }

    pub(super) fn blocks(&self) -> Vec<Tally> {
        self.runs
            .iter()
            .flat_map(|run| run.blocks.iter().cloned())
            .collect()
    }

    pub(super) fn has_blocks(&self) -> bool {
        self.runs.iter().all(|run| !run.blocks.is_empty()) && self.blocks().len() >= 2
    }

    pub(super) fn block(&self) -> Nanos {
        self.runs
            .iter()
            .filter_map(|run| run.block)
            .max()
            .unwrap_or_default()
    }

    pub(super) fn is_exact(&self) -> bool {
        self.runs.iter().all(|run| run.is_exact)
    }

    /// Returns what is known about a quantile of this side whose computed value is `value`: the
    /// value, and whether it is exact. If `value` lies in a range for which an import gives only
    /// the number of samples, returns the start of that range, which is a lower bound.
    pub(super) fn known(&self, value: f64) -> (f64, bool) {
        let open = self
            .runs
            .iter()
            .filter_map(|run| run.open_from)
            .min()
            .map(|from| from.get() as f64);
        open.filter(|from| value >= *from)
            .map_or((value, true), |from| (from, false))
    }

    /// Returns two limits of rounding: by how much a sample can at most be below its stored value,
    /// and by how much it can at most be above it.
    pub(super) fn rounding(&self) -> (f64, f64) {
        self.runs.iter().fold((0.0, 0.0), |(below, above), run| {
            (run.rounding_ns.0.max(below), run.rounding_ns.1.max(above))
        })
    }

    /// Returns whether a quantile of any run, or of all runs together, lies in a range for which an
    /// import gives only the number of samples.
    pub(super) fn is_open_at(&self, quantile: f64) -> bool {
        self.runs.iter().any(|run| {
            run.open_from
                .is_some_and(|from| tally(&run.exact).quantile(quantile) >= Some(from.get() as f64))
        }) || self
            .tally()
            .quantile(quantile)
            .is_some_and(|value| !self.known(value).1)
    }

    /// Returns the number of samples in the shortest run.
    pub(super) fn shortest(&self) -> u64 {
        self.runs
            .iter()
            .map(|run| run.exact.count())
            .min()
            .unwrap_or(0)
    }

    /// Returns the value of a quantile in each run.
    pub(super) fn of_runs(&self, quantile: f64) -> Option<Vec<f64>> {
        self.runs
            .iter()
            .map(|run| tally(&run.exact).quantile(quantile))
            .collect()
    }

    /// Returns the number of independent samples that would give as much information about a
    /// quantile as all the dependent samples of this side. This is the smaller of two numbers: the
    /// estimate from blocks of time (`of_blocks`) and the number in the summary.
    pub(super) fn effective(&self, quantile: f64, of_blocks: f64) -> f64 {
        let known = || self.runs.iter().filter_map(|run| run.numbers.as_ref());
        let of_summary: Option<f64> = known()
            .map(|numbers| effective_of_summary(numbers, quantile))
            .sum();
        of_blocks.min(of_summary.unwrap_or(self.index * self.exact.count() as f64))
    }

    /// Returns whether `effective` independent samples suffice for a lower and an upper bound of a
    /// quantile, by the same rule as in summaries.
    pub(super) fn bounds(&self, quantile: f64, effective: f64) -> bool {
        let samples = self.exact.count();
        if effective <= 0.0 {
            return false;
        }
        let ranks = quantile_ranks_of_clustered(
            samples,
            quantile,
            effective / samples.max(1) as f64,
            Confidence::NINETY_FIVE,
        );
        ranks.lower.is_some() && ranks.upper.is_some()
    }

    /// Returns whether the summary of every run has bounds of a quantile. `tardy show` marks
    /// quantiles by the same rule.
    pub(super) fn is_bounded_in_summary(&self, quantile: f64) -> bool {
        let is_bounded = |numbers: &Numbers| {
            let known = numbers
                .percentiles
                .iter()
                .find(|percentile| percentile.probability == quantile);
            known.is_some_and(Percentile::is_bounded)
        };
        self.runs
            .iter()
            .all(|run| run.numbers.as_ref().is_some_and(is_bounded))
    }

    /// Returns, for each run, the share of due times that were missed.
    pub(super) fn miss_shares(&self) -> Vec<f64> {
        let numbers = self.runs.iter().filter_map(|run| run.numbers.as_ref());
        numbers
            .map(|numbers| {
                numbers.misses.unwrap_or(0) as f64 / (numbers.samples + numbers.skipped) as f64
            })
            .collect()
    }

    /// Returns the number of clusters per miss. There are two estimates, one from the variance of
    /// the number of misses and one from the largest samples; the smaller one is used.
    pub(super) fn clusters_a_miss(&self) -> f64 {
        let (mut misses, mut clusters) = (0.0, 0.0);
        for numbers in self.runs.iter().filter_map(|run| run.numbers.as_ref()) {
            let of_variance = numbers
                .misses_clustering
                .map_or(1.0, |clustering| 1.0 / clustering.dispersion);
            let of_run = numbers.misses.unwrap_or(0) as f64;
            misses += of_run;
            clusters += of_run * of_variance.min(numbers.extremal_index.unwrap_or(1.0));
        }
        if misses > 0.0 {
            clusters / misses
        } else {
            self.index
        }
    }

    /// Returns the number of misses and of due times; `None` if there is no deadline.
    pub(super) fn misses(&self) -> Option<(u64, u64)> {
        let numbers: Vec<_> = self
            .runs
            .iter()
            .filter_map(|run| run.numbers.as_ref())
            .collect();
        let misses: Option<Vec<u64>> = numbers.iter().map(|numbers| numbers.misses).collect();
        let opportunities: u64 = numbers
            .iter()
            .map(|numbers| numbers.samples + numbers.skipped)
            .sum();
        Some((misses?.iter().sum(), opportunities)).filter(|_| !numbers.is_empty())
    }
}

fn effective_of_summary(numbers: &Numbers, quantile: f64) -> Option<f64> {
    numbers
        .percentiles
        .iter()
        .find(|percentile| percentile.probability == quantile)?
        .effective_samples
}

pub(super) fn tally(histogram: &Histogram) -> Tally {
    let mut counts = Vec::new();
    histogram.for_each(|value, count| counts.push((value as f64, count)));
    Tally::from_counts(counts)
}

/// Returns the median of `values`, which contains one number per run.
pub(super) fn middle(values: &[f64]) -> f64 {
    Tally::from_samples(values).median().unwrap_or_default()
}
