//! Selects the quantiles to compare. A quantile is compared if both sides have enough samples to
//! bound it and enough samples lie beyond it. For quantiles that the user named, only the first
//! condition applies.

use tardy_statistics::compare::run_spread::FACTOR_MAX;
use tardy_statistics::confidence::Confidence;
use tardy_statistics::quantile::quantile_ranks;

use super::model::{NotCompared, Settings};
use super::pooled::PooledRuns;

/// Minimum number of independent samples that each side must have beyond a quantile, so that the
/// quantile is compared. Four would suffice to bound one quantile, but a difference of two
/// quantiles with so few samples decides nothing.
const BEYOND_MIN: f64 = 30.0;
/// Minimum number of samples that each run must have beyond a quantile, if each run counts as one
/// number.
const BEYOND_OF_RUN_MIN: f64 = 10.0;

/// The numbers that decide whether a quantile can be estimated on both sides.
pub(super) enum Bounds {
    /// Each run counts as one number, so the number of samples of the shortest run decides. If
    /// `is_exact` is set, the value of a run has no random error, but a run with another seed would
    /// give another value.
    OfRuns { is_exact: bool },
    /// For each quantile: the quantile, and the numbers of independent samples in the baseline and
    /// in the candidate.
    OfSamples { effective: Vec<(f64, f64, f64)> },
}

/// Returns the quantiles to compare, and the requested quantiles that cannot be compared.
pub(super) fn split_by_bounds(
    base: &PooledRuns<'_>,
    candidate: &PooledRuns<'_>,
    settings: &Settings,
    bounds: Bounds,
) -> (Vec<f64>, Vec<NotCompared>) {
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for (place, &quantile) in settings.quantiles.iter().enumerate() {
        let needed = match &bounds {
            Bounds::OfRuns { is_exact } => {
                let least = match (is_exact, settings.are_quantiles_given) {
                    (true, false) => BEYOND_MIN,
                    (true, true) => 1.0,
                    (false, _) => BEYOND_OF_RUN_MIN,
                };
                least / beyond(quantile, base.shortest().min(candidate.shortest()) as f64)
            }
            // If one side has no blocks, no quantile can be compared.
            Bounds::OfSamples { effective } => {
                effective
                    .get(place)
                    .map_or(f64::INFINITY, |&(_, from, to)| {
                        let of_side = |side: &PooledRuns<'_>, effective: f64| {
                            needed(side, quantile, effective, settings.are_quantiles_given)
                        };
                        of_side(base, from).max(of_side(candidate, to))
                    })
            }
        };
        // More samples would not help if an imported file does not distinguish values at the
        // quantile.
        let needed = if base.is_open_at(quantile) || candidate.is_open_at(quantile) {
            f64::INFINITY
        } else {
            needed
        };
        if needed <= 1.0 + 1e-9 {
            known.push(quantile);
        } else {
            let value = |side: &PooledRuns<'_>| {
                side.known(side.tally().quantile(quantile).unwrap_or_default())
                    .0
            };
            let data_needed = Some(needed).filter(|&factor| factor <= FACTOR_MAX);
            unknown.push(NotCompared {
                quantile,
                base_ns: value(base),
                candidate_ns: value(candidate),
                data_needed,
            });
        }
    }
    (known, unknown)
}

/// Returns the factor by which the number of a side's samples must grow; 1 if there are enough
/// samples.
fn needed(side: &PooledRuns<'_>, quantile: f64, effective: f64, is_given: bool) -> f64 {
    let for_bounds = if side.bounds(quantile, effective) {
        1.0
    } else {
        let samples =
            quantile_ranks(side.exact.count(), quantile, Confidence::NINETY_FIVE).samples_needed;
        samples.map_or(f64::INFINITY, |samples| {
            (samples as f64 / effective).max(1.0 + 1e-6)
        })
    };
    if is_given {
        for_bounds
    } else {
        for_bounds.max(BEYOND_MIN / beyond(quantile, effective))
    }
}

/// Returns the number of samples below or above a quantile, whichever is smaller.
fn beyond(quantile: f64, samples: f64) -> f64 {
    samples * quantile.min(1.0 - quantile)
}
