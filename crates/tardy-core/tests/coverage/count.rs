//! Counts how often the bounds that are computed for generated runs hold, and compares their width
//! with bounds that are exact for independent samples.

use tardy_core::accounting::Counts;
use tardy_core::chunk::Chunk;
use tardy_core::series::Schedule;
use tardy_core::summary::accumulator::{SeriesAccumulator, SummaryOptions};
use tardy_core::summary::cell::Cell;
use tardy_core::summary::dependence::Dependence;
use tardy_core::summary::numbers::{Numbers, numbers_together};
use tardy_core::units::Nanos;
use tardy_core::verdict::requirement::Requirement;
use tardy_core::verdict::{Evidence, Verdict, Window, judge};
use tardy_statistics::confidence::Confidence;
use tardy_statistics::proportion::proportion_upper;
use tardy_statistics::quantile::quantile_ranks;

use super::process::{MadeRun, Process};

/// The percentiles whose bounds are checked.
pub(crate) const PERCENTILES: [f64; 4] = [0.5, 0.99, 0.999, 0.9999];
/// The misses of each run are counted for two deadlines. This fraction of the samples misses the
/// first one.
pub(crate) const SHARE_SEEN: f64 = 1e-3;
const PERIOD: i64 = 1_000_000;
/// Number of samples in a chunk. The recorder writes a chunk every 125 ms, and the rate is 1 kHz.
const SAMPLES_A_CHUNK: usize = 125;

/// Results for one kind of bound, summed over several runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    /// Number of runs with a bound.
    pub(crate) bounded: u32,
    /// Number of runs without a bound.
    pub(crate) unbounded: u32,
    /// Number of runs in which the bound held.
    pub(crate) held: u32,
    /// Distances of the bound and of the exact bound from the true value, each summed over the runs
    /// that have both bounds.
    pub(crate) excess: (f64, f64),
    /// Sum of the bounds and sum of the exact bounds, over the same runs.
    pub(crate) bounds: (f64, f64),
}

impl Tally {
    fn add(&mut self, bound: Option<f64>, exact: Option<f64>, truth: f64) {
        let Some(bound) = bound else {
            self.unbounded += 1;
            return;
        };
        self.bounded += 1;
        self.held += u32::from(bound >= truth);
        if let Some(exact) = exact {
            self.excess = (self.excess.0 + bound - truth, self.excess.1 + exact - truth);
            self.bounds = (self.bounds.0 + bound, self.bounds.1 + exact);
        }
    }

    /// Returns the fraction of runs in which the bound held or was absent.
    pub(crate) fn coverage(&self) -> f64 {
        f64::from(self.held + self.unbounded) / f64::from(self.bounded + self.unbounded)
    }

    /// Returns the fraction of runs without a bound.
    pub(crate) fn unbounded_share(&self) -> f64 {
        f64::from(self.unbounded) / f64::from(self.bounded + self.unbounded)
    }

    /// Divides the bound's distance from the true value by the exact bound's distance from the true
    /// value; `None` if no run has both bounds.
    pub(crate) fn excess_ratio(&self) -> Option<f64> {
        (self.excess.1 > 0.0).then(|| self.excess.0 / self.excess.1)
    }

    /// Returns the ratio of the bound to the exact bound; `None` if no run has both.
    pub(crate) fn bound_ratio(&self) -> Option<f64> {
        (self.bounds.1 > 0.0).then(|| self.bounds.0 / self.bounds.1)
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.bounded += other.bounded;
        self.unbounded += other.unbounded;
        self.held += other.held;
        self.excess = (
            self.excess.0 + other.excess.0,
            self.excess.1 + other.excess.1,
        );
        self.bounds = (
            self.bounds.0 + other.bounds.0,
            self.bounds.1 + other.bounds.1,
        );
    }
}

/// Results for one kind of process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BoundTally {
    /// Results for the upper bounds of [`PERCENTILES`].
    pub(crate) percentiles: [Tally; 4],
    /// Results for the upper bounds of the share of misses: first for a deadline that the fraction
    /// [`SHARE_SEEN`] of the samples misses, then for a deadline that is hardly ever missed.
    pub(crate) misses: [Tally; 2],
    /// Results for the lower bounds of the same shares.
    pub(crate) misses_lower: [Tally; 2],
}

