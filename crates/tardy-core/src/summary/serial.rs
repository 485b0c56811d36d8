//! Estimates how strongly the samples of one series depend on each other, at several levels of
//! latency.

use tardy_statistics::dispersion::{
    DEPENDENT, FREEDOM_MIN, FREEDOM_OF_INDEPENDENT, Stretch, dispersion,
};

use crate::summary::batches::{Batch, Batches, Stratum};

/// Minimum number of clusters from which their size can be estimated.
pub(super) const CLUSTERS_MIN: f64 = 20.0;
/// Minimum number of clusters that a level needs if the dispersion of another level is infinite. In
/// that case the other level drifts, so this level may drift too, and a small number of clusters
/// would not show its drift.
const CLUSTERS_MIN_OF_DRIFT: f64 = 60.0;

/// A level is a threshold for values; this struct describes the samples above it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Level {
    /// The fraction of all samples that lie above the level.
    pub(super) share_above: f64,
    /// Variance of the number of samples above the level, divided by the variance that independent
    /// samples would have.
    pub(super) dispersion: f64,
}

/// How strongly the samples of one series depend on each other.
#[derive(Debug, Clone)]
pub struct Serial {
    pub(super) levels: Vec<Level>,
    pub(super) of_misses: Option<f64>,
    pub(super) of_tail: f64,
    /// An event of a kind that did not occur in the run is assumed to affect this number of
    /// successive samples.
    pub(super) size: f64,
    pub(super) is_assumed: bool,
}

impl Serial {
    /// Computes the dependence of one series from three inputs: its number of samples, the extremal
    /// index of its largest samples, and its counts in intervals of time.
    #[must_use]
    pub fn of(samples: u64, extremal_index: Option<f64>, batches: &Batches) -> Self {
        let of_tail = extremal_index.map_or(1.0, |index| 1.0 / index);
        let list = batches.list();
        let (levels, freedom_min) = levels(&list);
        let size = known(&levels, samples as f64);
        Self {
            of_misses: of_misses(&list, freedom_min),
            of_tail,
            size: size.max(of_tail),
            is_assumed: levels.is_empty() && extremal_index.is_none(),
            levels,
        }
    }
}

/// Returns the dispersion at the highest level with enough clusters. If no level has enough, a
/// level with infinite dispersion is preferred.
pub(super) fn known(levels: &[Level], samples: f64) -> f64 {
    let least = clusters_min(levels);
    let has_enough = |level: &&Level| {
        level.share_above.min(1.0 - level.share_above) * samples / level.dispersion >= least
    };
    let best = levels.iter().find(has_enough);
    let best = best.or_else(|| levels.iter().find(|level| level.dispersion.is_infinite()));
    best.or(levels.last()).map_or(1.0, |level| level.dispersion)
}

pub(super) fn clusters_min(levels: &[Level]) -> f64 {
    if levels.iter().any(|level| level.dispersion.is_infinite()) {
        CLUSTERS_MIN_OF_DRIFT
    } else {
        CLUSTERS_MIN
    }
}

type Stretches = [((Stratum, i64), Batch)];

pub(super) fn of_misses(batches: &Stretches, freedom_min: usize) -> Option<f64> {
    let stretch = |((stratum, place), batch): &((Stratum, i64), Batch)| Stretch {
        stratum: *stratum,
        place: *place,
        events: batch.misses.min(batch.due_times),
        trials: batch.due_times,
    };
    dispersion(
        &batches.iter().map(stretch).collect::<Vec<_>>(),
        freedom_min,
    )
}

/// Returns the levels that `chosen_buckets` selects, each with its dispersion, and the minimum
/// number of degrees of freedom that the estimates had to have.
pub(super) fn levels(batches: &Stretches) -> (Vec<Level>, usize) {
    let mut all = Batch::default();
    batches.iter().for_each(|(_, batch)| all.merge(batch));
    let buckets = chosen_buckets(&all);
    let mut stretches: Vec<Vec<Stretch>> = vec![Vec::with_capacity(batches.len()); buckets.len()];
    for ((stratum, place), batch) in batches {
        let mut entries = batch.buckets().iter().rev().peekable();
        let mut above = 0;
        // Buckets and entries are both visited in descending order, so each entry is added only
        // once.
        for (index, &bucket) in buckets.iter().enumerate().rev() {
            while let Some(&(_, count)) = entries.next_if(|&&(at, _)| at > bucket) {
                above += u64::from(count);
            }
            stretches[index].push(Stretch {
                stratum: *stratum,
                place: *place,
                events: above,
                trials: batch.samples,
            });
        }
    }
    let samples = all.samples as f64;
    let levels = |freedom_min: usize| -> Vec<Level> {
        let level = |stretches: &Vec<Stretch>| {
            let above: u64 = stretches.iter().map(|stretch| stretch.events).sum();
            Some(Level {
                share_above: above as f64 / samples,
                dispersion: dispersion(stretches, freedom_min)?,
            })
        };
        // The highest bucket comes first, because the fewest samples are above it.
        stretches.iter().rev().filter_map(level).collect()
    };
    let found = levels(FREEDOM_OF_INDEPENDENT);
    // If one level shows dependence, all levels are checked again with longer intervals.
    if !found.is_empty() && found.iter().all(|level| level.dispersion < DEPENDENT) {
        return (found, FREEDOM_OF_INDEPENDENT);
    }
    (levels(FREEDOM_MIN), FREEDOM_MIN)
}

/// Returns the buckets next to certain ranks, in ascending order. The ranks are 1/2, 1/4, 1/8 and
/// so on of the number of samples, counted both from the smallest and from the largest sample.
fn chosen_buckets(all: &Batch) -> Vec<u16> {
    let mut cumulative: Vec<(u64, u16)> = Vec::with_capacity(all.buckets().len());
    let mut up_to = 0;
    for &(bucket, count) in all.buckets() {
        up_to += u64::from(count);
        cumulative.push((up_to, bucket));
    }
    // The last bucket is left out, because no samples are above it.
    cumulative.pop();
    let mut chosen: Vec<u16> = Vec::new();
    let mut part = all.samples / 2;
    while part > 0 {
        for rank in [part, all.samples - part] {
            let next = cumulative.partition_point(|&(up_to, _)| up_to < rank);
            chosen.extend(
                [next.checked_sub(1), Some(next)]
                    .into_iter()
                    .flatten()
                    .filter_map(|index| cumulative.get(index))
                    .map(|&(_, bucket)| bucket),
            );
        }
        part /= 2;
    }
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}
