//! Compares the largest values of the sides.
//!
//! The maxima of two single runs differ by chance, so a verdict on them requires a test. With at
//! least four runs per side, the test compares the maxima of the runs. With fewer runs, it counts
//! the samples of one side that exceed the maximum of the other side by more than the margin and by
//! more than the usual difference between runs. The test gives a wrong verdict in at most 1 % of
//! comparisons, so the rate of false discoveries is at most 1 %, too.

use tardy_statistics::compare::equal_length::median_maximum;
use tardy_statistics::compare::permutation::all_above_by_chance;
use tardy_statistics::compare::run_spread::reach;
use tardy_statistics::confidence::Confidence;

use super::model::{BetweenRuns, CHANCE_OF_ANY, Maxima, Outcome, RUNS_MIN, Settings, Table};
use super::pooled::{PooledRuns, middle, tally};

/// Returns the largest values of both sides without a verdict. `tables` is the number of tables in
/// the comparison; `between` is the spread between runs.
pub(super) fn maxima(
    base: &PooledRuns<'_>,
    candidate: &PooledRuns<'_>,
    between: Option<BetweenRuns>,
    settings: &Settings,
    tables: usize,
) -> Option<Maxima> {
    let samples = base.shortest().min(candidate.shortest());
    let values = |side: &PooledRuns<'_>| -> Option<Vec<f64>> {
        side.runs
            .iter()
            .map(|run| median_maximum(&tally(&run.exact), samples))
            .collect()
    };
    let (base_ns, candidate_ns) = (values(base)?, values(candidate)?);
    let largest = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let is_apart =
        smallest(&candidate_ns) > largest(&base_ns) || smallest(&base_ns) > largest(&candidate_ns);
    let repeated = base_ns.len() > 1 && candidate_ns.len() > 1;
    let chance = (is_apart && repeated)
        .then(|| all_above_by_chance(base_ns.len() as u64, candidate_ns.len() as u64));
    let share = between.map_or(0.0, |between| between.share);
    let confidence = Confidence::new(1.0 - chance_of_one(tables)).unwrap_or(settings.confidence);
    let above = |side: &PooledRuns<'_>, other: &PooledRuns<'_>| {
        let Some(max) = other.exact.max() else {
            return 0;
        };
        let level = (max as f64, 1);
        let reached = reach(share, level, level, confidence).above;
        let rounding = side.rounding().0 + other.rounding().1;
        let limit = max as f64 + reached.max(settings.margin.of_latency(max as f64)) + rounding;
        side.exact.above(limit as i64)
    };
    let beyond = (above(base, candidate), above(candidate, base));
    // Late samples occur in clusters, so the test counts clusters instead of samples.
    let clusters = (
        beyond.0 as f64 * base.index.min(1.0),
        beyond.1 as f64 * candidate.index.min(1.0),
    );
    let (from, to) = (base.exact.count() as f64, candidate.exact.count() as f64);
    Some(Maxima {
        samples,
        base_ns,
        candidate_ns,
        all_above_by_chance: chance,
        beyond,
        beyond_by_chance: beyond_by_chance(clusters.0.max(clusters.1), from, to),
        verdict: None,
    })
}

/// Returns the probability that the `beyond` largest of all samples come from a single side by
/// chance, that is, if both sides have the same distribution.
fn beyond_by_chance(beyond: f64, from: f64, to: f64) -> f64 {
    let share = from.max(to) / (from + to);
    let other = 1.0 - share;
    let beyond = beyond.floor();
    (share.powf(beyond) + other.powf(beyond)).min(1.0)
}

/// Returns the allowed probability of a wrong verdict for one of `tables` tables.
fn chance_of_one(tables: usize) -> f64 {
    CHANCE_OF_ANY / tables.max(1) as f64
}

/// Adds the verdict on the largest values of one of `tables` tables. If the user named quantiles,
/// the largest values get no verdict.
pub(super) fn vote(table: &mut Table, tables: usize, settings: &Settings) {
    let Some(maxima) = &mut table.maxima else {
        return;
    };
    let is_of_runs = table.base.runs.min(table.candidate.runs) >= RUNS_MIN;
    let beyond_margin = |from: f64, to: f64| match to - from {
        difference if difference > settings.margin.of_latency(from) => Some(Outcome::Worse),
        difference if difference < -settings.margin.of_latency(from) => Some(Outcome::Better),
        _ => None,
    };
    let shown = table.overview.max;
    let of_shown = beyond_margin(shown.base_ns, shown.candidate_ns);
    // If there are enough runs, each run counts as one number.
    let (chance, found) = if is_of_runs {
        let (from, to) = (middle(&maxima.base_ns), middle(&maxima.candidate_ns));
        let chance = maxima
            .all_above_by_chance
            .map_or(1.0, |chance| 2.0 * chance);
        (chance, beyond_margin(from, to))
    } else {
        (maxima.beyond_by_chance, of_shown)
    };
    // The printed numbers are the largest values of all runs, so the verdict must also hold for
    // them.
    maxima.verdict = found.filter(|_| {
        !settings.are_quantiles_given && chance <= chance_of_one(tables) && found == of_shown
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sample_beyond_is_chance_and_ten_of_equal_sides_are_not() {
        assert_eq!(beyond_by_chance(0.0, 100.0, 100.0), 1.0);
        assert_eq!(beyond_by_chance(1.0, 100.0, 100.0), 1.0);
        assert_eq!(beyond_by_chance(10.0, 100.0, 100.0), 2.0_f64.powi(-9));
        // If one side has nearly all samples, 10 samples of this side above the other's maximum are
        // weak evidence.
        assert!(beyond_by_chance(10.0, 900.0, 100.0) > 0.3);
    }
}
