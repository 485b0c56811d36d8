//! Sums the delays of late samples by holder of the CPU, by component, and by stack.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::units::Nanos;
use tardy_trace::explain::{Cause, Component};

use crate::delays::{DelayChunk, DelayHolder, DelayReader, SampleDelay};
use crate::read_series::{SeriesError, SeriesFile};

/// The sum and the quantiles of the latencies of late wake-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lateness {
    /// Sum of all latencies.
    pub sum_ns: u64,
    /// The smallest latency.
    pub min_ns: u64,
    /// Median of the latencies.
    pub median_ns: u64,
    /// 99th percentile of the latencies.
    pub p99_ns: u64,
    /// The largest latency.
    pub max_ns: u64,
}

/// The sum, median and maximum of one component of the delay.
#[derive(Debug, Serialize)]
pub struct ComponentRow {
    /// The component.
    pub component: Component,
    /// Sum of the component over all wake-ups.
    pub sum_ns: u64,
    /// Median of the component over the wake-ups that have it.
    pub median_ns: u64,
    /// Largest delay by this component in one wake-up.
    pub max_ns: u64,
    /// Number of wake-ups that have this component.
    pub wake_ups: u64,
}

/// The delay that one holder of the CPU caused.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct HolderTotal {
    /// Sum of the delays that the holder caused, over all wake-ups.
    pub sum_ns: u64,
    /// Number of wake-ups that the holder delayed.
    pub wake_ups: u64,
    /// Largest delay by this holder in one wake-up.
    pub max_ns: u64,
}

impl HolderTotal {
    fn add(&mut self, ns: u64) {
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.wake_ups += 1;
        self.max_ns = self.max_ns.max(ns);
    }
}

/// The sum and the quantiles of durations. The quantiles are exact unless the histogram has no
/// space for all different values.
#[derive(Debug)]
struct Lengths {
    histogram: Histogram,
    sum_ns: u64,
}

impl Default for Lengths {
    fn default() -> Self {
        Self {
            histogram: Histogram::new(Budget::ANALYSIS),
            sum_ns: 0,
        }
    }
}

impl Lengths {
    fn add(&mut self, ns: u64) {
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.histogram.record(i64::try_from(ns).unwrap_or(i64::MAX));
    }

    /// A quantile is the smallest value that the given fraction of values does not exceed.
    fn lateness(&self) -> Option<Lateness> {
        let count = self.histogram.count();
        let rank = |hundredths: u64| (count * hundredths).div_ceil(100).max(1);
        let at: Vec<u64> = self
            .histogram
            .values_at(&[1, rank(50), rank(99), count])
            .into_iter()
            .flatten()
            .map(i64::unsigned_abs)
            .collect();
        let [min_ns, median_ns, p99_ns, max_ns] = at[..] else {
            return None;
        };
        Some(Lateness {
            sum_ns: self.sum_ns,
            min_ns,
            median_ns,
            p99_ns,
            max_ns,
        })
    }
}

/// Maximum number of holders that are counted separately. The limit bounds the memory even for a
/// manipulated trace with many invented names.
pub const HOLDERS_MAX: usize = 100_000;
/// The index that all holders beyond [`HOLDERS_MAX`] share.
pub const OTHERS: usize = 0;

/// Sums of the delays of late wake-ups. Each holder is identified by its index in the caller's
/// list.
#[derive(Debug, Default)]
pub struct DelayTotals {
    all: Lengths,
    components: BTreeMap<Component, Lengths>,
    holders: BTreeMap<usize, HolderTotal>,
    of_components: BTreeMap<Component, u64>,
    of_holders: BTreeMap<usize, u64>,
}

impl DelayTotals {
    /// Adds a wake-up with its latency and its pieces. A piece is a component, a holder and a
    /// length in ns.
    pub fn take(
        &mut self,
        lateness: u64,
        pieces: &mut dyn Iterator<Item = (Component, usize, u64)>,
    ) {
        self.all.add(lateness);
        for (component, holder, ns) in pieces {
            *self.of_components.entry(component).or_default() += ns;
            *self.of_holders.entry(holder).or_default() += ns;
        }
        while let Some((component, ns)) = self.of_components.pop_first() {
            self.components.entry(component).or_default().add(ns);
        }
        while let Some((holder, ns)) = self.of_holders.pop_first() {
            let is_room = self.holders.len() < HOLDERS_MAX || self.holders.contains_key(&holder);
            self.holders
                .entry(if is_room { holder } else { OTHERS })
                .or_default()
                .add(ns);
        }
    }

