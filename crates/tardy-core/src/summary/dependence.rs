//! Estimates how the samples of one series, or of several concurrent series, depend on each other.
//! Bounds of percentiles and misses account for this dependence.
//!
//! The intervals of all series lie on one time line, so a disturbance of several CPUs at once
//! counts as one event. A level is a threshold for values. The samples above it are counted in
//! successive time intervals. The level's dispersion is the variance of these counts, divided by
//! the variance that independent samples would have ([`tardy_statistics::dispersion`]). The far
//! tail has few samples, so the extremal index is used there if it implies more clustering than the
//! dispersion. An event may be of a kind that did not occur in the run. Such an event is assumed to
//! hit each series once, and to last as long as the events that did occur, if these were numerous
//! enough to show how long they last.

use tardy_statistics::clustering::Clustering;

use crate::summary::batches::Batches;
use crate::summary::cell::Cell;
use crate::summary::serial::{CLUSTERS_MIN, Level, Serial, clusters_min, known, levels, of_misses};

/// Number of samples of each series from which the extremal index is computed. These are the
/// largest samples.
const TAIL_SAMPLES: f64 = 1000.0;

/// How the samples of a set depend on each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Dependence {
    /// The levels, in ascending order of the fraction of samples above them.
    levels: Vec<Level>,
    samples: f64,
    series: usize,
    /// Dispersion at the highest level that has enough clusters for an estimate.
    of_known: f64,
    /// Dispersion that follows from the extremal index of the far tail; 1 if unknown.
    of_tail: f64,
    unseen: f64,
    of_misses: Option<f64>,
    is_assumed: bool,
    clusters_min: f64,
}

impl Dependence {
    /// Computes how the samples of one series, or of several concurrent series, depend on each
    /// other. Each series is given as one cell.
    #[must_use]
    pub fn of(cells: &[&Cell]) -> Self {
        let cells: Vec<&&Cell> = cells
            .iter()
            .filter(|cell| cell.latency.count() > 0)
            .collect();
        let samples: u64 = cells.iter().map(|cell| cell.latency.count()).sum();
        let serial: Vec<Serial> = cells.iter().map(|cell| cell.serial()).collect();
        let count = serial.len().max(1) as f64;
        let of_tail = serial.iter().map(|serial| serial.of_tail).sum::<f64>() / count;
        let (levels, of_misses) = match &cells[..] {
            [_] => serial.first().map_or((Vec::new(), None), |one| {
                (one.levels.clone(), one.of_misses)
            }),
            _ => {
                let list =
                    Batches::together(&cells.iter().map(|cell| &cell.batches).collect::<Vec<_>>());
                let (levels, freedom_min) = levels(&list);
                (levels, of_misses(&list, freedom_min))
            }
        };
        let is_assumed = serial.iter().any(|serial| serial.is_assumed);
        let of_known = known(&levels, samples as f64);
        // If a series alone has too few samples to show how long an event lasts, this time is
        // computed from all series together.
        let size = |serial: &Serial| {
            if serial.size.is_finite() {
                serial.size
            } else {
                of_known
            }
        };
        let sizes = serial.iter().map(size).sum::<f64>().max(1.0);
        // An infinite dispersion means that a disturbance common to all series changes so rarely
        // that this run does not suffice for an estimate.
        let unseen = if of_known.is_infinite() {
            f64::INFINITY
        } else {
            sizes
        };
        let misses: u64 = cells.iter().map(|cell| cell.misses).sum();
        // If there are too few clusters, their size cannot be estimated.
        let clusters_min = clusters_min(&levels);
        let of_misses = of_misses.map(|found| {
            if misses as f64 / found < clusters_min {
                found.max(of_known)
            } else {
                found
            }
        });
        Self {
            levels,
            samples: samples as f64,
            series: serial.len(),
            of_known,
            of_tail,
            unseen,
            of_misses,
            is_assumed,
            clusters_min,
        }
    }

    /// Computes the dependence of samples from their number and extremal index, when nothing else
    /// is known.
    #[must_use]
    pub fn of_extremal_index(samples: u64, extremal_index: f64) -> Self {
        let of_tail = 1.0 / extremal_index;
        let levels = vec![Level {
            share_above: 1.0,
            dispersion: of_tail,
        }];
        Self {
            levels,
            of_known: of_tail,
            of_tail,
            unseen: of_tail,
            is_assumed: false,
            ..Self::unknown(samples, 1)
        }
    }

    /// Computes the dependence for `series` series if only the total number of their samples is
    /// known.
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

    /// Returns whether independence in time is assumed, because there are too few samples.
    #[must_use]
    pub fn is_assumed(&self) -> bool {
        self.is_assumed
    }

    /// Returns the extremal index of the far tail of one series, or the mean over several; `None`
    /// if independence is assumed.
    #[must_use]
    pub fn extremal_index(&self) -> Option<f64> {
        (!self.is_assumed).then(|| 1.0 / self.of_tail)
    }

    /// Returns the number of series.
    #[must_use]
    pub fn series(&self) -> usize {
        self.series
    }

    /// Returns the clustering of the largest samples, which make up the fraction `share` of all
    /// samples.
    #[must_use]
    pub fn above(&self, share: f64) -> Clustering {
        let next = self
            .levels
            .partition_point(|level| level.share_above < share);
        let around = [next.checked_sub(1), Some(next)]
            .into_iter()
            .flatten()
            .filter_map(|index| self.levels.get(index));
        let of_level = around.map(|level| level.dispersion).fold(1.0, f64::max);
        let of_level = if share * self.samples / of_level < self.clusters_min {
            of_level.max(self.of_known)
        } else {
            of_level
        };
        let is_tail = share * self.samples <= TAIL_SAMPLES * self.series as f64;
        Clustering::new(
            if is_tail {
                of_level.max(self.of_tail)
            } else {
                of_level
            },
            self.unseen,
        )
    }

    /// Returns the clustering of misses of the requested window.
    #[must_use]
    pub fn misses(&self) -> Clustering {
        Clustering::new(self.of_misses.unwrap_or(self.of_tail), self.unseen)
    }
}
