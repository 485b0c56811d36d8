//! A model of the tail, and the level that it is asked for: the latency that is exceeded once in a
//! horizon, if these conditions last. It is shown only when every check of its gate passed, or
//! marked as refused where that was asked for.
//!
//! A run with several loads is a mixture, which hardly ever passes: each load has a model of its
//! own too, of the samples due in its phases.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;
use tardy_core::chunk::Chunk;
use tardy_core::sample::Sample;
use tardy_core::series::Schedule;
use tardy_core::summary::cell::Cell;
use tardy_core::units::Nanos;
use tardy_statistics::confidence::{Confidence, Interval};
use tardy_statistics::gate::{Check, Evidence, gate};
use tardy_statistics::gev;
use tardy_statistics::gpd::plausible::Plausible;
use tardy_statistics::gpd::return_level::Tail;
use tardy_statistics::tally::Tally;
use tardy_statistics::threshold::{EXCEEDANCES_MAX, Question, scan};

use crate::summary::read::SeriesData;

/// Blocks whose maxima are compared: several hundred, fewer in short runs.
const BLOCKS: u64 = 500;
/// Steps of the model's curve.
const CURVE_POINTS: usize = 48;
/// Samples in a block at least.
const BLOCK_SAMPLES_MIN: u64 = 100;

/// The third layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TailModel {
    /// How far it was asked to reach.
    pub horizon_ns: Nanos,
    /// What was checked, with what came of it.
    pub checks: Vec<CheckResult>,
    /// The model; absent where a check failed.
    pub model: Option<Model>,
    /// The model that a check refused, for those who want to look at the fit; absent where it was
    /// not asked for, or nothing could be fitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Model>,
}

/// The model of one load's samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadTail {
    /// Name of its phases.
    pub load: String,
    /// Samples that were due in them.
    pub samples: u64,
    /// Their model.
    pub tail: TailModel,
}

/// The models of one series.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tails {
    /// Of all its samples; absent where its period is not known.
    pub whole: Option<TailModel>,
    /// Of each load's, where there are several.
    pub by_load: Vec<LoadTail>,
}

/// When a load ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadSpans {
    /// Name of its phases.
    pub load: String,
    /// Begin and end of each.
    pub spans: Vec<(Nanos, Nanos)>,
}

/// What is asked of the models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TailOptions {
    /// How far they should reach.
    pub horizon: Nanos,
    /// Whether those that the gate refused are kept too.
    pub is_refused_kept: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckResult {
    #[serde(flatten)]
    pub check: Check,
    /// Whether it gave no reason to refuse the model.
    pub has_passed: bool,
}

/// A fitted model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Model {
    /// Where the tail begins.
    pub threshold_ns: f64,
    /// Shape of the generalised Pareto distribution of the excesses: above 0 heavy, below 0
    /// bounded.
    pub shape: f64,
    pub scale_ns: f64,
    /// Exceeded once in the horizon; by the profile of the likelihood between `lower` and `upper`
    /// at 95 %.
    pub level_ns: f64,
    /// See `level_ns`.
    pub level_interval_ns: Option<Interval>,
    /// The least and the largest level over all thresholds that were accepted.
    pub spread_ns: Option<Interval>,
    /// The same level by block maxima (generalised extreme value distribution): a second opinion.
    pub level_by_blocks_ns: Option<(f64, Interval)>,
    /// From the threshold to the level asked for: what charts draw dashed.
    pub curve: Vec<CurvePoint>,
}

/// A point of the model's tail.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CurvePoint {
    pub value_ns: f64,
    /// The share of samples above it, by the model. A cluster of late samples counts with all of
    /// them here, and once in `level_ns`.
    pub share: f64,
    /// Its interval at 95 %, from all models that the data do not exclude.
    pub share_interval: Interval,
}

/// What one pass over a series keeps of it.
struct Extremes {
    largest: BinaryHeap<Reverse<(i64, u64)>>,
    maxima: Vec<f64>,
    block: u64,
    in_block: u64,
    block_max: i64,
    place: u64,
}

impl Extremes {
    fn new(samples: u64) -> Self {
        let block = samples.div_ceil(BLOCKS).max(BLOCK_SAMPLES_MIN);
        Self {
            largest: BinaryHeap::new(),
            maxima: Vec::new(),
            block,
            in_block: 0,
            block_max: i64::MIN,
            place: 0,
        }
    }

    fn add(&mut self, latencies: &[i64]) {
        let mut least = self.least();
        for &latency in latencies {
            if latency > least {
                self.keep(latency);
                least = self.least();
            }
            self.place += 1;
            self.block_max = self.block_max.max(latency);
            self.in_block += 1;
            if self.in_block == self.block {
                self.maxima.push(self.block_max as f64);
                (self.in_block, self.block_max) = (0, i64::MIN);
            }
        }
    }

