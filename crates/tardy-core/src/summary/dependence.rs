//! How samples of one series, or of several at the same time, depend on each other: what bounds of their percentiles and of their misses count.
//!
//! Stretches of all series lie on one time line, so that what hits several processors at once varies as one event. At each level the variance of the
//! number of samples above it is that of stretches of time ([`crate::statistics::dispersion`]); in the far tail, where few samples are, the extremal index counts where it
//! says more. An event that was not seen is taken to hit each series once, and to last there as long as those that were seen where enough were.

use crate::statistics::clustering::Clustering;
use crate::statistics::dispersion::{DEPENDENT, FREEDOM_MIN, FREEDOM_OF_INDEPENDENT, Stretch, dispersion};
use crate::summary::batches::{Batch, Batches, Stratum};
use crate::summary::cell::Cell;

/// Clusters from which on their size is known.
const CLUSTERS_MIN: f64 = 20.0;
/// The same where another level bounds nothing: what drifts there may drive this one as well, and the fewer clusters there are, the less of it is seen.
const CLUSTERS_MIN_OF_DRIFT: f64 = 60.0;
/// The extremal index is that of so many largest samples of each series.
const TAIL_SAMPLES: f64 = 1000.0;

/// The dependence of some samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Dependence {
    /// By the share of samples above a value, ascending.
    levels: Vec<Level>,
    samples: f64,
    series: usize,
    /// At the highest level with enough clusters to know their size.
    of_known: f64,
    /// Of the far tail; 1 where nothing is known.
    of_tail: f64,
    unseen: f64,
    of_misses: Option<f64>,
    is_assumed: bool,
    clusters_min: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Level {
    share_above: f64,
    dispersion: f64,
}

impl Dependence {
    /// Of series that were measured at the same time, one cell each.
    #[must_use]
    pub fn of(cells: &[&Cell]) -> Self {
        let cells: Vec<&&Cell> = cells.iter().filter(|cell| cell.latency.count() > 0).collect();
        let samples: u64 = cells.iter().map(|cell| cell.latency.count()).sum();
        let serial: Vec<Serial> = cells.iter().map(|cell| cell.serial.clone().unwrap_or_else(|| Serial::of(cell))).collect();
        let count = serial.len().max(1) as f64;
        let of_tail = serial.iter().map(|serial| serial.of_tail).sum::<f64>() / count;
        let (levels, of_misses) = match &cells[..] {
            [_] => serial.first().map_or((Vec::new(), None), |one| (one.levels.clone(), one.of_misses)),
            _ => {
                let list = Batches::together(&cells.iter().map(|cell| &cell.batches).collect::<Vec<_>>());
                let (levels, freedom_min) = levels(&list);
                (levels, of_misses(&list, freedom_min))
            }
        };
        let is_assumed = serial.iter().any(|serial| serial.is_assumed);
        let of_known = known(&levels, samples as f64);
        // One series alone may have too few samples to tell; all of them together then say how long an event lasts.
        let size = |serial: &Serial| if serial.size.is_finite() { serial.size } else { of_known };
        let sizes = serial.iter().map(size).sum::<f64>().max(1.0);
        // Where what all of them have in common changes too seldom, this run is no sample of it.
        let unseen = if of_known.is_infinite() { f64::INFINITY } else { sizes };
        let misses: u64 = cells.iter().map(|cell| cell.misses).sum();
        // So few clusters do not tell how large they are.
        let clusters_min = clusters_min(&levels);
        let of_misses = of_misses.map(|found| if misses as f64 / found < clusters_min { found.max(of_known) } else { found });
        Self { levels, samples: samples as f64, series: serial.len(), of_known, of_tail, unseen, of_misses, is_assumed, clusters_min }
    }

    /// Of samples of which the clustering of the largest ones is all that is known.
    #[must_use]
    pub fn of_extremal_index(samples: u64, extremal_index: f64) -> Self {
        let of_tail = 1.0 / extremal_index;
        let levels = vec![Level { share_above: 1.0, dispersion: of_tail }];
        Self { levels, of_known: of_tail, of_tail, unseen: of_tail, is_assumed: false, ..Self::unknown(samples, 1) }
    }

    /// Of samples of which nothing but their number is known, from so many series.
    #[must_use]
    pub fn unknown(samples: u64, series: usize) -> Self {
        let unseen = series.max(1) as f64;
        Self {
            levels: Vec::new(),
            samples: samples as f64,
            series,
            of_known: 1.0,
            of_tail: 1.0,
            unseen,
            of_misses: None,
            is_assumed: true,
            clusters_min: CLUSTERS_MIN,
        }
    }

    /// Whether independence in time is an assumption, because there are too few samples to tell.
    #[must_use]
    pub fn is_assumed(&self) -> bool {
        self.is_assumed
    }

    /// The extremal index of the far tail of one series, the mean of several; absent where it is assumed.
    #[must_use]
    pub fn extremal_index(&self) -> Option<f64> {
        (!self.is_assumed).then(|| 1.0 / self.of_tail)
    }

    /// How many series there are.
    #[must_use]
    pub fn series(&self) -> usize {
        self.series
    }

