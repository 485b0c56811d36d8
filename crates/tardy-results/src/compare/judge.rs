//! One table: both sides' samples of one key, their differences with intervals, and what those say.

use tardy_core::histogram::{Budget, Histogram};
use tardy_core::statistics::compare::block_bootstrap::{QuantileDifference, Resampling, quantile_differences};
use tardy_core::statistics::compare::equal_length::median_maximum;
use tardy_core::statistics::compare::equivalence::{Equivalence, equivalence};
use tardy_core::statistics::compare::permutation::{all_above_by_chance, permutation};
use tardy_core::statistics::compare::rate_ratio::{Counted, rate_ratio};
use tardy_core::statistics::compare::shift::shift;
use tardy_core::statistics::confidence::{Confidence, Interval};
use tardy_core::statistics::quantile::{quantile_ranks, quantile_ranks_of_clustered};
use tardy_core::statistics::tally::Tally;
use tardy_core::units::Nanos;

use super::group::{Key, RunGroup};
use super::margin::Margin;
use super::model::{Body, Maxima, Method, Misses, Outcome, Row, Settings, Table};

/// Runs a side from which on the run is what is counted: fewer cannot exclude chance at 95 %.
pub const RUNS_MIN: usize = 4;
/// Samples beyond a quantile that a run's own value of it needs.
const BEYOND_MIN: f64 = 10.0;

/// One side of a table: its runs, and all their samples together.
struct Pooled<'a> {
    runs: &'a [RunGroup],
    exact: Histogram,
    index: f64,
}

impl<'a> Pooled<'a> {
    fn new(runs: &'a [RunGroup]) -> Self {
        let mut exact = Histogram::new(Budget::ANALYSIS);
        runs.iter().for_each(|run| exact.merge(&run.exact));
        let numbers = || runs.iter().filter_map(|run| run.numbers.as_ref());
        let samples: u64 = numbers().map(|numbers| numbers.samples).sum();
        let effective: f64 = numbers().map(|numbers| numbers.samples as f64 * numbers.extremal_index.unwrap_or(1.0)).sum();
        Self { runs, exact, index: if samples > 0 { effective / samples as f64 } else { 1.0 } }
    }

    fn tally(&self) -> Tally {
        tally(&self.exact)
    }

    fn body(&self) -> Body {
        let mut sum = 0.0;
        self.exact.for_each(|value, count| sum += value as f64 * count as f64);
        Body {
            runs: self.runs.len(),
            samples: self.exact.count(),
            missed: self.runs.iter().filter_map(|run| run.numbers.as_ref()).map(|numbers| numbers.missed).sum(),
            min_ns: self.exact.min().unwrap_or_default(),
            mean_ns: sum / self.exact.count().max(1) as f64,
            max_ns: self.exact.max().unwrap_or_default(),
        }
    }

    fn blocks(&self) -> Vec<Tally> {
        self.runs.iter().flat_map(|run| run.blocks.iter().cloned()).collect()
    }

    fn block(&self) -> Nanos {
        self.runs.iter().filter_map(|run| run.block).max().unwrap_or_default()
    }

    /// Misses and due times; `None` where no deadline was asked for.
    fn misses(&self) -> Option<(u64, u64)> {
        let numbers: Vec<_> = self.runs.iter().filter_map(|run| run.numbers.as_ref()).collect();
        let misses: Option<Vec<u64>> = numbers.iter().map(|numbers| numbers.misses).collect();
        let opportunities: u64 = numbers.iter().map(|numbers| numbers.samples + numbers.missed).sum();
        Some((misses?.iter().sum(), opportunities)).filter(|_| !numbers.is_empty())
    }
}

fn tally(histogram: &Histogram) -> Tally {
    let mut counts = Vec::new();
    histogram.for_each(|value, count| counts.push((value as f64, count)));
    Tally::from_counts(counts)
}

/// Compares both sides of `key`; verdicts of its rows are final once probabilities have been adjusted over all tables, see [`settle`].
/// `None` where a side has no sample.
#[must_use]
pub fn table(key: &Key, base: &[RunGroup], candidate: &[RunGroup], settings: &Settings) -> Option<Table> {
    let (base, candidate) = (Pooled::new(base), Pooled::new(candidate));
    if base.exact.count() == 0 || candidate.exact.count() == 0 {
        return None;
    }
    let has_blocks = |side: &Pooled<'_>| side.runs.iter().all(|run| !run.blocks.is_empty()) && side.blocks().len() >= 2;
    let (method, rows) = if base.runs.len().min(candidate.runs.len()) >= RUNS_MIN {
        (Method::Runs, rows_of_runs(&base, &candidate, settings))
    } else if has_blocks(&base) && has_blocks(&candidate) {
        let blocks = (base.blocks().len(), candidate.blocks().len());
        let is_too_short = base.runs.iter().chain(candidate.runs).any(|run| run.dependence_is_longer);
        let length_ns = (base.block(), candidate.block());
        (Method::Blocks { blocks, length_ns, is_too_short }, rows_of_blocks(&base, &candidate, settings))
    } else {
        (Method::OrderStatistics, rows_of_ranks(&base, &candidate, settings))
    };
    Some(Table {
        key: key.clone(),
        verdict: Outcome::Inconclusive,
        method,
        base: base.body(),
        candidate: candidate.body(),
        rows,
        maxima: maxima(&base, &candidate),
        misses: misses(&base, &candidate, settings),
    })
}

