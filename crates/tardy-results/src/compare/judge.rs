//! Compares the samples of both sides that have the same key. Computes the differences with
//! intervals, and a verdict on each.

use tardy_core::histogram::Histogram;
use tardy_statistics::compare::block_bootstrap::{
    QuantileDifference, Resampling, quantile_differences,
};
use tardy_statistics::compare::equivalence::equivalence;
use tardy_statistics::compare::permutation::permutation;
use tardy_statistics::compare::run_spread::{
    Reach, UNKNOWN_SPREAD, estimate, interval_of_few, reach, samples_that_decide, widened,
};
use tardy_statistics::compare::shift::shift;
use tardy_statistics::confidence::{Confidence, Interval};
use tardy_statistics::profile::normal_deviate;
use tardy_statistics::quantile::quantile_ranks_of_clustered;
use tardy_statistics::student;
use tardy_statistics::tally::Tally;

use super::bounded::{Bounds, split_by_bounds};
use super::group::{Key, RunGroup};
use super::maxima::{maxima, vote};
use super::misses::misses;
use super::model::{
    BetweenRuns, CHANCE_OF_ANY, Method, NotCompared, Outcome, Overview, Pair, RUNS_MIN, Row,
    Settings, SpreadSource, Table,
};
use super::pooled::{PooledRuns, middle};
use super::verdict::deciders;

/// The quantile that the overview shows between median and maximum.
const HIGH: f64 = 0.999;

/// Compares both sides for one key, that is, for one kind of samples. `tables` is the number of
/// keys that occur on both sides. The table has no verdicts yet: [`settle`] adds them later, when
/// all tables are known. Returns `None` if a side has no samples.
#[must_use]
pub fn table(
    key: &Key,
    base: &[RunGroup],
    candidate: &[RunGroup],
    settings: &Settings,
    tables: usize,
) -> Option<Table> {
    let (base, candidate) = (PooledRuns::new(base), PooledRuns::new(candidate));
    if base.exact.count() == 0 || candidate.exact.count() == 0 {
        return None;
    }
    let method = method(&base, &candidate, settings);
    let (mut rows, not_compared) = match method {
        Method::Same | Method::Exact | Method::Replicas | Method::Runs => {
            rows_of_runs(&base, &candidate, settings, method, tables)
        }
        Method::Blocks { .. } => rows_of_blocks(&base, &candidate, settings),
        Method::OrderStatistics => rows_of_ranks(&base, &candidate, settings, tables),
    };
    if method != Method::Same {
        rows.iter_mut()
            .for_each(|row| widen_by_rounding(row, &base, &candidate));
    }
    let between_runs = between_runs(
        &base,
        &candidate,
        settings,
        method,
        rows.first().map_or(0.5, |row| row.quantile),
    );
    Some(Table {
        key: key.clone(),
        verdict: Outcome::Inconclusive,
        decided_by: Vec::new(),
        undecided: undecided(method, &rows),
        method,
        between_runs,
        overview: overview(&base, &candidate, method),
        base: base.body(),
        candidate: candidate.body(),
        rows,
        not_compared,
        maxima: maxima(&base, &candidate, between_runs, settings, tables),
        misses: misses(&base, &candidate, between_runs, method, settings),
    })
}

fn method(base: &PooledRuns<'_>, candidate: &PooledRuns<'_>, settings: &Settings) -> Method {
    let (from, to) = (base.runs.len(), candidate.runs.len());
    if from == 1 && to == 1 && is_same(&base.exact, &candidate.exact) {
        return Method::Same;
    }
    if base.is_exact() && candidate.is_exact() {
        return if from.max(to) == 1 {
            Method::Exact
        } else {
            Method::Replicas
        };
    }
    if from.min(to) >= RUNS_MIN && settings.between_runs.is_none() {
        return Method::Runs;
    }
    if base.has_blocks() && candidate.has_blocks() {
        return Method::Blocks {
            blocks: (base.blocks().len(), candidate.blocks().len()),
            length_ns: (base.block(), candidate.block()),
            is_too_short: base
                .runs
                .iter()
                .chain(candidate.runs)
                .any(|run| run.dependence_is_longer),
        };
    }
    Method::OrderStatistics
}

fn is_same(base: &Histogram, candidate: &Histogram) -> bool {
    let counts = |histogram: &Histogram| {
        let mut counts = Vec::new();
        histogram.for_each(|value, count| counts.push((value, count)));
        counts
    };
    base.count() == candidate.count() && counts(base) == counts(candidate)
}