    /// Values up to this are not kept.
    fn least(&self) -> i64 {
        match self.largest.peek() {
            Some(&Reverse((latency, _))) if self.largest.len() as u64 >= EXCEEDANCES_MAX => latency,
            _ => i64::MIN,
        }
    }

    fn keep(&mut self, latency: i64) {
        if self.largest.len() as u64 >= EXCEEDANCES_MAX {
            self.largest.pop();
        }
        self.largest.push(Reverse((latency, self.place)));
    }

    /// Places and values above the threshold, in order of time; at it and above where values are
    /// rounded. Empty where not all were kept.
    fn exceedances(&self, threshold: f64, width: f64) -> Vec<(u64, f64)> {
        if self.least() as f64 > threshold {
            return Vec::new();
        }
        let is_above = |value: f64| value > threshold || (width > 1.0 && value >= threshold);
        let mut found: Vec<(u64, f64)> = self
            .largest
            .iter()
            .map(|&Reverse((latency, place))| (place, latency as f64))
            .filter(|&(_, value)| is_above(value))
            .collect();
        found.sort_unstable_by_key(|&(place, _)| place);
        found
    }
}

/// The samples of one load, gathered in order of time.
struct Population {
    spans: LoadSpans,
    cell: Cell,
    extremes: Extremes,
}

impl Population {
    /// The number of samples is expected, not certain: those at the edges of phases may belong to
    /// two.
    fn new(spans: LoadSpans, samples: u64) -> Self {
        Self {
            spans,
            cell: Cell::default(),
            extremes: Extremes::new(samples),
        }
    }

    fn add(&mut self, sample: Sample) {
        if self
            .spans
            .spans
            .iter()
            .any(|&(begin, end)| begin <= sample.due && sample.due < end)
        {
            let latency = sample.latency.get();
            self.cell.top.add(latency, self.cell.latency.count());
            self.cell.latency.record(latency);
            self.extremes.add(&[latency]);
        }
    }
}

/// What models of one series need of its samples, while they are read in their order: whoever reads
/// the series for something else may add its chunks here too.
pub struct TailReader {
    schedule: Schedule,
    extremes: Extremes,
    populations: Vec<Population>,
}

impl TailReader {
    /// For all samples of `read`, and for those of each of `loads`; none where its period is not
    /// known, so that a horizon is no number of samples.
    #[must_use]
    pub fn new(read: &SeriesData, loads: Vec<LoadSpans>) -> Option<Self> {
        let schedule = read.descriptor().schedule;
        let samples = read.whole().latency.count();
        if schedule.period().get() <= 0 || samples == 0 {
            return None;
        }
        // Each load's share of the samples is about that of the phases' time.
        let length = |spans: &LoadSpans| {
            spans
                .spans
                .iter()
                .map(|&(begin, end)| (end - begin).as_secs_f64())
                .sum::<f64>()
        };
        let all: f64 = loads.iter().map(length).sum();
        let expected = |spans: &LoadSpans| {
            (samples as f64 * length(spans) / all.max(f64::MIN_POSITIVE)) as u64
        };
        let population = |spans: LoadSpans| {
            let expected = expected(&spans);
            Population::new(spans, expected)
        };
        Some(Self {
            schedule,
            extremes: Extremes::new(samples),
            populations: loads.into_iter().map(population).collect(),
        })
    }

    /// Adds the next chunk of the series.
    pub fn add(&mut self, chunk: &Chunk) {
        self.extremes.add(&chunk.latency);
        if !self.populations.is_empty() {
            for (_, sample) in chunk.samples(&self.schedule) {
                self.populations
                    .iter_mut()
                    .for_each(|population| population.add(sample));
            }
        }
    }

    /// The models, once all chunks of `read` were added.
    #[must_use]
    pub fn tails(&self, read: &SeriesData, wanted: TailOptions) -> Tails {
        let scale = Scale {
            period: self.schedule.period().get(),
            width: read.resolution().get() as f64,
        };
        let of_load = |population: &Population| LoadTail {
            load: population.spans.load.clone(),
            samples: population.cell.latency.count(),
            tail: tail(&population.cell, &population.extremes, scale, wanted),
        };
        let by_load = self
            .populations
            .iter()
            .filter(|population| population.cell.latency.count() > 0)
            .map(of_load)
            .collect();
        Tails {
            whole: Some(tail(read.whole(), &self.extremes, scale, wanted)),
            by_load,
        }
    }
}

/// What the numbers of a series mean, in ns.
#[derive(Debug, Clone, Copy)]
struct Scale {
    /// Time that a sample stands for.
    period: i64,
    /// Values are multiples of this.
    width: f64,
}