/// A row before its verdict.
fn row(settings: &Settings, quantile: f64, base: f64, candidate: f64, difference: f64) -> Row {
    Row {
        quantile,
        base_ns: base,
        candidate_ns: candidate,
        difference_ns: difference,
        interval_ns: None,
        margin_ns: settings.margin.of(base),
        probability: None,
        verdict: None,
        data_needed: None,
    }
}

fn rows_of_runs(base: &Pooled<'_>, candidate: &Pooled<'_>, settings: &Settings) -> Vec<Row> {
    let shortest = base.runs.iter().chain(candidate.runs).map(|run| run.exact.count()).min().unwrap_or(0);
    let known = settings.quantiles.iter().filter(|&&quantile| shortest as f64 * (1.0 - quantile) >= BEYOND_MIN);
    known
        .filter_map(|&quantile| {
            let values =
                |side: &Pooled<'_>| -> Option<Vec<f64>> { side.runs.iter().map(|run| tally(&run.exact).quantile(quantile)).collect() };
            let (from, to) = (values(base)?, values(candidate)?);
            let found = shift(&from, &to, settings.confidence)?;
            let median = |values: &[f64]| Tally::from_samples(values).median().unwrap_or_default();
            let mut row = row(settings, quantile, median(&from), median(&to), found.shift);
            row.interval_ns = found.interval.is_finite().then_some(found.interval);
            row.probability = permutation(&from, &to, settings.seed).map(|found| found.probability);
            Some(row)
        })
        .collect()
}

fn rows_of_blocks(base: &Pooled<'_>, candidate: &Pooled<'_>, settings: &Settings) -> Vec<Row> {
    let resampling = Resampling { resamples: settings.resamples, seed: settings.seed, confidence: settings.confidence };
    let found = quantile_differences(&base.blocks(), &candidate.blocks(), &settings.quantiles, resampling);
    let (from, to) = (base.tally(), candidate.tally());
    let of_quantile = |found: &QuantileDifference| {
        let (base_ns, candidate_ns) = (from.quantile(found.quantile)?, to.quantile(found.quantile)?);
        let mut row = row(settings, found.quantile, base_ns, candidate_ns, candidate_ns - base_ns);
        // Blocks know values to 1/1024; what that moves the difference by, it moves the interval by too.
        let moved = row.difference_ns - found.difference;
        row.interval_ns = found.interval.map(|interval| Interval { lower: interval.lower + moved, upper: interval.upper + moved });
        row.probability = found.interval.map(|_| found.probability);
        if row.interval_ns.is_none() {
            row.data_needed = samples_needed(found.quantile, from.total().min(to.total()), settings.confidence);
        }
        Some(row)
    };
    found.iter().filter_map(of_quantile).collect()
}

/// How many times the samples a quantile needs to be bounded at all.
fn samples_needed(quantile: f64, samples: u64, confidence: Confidence) -> Option<f64> {
    let needed = quantile_ranks(samples, quantile, confidence).samples_needed?;
    (needed > samples).then(|| needed as f64 / samples as f64)
}

/// Each side's quantile lies between two of its samples; the difference lies between the differences of those.
fn rows_of_ranks(base: &Pooled<'_>, candidate: &Pooled<'_>, settings: &Settings) -> Vec<Row> {
    let statements = u32::try_from(2 * settings.quantiles.len()).unwrap_or(u32::MAX);
    let confidence = settings.confidence.shared_by(statements);
    let (from, to) = (base.tally(), candidate.tally());
    let bounds = |tally: &Tally, quantile: f64, index: f64| {
        let ranks = quantile_ranks_of_clustered(tally.total(), quantile, index, confidence);
        Some(Interval { lower: tally.at_rank(ranks.lower?)?, upper: tally.at_rank(ranks.upper?)? })
    };
    let of_quantile = |&quantile: &f64| {
        let (base_ns, candidate_ns) = (from.quantile(quantile)?, to.quantile(quantile)?);
        let mut row = row(settings, quantile, base_ns, candidate_ns, candidate_ns - base_ns);
        let both = bounds(&from, quantile, base.index).zip(bounds(&to, quantile, candidate.index));
        row.interval_ns = both.map(|(from, to)| Interval { lower: to.lower - from.upper, upper: to.upper - from.lower });
        if row.interval_ns.is_none() {
            row.data_needed = samples_needed(quantile, from.total().min(to.total()), confidence);
        }
        Some(row)
    };
    settings.quantiles.iter().filter_map(of_quantile).collect()
}