    /// Returns the number of wake-ups.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.all.histogram.count()
    }

    /// Returns the latencies of the wake-ups; `None` if there are no wake-ups.
    #[must_use]
    pub fn lateness(&self) -> Option<Lateness> {
        self.all.lateness()
    }

    /// Returns the sums for each component, in chronological order of the components.
    #[must_use]
    pub fn components(&self) -> Vec<ComponentRow> {
        let row = |(&component, lengths): (&Component, &Lengths)| {
            let lateness = lengths.lateness()?;
            Some(ComponentRow {
                component,
                sum_ns: lateness.sum_ns,
                median_ns: lateness.median_ns,
                max_ns: lateness.max_ns,
                wake_ups: lengths.histogram.count(),
            })
        };
        self.components.iter().filter_map(row).collect()
    }

    /// Returns the sums for each holder, by index.
    #[must_use]
    pub fn holders(&self) -> &BTreeMap<usize, HolderTotal> {
        &self.holders
    }
}

/// Maximum number of distinct stacks; a run has a few hundred.
const STACKS_MAX: usize = 100_000;

/// A stack, and the delay that it caused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StackRow {
    /// Why the thread had to wait.
    pub cause: Cause,
    /// Name of the thread or softirq.
    pub name: String,
    /// Whether the delay ended because the functions of the stack gave up the CPU. If not, the
    /// functions were running when the timer interrupt arrived.
    pub is_end: bool,
    /// Functions, innermost first.
    pub functions: Vec<String>,
    /// Sum of the delays that the stack caused, over all samples.
    pub sum_ns: u64,
    /// Number of samples that the stack delayed.
    pub samples: u64,
    /// Largest delay that the stack caused in one sample.
    pub max_ns: u64,
}

/// Identifies a stack: the cause, the name, whether the functions gave up the CPU, and the
/// functions.
type Key = (Cause, String, bool, Vec<Arc<str>>);

/// Sums delays by stack.
#[derive(Debug, Default)]
pub struct StackTotals(HashMap<Key, (u64, u64, u64)>);

impl StackTotals {
    /// Adds a piece of the length `ns`. Ignores a piece without a stack.
    pub fn take(&mut self, holder: &DelayHolder, ns: u64) {
        let (is_end, functions) = match (&*holder.stack, &*holder.ended) {
            ([], []) => return,
            ([], ended) => (true, ended),
            (stack, _) => (false, stack),
        };
        let key = (
            holder.cause,
            holder.name.clone(),
            is_end,
            functions.to_vec(),
        );
        if self.0.len() >= STACKS_MAX && !self.0.contains_key(&key) {
            return;
        }
        let (sum, samples, max) = self.0.entry(key).or_default();
        (*sum, *samples, *max) = (sum.saturating_add(ns), *samples + 1, ns.max(*max));
    }

    /// Returns the stacks, sorted by the delay that they caused, largest first.
    #[must_use]
    pub fn rows(self) -> Vec<StackRow> {
        let row =
            |((cause, name, is_end, functions), (sum_ns, samples, max_ns)): (Key, _)| StackRow {
                cause,
                name,
                is_end,
                functions: functions.iter().map(ToString::to_string).collect(),
                sum_ns,
                samples,
                max_ns,
            };
        let mut rows: Vec<StackRow> = self.0.into_iter().map(row).collect();
        rows.sort_by(|one, other| {
            other
                .sum_ns
                .cmp(&one.sum_ns)
                .then_with(|| one.functions.cmp(&other.functions))
        });
        rows
    }
}

/// Sums of the delays of a run's late samples.
#[derive(Debug, Default)]
pub struct SampleTotals {
    /// Number of explained samples.
    pub explained: u64,
    /// Number of samples whose latency is only partly explained.
    pub with_unknown: u64,
    /// Number of samples above the threshold.
    pub ranked: u64,
    /// Sums of the delays of the samples above the threshold.
    pub delays: DelayTotals,
    /// Sums of the delays of all other samples. All holders of these samples are counted as one
    /// holder.
    pub ordinary: DelayTotals,
    /// Stacks of the samples above the threshold.
    pub stacks: StackTotals,
}

