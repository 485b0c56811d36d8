//! Computes how the quantiles of two sides differ (the shift function), with intervals from
//! resampled blocks of time.
//!
//! Samples that are close in time depend on each other, so whole blocks of samples are drawn at
//! random. The input contains the counts of each block's samples. Blocks must be longer than the
//! period of the load, and longer than the length from [`super::block_length`]. The intervals are
//! valid only for the compared runs, because they do not include the spread between runs. Source:
//! Kuensch, Annals of Statistics 17, 1989.
//!
//! Callers count the samples of a block in buckets with a relative width of 1/1024. There are about
//! 500 buckets per run, so memory does not depend on the length of runs. Counting in buckets moves
//! the ends of an interval by less than the width of a bucket.

use serde::{Deserialize, Serialize};

use super::random::Random;
use crate::confidence::{Confidence, Interval};
use crate::quantile::quantile_ranks;
use crate::tally::Tally;

/// Number of values in the grid from which a resampled quantile is taken. The distance between
/// these values is a sixtieth of the quantile's standard deviation.
const GRID: u64 = 1024;
/// Half the width of the grid, in standard deviations of the resampled rank.
const REACH: f64 = 8.0;

/// Parameters of resampling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resampling {
    /// Number of resamples; an interval of 95 % needs at least 2000.
    pub resamples: u32,
    /// Seed of the resampling; the same seed always gives identical results.
    pub seed: u64,
    /// Confidence of each single interval.
    pub confidence: Confidence,
}

/// The values of one quantile on both sides, and their difference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct QuantileDifference {
    /// The quantile as a fraction: 0.99 is the value that 99 % of the samples do not exceed.
    pub quantile: f64,
    /// Value of the quantile in the baseline.
    pub baseline: f64,
    /// Value of the quantile in the candidate.
    pub candidate: f64,
    /// The candidate's value minus the baseline's.
    pub difference: f64,
    /// Interval of the difference; `None` if one side has too few samples to bound this quantile
    /// from above.
    pub interval: Option<Interval>,
    /// Effective number of samples of the baseline and of the candidate. So many independent
    /// samples would give as much information about the quantile as the blocks of that side. It is
    /// at most the actual number of samples.
    pub effective: (f64, f64),
}

/// Compares `quantiles` (fractions between 0 and 1) of both sides. The result is empty if a side
/// has fewer than two blocks with samples.
///
/// Needs `resamples * blocks * 10` steps per quantile, for any number of samples.
#[must_use]
pub fn quantile_differences(
    baseline: &[Tally],
    candidate: &[Tally],
    quantiles: &[f64],
    resampling: Resampling,
) -> Vec<QuantileDifference> {
    let (Some(first), Some(second)) = (
        Side::new(baseline, quantiles),
        Side::new(candidate, quantiles),
    ) else {
        return Vec::new();
    };
    let mut random = Random::new(resampling.seed);
    let mut differences: Vec<Vec<f64>> = vec![Vec::new(); quantiles.len()];
    for _ in 0..resampling.resamples {
        // All quantiles of a side use the same draw of blocks.
        let (from, to) = (first.resample(&mut random), second.resample(&mut random));
        for (drawn, (from, to)) in differences.iter_mut().zip(from.into_iter().zip(to)) {
            drawn.push(to - from);
        }
    }
    quantiles
        .iter()
        .zip(&mut differences)
        .enumerate()
        .map(|(index, (&quantile, drawn))| {
            drawn.sort_unstable_by(f64::total_cmp);
            let (from, to) = (first.grids[index].seen, second.grids[index].seen);
            let bounded = |samples: u64| {
                quantile_ranks(samples, quantile, resampling.confidence)
                    .upper
                    .is_some()
            };
            let interval = percentile_interval(drawn, resampling.confidence)
                .filter(|_| bounded(first.samples) && bounded(second.samples));
            let effective = (first.effective(index), second.effective(index));
            QuantileDifference {
                quantile,
                baseline: from,
                candidate: to,
                difference: to - from,
                interval,
                effective,
            }
        })
        .collect()
}

/// The blocks of one side, reduced to what resampling needs.
struct Side {
    samples: u64,
    sizes: Vec<u64>,
    grids: Vec<Grid>,
}

/// Values around one quantile. For each value and block, the number of the block's samples at or
/// below the value is stored.
struct Grid {
    quantile: f64,
    seen: f64,
    /// Standard deviation of the number of samples at or below the quantile.
    deviation: f64,
    values: Vec<f64>,
    /// The counts as a table: a row for each value and a column for each block.
    counts: Vec<u64>,
}