fn maxima(base: &Pooled<'_>, candidate: &Pooled<'_>) -> Option<Maxima> {
    let samples = base.runs.iter().chain(candidate.runs).map(|run| run.exact.count()).min()?;
    let values =
        |side: &Pooled<'_>| -> Option<Vec<f64>> { side.runs.iter().map(|run| median_maximum(&tally(&run.exact), samples)).collect() };
    let (base_ns, candidate_ns) = (values(base)?, values(candidate)?);
    let largest = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let is_apart = smallest(&candidate_ns) > largest(&base_ns) || smallest(&base_ns) > largest(&candidate_ns);
    let repeated = base_ns.len() > 1 && candidate_ns.len() > 1;
    let chance = (is_apart && repeated).then(|| all_above_by_chance(base_ns.len() as u64, candidate_ns.len() as u64));
    Some(Maxima { samples, base_ns, candidate_ns, all_above_by_chance: chance })
}

fn misses(base: &Pooled<'_>, candidate: &Pooled<'_>, settings: &Settings) -> Option<Misses> {
    settings.window?;
    let (from, to) = (base.misses()?, candidate.misses()?);
    // Misses come in clusters: what counts is how many of those there were.
    let counted = |(misses, due): (u64, u64), index: f64| Counted { events: misses as f64 * index, exposure: due as f64 * index };
    let found = rate_ratio(counted(from, base.index), counted(to, candidate.index), settings.confidence);
    let tolerated = match settings.margin {
        Margin::Share(share) => share,
        Margin::Time(_) => 0.0,
    };
    let verdict = (from.0 + to.0 > 0).then(|| {
        if found.interval.lower > 1.0 + tolerated {
            Outcome::Worse
        } else if found.interval.upper < 1.0 / (1.0 + tolerated) {
            Outcome::Better
        } else if found.interval.lower >= 1.0 / (1.0 + tolerated) && found.interval.upper <= 1.0 + tolerated {
            Outcome::Equivalent
        } else {
            Outcome::Inconclusive
        }
    });
    Some(Misses {
        base: from,
        candidate: to,
        ratio: found.ratio.filter(|ratio| ratio.is_finite()),
        interval: (found.interval.lower, Some(found.interval.upper).filter(|upper| upper.is_finite())),
        probability: found.probability,
        verdict,
    })
}

/// Adjusts the probabilities of all rows that come from blocks by Holm, and gives rows and tables their verdicts.
///
/// Probabilities of repeated runs stay as they are: with four runs a side they cannot be smaller than 2 in 70.
pub fn settle(tables: &mut [Table], settings: &Settings) {
    let is_of_blocks = |table: &&mut Table| matches!(table.method, Method::Blocks { .. });
    let mut rows: Vec<&mut Row> = tables.iter_mut().filter(is_of_blocks).flat_map(|table| &mut table.rows).collect();
    rows.retain(|row| row.probability.is_some());
    let raw: Vec<f64> = rows.iter().filter_map(|row| row.probability).collect();
    for (row, adjusted) in rows.into_iter().zip(tardy_core::statistics::compare::holm::holm(&raw)) {
        row.probability = Some(adjusted);
    }
    for table in tables {
        table.rows.iter_mut().for_each(|row| settle_row(row, settings.confidence));
        if matches!(table.method, Method::Blocks { is_too_short: true, .. }) {
            table.rows.iter_mut().filter(|row| row.verdict.is_some()).for_each(|row| row.verdict = Some(Outcome::Inconclusive));
        }
        let outcomes = table.rows.iter().filter_map(|row| row.verdict).chain(table.misses.and_then(|misses| misses.verdict));
        table.verdict = Outcome::of_all(outcomes).unwrap_or(Outcome::Inconclusive);
    }
}

fn settle_row(row: &mut Row, confidence: Confidence) {
    let Some(interval) = row.interval_ns else { return };
    let found = equivalence(row.difference_ns, interval, row.margin_ns);
    let is_by_chance = row.probability.is_some_and(|probability| probability > confidence.miss());
    let outcome = match Outcome::from(found) {
        Outcome::Worse | Outcome::Better if is_by_chance => Outcome::Inconclusive,
        outcome => outcome,
    };
    row.verdict = Some(outcome);
    if let Equivalence::Inconclusive { data_needed } = found {
        row.data_needed = data_needed;
    }
}
