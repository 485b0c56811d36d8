//! The samples of a run that are compared together: all CPUs of a probe, in the whole run or under
//! one load.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::sample::Sample;
use tardy_core::series::ClockKind;
use tardy_core::summary::cell::Cell;
use tardy_core::summary::dependence::Dependence;
use tardy_core::summary::numbers::{Numbers, numbers};
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;
use tardy_run::imported::StatedTotals;
use tardy_run::record::RunRecord;
use tardy_samples::blocks::{PhaseIndex, SeriesBlocks};
use tardy_samples::read_series::SeriesError;
use tardy_statistics::compare::block_length::block_length;
use tardy_statistics::log_buckets::{LogBuckets, Stretch};
use tardy_statistics::moments::Moments;
use tardy_statistics::tally::Tally;

use super::blocks;
use super::side::RunSide;

/// Number of time intervals in a long run. More intervals would not improve a confidence interval.
const STRETCHES: i64 = 512;
/// Minimum number of periods in an interval. For this reason, a short run has fewer intervals.
const PERIODS_MIN: i64 = 10;
/// Minimum length of a block; this is longer than a cycle of any built-in load. Blocks of a short
/// run may be shorter.
const BLOCK_MIN: Nanos = Nanos::from_secs(1);
/// Number of blocks in a short run. If samples depend on each other for longer than such a block,
/// fewer and longer blocks are used.
const BLOCKS_OF_SHORT: i64 = 40;
/// Minimum number of blocks that resampling needs. This minimum applies even if the dependence of
/// the samples requires longer blocks.
const BLOCKS_MIN: usize = 20;

/// Identifies series that may be compared with each other. Interval errors are never compared with
/// latencies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Name of the probe.
    pub probe: String,
    /// Name of the measured quantity.
    pub quantity: String,
    /// Unit of the values.
    pub unit: String,
    /// The load under which the samples were taken, given by the name of its phases. Absent if the
    /// samples are from the whole run.
    pub load: Option<String>,
}

impl std::fmt::Display for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", self.probe, self.quantity)?;
        self.load
            .as_ref()
            .map_or(Ok(()), |load| write!(formatter, " under {load}"))
    }
}

/// All samples of one run that have the same key.
#[derive(Debug, Clone)]
pub struct RunGroup {
    /// Distribution of all samples.
    pub exact: Histogram,
    /// The samples by blocks of time; empty if only a histogram was stored.
    pub blocks: Vec<Tally>,
    /// Length of a block; absent if there are no blocks.
    pub block: Option<Nanos>,
    /// Whether samples depend on each other over more than a block's length.
    pub dependence_is_longer: bool,
    /// Numbers that were computed from the samples, with misses and clustering; absent if there are
    /// no samples.
    pub numbers: Option<Numbers>,
    /// Whether the run is in virtual time. The same inputs then give the same samples, so there is
    /// no random variation.
    pub is_exact: bool,
    /// For samples at or above this value, an imported file gives only their number. Absent if the
    /// file gives the values of all samples.
    pub open_from: Option<Nanos>,
    /// The largest amounts by which an imported sample can have been below and above its stored
    /// value; both are 0 for samples that tardy itself took.
    pub rounding_ns: (f64, f64),
    /// Mean of an import's samples. The mean that the file states may be more precise than a mean
    /// that is computed from the buckets of its histogram.
    pub stated_mean_ns: Option<f64>,
}

impl RunGroup {
    /// Creates a group from samples in memory: one series with a fixed period and without skipped
    /// periods, in a run with one phase. `window` decides which samples are misses.
    #[must_use]
    pub fn of_samples(latencies: &[i64], period: Nanos, window: Option<Window>) -> Self {
        let measured = period * latencies.len() as i64;
        let length = Nanos((measured.get() / STRETCHES).max(period.get() * PERIODS_MIN));
        let a_stretch = usize::try_from(length.get() / period.get())
            .unwrap_or(1)
            .max(1);
        let mut cell = Cell::default();
        let mut cells = Vec::new();
        for (index, samples) in latencies.chunks(a_stretch).enumerate() {
            let mut buckets = LogBuckets::default();
            for (place, &latency) in (index * a_stretch..).zip(samples) {
                buckets.record(latency);
                cell.latency.record(latency);
                cell.sum += i128::from(latency);
                if latency > cell.top.threshold() {
                    cell.top.add(latency, place as u64);
                }
                let due = period * place as i64;
                cell.batches.add_all(0, due, &[latency], 0);
                if window.is_some_and(|window| window.misses(Nanos(latency))) {
                    cell.misses += 1;
                    cell.batches.note_misses(0, due, 1);
                }
                cell.note_worst(Some(Sample {
                    due,
                    latency: Nanos(latency),
                    skipped: 0,
                }));
            }
            cells.push((None, buckets.take()));
        }
        let numbers = numbers(&cell, &Dependence::of(&[&cell]), 0, window.is_some());
        Self::of_cells(
            cell.latency,
            cells,
            &Lengths {
                measured,
                stretch: length,
                is_given: false,
            },
            numbers,
            &[],
            false,
        )
    }