/// The model of some samples of a series.
fn tail(
    cell: &Cell,
    extremes: &Extremes,
    Scale { period, width }: Scale,
    wanted: TailOptions,
) -> TailModel {
    let histogram = &cell.latency;
    let samples = histogram.count();
    let horizon_samples = wanted.horizon.get() as f64 / period as f64;
    let mut counts = Vec::new();
    histogram.for_each(|value, count| counts.push((value as f64, count)));
    let tally = Tally::from_counts(counts);
    let extremal_index = cell.extremal_index().unwrap_or(1.0);
    let question = Question {
        samples,
        width,
        horizon: horizon_samples,
        extremal_index,
    };
    let scan = scan(&tally, question);
    let highest = || {
        tally
            .at_rank(samples.saturating_sub(samples / 100).max(1))
            .unwrap_or_default()
    };
    // Where no threshold is accepted the gate still says why.
    let threshold = scan
        .chosen()
        .or(scan.candidates.last())
        .map_or_else(highest, |candidate| candidate.threshold);
    // Samples that were not kept have no order.
    let is_whole = extremes.place == samples;
    let exceedances = if is_whole {
        extremes.exceedances(threshold, width)
    } else {
        Vec::new()
    };
    let maxima: &[f64] = if is_whole { &extremes.maxima } else { &[] };
    let evidence = Evidence {
        samples,
        threshold,
        exceedances: &exceedances,
        block_maxima: maxima,
        width,
        horizon: horizon_samples,
    };
    let gate = gate(&evidence);
    let is_open = gate.is_open() && scan.chosen().is_some();
    let fitted = gate
        .tail
        .as_ref()
        .filter(|_| is_open || wanted.is_refused_kept)
        .and_then(|tail| {
            Some(Model {
                threshold_ns: tail.threshold,
                shape: tail.fit.model.shape,
                scale_ns: tail.fit.model.scale,
                level_ns: tail.return_level(horizon_samples)?,
                level_interval_ns: tail
                    .return_level_interval(horizon_samples, Confidence::NINETY_FIVE),
                spread_ns: scan.spread(),
                level_by_blocks_ns: by_blocks(maxima, horizon_samples / extremes.block as f64),
                curve: curve(
                    tail,
                    exceedances.len() as f64 / samples as f64,
                    horizon_samples,
                ),
            })
        });
    let mut checks: Vec<CheckResult> = gate
        .checks
        .iter()
        .map(|check| CheckResult {
            has_passed: check.passed(),
            check: check.clone(),
        })
        .collect();
    if scan.chosen().is_none() {
        checks.push(CheckResult {
            has_passed: false,
            check: Check::Unmeasured {
                what: "a threshold above which a model fits".to_owned(),
            },
        });
    }
    let (model, refused) = if is_open {
        (fitted, None)
    } else {
        (None, fitted)
    };
    TailModel {
        horizon_ns: wanted.horizon,
        checks,
        model,
        refused,
    }
}

/// From the threshold to the level of `horizon`; `share` of all samples lie above the threshold. In
/// steps that look equal on an axis of the share's logarithm.
fn curve(tail: &Tail, share: f64, horizon: f64) -> Vec<CurvePoint> {
    let plausible = Plausible::around(tail, Confidence::NINETY_FIVE);
    let least = (horizon * tail.rate()).ln();
    let point = |index: usize| {
        let survival = (-least * index as f64 / CURVE_POINTS as f64).exp();
        let excess = tail.fit.model.excess_at(survival);
        let band = plausible.survival(excess);
        let share_interval = Interval {
            lower: share * band.lower,
            upper: share * band.upper,
        };
        CurvePoint {
            value_ns: tail.threshold + excess,
            share: share * survival,
            share_interval,
        }
    };
    (0..=CURVE_POINTS).map(point).collect()
}

fn by_blocks(maxima: &[f64], blocks: f64) -> Option<(f64, Interval)> {
    let fit = gev::fit::fit(maxima).ok().filter(|_| blocks > 1.0)?;
    Some((
        fit.model.return_level(blocks),
        fit.return_level_interval(maxima, blocks, Confidence::NINETY_FIVE),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_values_keep_their_places_and_blocks_their_maxima() {
        let mut extremes = Extremes::new(50_000);
        let values: Vec<i64> = (0..50_000).map(|index| index * 7_919 % 50_021).collect();
        values.chunks(777).for_each(|chunk| extremes.add(chunk));
        let found = extremes.exceedances(45_000.0, 1.0);
        let expected: Vec<(u64, f64)> = values
            .iter()
            .enumerate()
            .filter(|(_, value)| **value > 45_000)
            .map(|(place, &value)| (place as u64, value as f64))
            .collect();
        assert_eq!(found, expected);
        let maxima: Vec<f64> = values
            .chunks(100)
            .map(|block| *block.iter().max().unwrap() as f64)
            .collect();
        assert_eq!(extremes.maxima, maxima);
        // Below what was kept nothing is known in order.
        assert!(extremes.exceedances(10.0, 1.0).is_empty());
    }
}
