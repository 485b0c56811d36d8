//! Computes all three layers of statistics for a run, for each series and for all series of a probe
//! together.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::summary::dependence::Dependence;
use tardy_core::units::Nanos;
use tardy_samples::read_series::{SeriesError, SeriesFile};
use tardy_samples::tail::{LoadSpans, TailReader};
use tardy_sys::scoped;

use super::bounds::{Bounds, bounds};
use super::observed::{ObservedStatistics, observed};
use super::rule_of_thumb::RuleOfThumb;
use super::tail::{LoadTail, TailModel, TailOptions, Tails, tails};
use crate::summary::by_phase::{self, OfName};
use crate::summary::read::{LoadedRun, SeriesData};
use crate::summary::stated::mean_and_least;

/// Which statistics are requested.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Limits in ascending order. If empty, they are chosen from the samples.
    pub limits: Vec<Nanos>,
    /// Width of the buckets in which samples are counted.
    pub bucket: Nanos,
    /// The horizon of the tail model.
    pub horizon: Nanos,
    /// Maximum number of series per probe that are analysed one by one. The worst series are
    /// chosen. In addition, all series together are always analysed.
    pub series_max: usize,
    /// Clock rate of the CPUs in MHz. If given, it replaces the clock rate that the machine
    /// reports.
    pub mhz: Option<f64>,
    /// Whether models that the gate refused are returned as well, marked as refused.
    pub show_refused: bool,
}

impl Default for Question {
    /// Returns the default question of `tardy show --statistics`.
    fn default() -> Self {
        Self {
            limits: Vec::new(),
            bucket: Nanos(1_000),
            horizon: Nanos::from_secs(86_400),
            series_max: usize::MAX,
            mhz: None,
            show_refused: false,
        }
    }
}

impl Question {
    /// Returns the question with its limits sorted and without duplicates.
    #[must_use]
    pub fn with_limits_in_order(mut self) -> Self {
        self.limits.sort_unstable();
        self.limits.dedup();
        self
    }
}

/// Statistics of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statistics {
    /// Groups for each series, and a group for all series of a probe together.
    pub groups: Vec<Group>,
    /// The worst case in ns according to OSADL's rule of thumb, and the clock rate in MHz on which
    /// it is based.
    pub rule_of_thumb_ns: Option<(f64, f64)>,
    /// The verdict by the rule of thumb on each probe, and the source of the clock rate.
    pub rule_of_thumb: RuleOfThumb,
}

/// One series, or all series of a probe together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    pub probe: String,
    /// Name of the measured quantity.
    pub quantity: String,
    /// The CPU of the series; absent if this is the group of all series, or if the series has no
    /// fixed CPU.
    pub cpu: Option<CpuId>,
    /// The number of the series among the probe's series without a fixed CPU; absent if there is
    /// only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<u32>,
    /// Whether this is the group of all series of the probe.
    pub is_together: bool,
    /// Number of skipped periods. A skipped period has no sample, but it counts as a deadline miss
    /// if the wake-up came too late for it.
    pub skipped: u64,
    /// Number of the probe's series, including those without a group.
    #[serde(skip)]
    pub of_series: usize,
    /// The observations.
    pub observed: ObservedStatistics,
    /// The bounds for any distribution.
    pub bounds: Bounds,
    /// The tail model; absent for several series together, because their samples are a mixture that
    /// no model describes.
    pub tail: Option<TailModel>,
    /// A tail model for the samples of each load; empty unless the run has several loads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tail_by_load: Vec<LoadTail>,
}

/// Collects the samples that tail models need, separately for each series file.
pub type TailReaders = BTreeMap<PathBuf, TailReader>;

/// Computes the statistics of a run whose summary is already loaded. Its samples are read once
/// more, for the tail models.
///
/// # Errors
/// Fails if a series cannot be read.
pub fn statistics(run: &LoadedRun, question: &Question) -> Result<Statistics, SeriesError> {
    let mut readers = tail_readers(run, question);
    let read = |(file, reader): (&PathBuf, &mut TailReader)| {
        SeriesFile::open(file)?
            .read(&mut |chunk| reader.add(chunk))
            .map(drop)
    };
    side_by_side(readers.iter_mut(), read)
        .into_iter()
        .collect::<Result<(), SeriesError>>()?;
    Ok(statistics_of(run, question, &readers))
}