    /// Of the samples above a value that this share of them exceeds.
    #[must_use]
    pub fn above(&self, share: f64) -> Clustering {
        let next = self.levels.partition_point(|level| level.share_above < share);
        let around = [next.checked_sub(1), Some(next)].into_iter().flatten().filter_map(|index| self.levels.get(index));
        let of_level = around.map(|level| level.dispersion).fold(1.0, f64::max);
        let of_level = if share * self.samples / of_level < self.clusters_min { of_level.max(self.of_known) } else { of_level };
        let is_tail = share * self.samples <= TAIL_SAMPLES * self.series as f64;
        Clustering::new(if is_tail { of_level.max(self.of_tail) } else { of_level }, self.unseen)
    }

    /// Of the misses of the window asked for.
    #[must_use]
    pub fn misses(&self) -> Clustering {
        Clustering::new(self.of_misses.unwrap_or(self.of_tail), self.unseen)
    }
}

/// What one series says of its dependence by itself.
#[derive(Debug, Clone)]
pub struct Serial {
    levels: Vec<Level>,
    of_misses: Option<f64>,
    of_tail: f64,
    /// Events of a cause that was not seen.
    size: f64,
    is_assumed: bool,
}

impl Serial {
    /// Of the samples of one series.
    #[must_use]
    pub fn of(cell: &Cell) -> Self {
        let samples = cell.latency.count() as f64;
        let extremal_index = cell.extremal_index();
        let of_tail = extremal_index.map_or(1.0, |index| 1.0 / index);
        let list = cell.batches.list();
        let (levels, freedom_min) = levels(&list);
        let size = known(&levels, samples);
        Self {
            of_misses: of_misses(&list, freedom_min),
            of_tail,
            size: size.max(of_tail),
            is_assumed: levels.is_empty() && extremal_index.is_none(),
            levels,
        }
    }
}

/// The dispersion at the highest level with enough clusters to know their size; where none has, a level that bounds nothing goes before what is known of the others.
fn known(levels: &[Level], samples: f64) -> f64 {
    let least = clusters_min(levels);
    let has_enough = |level: &&Level| level.share_above.min(1.0 - level.share_above) * samples / level.dispersion >= least;
    let best = levels.iter().find(has_enough);
    let best = best.or_else(|| levels.iter().find(|level| level.dispersion.is_infinite()));
    best.or(levels.last()).map_or(1.0, |level| level.dispersion)
}

fn clusters_min(levels: &[Level]) -> f64 {
    if levels.iter().any(|level| level.dispersion.is_infinite()) { CLUSTERS_MIN_OF_DRIFT } else { CLUSTERS_MIN }
}

type Stretches = [((Stratum, i64), Batch)];

fn of_misses(batches: &Stretches, freedom_min: usize) -> Option<f64> {
    let stretch = |((stratum, place), batch): &((Stratum, i64), Batch)| Stretch {
        stratum: *stratum,
        place: *place,
        events: batch.misses.min(batch.due_times),
        trials: batch.due_times,
    };
    dispersion(&batches.iter().map(stretch).collect::<Vec<_>>(), freedom_min)
}

/// The dispersion at values that halves, quarters, eighths and so on of the samples exceed, or do not exceed, with the degrees of freedom that it was asked for.
fn levels(batches: &Stretches) -> (Vec<Level>, usize) {
    let mut all = Batch::default();
    batches.iter().for_each(|(_, batch)| all.merge(batch));
    let buckets = chosen_buckets(&all);
    let mut stretches: Vec<Vec<Stretch>> = vec![Vec::with_capacity(batches.len()); buckets.len()];
    for ((stratum, place), batch) in batches {
        let mut entries = batch.buckets().iter().rev().peekable();
        let mut above = 0;
        // From the highest bucket downwards, each entry is added once.
        for (index, &bucket) in buckets.iter().enumerate().rev() {
            while let Some(&(_, count)) = entries.next_if(|&&(at, _)| at > bucket) {
                above += u64::from(count);
            }
            stretches[index].push(Stretch { stratum: *stratum, place: *place, events: above, trials: batch.samples });
        }
    }
    let samples = all.samples as f64;
    let levels = |freedom_min: usize| -> Vec<Level> {
        let level = |stretches: &Vec<Stretch>| {
            let above: u64 = stretches.iter().map(|stretch| stretch.events).sum();
            Some(Level { share_above: above as f64 / samples, dispersion: dispersion(stretches, freedom_min)? })
        };
        // The highest bucket has the fewest samples above it.
        stretches.iter().rev().filter_map(level).collect()
    };
    let found = levels(FREEDOM_OF_INDEPENDENT);
    // Dependence at one level is a reason to look at longer stretches at all of them.
    if !found.is_empty() && found.iter().all(|level| level.dispersion < DEPENDENT) {
        return (found, FREEDOM_OF_INDEPENDENT);
    }
    (levels(FREEDOM_MIN), FREEDOM_MIN)
}

/// Buckets next to the shares 1/2, 1/4, 1/8 and so on from above and from below, ascending.
fn chosen_buckets(all: &Batch) -> Vec<u16> {
    let mut cumulative: Vec<(u64, u16)> = Vec::with_capacity(all.buckets().len());
    let mut up_to = 0;
    for &(bucket, count) in all.buckets() {
        up_to += u64::from(count);
        cumulative.push((up_to, bucket));
    }
    // Above the last bucket there is nothing.
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