impl Side {
    fn new(blocks: &[Tally], quantiles: &[f64]) -> Option<Self> {
        let blocks: Vec<&Tally> = blocks.iter().filter(|block| block.total() > 0).collect();
        if blocks.len() < 2 {
            return None;
        }
        let all = Tally::from_counts(
            blocks
                .iter()
                .flat_map(|block| block.entries().iter().copied()),
        );
        let grids = quantiles
            .iter()
            .map(|&quantile| Grid::new(&blocks, &all, quantile))
            .collect::<Option<Vec<Grid>>>()?;
        Some(Self {
            samples: all.total(),
            sizes: blocks.iter().map(|block| block.total()).collect(),
            grids,
        })
    }

    /// Returns the effective number of samples. If there were this many independent samples, the
    /// rank of the quantile would vary as much as it varies between the blocks.
    fn effective(&self, index: usize) -> f64 {
        let Grid {
            quantile,
            deviation,
            ..
        } = self.grids[index];
        let samples = self.samples as f64;
        (quantile * (1.0 - quantile) * (samples / deviation).powi(2)).min(samples)
    }

    /// Draws as many blocks as the side has, with replacement, and returns the quantiles of the
    /// drawn samples.
    fn resample(&self, random: &mut Random) -> Vec<f64> {
        let mut weights = vec![0_u64; self.sizes.len()];
        for _ in 0..self.sizes.len() {
            weights[random.below(self.sizes.len())] += 1;
        }
        let samples = weighted(&weights, &self.sizes);
        self.grids
            .iter()
            .map(|grid| grid.value_at(&weights, samples))
            .collect()
    }
}

impl Grid {
    fn new(blocks: &[&Tally], all: &Tally, quantile: f64) -> Option<Self> {
        let seen = all.quantile(quantile)?;
        // Between resamples, the number of samples up to the quantile varies as much as between
        // blocks.
        let surplus =
            |block: &&Tally| block.count_up_to(seen) as f64 - quantile * block.total() as f64;
        let deviation = blocks
            .iter()
            .map(|block| surplus(block).powi(2))
            .sum::<f64>()
            .sqrt();
        let rank = quantile * all.total() as f64;
        let reach = (REACH * deviation).max(1.0);
        let low = (rank - reach).max(1.0) as u64;
        let high = ((rank + reach) as u64).clamp(low, all.total());
        let step = (high - low).div_ceil(GRID).max(1);
        let ranks = std::iter::once(1)
            .chain((low..=high).step_by(step as usize))
            .chain([high, all.total()]);
        let mut values: Vec<f64> = ranks.filter_map(|rank| all.at_rank(rank)).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.dedup();
        let counts = values
            .iter()
            .flat_map(|&value| blocks.iter().map(move |block| block.count_up_to(value)))
            .collect();
        Some(Self {
            quantile,
            seen,
            deviation,
            values,
            counts,
        })
    }