/// Returns a reader for each series that is analysed individually, namely the worst series of each
/// probe. The caller must pass all chunks of each file to its reader.
#[must_use]
pub fn tail_readers(run: &LoadedRun, question: &Question) -> TailReaders {
    let loads = run.load_spans();
    let reader = |read: &&SeriesData| {
        let is_stressed = |load: &&(LoadSpans, CpuList)| {
            read.descriptor()
                .cpu
                .is_none_or(|cpu| !load.1.contains(cpu))
        };
        let spans = loads
            .iter()
            .filter(is_stressed)
            .map(|(spans, _)| spans.clone())
            .collect();
        let samples = read.whole().latency.count();
        let reader = TailReader::new(read.descriptor().schedule, samples, spans)?;
        Some((read.file().to_owned(), reader))
    };
    by_probe(run)
        .iter()
        .flat_map(|series| worst(series, question))
        .filter_map(|read| reader(&read))
        .collect()
}

/// Works like [`statistics`], but with readers that have already processed all chunks.
#[must_use]
pub fn statistics_of(run: &LoadedRun, question: &Question, readers: &TailReaders) -> Statistics {
    let groups: Vec<Group> = by_probe(run)
        .iter()
        .flat_map(|series| of_series(run, series, question, readers))
        .collect();
    let latencies = groups.iter().filter(|group| group.quantity == "latency");
    let maxima: Vec<(&str, i64)> = latencies
        .map(|group| (group.probe.as_str(), group.observed.max_ns))
        .collect();
    let rule_of_thumb = RuleOfThumb::new(&run.record, question.mhz, &maxima);
    Statistics {
        groups,
        rule_of_thumb_ns: rule_of_thumb.worst_case_ns.zip(rule_of_thumb.mhz),
        rule_of_thumb,
    }
}

/// Returns the series of each probe.
fn by_probe(run: &LoadedRun) -> Vec<Vec<&SeriesData>> {
    let mut series: Vec<&SeriesData> = run.series.iter().collect();
    series.sort_by_key(|read| {
        (
            &read.descriptor().probe,
            read.descriptor().cpu,
            read.descriptor().copy,
        )
    });
    series
        .chunk_by(|a, b| a.descriptor().probe == b.descriptor().probe)
        .map(<[&SeriesData]>::to_vec)
        .collect()
}

/// Returns the series that are analysed one by one.
fn worst<'a>(series: &[&'a SeriesData], question: &Question) -> Vec<&'a SeriesData> {
    let mut worst = series.to_vec();
    worst.sort_by_key(|read| std::cmp::Reverse(read.whole().latency.max()));
    worst.truncate(question.series_max);
    worst
}

/// Applies `make` to each item, with as many threads as there are CPUs. Returns the results in the
/// order of the items.
pub fn side_by_side<T: Send, R: Send>(
    items: impl Iterator<Item = T>,
    make: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (mut items, mut made) = (items.peekable(), Vec::new());
    while items.peek().is_some() {
        let some: Vec<T> = items.by_ref().take(threads).collect();
        made.extend(scoped::map(some, threads, &make));
    }
    made
}

impl LoadedRun {
    /// Returns when each load ran, and on which CPUs it hardly ran; empty if all samples belong to
    /// the same load.
    fn load_spans(&self) -> Vec<(LoadSpans, CpuList)> {
        let loads = by_phase::by_name(&self.record, &self.series);
        if loads.len() < 2 {
            return Vec::new();
        }
        let span = |&index: &usize| self.record.under_load(index, None);
        let of_load = |load: OfName<'_>| {
            (
                LoadSpans {
                    load: load.name.to_owned(),
                    spans: load.phases.iter().map(span).collect(),
                },
                load.not_stressed,
            )
        };
        loads.into_iter().map(of_load).collect()
    }
}

