//! Compares the deadline misses of two sides.
//!
//! The comparison counts clusters of misses, not single misses. Their number comes from the
//! variance of the number of misses, or from the extremal index if the index shows more dependence.
//! A side with few misses does not show how its misses cluster. Therefore, the misses of each side
//! are assumed to cluster at least as much as the misses of both sides do on average. With at least
//! four runs per side, each run counts as one number, namely its share of misses.

use tardy_core::verdict::Window;
use tardy_statistics::compare::permutation::permutation;
use tardy_statistics::compare::rate_ratio::{MissCount, rate_ratio};
use tardy_statistics::compare::run_spread::reach;
use tardy_statistics::compare::shift::shift_ratio;
use tardy_statistics::confidence::Interval;

use super::margin::Margin;
use super::model::{BetweenRuns, Method, Misses, Outcome, RUNS_MIN, Settings};
use super::pooled::PooledRuns;

/// Compares the shares of misses; `None` if there is no deadline. `method` determines whether each
/// run counts as one number.
pub(super) fn misses(
    base: &PooledRuns<'_>,
    candidate: &PooledRuns<'_>,
    between: Option<BetweenRuns>,
    method: Method,
    settings: &Settings,
) -> Option<Misses> {
    let window = settings.window?;
    let (from, to) = (base.misses()?, candidate.misses()?);
    let is_of_runs = matches!(method, Method::Runs | Method::Replicas)
        && base.runs.len().min(candidate.runs.len()) >= RUNS_MIN;
    let found = match method {
        _ if is_of_runs => of_runs(&base.miss_shares(), &candidate.miss_shares(), settings),
        _ => of_clusters(base, candidate, between, window, settings),
    };
    let Interval { lower, upper } = found.interval;
    let tolerated = match settings.margin {
        Margin::Share(share) => share,
        Margin::Time(_) => 0.0,
    };
    let verdict = (from.0 + to.0 > 0).then(|| {
        if lower > 1.0 + tolerated {
            Outcome::Worse
        } else if upper < 1.0 / (1.0 + tolerated) {
            Outcome::Better
        } else if lower >= 1.0 / (1.0 + tolerated) && upper <= 1.0 + tolerated {
            Outcome::Equivalent
        } else {
            Outcome::Inconclusive
        }
    });
    Some(Misses {
        base: from,
        candidate: to,
        ratio: found
            .ratio
            .filter(|ratio| from.0 + to.0 > 0 && ratio.is_finite()),
        interval: (
            Some(lower)
                .filter(|lower| lower.is_finite())
                .unwrap_or(to.0 as f64),
            Some(upper).filter(|upper| upper.is_finite()),
        ),
        probability: found.probability,
        verdict,
    })
}

/// The candidate's share of misses divided by the baseline's.
struct ShareRatio {
    ratio: Option<f64>,
    interval: Interval,
    probability: f64,
}

/// Compares the runs' shares of misses, by the ranks of these shares.
fn of_runs(base: &[f64], candidate: &[f64], settings: &Settings) -> ShareRatio {
    let found = shift_ratio(base, candidate, settings.confidence);
    let probability =
        permutation(base, candidate, settings.seed).map_or(1.0, |found| found.probability);
    ShareRatio {
        ratio: found.ratio,
        interval: found.interval,
        probability,
    }
}

/// Compares the misses of both sides, pooled over all runs and counted as clusters.
///
/// Even if nothing changed, latencies differ between runs, and so do the numbers of misses.
/// Therefore one end of the interval assumes that the candidate's latencies are lower by the usual
/// difference between runs, and the other end that they are higher by it.
fn of_clusters(
    base: &PooledRuns<'_>,
    candidate: &PooledRuns<'_>,
    between: Option<BetweenRuns>,
    window: Window,
    settings: &Settings,
) -> ShareRatio {
    let (from, to) = (
        base.misses().unwrap_or_default(),
        candidate.misses().unwrap_or_default(),
    );
    let counted = |(misses, due): (u64, u64), index: f64| MissCount {
        events: misses as f64 * index,
        exposure: due as f64 * index,
    };
    let (of_base, of_candidate) = clusters_a_miss(base, candidate);
    let ratio = |to: (u64, u64)| {
        rate_ratio(
            counted(from, of_base),
            counted(to, of_candidate),
            settings.confidence,
        )
    };
    let share = between.map_or(0.0, |between| {
        reach(
            between.share,
            (1.0, base.runs.len()),
            (1.0, candidate.runs.len()),
            settings.confidence,
        )
        .above
    });
    let end = |times: f64| ratio(moved(candidate, to, window, times)).interval;
    let interval = Interval {
        lower: end(1.0 + share).lower,
        upper: end(1.0 / (1.0 + share)).upper,
    };
    ShareRatio {
        ratio: seen_ratio(from, to),
        interval,
        probability: ratio(to).probability,
    }
}

fn seen_ratio(from: (u64, u64), to: (u64, u64)) -> Option<f64> {
    let share = |(misses, due): (u64, u64)| misses as f64 / due as f64;
    Some(share(to) / share(from)).filter(|ratio| ratio.is_finite())
}

/// Returns the number of clusters per miss for each side. It is at most the value for both sides
/// together, because a side with few misses does not show how they cluster.
fn clusters_a_miss(base: &PooledRuns<'_>, candidate: &PooledRuns<'_>) -> (f64, f64) {
    let sides = [base, candidate].map(|side| {
        (
            side.misses().map_or(0.0, |(misses, _)| misses as f64),
            side.clusters_a_miss(),
        )
    });
    let misses: f64 = sides.iter().map(|(misses, _)| misses).sum();
    let together = if misses > 0.0 {
        sides
            .iter()
            .map(|(misses, index)| misses * index)
            .sum::<f64>()
            / misses
    } else {
        1.0
    };
    (sides[0].1.min(together), sides[1].1.min(together))
}

/// Returns how many misses `side` would have if the deadline were multiplied by `times`.
fn moved(
    side: &PooledRuns<'_>,
    (misses, due): (u64, u64),
    window: Window,
    times: f64,
) -> (u64, u64) {
    let above = |deadline: f64| side.exact.above(deadline as i64);
    let deadline = window.latest.get() as f64;
    (
        (misses + above(deadline * times))
            .saturating_sub(above(deadline))
            .min(due),
        due,
    )
}