impl BoundTally {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.percentiles
            .iter_mut()
            .zip(&other.percentiles)
            .for_each(|(own, other)| own.merge(other));
        self.misses
            .iter_mut()
            .zip(&other.misses)
            .for_each(|(own, other)| own.merge(other));
        self.misses_lower
            .iter_mut()
            .zip(&other.misses_lower)
            .for_each(|(own, other)| own.merge(other));
    }

    /// Generates a run of `length` samples on each of `cpus` CPUs, and counts the results of its
    /// bounds.
    pub(crate) fn add_run(&mut self, process: Process, cpus: u64, length: usize, seed: u64) {
        let run = MadeRun::new(process, length, seed);
        let limits = [
            process.exceeded_by(SHARE_SEEN, length),
            process.rare_limit(length),
        ]
        .map(|limit| limit as i64);
        let mut cells: [Vec<Cell>; 2] = [Vec::new(), Vec::new()];
        for cpu in 0..cpus {
            let latencies = run.latencies(cpu);
            limits.iter().zip(&mut cells).for_each(|(&limit, cells)| {
                cells.push(summarised(&latencies, Nanos(limit), seed, cpu))
            });
        }
        for (index, (&limit, cells)) in limits.iter().zip(&cells).enumerate() {
            let cells: Vec<&Cell> = cells.iter().collect();
            let verdict = verdict(&cells, Nanos(limit));
            let truth = process.share_above(limit as f64 + 1.0, length);
            let evidence = &verdict.evidence;
            let exact = proportion_upper(
                evidence.misses as f64,
                evidence.due_times as f64,
                Confidence::NINETY_FIVE,
            );
            self.misses[index].add(
                Some(verdict.share_upper).filter(|&share| share < 1.0),
                Some(exact),
                truth,
            );
            self.misses_lower[index].add(Some(-verdict.share_lower), None, -truth);
            if index == 0 {
                let numbers = numbers_together(&cells, 0, true).expect("there are samples");
                self.add_percentiles(process, length, &cells, &numbers);
            }
        }
    }

    fn add_percentiles(
        &mut self,
        process: Process,
        length: usize,
        cells: &[&Cell],
        numbers: &Numbers,
    ) {
        let mut all = Cell::default();
        cells
            .iter()
            .for_each(|cell| all.latency.merge(&cell.latency));
        for (tally, probability) in self.percentiles.iter_mut().zip(PERCENTILES) {
            let percentile = numbers
                .percentiles
                .iter()
                .find(|percentile| percentile.probability == probability);
            let bound = percentile
                .and_then(|percentile| percentile.upper_ns)
                .map(|value| value as f64);
            let rank = quantile_ranks(numbers.samples, probability, Confidence::NINETY_FIVE).upper;
            let exact = rank
                .and_then(|rank| all.latency.values_at(&[rank])[0])
                .map(|value| value as f64);
            tally.add(
                bound,
                exact,
                process.exceeded_by(1.0 - probability, length).floor(),
            );
        }
    }
}

/// Splits one series into chunks, and summarises these.
fn summarised(latencies: &[i64], deadline: Nanos, seed: u64, cpu: u64) -> Cell {
    // The grids of the CPUs are offset from each other, and the run starts at an arbitrary time.
    let start = Nanos((seed as i64 % 1_000) * 7_919_000_000 + cpu as i64 * 11_003);
    let schedule = Schedule::Grid {
        period: Nanos(PERIOD),
        start,
        dither: Nanos::ZERO,
    };
    let mut accumulator = SeriesAccumulator::new(
        schedule,
        SummaryOptions {
            window: Some(Window::deadline(deadline)),
            ..SummaryOptions::default()
        },
    );
    let mut counts = Counts::default();
    let mut chunk = Chunk::default();
    for (index, part) in latencies.chunks(SAMPLES_A_CHUNK).enumerate() {
        counts.expected += part.len() as u64;
        counts.recorded += part.len() as u64;
        chunk.first_due = start + Nanos(PERIOD) * (index * SAMPLES_A_CHUNK) as i64;
        chunk.latency.clear();
        chunk.latency.extend_from_slice(part);
        chunk.counts = counts;
        accumulator.add(&chunk);
    }
    accumulator.whole()
}

fn verdict(cells: &[&Cell], deadline: Nanos) -> Verdict {
    let dependence = Dependence::of(cells);
    let evidence = Evidence {
        misses: cells.iter().map(|cell| cell.misses).sum(),
        due_times: cells.iter().map(|cell| cell.latency.count()).sum(),
        extremal_index: dependence.extremal_index(),
        clustering: Some(dependence.misses()),
        measured: Nanos::from_secs(30),
        ..Evidence::default()
    };
    judge(
        &Requirement {
            misses_allowed: Some(SHARE_SEEN),
            ..Requirement::deadline(deadline)
        },
        evidence,
    )
}