    /// Creates a group whose blocks are made of time intervals. `cells` has the intervals in
    /// chronological order, each with its phase. `phases` has the names of the phases.
    fn of_cells(
        exact: Histogram,
        cells: Vec<(PhaseIndex, Stretch)>,
        lengths: &Lengths,
        numbers: Option<Numbers>,
        phases: &[String],
        is_exact: bool,
    ) -> Self {
        let is_every_sample = cells
            .iter()
            .map(|(_, stretch)| stretch.count())
            .sum::<u64>()
            == exact.count();
        let shortest = if lengths.is_given {
            1
        } else {
            stretches_min(lengths)
        };
        let wanted = if lengths.is_given || !is_every_sample {
            1
        } else {
            cells_a_block(&cells, phases)
        };
        let together = wanted.max(shortest).min((cells.len() / BLOCKS_MIN).max(1));
        let blocks = if is_every_sample {
            joined(cells, together)
        } else {
            Vec::new()
        };
        Self {
            exact,
            block: (!blocks.is_empty()).then(|| lengths.stretch * together as i64),
            blocks,
            dependence_is_longer: wanted > together,
            numbers,
            is_exact,
            open_from: None,
            rounding_ns: (0.0, 0.0),
            stated_mean_ns: None,
        }
    }
}

/// The lengths of a run and of its time intervals, from which the length of blocks is computed.
#[derive(Debug, Clone, Copy)]
struct Lengths {
    measured: Nanos,
    stretch: Nanos,
    /// Whether the user chose the length of blocks.
    is_given: bool,
}