    /// Returns the quantile of the drawn samples: the smallest value of the grid that has enough
    /// drawn samples at or below it.
    fn value_at(&self, weights: &[u64], samples: u64) -> f64 {
        let rank = ((self.quantile * samples as f64).ceil() as u64).clamp(1, samples);
        let (mut low, mut high) = (0, self.values.len() - 1);
        while low < high {
            let middle = low.midpoint(high);
            let row = &self.counts[middle * weights.len()..(middle + 1) * weights.len()];
            if weighted(weights, row) >= rank {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        self.values[low]
    }
}

fn weighted(weights: &[u64], counts: &[u64]) -> u64 {
    weights
        .iter()
        .zip(counts)
        .map(|(weight, count)| weight * count)
        .sum()
}

fn percentile_interval(sorted: &[f64], confidence: Confidence) -> Option<Interval> {
    let left_out = (sorted.len() as f64 * confidence.miss() / 2.0) as usize;
    Some(Interval {
        lower: *sorted.get(left_out)?,
        upper: *sorted.get(sorted.len().checked_sub(1 + left_out)?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    const RESAMPLING: Resampling = Resampling {
        resamples: 2000,
        seed: 1,
        confidence: Confidence::NINETY_FIVE,
    };

    /// Returns blocks of exponential samples. Each block has a random level, so the samples of a
    /// block depend on each other.
    fn blocks(seed: u64, count: usize, shift: f64, level_spread: f64) -> Vec<Tally> {
        let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
        (0..count)
            .map(|_| {
                let level = level_spread * random.random::<f64>();
                Tally::from_counts((0..500).map(|_| {
                    (
                        shift + level - 1000.0 * f64::ln(1.0 - random.random::<f64>()),
                        1,
                    )
                }))
            })
            .collect()
    }

    #[test]
    fn the_interval_of_independent_samples_is_that_of_theory() {
        let found = quantile_differences(
            &blocks(1, 100, 0.0, 0.0),
            &blocks(2, 100, 0.0, 0.0),
            &[0.5],
            RESAMPLING,
        )[0];
        // The standard error of a median of 50,000 exponential values with mean 1000 is 1000 /
        // sqrt(50,000) = 4.47. The standard error of a difference of two such medians is 6.32.
        let width = found.interval.unwrap().width();
        assert!(
            (width / (2.0 * 1.96 * 6.325) - 1.0).abs() < 0.25,
            "{found:?}"
        );
    }

    #[test]
    fn true_differences_are_covered_as_often_as_promised() {
        let quantiles = [0.5, 0.99];
        let mut covered = [0, 0];
        for seed in 0..100 {
            let (a, b) = (
                blocks(2 * seed, 60, 0.0, 300.0),
                blocks(2 * seed + 1, 60, 25.0, 300.0),
            );
            let resampling = Resampling {
                resamples: 500,
                seed,
                ..RESAMPLING
            };
            for (count, found) in covered
                .iter_mut()
                .zip(quantile_differences(&a, &b, &quantiles, resampling))
            {
                *count += u32::from(found.interval.unwrap().contains(25.0));
            }
        }
        // About 95 of 100 intervals should contain the true difference, with a standard deviation
        // of 2.2.
        assert!(
            covered.iter().all(|&count| (87..=100).contains(&count)),
            "{covered:?}"
        );
    }

    #[test]
    fn dependence_within_blocks_widens_the_interval() {
        let width = |spread: f64| {
            let found = quantile_differences(
                &blocks(3, 60, 0.0, spread),
                &blocks(4, 60, 0.0, spread),
                &[0.5],
                RESAMPLING,
            );
            found[0].interval.unwrap().width()
        };
        assert!(width(2000.0) > 4.0 * width(0.0));
    }

    #[test]
    fn samples_that_depend_on_each_other_count_as_fewer() {
        let effective = |spread: f64| {
            quantile_differences(
                &blocks(3, 60, 0.0, spread),
                &blocks(4, 60, 0.0, spread),
                &[0.5],
                RESAMPLING,
            )[0]
            .effective
            .0
        };
        assert!(
            (20_000.0..=30_000.0).contains(&effective(0.0)),
            "{}",
            effective(0.0)
        );
        assert!(
            effective(5_000.0) < 300.0,
            "60 levels give little more certainty than 60 independent samples: {}",
            effective(5_000.0)
        );
    }

    #[test]
    fn a_shift_is_found_and_no_shift_is_not() {
        let base = blocks(5, 60, 0.0, 0.0);
        let moved =
            quantile_differences(&base, &blocks(6, 60, 100.0, 0.0), &[0.1, 0.9], RESAMPLING);
        assert!(
            moved
                .iter()
                .all(|found| found.interval.unwrap().lower > 0.0),
            "{moved:?}"
        );
        let same = quantile_differences(&base, &base, &[0.1, 0.9], RESAMPLING);
        assert!(
            same.iter()
                .all(|found| found.difference == 0.0 && found.interval.unwrap().contains(0.0)),
            "{same:?}"
        );
    }

    #[test]
    fn the_grid_gives_what_the_samples_themselves_give() {
        let blocks = blocks(7, 20, 0.0, 100.0);
        let refs: Vec<&Tally> = blocks.iter().collect();
        let all = Tally::from_counts(
            blocks
                .iter()
                .flat_map(|block| block.entries().iter().copied()),
        );
        let mut random = Random::new(3);
        for quantile in [0.01, 0.5, 0.999] {
            let grid = Grid::new(&refs, &all, quantile).unwrap();
            for _ in 0..20 {
                let mut weights = vec![0_u64; 20];
                (0..20).for_each(|_| weights[random.below(20)] += 1);
                let drawn =
                    Tally::from_counts(blocks.iter().zip(&weights).flat_map(|(block, &weight)| {
                        block
                            .entries()
                            .iter()
                            .map(move |&(value, n)| (value, n * weight))
                    }));
                let (exact, found) = (
                    drawn.quantile(quantile).unwrap(),
                    grid.value_at(&weights, drawn.total()),
                );
                assert!(
                    (found / exact - 1.0).abs() < 0.01,
                    "{found} {exact} at {quantile}"
                );
            }
        }
    }

    #[test]
    fn a_seed_gives_the_same_bytes_and_another_does_not() {
        let (a, b) = (blocks(8, 30, 0.0, 50.0), blocks(9, 30, 5.0, 50.0));
        let with = |seed: u64| {
            format!(
                "{:?}",
                quantile_differences(&a, &b, &[0.5, 0.99], Resampling { seed, ..RESAMPLING })
            )
        };
        assert_eq!(with(1), with(1));
        assert_ne!(with(1), with(2));
    }

    #[test]
    fn a_quantile_beyond_the_samples_has_no_interval() {
        let found = quantile_differences(
            &blocks(1, 10, 0.0, 0.0),
            &blocks(2, 10, 0.0, 0.0),
            &[0.9999],
            RESAMPLING,
        );
        assert_eq!(found[0].interval, None);
        assert!(
            quantile_differences(
                &blocks(1, 1, 0.0, 0.0),
                &blocks(2, 10, 0.0, 0.0),
                &[0.5],
                RESAMPLING
            )
            .is_empty()
        );
        assert!(quantile_differences(&[], &[], &[0.5], RESAMPLING).is_empty());
        let none = quantile_differences(
            &blocks(1, 4, 0.0, 0.0),
            &blocks(2, 4, 0.0, 0.0),
            &[0.5],
            Resampling {
                resamples: 0,
                ..RESAMPLING
            },
        );
        assert_eq!(none[0].interval, None);
    }

    #[test]
    fn blocks_in_buckets_give_the_interval_of_a_million_samples_to_within_a_bucket() {
        use crate::log_buckets::LogBuckets;
        let mut random = rand_pcg::Pcg64::seed_from_u64(11);
        let mut side = |mean: f64| -> (Vec<Tally>, Vec<Tally>) {
            let mut block = || {
                let level = 2_000.0 * random.random::<f64>();
                let samples: Vec<i64> = (0..5_000)
                    .map(|_| {
                        (10_000.0 + level - mean * f64::ln(1.0 - random.random::<f64>())) as i64
                    })
                    .collect();
                let mut buckets = LogBuckets::default();
                samples.iter().for_each(|&sample| buckets.record(sample));
                (
                    Tally::from_counts(samples.iter().map(|&sample| (sample as f64, 1))),
                    buckets.take().tally(),
                )
            };
            (0..100).map(|_| block()).unzip()
        };
        let ((from, from_buckets), (to, to_buckets)) = (side(5_000.0), side(5_500.0));
        let quantiles = [0.5, 0.99, 0.9999];
        let exact = naive(&from, &to, &quantiles);
        let found = quantile_differences(
            &from_buckets,
            &to_buckets,
            &quantiles,
            Resampling {
                resamples: 300,
                ..RESAMPLING
            },
        );
        for (exact, found) in exact.iter().zip(found) {
            let (bucket, interval) = (found.candidate / 1024.0, found.interval.unwrap());
            // Quantiles are looked up in a grid of values, which adds an error of about a sixtieth
            // of a standard deviation.
            let limit = bucket + exact.width() / 60.0;
            assert!(
                (interval.lower - exact.lower).abs() <= limit
                    && (interval.upper - exact.upper).abs() <= limit,
                "{exact:?} {found:?}"
            );
        }
    }

    /// Computes the intervals from the same draws, but visits every sample for each draw.
    fn naive(from: &[Tally], to: &[Tally], quantiles: &[f64]) -> Vec<Interval> {
        let mut random = Random::new(RESAMPLING.seed);
        let mut drawn: Vec<Vec<f64>> = vec![Vec::new(); quantiles.len()];
        for _ in 0..300 {
            let mut side = |blocks: &[Tally]| {
                let chosen: Vec<&Tally> = (0..blocks.len())
                    .map(|_| &blocks[random.below(blocks.len())])
                    .collect();
                Tally::from_counts(
                    chosen
                        .iter()
                        .flat_map(|block| block.entries().iter().copied()),
                )
            };
            let (from, to) = (side(from), side(to));
            for (drawn, &quantile) in drawn.iter_mut().zip(quantiles) {
                drawn.push(to.quantile(quantile).unwrap() - from.quantile(quantile).unwrap());
            }
        }
        let interval = |drawn: &mut Vec<f64>| {
            drawn.sort_unstable_by(f64::total_cmp);
            percentile_interval(drawn, RESAMPLING.confidence).unwrap()
        };
        drawn.iter_mut().map(interval).collect()
    }
}