/// Returns how much `quantile` varies between the runs of one side, as measured, stated by the user
/// or documented; `None` if the values are exact.
fn between_runs(
    base: &PooledRuns<'_>,
    candidate: &PooledRuns<'_>,
    settings: &Settings,
    method: Method,
    quantile: f64,
) -> Option<BetweenRuns> {
    let seen = || estimate(&base.of_runs(quantile)?, &candidate.of_runs(quantile)?);
    match (method, settings.between_runs) {
        (Method::Same | Method::Exact, _) => None,
        (Method::Runs | Method::Replicas, _) => seen().map(|share| BetweenRuns {
            share,
            source: SpreadSource::Runs,
        }),
        (_, Some(share)) => Some(BetweenRuns {
            share,
            source: SpreadSource::Stated,
        }),
        // Two or three runs per side can show that the documented share is too small, but never
        // that it is too large.
        (_, None) => Some(match seen() {
            Some(share) if share > UNKNOWN_SPREAD => BetweenRuns {
                share,
                source: SpreadSource::Runs,
            },
            _ => BetweenRuns {
                share: UNKNOWN_SPREAD,
                source: SpreadSource::Documented,
            },
        }),
    }
}

fn undecided(method: Method, rows: &[Row]) -> Option<String> {
    match method {
        Method::Same => None,
        Method::Blocks {
            is_too_short: true,
            length_ns,
            ..
        } => Some(format!(
            "samples are correlated over more than one block ({:.1} s), which makes intervals too \
             narrow: measure longer, or {RUNS_MIN} runs per side",
            length_ns.0.max(length_ns.1).as_secs_f64()
        )),
        _ if rows.is_empty() => {
            Some("each quantile is too uncertain on one side or both: measure longer".to_owned())
        }
        _ => None,
    }
}

/// Returns a row without interval and verdict.
fn row(settings: &Settings, quantile: f64, base: f64, candidate: f64) -> Row {
    Row {
        quantile,
        base_ns: base,
        candidate_ns: candidate,
        difference_ns: candidate - base,
        interval_ns: None,
        between_runs_ns: Reach::default(),
        margin_ns: settings.margin.of_latency(base),
        probability: None,
        verdict: None,
        data_needed: None,
    }
}

/// Widens the interval of a row by the rounding errors of imported samples, because these errors
/// affect the quantiles, too.
fn widen_by_rounding(row: &mut Row, base: &PooledRuns<'_>, candidate: &PooledRuns<'_>) {
    let (from, to) = (base.rounding(), candidate.rounding());
    row.interval_ns = row.interval_ns.map(|interval| Interval {
        lower: interval.lower - from.1 - to.0,
        upper: interval.upper + from.0 + to.1,
    });
}

/// Returns rows in which each run, or each replica, counts as one number. A row shows the medians
/// of the runs. Its interval is that of the shift between the sides, widened so that the intervals
/// of all `tables` tables are right at the same time. The difference of the medians may lie outside
/// this interval. The interval is then extended to include the difference, so that the verdict also
/// holds for the printed numbers.
fn rows_of_runs(
    base: &PooledRuns<'_>,
    candidate: &PooledRuns<'_>,
    settings: &Settings,
    method: Method,
    tables: usize,
) -> (Vec<Row>, Vec<NotCompared>) {
    let (known, not_compared) = split_by_bounds(
        base,
        candidate,
        settings,
        Bounds::OfRuns {
            is_exact: method != Method::Runs,
        },
    );
    let freedom = (base.runs.len() + candidate.runs.len())
        .saturating_sub(2)
        .max(1) as f64;
    // The quantiles of one run change together, so the interval is widened for the number of
    // tables, not of rows.
    let factor = stretched(tables, settings.confidence, |confidence| {
        student::deviate(confidence, freedom)
    });
    let of_quantile = |quantile: f64| {
        let (from, to) = (base.of_runs(quantile)?, candidate.of_runs(quantile)?);
        let found = shift(&from, &to, settings.confidence)?;
        let mut row = row(settings, quantile, middle(&from), middle(&to));
        let of_shift = match method {
            Method::Same | Method::Exact => Some(Interval {
                lower: found.shift,
                upper: found.shift,
            }),
            _ if from.len().min(to.len()) >= RUNS_MIN => {
                Some(found.interval).filter(|interval| interval.is_finite())
            }
            _ => interval_of_few(&from, &to, settings.confidence),
        };
        row.interval_ns = of_shift.map(|interval| {
            let wide = widened(found.shift, interval, factor, Reach::default());
            Interval {
                lower: wide.lower.min(row.difference_ns),
                upper: wide.upper.max(row.difference_ns),
            }
        });
        if method == Method::Runs {
            row.probability = permutation(&from, &to, settings.seed).map(|found| found.probability);
        }
        Some(row)
    };
    (
        known.into_iter().filter_map(of_quantile).collect(),
        not_compared,
    )
}

