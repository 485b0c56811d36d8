//! Deadline misses of two sides against each other.

use tardy_core::verdict::Window;
use tardy_statistics::compare::rate_ratio::{MissCount, rate_ratio};
use tardy_statistics::compare::run_spread::reach;

use super::margin::Margin;
use super::model::{BetweenRuns, Misses, Outcome, Settings};
use super::pooled::PooledRuns;

/// How many times as often the candidate misses; `None` where no deadline was asked for.
///
/// Runs whose levels differ miss unequally often though nothing changed: the ends of the interval are those of a candidate whose latencies are lower, and
/// higher, by what two sides differ by among themselves. One run a side in virtual time has exact counts.
pub(super) fn misses(
    base: &PooledRuns<'_>,
    candidate: &PooledRuns<'_>,
    between: Option<BetweenRuns>,
    is_exact: bool,
    settings: &Settings,
) -> Option<Misses> {
    let window = settings.window?;
    let (from, to) = (base.misses()?, candidate.misses()?);
    // Misses come in clusters: what counts is how many of those there were.
    let counted = |(misses, due): (u64, u64), index: f64| MissCount { events: misses as f64 * index, exposure: due as f64 * index };
    let (of_base, of_candidate) = clusters_a_miss(base, candidate);
    let ratio = |to: (u64, u64)| rate_ratio(counted(from, of_base), counted(to, of_candidate), settings.confidence);
    let share =
        between.map_or(0.0, |between| reach(between.share, (1.0, base.runs.len()), (1.0, candidate.runs.len()), settings.confidence).above);
    let found = ratio(to);
    let (lower, upper) = if is_exact {
        let exact = if from.0 == 0 && to.0 > 0 { f64::INFINITY } else { seen_ratio(from, to).unwrap_or(1.0) };
        (exact, exact)
    } else {
        let end = |times: f64| ratio(moved(candidate, to, window, times)).interval;
        (end(1.0 + share).lower, end(1.0 / (1.0 + share)).upper)
    };
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
        ratio: seen_ratio(from, to),
        interval: (Some(lower).filter(|lower| lower.is_finite()).unwrap_or(to.0 as f64), Some(upper).filter(|upper| upper.is_finite())),
        probability: found.probability,
        verdict,
    })
}

fn seen_ratio(from: (u64, u64), to: (u64, u64)) -> Option<f64> {
    let share = |(misses, due): (u64, u64)| misses as f64 / due as f64;
    Some(share(to) / share(from)).filter(|ratio| ratio.is_finite())
}

/// How many clusters a miss of each side is. A side with few misses does not know: it has no more of them than a miss of both together.
fn clusters_a_miss(base: &PooledRuns<'_>, candidate: &PooledRuns<'_>) -> (f64, f64) {
    let sides = [base, candidate].map(|side| (side.misses().map_or(0.0, |(misses, _)| misses as f64), side.clusters_a_miss()));
    let misses: f64 = sides.iter().map(|(misses, _)| misses).sum();
    let together = if misses > 0.0 { sides.iter().map(|(misses, index)| misses * index).sum::<f64>() / misses } else { 1.0 };
    (sides[0].1.min(together), sides[1].1.min(together))
}

/// What `side` would have missed with a deadline so many times as long.
fn moved(side: &PooledRuns<'_>, (misses, due): (u64, u64), window: Window, times: f64) -> (u64, u64) {
    let above = |deadline: f64| side.exact.above(deadline as i64);
    let deadline = window.latest.get() as f64;
    ((misses + above(deadline * times)).saturating_sub(above(deadline)).min(due), due)
}
