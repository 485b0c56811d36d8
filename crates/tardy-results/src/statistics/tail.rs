//! Computes the tail model and the level that it gives. The level is the latency that is exceeded
//! once per horizon if the conditions stay the same. A model is shown if all checks of its gate
//! pass. A model that its gate refused is shown only on request, and marked as refused.
//!
//! The samples of a run with several loads are a mixture, which rarely passes the gate. Therefore
//! each load also gets a model of the samples that were due in its phases.

use serde::Serialize;
use tardy_core::summary::cell::Cell;
use tardy_core::units::Nanos;
use tardy_samples::tail::{Extremes, Population, TailReader};
use tardy_statistics::confidence::{Confidence, Interval};
use tardy_statistics::gate::{Check, Evidence, gate};
use tardy_statistics::gev;
use tardy_statistics::gpd::plausible::Plausible;
use tardy_statistics::gpd::return_level::Tail;
use tardy_statistics::tally::Tally;
use tardy_statistics::threshold::{Question, scan};

use crate::summary::read::SeriesData;

/// Number of steps in the model's curve.
const CURVE_POINTS: usize = 48;

/// The tail model, or the checks that led to its refusal. This is the third of the three layers
/// ([`crate::statistics`]).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TailModel {
    /// The requested horizon.
    pub horizon_ns: Nanos,
    /// The checks and their results.
    pub checks: Vec<CheckResult>,
    /// The model; absent if a check failed.
    pub model: Option<Model>,
    /// The model that a check refused, so that its fit can be inspected; `None` if it was not
    /// requested, or if nothing could be fitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Model>,
}

/// The tail model of one load's samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadTail {
    /// Name of the phases with this load.
    pub load: String,
    /// Number of samples that were due in these phases.
    pub samples: u64,
    /// The model of these samples.
    pub tail: TailModel,
}

/// The tail models of one series.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tails {
    /// The model of all samples; absent if the period of the series is unknown.
    pub whole: Option<TailModel>,
    /// The model of each load's samples, if there are several loads.
    pub by_load: Vec<LoadTail>,
}

/// Options for tail models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TailOptions {
    /// The requested horizon.
    pub horizon: Nanos,
    /// Whether models that the gate refused are returned, too.
    pub is_refused_kept: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckResult {
    #[serde(flatten)]
    pub check: Check,
    /// Whether the check found no reason to refuse the model.
    pub has_passed: bool,
}

/// A fitted model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Model {
    /// Latency at which the tail starts.
    pub threshold_ns: f64,
    /// Shape of the generalised Pareto distribution of the excesses: above 0 for a heavy tail,
    /// below 0 for a bounded tail.
    pub shape: f64,
    pub scale_ns: f64,
    /// The latency that is exceeded once per horizon.
    pub level_ns: f64,
    /// The interval of `level_ns` at 95 %, from the profile likelihood.
    pub level_interval_ns: Option<Interval>,
    /// The smallest and the largest level that any accepted threshold gives.
    pub spread_ns: Option<Interval>,
    /// The same level estimated from block maxima (generalised extreme value distribution), for
    /// comparison.
    pub level_by_blocks_ns: Option<(f64, Interval)>,
    /// The curve from the threshold to the level. Charts draw this curve dashed.
    pub curve: Vec<CurvePoint>,
}

/// A point of the model's curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CurvePoint {
    pub value_ns: f64,
    /// According to the model, the share of samples above the value. The share counts all samples
    /// of a cluster, while `level_ns` counts each cluster once.
    pub share: f64,
    /// Interval of the share at 95 %, over all models that the samples do not rule out.
    pub share_interval: Interval,
}

/// Returns the tail models of the series `read`. The caller must have passed all chunks of the
/// series to `reader`.
#[must_use]
pub fn tails(reader: &TailReader, read: &SeriesData, wanted: TailOptions) -> Tails {
    let scale = Scale {
        period: read.descriptor().schedule.period().get(),
        width: read.resolution().get() as f64,
    };
    let of_load = |population: &Population| LoadTail {
        load: population.spans.load.clone(),
        samples: population.cell.latency.count(),
        tail: tail(&population.cell, &population.extremes, scale, wanted),
    };
    let by_load = reader
        .populations
        .iter()
        .filter(|population| population.cell.latency.count() > 0)
        .map(of_load)
        .collect();
    Tails {
        whole: Some(tail(read.whole(), &reader.extremes, scale, wanted)),
        by_load,
    }
}

/// The time between the samples of a series, and the resolution of their values, in ns.
#[derive(Debug, Clone, Copy)]
struct Scale {
    /// Time between two samples.
    period: i64,
    /// The resolution: all values are multiples of it.
    width: f64,
}

/// Returns the tail model of some samples of a series.
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
    // If no threshold is accepted, the gate still checks the model for one threshold, so that the
    // checks show the reason.
    let threshold = scan
        .chosen()
        .or(scan.candidates.last())
        .map_or_else(highest, |candidate| candidate.threshold);
    // If some samples were not stored, the order of the samples is not known.
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
                what: "whether a model fits above some threshold".to_owned(),
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

/// Computes the curve from the threshold to the level of `horizon`. `share` is the fraction of all
/// samples that exceed the threshold. The shares of the points are equally spaced on a logarithmic
/// axis.
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