fn rows_of_blocks(
    base: &PooledRuns<'_>,
    candidate: &PooledRuns<'_>,
    settings: &Settings,
) -> (Vec<Row>, Vec<NotCompared>) {
    let resampling = Resampling {
        resamples: settings.resamples,
        seed: settings.seed,
        confidence: settings.confidence,
    };
    let found = quantile_differences(
        &base.blocks(),
        &candidate.blocks(),
        &settings.quantiles,
        resampling,
    );
    let effective = found.iter().map(|found| {
        (
            found.quantile,
            base.effective(found.quantile, found.effective.0),
            candidate.effective(found.quantile, found.effective.1),
        )
    });
    let (known, not_compared) = split_by_bounds(
        base,
        candidate,
        settings,
        Bounds::OfSamples {
            effective: effective.collect(),
        },
    );
    let (from, to) = (base.tally(), candidate.tally());
    let of_quantile = |found: &QuantileDifference| {
        let (base_ns, candidate_ns) =
            (from.quantile(found.quantile)?, to.quantile(found.quantile)?);
        let mut row = row(settings, found.quantile, base_ns, candidate_ns);
        // Blocks store values with a precision of only 1/1024. The interval is moved by the error
        // that this causes in the difference.
        let moved = row.difference_ns - found.difference;
        row.interval_ns = found.interval.map(|interval| Interval {
            lower: interval.lower + moved,
            upper: interval.upper + moved,
        });
        row.between_runs_ns = reach_of_runs(base, candidate, settings, &row);
        Some(row)
    };
    (
        found
            .iter()
            .filter(|found| known.contains(&found.quantile))
            .filter_map(of_quantile)
            .collect(),
        not_compared,
    )
}

fn reach_of_runs(
    base: &PooledRuns<'_>,
    candidate: &PooledRuns<'_>,
    settings: &Settings,
    row: &Row,
) -> Reach {
    let between = between_runs(
        base,
        candidate,
        settings,
        Method::OrderStatistics,
        row.quantile,
    );
    between.map_or(Reach::default(), |between| {
        reach(
            between.share,
            (row.base_ns, base.runs.len()),
            (row.candidate_ns, candidate.runs.len()),
            settings.confidence,
        )
    })
}

/// Returns rows whose intervals come from order statistics. The quantile of each side lies between
/// two samples of that side, so the difference of the quantiles lies between differences of these
/// samples.
fn rows_of_ranks(
    base: &PooledRuns<'_>,
    candidate: &PooledRuns<'_>,
    settings: &Settings,
    tables: usize,
) -> (Vec<Row>, Vec<NotCompared>) {
    let statements = u32::try_from(2 * settings.quantiles.len() * tables).unwrap_or(u32::MAX);
    let together = Confidence::new(1.0 - CHANCE_OF_ANY).unwrap_or(settings.confidence);
    let confidence = together.shared_by(statements);
    let (from, to) = (base.tally(), candidate.tally());
    let effective = |&quantile: &f64| {
        (
            quantile,
            base.effective(quantile, f64::INFINITY),
            candidate.effective(quantile, f64::INFINITY),
        )
    };
    let (known, not_compared) = split_by_bounds(
        base,
        candidate,
        settings,
        Bounds::OfSamples {
            effective: settings.quantiles.iter().map(effective).collect(),
        },
    );
    let bounds = |tally: &Tally, quantile: f64, index: f64| {
        let ranks = quantile_ranks_of_clustered(tally.total(), quantile, index, confidence);
        Some(Interval {
            lower: tally.at_rank(ranks.lower?)?,
            upper: tally.at_rank(ranks.upper?)?,
        })
    };
    let of_quantile = |quantile: f64| {
        let (base_ns, candidate_ns) = (from.quantile(quantile)?, to.quantile(quantile)?);
        let mut row = row(settings, quantile, base_ns, candidate_ns);
        let both = bounds(&from, quantile, base.index).zip(bounds(&to, quantile, candidate.index));
        row.interval_ns = both.map(|(from, to)| Interval {
            lower: to.lower - from.upper,
            upper: to.upper - from.lower,
        });
        row.between_runs_ns = reach_of_runs(base, candidate, settings, &row);
        Some(row)
    };
    (
        known.into_iter().filter_map(of_quantile).collect(),
        not_compared,
    )
}