/// Computes the statistics for the series of one probe.
fn of_series(
    run: &LoadedRun,
    series: &[&SeriesData],
    question: &Question,
    readers: &TailReaders,
) -> Vec<Group> {
    let worst = worst(series, question);
    let wanted = TailOptions {
        horizon: question.horizon,
        is_refused_kept: question.show_refused,
    };
    let tails = |read: &&SeriesData| {
        readers
            .get(read.file())
            .map_or_else(Tails::default, |reader| tails(reader, read, wanted))
    };
    let of_each = side_by_side(worst.iter(), tails);
    let mut together = Histogram::new(Budget::ANALYSIS);
    series
        .iter()
        .for_each(|read| together.merge(&read.whole().latency));
    let limits = if question.limits.is_empty() {
        round_limits(&together)
    } else {
        question.limits.clone()
    };
    // Each sample is counted as one period. This includes the last sample, although nothing was
    // measured in the period after it.
    let periods = |read: &&SeriesData| {
        i64::try_from(read.whole().latency.count() + read.whole().skipped).unwrap_or(i64::MAX)
    };
    let of_periods = |read: &&SeriesData| {
        Nanos(
            read.descriptor()
                .schedule
                .period()
                .get()
                .saturating_mul(periods(read)),
        )
    };
    let length = run
        .measured()
        .max(series.iter().map(of_periods).max().unwrap_or_default());
    let group =
        |histogram: &Histogram, dependence: &Dependence, one: Option<&SeriesData>, tails: Tails| {
            let descriptor = one.map(SeriesData::descriptor);
            let of: Vec<&SeriesData> = one.map_or_else(|| series.to_vec(), |one| vec![one]);
            let (mut observed, mut bounds) = (
                observed(histogram, question.bucket, &limits)?,
                bounds(histogram, dependence, length, &limits)?,
            );
            (observed.mean_ns, observed.min_ns) =
                mean_and_least(&of, (observed.mean_ns, observed.min_ns));
            if let Some(open) = of.iter().filter_map(|read| read.open_from()).min() {
                observed.forget_from(open);
                bounds.forget_from(open);
            }
            Some(Group {
                probe: series[0].descriptor().probe.clone(),
                quantity: series[0].descriptor().quantity.clone(),
                cpu: descriptor.and_then(|descriptor| descriptor.cpu),
                copy: descriptor.and_then(|descriptor| descriptor.copy),
                is_together: one.is_none(),
                skipped: one.map_or_else(
                    || series.iter().map(|read| read.whole().skipped).sum(),
                    |one| one.whole().skipped,
                ),
                of_series: series.len(),
                observed,
                bounds,
                tail: tails.whole,
                tail_by_load: tails.by_load,
            })
        };
    let mut groups = Vec::new();
    for (read, tails) in worst.iter().zip(of_each) {
        groups.extend(group(
            &read.whole().latency,
            &Dependence::of(&[read.whole()]),
            Some(read),
            tails,
        ));
    }
    // The groups are sorted worst first, as in the summary.
    groups.sort_by_key(|group| std::cmp::Reverse(group.observed.max_ns));
    if series.len() > 1 {
        let dependence =
            Dependence::of(&series.iter().map(|read| read.whole()).collect::<Vec<_>>());
        groups.extend(group(&together, &dependence, None, Tails::default()));
    }
    groups
}

/// Returns limits of the form 1, 2 or 5 times a power of ten. The first limit is the largest such
/// number that is not above the median. The last limit is the smallest such number above the
/// maximum.
fn round_limits(histogram: &Histogram) -> Vec<Nanos> {
    let Some(max) = histogram.max() else {
        return Vec::new();
    };
    let median = histogram.values_at(&[histogram.count().div_ceil(2)])[0].unwrap_or(0);
    let round = (2..18).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_i64.pow(power)));
    let mut limits: Vec<i64> = Vec::new();
    for limit in round {
        if limit <= median {
            limits.clear();
        }
        limits.push(limit);
        if limit > max {
            break;
        }
    }
    limits.into_iter().map(Nanos).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_reach_from_below_the_median_to_above_the_maximum() {
        let mut histogram = Histogram::new(Budget::ANALYSIS);
        [13_000, 14_000, 15_000, 230_000]
            .iter()
            .for_each(|&value| histogram.record(value));
        assert_eq!(
            round_limits(&histogram),
            [10_000, 20_000, 50_000, 100_000, 200_000, 500_000].map(Nanos)
        );
        assert!(round_limits(&Histogram::new(Budget::ANALYSIS)).is_empty());
    }
}
