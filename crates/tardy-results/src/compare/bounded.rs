//! Selects the quantiles to compare: those that both sides bound, and of these, unless the user
//! named them, those with enough samples beyond for a difference.

use tardy_statistics::compare::run_spread::FACTOR_MAX;
use tardy_statistics::confidence::Confidence;
use tardy_statistics::quantile::quantile_ranks;

use super::model::{NotCompared, Settings};
use super::pooled::PooledRuns;

/// Minimum number of independent samples beyond a quantile on each side for a difference: a bound
/// needs four, but the difference of two such bounds says nothing.
const BEYOND_MIN: f64 = 30.0;
/// Minimum number of samples beyond a quantile for a run's own value of it, if runs are the unit.
const BEYOND_OF_RUN_MIN: f64 = 10.0;

/// How to decide whether a side can estimate a quantile.
pub(super) enum Bounds {
    /// The shortest run of the side. In virtual time a value is exact, but another seed would give
    /// another value.
    OfRuns { is_exact: bool },
    /// Its samples: for each quantile the number of independent ones of the baseline and of the
    /// candidate.
    OfSamples { effective: Vec<(f64, f64, f64)> },
}

/// Returns the quantiles to compare, and the others.
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
            // Without blocks on one side, no quantile is known.
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
        // More samples would not help if a file does not distinguish them.
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

/// Returns the factor by which a side needs more samples; at most 1 if it has enough.
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

/// Samples on the rarer side of a quantile.
fn beyond(quantile: f64, samples: f64) -> f64 {
    samples * quantile.min(1.0 - quantile)
}