fn overview(base: &PooledRuns<'_>, candidate: &PooledRuns<'_>, method: Method) -> Overview {
    let is_of_runs = matches!(
        method,
        Method::Runs | Method::Replicas | Method::Same | Method::Exact
    );
    let value = |side: &PooledRuns<'_>, quantile: f64| {
        let of_runs = if is_of_runs {
            side.of_runs(quantile).map(|values| middle(&values))
        } else {
            side.tally().quantile(quantile)
        };
        side.known(of_runs.unwrap_or_default()).0
    };
    let is_bounded = |side: &PooledRuns<'_>, quantile: f64| match method {
        Method::Same | Method::Exact | Method::Replicas => {
            side.shortest() as f64 * (1.0 - quantile) >= 1.0
        }
        _ if side.runs.len() == 1 => side.is_bounded_in_summary(quantile),
        _ => side.bounds(quantile, side.effective(quantile, f64::INFINITY)),
    };
    let pair = |quantile: f64| Pair {
        base_ns: value(base, quantile),
        candidate_ns: value(candidate, quantile),
        is_bounded: [base, candidate]
            .into_iter()
            .all(|side| is_bounded(side, quantile) && !side.is_open_at(quantile)),
        is_decided: false,
    };
    let largest = |side: &PooledRuns<'_>| side.exact.max().unwrap_or_default() as f64;
    Overview {
        median: pair(0.5),
        high: pair(HIGH),
        max: Pair {
            base_ns: largest(base),
            candidate_ns: largest(candidate),
            is_bounded: true,
            is_decided: false,
        },
    }
}

/// Widens the intervals so that those of all tables are correct at the same time, and adds the
/// verdicts on rows and tables.
///
/// Only the intervals from blocks are widened here, for the number of rows in all block
/// comparisons. The intervals of other methods are already wide enough for the number of tables.
pub fn settle(tables: &mut [Table], settings: &Settings) {
    let is_of_blocks = |table: &&Table| matches!(table.method, Method::Blocks { .. });
    let rows = tables
        .iter()
        .filter(is_of_blocks)
        .map(|table| table.rows.len())
        .sum();
    let count = tables.len();
    let level = settings.confidence;
    for table in tables {
        let factor = match table.method {
            Method::Blocks { .. } => stretched(rows, level, normal_deviate),
            Method::Runs
            | Method::Replicas
            | Method::Same
            | Method::Exact
            | Method::OrderStatistics => 1.0,
        };
        let is_undecided = table.undecided.is_some();
        table
            .rows
            .iter_mut()
            .for_each(|row| settle_row(row, factor, is_undecided));
        vote(table, count, settings);
        let outcomes = table
            .rows
            .iter()
            .map(|row| row.verdict.unwrap_or(Outcome::Inconclusive))
            .chain(table.maxima.as_ref().and_then(|maxima| maxima.verdict))
            .chain(table.misses.and_then(|misses| misses.verdict));
        let outcomes = outcomes.chain(is_undecided.then_some(Outcome::Inconclusive));
        table.verdict = match table.method {
            Method::Same => Outcome::Equivalent,
            _ => Outcome::of_all(outcomes).unwrap_or(Outcome::Inconclusive),
        };
        table.decided_by = deciders(table);
        mark_decided(table);
    }
}

/// Marks the numbers of the overview for which the comparison has a verdict other than
/// inconclusive. If both sides have the same samples, marks all numbers.
fn mark_decided(table: &mut Table) {
    let of_maxima = table.maxima.as_ref().and_then(|maxima| maxima.verdict);
    let of_quantile = |quantile: f64| {
        let row = table.rows.iter().find(|row| row.quantile == quantile)?;
        row.verdict
    };
    let is_decided = |verdict: Option<Outcome>| {
        table.method == Method::Same
            || verdict.is_some_and(|verdict| verdict != Outcome::Inconclusive)
    };
    table.overview.median.is_decided = is_decided(of_quantile(0.5));
    table.overview.high.is_decided = is_decided(of_quantile(HIGH));
    table.overview.max.is_decided = is_decided(of_maxima);
}

/// Returns the factor by which each interval must be widened so that all of `statements` intervals
/// are correct with the probability 1 - [`CHANCE_OF_ANY`].
pub(super) fn stretched(
    statements: usize,
    confidence: Confidence,
    deviate: impl Fn(Confidence) -> f64,
) -> f64 {
    let together = Confidence::new(1.0 - CHANCE_OF_ANY).unwrap_or(confidence);
    let statements = u32::try_from(statements).unwrap_or(u32::MAX);
    (deviate(together.shared_by(statements)) / deviate(confidence)).max(1.0)
}

fn settle_row(row: &mut Row, factor: f64, is_undecided: bool) {
    row.interval_ns = row
        .interval_ns
        .filter(|_| !is_undecided)
        .map(|interval| widened(row.difference_ns, interval, factor, row.between_runs_ns));
    let Some(interval) = row.interval_ns else {
        return;
    };
    let found = equivalence(row.difference_ns, interval, row.margin_ns);
    row.verdict = Some(Outcome::from(found));
    row.data_needed = samples_that_decide(
        found,
        row.difference_ns,
        interval,
        row.margin_ns,
        row.between_runs_ns,
    );
}