impl SampleTotals {
    /// Adds one sample of `chunk`. `places` contains the index of each holder of the chunk. Returns
    /// the sample's latency in ns if it exceeds `above`.
    pub fn take(
        &mut self,
        sample: &SampleDelay,
        chunk: &DelayChunk,
        places: &[usize],
        above: Nanos,
    ) -> Option<u64> {
        self.explained += 1;
        let is_unknown = sample
            .pieces
            .iter()
            .any(|piece| chunk.holders[piece.holder].cause.is_unexplained());
        self.with_unknown += u64::from(is_unknown);
        let latency = sample.sum();
        if i64::try_from(latency).is_ok_and(|latency| latency <= above.get()) {
            let pieces = sample.pieces.iter();
            self.ordinary.take(
                latency,
                &mut pieces.map(|piece| (piece.component, OTHERS, piece.length)),
            );
            return None;
        }
        self.ranked += 1;
        let pieces = sample.pieces.iter();
        self.delays.take(
            latency,
            &mut pieces.map(|piece| (piece.component, places[piece.holder], piece.length)),
        );
        Some(latency)
    }

    /// Adds all samples of `chunk`, with their stacks. Calls `late` with each sample whose latency
    /// exceeds both `above` and `least` (in ns). `late` returns the new `least`.
    pub fn take_chunk(
        &mut self,
        chunk: &DelayChunk,
        places: &[usize],
        above: Nanos,
        mut least: u64,
        late: &mut dyn FnMut(&SampleDelay, u64) -> u64,
    ) {
        for sample in &chunk.samples {
            let Some(latency) = self.take(sample, chunk, places, above) else {
                continue;
            };
            for piece in &sample.pieces {
                self.stacks.take(&chunk.holders[piece.holder], piece.length);
            }
            if latency > least {
                least = late(sample, latency);
            }
        }
    }
}

/// Adds the latencies of all explained samples in the file of delays at `path` to `found`, in ns.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn latencies(path: &Path, found: &mut Histogram) -> io::Result<()> {
    let mut reader = DelayReader::open(path)?;
    while let Some(chunk) = reader.next_chunk()? {
        for sample in &chunk.samples {
            found.record(i64::try_from(sample.sum()).unwrap_or(i64::MAX));
        }
    }
    Ok(())
}

/// Result of a check that the pieces of each explanation add up to the latency that is stored in
/// the series.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SumChecks {
    /// Number of samples that have both a latency and an explanation.
    pub checked: u64,
    /// Number of samples whose pieces do not add up to their latency; 0 unless there is a bug.
    pub not_adding_up: u64,
}

/// Compares the latency of each sample from two sources: the sum of its pieces in the file of
/// delays at `delays`, and the value in the series. Both files must contain their samples in the
/// same order.
///
/// # Errors
/// The outer result is an error if the file of delays cannot be opened, the inner one if the series
/// cannot be read.
pub fn check(series: &SeriesFile, delays: &Path) -> io::Result<Result<SumChecks, SeriesError>> {
    let mut reader = DelayReader::open(delays)?;
    let mut chunk = DelayChunk::default().samples.into_iter();
    let mut next = || loop {
        match chunk.next() {
            Some(sample) => return Some(sample),
            None => chunk = reader.next_chunk().ok()??.samples.into_iter(),
        }
    };
    let mut waiting = next();
    let schedule = series.descriptor().schedule;
    let mut found = SumChecks::default();
    let read = series.read(&mut |stored| {
        for (_, sample) in stored.samples(&schedule) {
            while waiting.as_ref().is_some_and(|delay| delay.due < sample.due) {
                waiting = next();
            }
            if let Some(delay) = waiting.take_if(|delay| delay.due == sample.due) {
                found.checked += 1;
                let differs = i64::try_from(delay.sum()) != Ok(sample.latency.get());
                found.not_adding_up += u64::from(differs);
                waiting = next();
            }
        }
    });
    Ok(read.map(|_| found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let of = |values: &mut dyn Iterator<Item = u64>| {
            let mut lengths = Lengths::default();
            values.for_each(|value| lengths.add(value));
            lengths.lateness()
        };
        assert_eq!(of(&mut [].into_iter()), None);
        assert_eq!(
            of(&mut [7].into_iter()),
            Some(Lateness {
                sum_ns: 7,
                min_ns: 7,
                median_ns: 7,
                p99_ns: 7,
                max_ns: 7
            })
        );
        let hundred = of(&mut (1..=100).rev()).expect("there are some");
        assert_eq!(
            (
                hundred.median_ns,
                hundred.p99_ns,
                hundred.max_ns,
                hundred.sum_ns
            ),
            (50, 99, 100, 5050)
        );
    }
}