/// Returns all groups of a run. `stretch` is the length of blocks, if the user chose it.
///
/// # Errors
/// Fails with a [`SeriesError`] if a series cannot be read.
pub fn groups(
    run: &RunSide,
    stretch: Option<Nanos>,
) -> Result<BTreeMap<Key, RunGroup>, SeriesError> {
    let length = stretch.unwrap_or_else(|| stretch_length(run));
    let lengths = Lengths {
        measured: run.summary.measured_ns,
        stretch: length,
        is_given: stretch.is_some(),
    };
    let series = blocks::read(&run.folder, &run.record, length)?;
    let mut groups = BTreeMap::new();
    let mut kinds: Vec<(&str, &str, &str)> = series.iter().map(kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for (probe, quantity, unit) in kinds {
        let of_kind: Vec<&SeriesBlocks> = series
            .iter()
            .filter(|series| kind(series) == (probe, quantity, unit))
            .collect();
        let key = |load: Option<&str>| Key {
            probe: probe.to_owned(),
            quantity: quantity.to_owned(),
            unit: unit.to_owned(),
            load: load.map(str::to_owned),
        };
        let numbers = run
            .summary
            .probes
            .iter()
            .find(|summary| summary.probe == probe)
            .and_then(|summary| summary.numbers.clone());
        let stated_mean_ns = numbers
            .as_ref()
            .filter(|_| run.record.imported.is_some())
            .map(|numbers| numbers.mean_ns);
        let whole = group(&of_kind, &run.record, &lengths, numbers, |_| true);
        groups.insert(
            key(None),
            RunGroup {
                open_from: open_from(&run.record, probe),
                rounding_ns: rounding(&run.record, probe),
                stated_mean_ns,
                ..whole
            },
        );
        if run.summary.loads.len() < 2 {
            continue;
        }
        for load in &run.summary.loads {
            let stressed: Vec<&SeriesBlocks> = of_kind
                .iter()
                .copied()
                .filter(|series| {
                    series
                        .descriptor
                        .cpu
                        .is_none_or(|cpu| !load.not_stressed.contains(cpu))
                })
                .collect();
            let numbers = load
                .probes
                .iter()
                .find(|(name, _)| name == probe)
                .and_then(|(_, numbers)| numbers.clone());
            let is_of_load = |phase: PhaseIndex| {
                phase.is_some_and(|phase| run.record.phases[phase].name == load.name)
            };
            groups.insert(
                key(Some(&load.name)),
                group(&stressed, &run.record, &lengths, numbers, is_of_load),
            );
        }
    }
    Ok(groups)
}

/// Returns the value from which on an imported file gives only the number of a probe's samples, not
/// their values.
fn open_from(record: &RunRecord, probe: &str) -> Option<Nanos> {
    stated(record, probe)
        .filter_map(StatedTotals::open_from)
        .min()
}

/// Returns the largest amounts by which an imported sample of a probe can have been below and above
/// its stored value.
fn rounding(record: &RunRecord, probe: &str) -> (f64, f64) {
    stated(record, probe).fold((0.0, 0.0), |(below, above), stated| {
        (
            (stated.below_ns.get() as f64).max(below),
            (stated.above().get() as f64).max(above),
        )
    })
}

/// Returns the totals that an import states for the series of a probe.
fn stated<'a>(record: &'a RunRecord, probe: &'a str) -> impl Iterator<Item = &'a StatedTotals> {
    let stated = record.imported.iter().flat_map(|imported| &imported.series);
    let with_series = record.series.iter().zip(stated);
    with_series
        .filter(move |(series, _)| series.probe == probe)
        .map(|(_, stated)| stated)
}

fn kind(series: &SeriesBlocks) -> (&str, &str, &str) {
    (
        &series.descriptor.probe,
        &series.descriptor.quantity,
        &series.descriptor.unit,
    )
}

fn stretch_length(run: &RunSide) -> Nanos {
    let period = run
        .summary
        .probes
        .iter()
        .map(|probe| probe.period_ns.get())
        .max()
        .unwrap_or(0);
    // In an import without times, the n-th sample is treated as if it was due at n ns.
    let places = || {
        run.summary
            .series
            .iter()
            .map(|series| i64::try_from(series.counts.expected).unwrap_or(i64::MAX))
            .max()
    };
    let has_no_times = run
        .record
        .imported
        .as_ref()
        .is_some_and(|imported| imported.has_no_times);
    let length = if has_no_times {
        places().unwrap_or(0)
    } else {
        run.summary.measured_ns.get()
    };
    Nanos(
        (length / STRETCHES)
            .max(period.saturating_mul(PERIODS_MIN))
            .max(1),
    )
}

/// Returns the number of time intervals in the shortest block.
fn stretches_min(lengths: &Lengths) -> usize {
    let block = BLOCK_MIN
        .get()
        .min(lengths.measured.get() / BLOCKS_OF_SHORT);
    usize::try_from(
        block
            .unsigned_abs()
            .div_ceil(lengths.stretch.get().unsigned_abs().max(1)),
    )
    .unwrap_or(1)
    .max(1)
}

fn group(
    series: &[&SeriesBlocks],
    record: &RunRecord,
    lengths: &Lengths,
    numbers: Option<Numbers>,
    belongs: impl Fn(PhaseIndex) -> bool,
) -> RunGroup {
    let mut exact = Histogram::new(Budget::ANALYSIS);
    // Samples of several CPUs in the same time interval belong to the same block, because a
    // disturbance of one CPU often affects the others.
    let mut stretches: BTreeMap<(u64, PhaseIndex), Stretch> = BTreeMap::new();
    for series in series {
        series
            .exact
            .iter()
            .filter(|(phase, _)| belongs(**phase))
            .for_each(|(_, histogram)| exact.merge(histogram));
        series
            .stored
            .iter()
            .filter(|_| belongs(None))
            .for_each(|histogram| exact.merge(histogram));
        for (place, stretch) in series
            .stretches
            .iter()
            .filter(|(place, _)| belongs(place.1))
        {
            stretches.entry(*place).or_default().merge(stretch.clone());
        }
    }
    let cells: Vec<(PhaseIndex, Stretch)> = stretches
        .into_iter()
        .map(|((_, phase), stretch)| (phase, stretch))
        .collect();
    let phases: Vec<String> = record
        .phases
        .iter()
        .map(|phase| phase.name.clone())
        .collect();
    RunGroup::of_cells(
        exact,
        cells,
        lengths,
        numbers,
        &phases,
        record.clock == ClockKind::Virtual,
    )
}

/// Merges neighbouring intervals of the same phase into blocks of `together` intervals.
fn joined(cells: Vec<(PhaseIndex, Stretch)>, together: usize) -> Vec<Tally> {
    let mut blocks: Vec<(PhaseIndex, usize, Stretch)> = Vec::new();
    for (phase, stretch) in cells {
        match blocks.last_mut() {
            Some((last, count, block)) if *last == phase && *count < together => {
                *count += 1;
                block.merge(stretch);
            }
            _ => blocks.push((phase, 1, stretch)),
        }
    }
    blocks
        .into_iter()
        .map(|(_, _, stretch)| stretch.tally())
        .collect()
}

/// Returns how many neighbouring intervals depend on each other, as estimated from the intervals'
/// means. Differences between phases do not count as dependence.
fn cells_a_block(cells: &[(PhaseIndex, Stretch)], phases: &[String]) -> usize {
    let name = |phase: &PhaseIndex| phase.map(|phase| phases[phase].as_str());
    let mean = |stretch: &Stretch| stretch.sum() / stretch.count().max(1) as f64;
    let mut levels: BTreeMap<Option<&str>, Moments> = BTreeMap::new();
    for (phase, stretch) in cells {
        levels.entry(name(phase)).or_default().push(mean(stretch));
    }
    let values: Vec<f64> = cells
        .iter()
        .map(|(phase, stretch)| mean(stretch) - levels[&name(phase)].mean().unwrap_or_default())
        .collect();
    block_length(&values).map_or(1, |length| length.circular.ceil().max(1.0) as usize)
}
