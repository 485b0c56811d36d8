//! Counts samples by intervals of time on the run's clock; the dependence between samples is
//! estimated from these counts.
//!
//! An interval is `2^shift` ns long and starts at a multiple of its length, so the intervals of all
//! CPUs coincide and form one time line. If there are too many intervals, pairs are merged. The
//! result depends only on the samples, not on how the series was divided into parts.

use std::collections::BTreeMap;

use crate::units::Nanos;
use crate::varint::{Reader, put, put_signed};

/// Default maximum number of intervals.
pub const BATCHES_MOST: usize = 256;
/// Base-2 logarithm of the shortest interval: 2^16 ns = 65.5 us.
const SHIFT_LEAST: u32 = 16;
/// Base-2 logarithm of the longest interval in ns.
const SHIFT_MOST: u32 = 62;
/// Number of significant bits of a value: the width of a bucket is at most 1/64 of its values.
const BITS: u32 = 7;
/// Number of buckets: one per value up to 2^7, and 64 for each further binary digit.
const BUCKETS: usize = 64 * (64 - BITS as usize + 2);

/// Identifies the set of phase kinds that a sample overlaps. Differences between kinds of phases
/// are intended, so they do not count as dependence.
pub type Stratum = u64;

/// Counts of the samples in one interval.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    pub samples: u64,
    /// Number of samples and skipped due times.
    pub due_times: u64,
    /// Number of due times that missed the requested window.
    pub misses: u64,
    /// Number of samples in each bucket, ascending.
    buckets: Vec<(u16, u32)>,
}

/// Counts of samples by intervals of time.
#[derive(Debug, Clone)]
pub struct Batches {
    shift: u32,
    most: usize,
    batches: BTreeMap<(Stratum, i64), Batch>,
    open: Option<Box<Open>>,
    /// All intervals in encoded form; used instead of the map until something is added. A hundred
    /// samples take about 200 bytes in this form.
    packed: Box<[u8]>,
}

/// The interval to which samples are currently added.
#[derive(Debug, Clone)]
struct Open {
    key: (Stratum, i64),
    counts: [u32; BUCKETS],
    /// First and last used bucket; if no bucket is used, the first is larger than the last.
    used: (usize, usize),
}

impl Default for Batches {
    fn default() -> Self {
        Self::at_most(BATCHES_MOST)
    }
}

impl Batch {
    /// Returns the number of samples in the buckets above `bucket`.
    #[must_use]
    pub fn above(&self, bucket: u16) -> u64 {
        self.buckets
            .iter()
            .rev()
            .take_while(|&&(at, _)| at > bucket)
            .map(|&(_, count)| u64::from(count))
            .sum()
    }

    /// Returns the number of samples in each bucket, ascending.
    #[must_use]
    pub fn buckets(&self) -> &[(u16, u32)] {
        &self.buckets
    }

    /// Adds the counts of another interval.
    pub fn merge(&mut self, other: &Self) {
        self.samples += other.samples;
        self.due_times += other.due_times;
        self.misses += other.misses;
        self.add_buckets(&other.buckets);
    }

    fn write(&self, (stratum, place): (Stratum, i64), out: &mut Vec<u8>) {
        put(out, stratum);
        put_signed(out, place);
        [
            self.samples,
            self.due_times,
            self.misses,
            self.buckets.len() as u64,
        ]
        .into_iter()
        .for_each(|number| put(out, number));
        let mut previous = 0;
        for &(bucket, count) in &self.buckets {
            // The lowest bit of the written number is 0 if the bucket has one sample, which is the
            // most frequent case. It is 1 if a count follows.
            put(
                out,
                u64::from(bucket - previous) << 1 | u64::from(count != 1),
            );
            if count != 1 {
                put(out, u64::from(count));
            }
            previous = bucket;
        }
    }

    fn add_buckets(&mut self, other: &[(u16, u32)]) {
        if self.buckets.is_empty() {
            self.buckets = other.to_vec();
            return;
        }
        let mut merged: Vec<(u16, u32)> = Vec::with_capacity(self.buckets.len() + other.len());
        let (mut own, mut others) = (self.buckets.iter().peekable(), other.iter().peekable());
        while let Some(&(bucket, count)) = match (own.peek(), others.peek()) {
            (Some(a), Some(b)) if a.0 <= b.0 => own.next(),
            (Some(_), None) => own.next(),
            _ => others.next(),
        } {
            match merged.last_mut() {
                Some(last) if last.0 == bucket => last.1 = last.1.saturating_add(count),
                _ => merged.push((bucket, count)),
            }
        }
        self.buckets = merged;
    }
}

impl Batches {
    /// Creates an empty list for at most `most` intervals.
    #[must_use]
    pub fn at_most(most: usize) -> Self {
        Self {
            shift: SHIFT_LEAST,
            most: most.max(2),
            batches: BTreeMap::new(),
            open: None,
            packed: Box::default(),
        }
    }

    /// Compresses the counts; no information is lost.
    pub fn pack(&mut self) {
        if !self.packed.is_empty() {
            return;
        }
        self.close();
        self.open = None;
        let mut bytes = Vec::new();
        std::mem::take(&mut self.batches)
            .iter()
            .for_each(|(key, batch)| batch.write(*key, &mut bytes));
        self.packed = bytes.into_boxed_slice();
    }

    fn unpack(&mut self) {
        if !self.packed.is_empty() {
            let packed = std::mem::take(&mut self.packed);
            self.batches = read_packed(&packed).collect();
        }
    }

    /// Returns whether two due times lie in one interval.
    #[inline]
    #[must_use]
    pub fn is_one(&self, first: Nanos, last: Nanos) -> bool {
        first.get() >> self.shift == last.get() >> self.shift
    }

    /// Adds samples that are due within one interval. `skipped` is the number of due times that
    /// they skipped.
    pub fn add_all(&mut self, stratum: Stratum, due: Nanos, latencies: &[i64], skipped: u64) {
        let open = self.open(stratum, due);
        latencies.iter().for_each(|&latency| open.record(latency));
        let batch = self.batch(stratum, due);
        batch.samples += latencies.len() as u64;
        batch.due_times += latencies.len() as u64 + skipped;
    }

    /// Adds the misses of a sample that was due at `due`. The sample itself has already been added.
    pub fn note_misses(&mut self, stratum: Stratum, due: Nanos, misses: u64) {
        self.batch(stratum, due).misses += misses;
    }

    fn batch(&mut self, stratum: Stratum, due: Nanos) -> &mut Batch {
        self.unpack();
        self.batches
            .entry((stratum, due.get() >> self.shift))
            .or_default()
    }

    fn open(&mut self, stratum: Stratum, due: Nanos) -> &mut Open {
        let key = (stratum, due.get() >> self.shift);
        if self.open.as_ref().is_none_or(|open| open.key != key) {
            self.unpack();
            self.close();
            self.batches.entry(key).or_default();
            self.join_to_fit();
            let key = (stratum, due.get() >> self.shift);
            match &mut self.open {
                Some(open) => open.key = key,
                None => self.open = Some(Box::new(Open::new(key))),
            }
        }
        self.open.as_mut().expect("it was just opened")
    }

    /// Moves the counts of the current interval into the map.
    fn close(&mut self) {
        if let Some(open) = &mut self.open
            && open.used.0 <= open.used.1
        {
            let buckets = open.take();
            self.batches
                .entry(open.key)
                .or_default()
                .add_buckets(&buckets);
        }
    }

    fn join_to_fit(&mut self) {
        while self.batches.len() > self.most && self.shift < SHIFT_MOST {
            self.join_pairs();
        }
    }

    fn join_pairs(&mut self) {
        self.shift += 1;
        for ((stratum, place), batch) in std::mem::take(&mut self.batches) {
            self.batches
                .entry((stratum, place >> 1))
                .or_default()
                .merge(&batch);
        }
    }

    /// Adds the intervals of other samples, either from the same series or from another CPU during
    /// the same time.
    pub fn merge(&mut self, other: &Self) {
        self.unpack();
        self.close();
        self.open = None;
        while self.shift < other.shift {
            self.join_pairs();
        }
        let coarser = self.shift - other.shift;
        other.for_each(|(stratum, place), batch| {
            self.batches
                .entry((stratum, place >> coarser))
                .or_default()
                .merge(batch)
        });
        if let Some(open) = &other.open {
            let (stratum, place) = open.key;
            self.batches
                .entry((stratum, place >> coarser))
                .or_default()
                .add_buckets(&open.entries());
        }
        self.join_to_fit();
    }

    /// Visits all intervals in chronological order. The current interval lacks the samples that are
    /// not yet in its buckets.
    fn for_each(&self, mut take: impl FnMut((Stratum, i64), &Batch)) {
        read_packed(&self.packed).for_each(|(key, batch)| take(key, &batch));
        self.batches
            .iter()
            .for_each(|(&key, batch)| take(key, batch));
    }

    /// Returns the combined intervals of several concurrent series, in chronological order and
    /// grouped by stratum.
    #[must_use]
    pub fn together(all: &[&Self]) -> Vec<((Stratum, i64), Batch)> {
        let mut shift = all
            .iter()
            .map(|batches| batches.shift)
            .max()
            .unwrap_or(SHIFT_LEAST);
        let most = all
            .iter()
            .map(|batches| batches.most)
            .max()
            .unwrap_or(BATCHES_MOST);
        let mut sums: BTreeMap<(Stratum, i64), Sum> = BTreeMap::new();
        let lists = all
            .iter()
            .filter(|batches| batches.open.is_some())
            .map(|batches| (batches.shift, batches.list()));
        let opened: Vec<_> = lists.collect();
        for batches in all.iter().filter(|batches| batches.open.is_none()) {
            batches.for_each(|(stratum, place), batch| {
                sums.entry((stratum, place >> (shift - batches.shift)))
                    .or_default()
                    .add(batch)
            });
        }
        for (own, list) in &opened {
            list.iter().for_each(|((stratum, place), batch)| {
                sums.entry((*stratum, place >> (shift - own)))
                    .or_default()
                    .add(batch)
            });
        }
        while sums.len() > most && shift < SHIFT_MOST {
            shift += 1;
            for ((stratum, place), sum) in std::mem::take(&mut sums) {
                sums.entry((stratum, place >> 1)).or_default().merge(&sum);
            }
        }
        sums.into_iter()
            .map(|(key, sum)| (key, sum.into_batch()))
            .collect()
    }

    /// Returns the intervals in chronological order, grouped by stratum.
    #[must_use]
    pub fn list(&self) -> Vec<((Stratum, i64), Batch)> {
        let mut closed = self.clone();
        closed.unpack();
        closed.close();
        closed.batches.into_iter().collect()
    }
}

/// The counts of one interval, summed over many series. Counters for all buckets take 30 KB, so a
/// sum has counters only if it has many entries.
#[derive(Default)]
struct Sum {
    of_counts: Batch,
    /// Buckets and their counts, in any order; a bucket may occur several times. Empty if `counts`
    /// is used instead.
    entries: Vec<(u16, u32)>,
    counts: Option<Box<[u64; BUCKETS]>>,
}

impl Sum {
    /// Number of entries above which counters are faster than a list.
    const ENTRIES_MOST: usize = BUCKETS / 4;

    fn add(&mut self, batch: &Batch) {
        self.add_entries(&batch.buckets);
        self.add_totals(batch);
    }

    fn merge(&mut self, other: &Self) {
        self.add_entries(&other.entries);
        if let Some(others) = &other.counts {
            let counts = self.counts();
            counts
                .iter_mut()
                .zip(&**others)
                .for_each(|(own, other)| *own += other);
        }
        self.add_totals(&other.of_counts);
    }

    fn add_entries(&mut self, entries: &[(u16, u32)]) {
        if self.counts.is_none() && self.entries.len() + entries.len() <= Self::ENTRIES_MOST {
            self.entries.extend_from_slice(entries);
        } else {
            count(self.counts(), entries);
        }
    }

    /// Moves all entries into the counters, and returns the counters.
    fn counts(&mut self) -> &mut [u64; BUCKETS] {
        let counts = self.counts.get_or_insert_with(|| Box::new([0; BUCKETS]));
        count(counts, &std::mem::take(&mut self.entries));
        counts
    }

    fn add_totals(&mut self, batch: &Batch) {
        self.of_counts.samples += batch.samples;
        self.of_counts.due_times += batch.due_times;
        self.of_counts.misses += batch.misses;
    }

    fn into_batch(self) -> Batch {
        let mut buckets = self.entries;
        buckets.sort_unstable();
        buckets.dedup_by(|next, last| {
            let is_same = next.0 == last.0;
            if is_same {
                last.1 = last.1.saturating_add(next.1);
            }
            is_same
        });
        if let Some(counts) = &self.counts {
            let used = counts.iter().enumerate().filter(|&(_, &count)| count > 0);
            buckets.extend(
                used.map(|(bucket, &count)| {
                    (bucket as u16, u32::try_from(count).unwrap_or(u32::MAX))
                }),
            );
        }
        Batch {
            buckets,
            ..self.of_counts
        }
    }
}

fn count(counts: &mut [u64; BUCKETS], entries: &[(u16, u32)]) {
    for &(bucket, count) in entries {
        counts[usize::from(bucket)] += u64::from(count);
    }
}

impl Open {
    fn new(key: (Stratum, i64)) -> Self {
        Self {
            key,
            counts: [0; BUCKETS],
            used: (BUCKETS, 0),
        }
    }

    #[inline]
    fn record(&mut self, value: i64) {
        let bucket = usize::from(bucket_of(value));
        self.counts[bucket] += 1;
        self.used = (self.used.0.min(bucket), self.used.1.max(bucket));
    }

    fn entries(&self) -> Vec<(u16, u32)> {
        let (first, last) = self.used;
        let used = (first..=last).filter(|&bucket| self.counts[bucket] > 0);
        used.map(|bucket| (bucket as u16, self.counts[bucket]))
            .collect()
    }

    fn take(&mut self) -> Vec<(u16, u32)> {
        let entries = self.entries();
        self.counts[self.used.0..=self.used.1].fill(0);
        self.used = (BUCKETS, 0);
        entries
    }
}

/// Decodes the output of [`Batch::write`].
fn read_packed(bytes: &[u8]) -> impl Iterator<Item = ((Stratum, i64), Batch)> + '_ {
    let mut reader = Reader::new(bytes);
    std::iter::from_fn(move || {
        let key = (reader.take()?, reader.take_signed()?);
        let [samples, due_times, misses, length] = [
            reader.take()?,
            reader.take()?,
            reader.take()?,
            reader.take()?,
        ];
        let mut buckets = Vec::with_capacity(length as usize);
        let mut bucket = 0;
        for _ in 0..length {
            let word = reader.take()?;
            bucket += (word >> 1) as u16;
            let count = if word & 1 == 0 {
                1
            } else {
                reader.take()? as u32
            };
            buckets.push((bucket, count));
        }
        Some((
            key,
            Batch {
                samples,
                due_times,
                misses,
                buckets,
            },
        ))
    })
}

/// Returns the bucket of a value. Negative values belong to the bucket of 0.
#[inline]
#[must_use]
pub fn bucket_of(value: i64) -> u16 {
    let value = value.max(0).unsigned_abs();
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BITS);
    // Each binary digit beyond the significant ones adds 64 buckets.
    (shift * (1 << (BITS - 1)) + (value >> shift) as u32) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_ascend_with_the_values_and_end_within_the_room() {
        let values = (0..63).flat_map(|power| [1_i64 << power, (1 << power) + (1 << power) / 3]);
        let mut last = 0;
        for value in values.chain([i64::MAX]) {
            assert!(bucket_of(value) >= last, "{value}");
            last = bucket_of(value);
        }
        assert!(usize::from(last) < BUCKETS);
        assert_eq!(
            (bucket_of(-5), bucket_of(0), bucket_of(127), bucket_of(128)),
            (0, 0, 127, 128)
        );
        assert_eq!(bucket_of(1_000_000), bucket_of(1_000_001));
    }

    proptest! {
        #[test]
        fn stretches_do_not_depend_on_how_the_samples_were_cut(
            samples in proptest::collection::vec((0_i64..40_000_000, 0_i64..100_000, 0_u64..3), 1..300),
            cuts in proptest::collection::vec(0_usize..300, 0..4),
        ) {
            let mut samples = samples;
            samples.sort_unstable();
            let add = |batches: &mut Batches, &(due, latency, misses): &(i64, i64, u64)| {
                batches.add_all(u64::from(due > 20_000_000), Nanos(due), &[latency], 1);
                if misses > 0 {
                    batches.note_misses(u64::from(due > 20_000_000), Nanos(due), misses);
                }
            };
            let mut whole = Batches::at_most(16);
            samples.iter().for_each(|sample| add(&mut whole, sample));
            let mut parts = vec![Batches::at_most(16); 301];
            for (place, sample) in samples.iter().enumerate() {
                add(&mut parts[cuts.iter().filter(|&&cut| cut <= place).count()], sample);
            }
            let mut merged = Batches::at_most(16);
            parts.iter().for_each(|part| merged.merge(part));
            prop_assert_eq!(merged.list(), whole.list());
            let mut packed = merged.clone();
            packed.pack();
            prop_assert_eq!(packed.list(), whole.list());
            prop_assert_eq!(Batches::together(&[&packed]), whole.list());
            let mut manyfold = packed.clone();
            (1..200).for_each(|_| manyfold.merge(&packed));
            prop_assert_eq!(Batches::together(&[&packed; 200]), manyfold.list());
            let twice = Batches::together(&[&packed, &merged]);
            packed.merge(&merged);
            prop_assert_eq!(twice, packed.list());
            prop_assert!(merged.list().len() <= 16);
            let of = |count: fn(&Batch) -> u64| merged.list().iter().map(|(_, batch)| count(batch)).sum::<u64>();
            prop_assert_eq!(of(|batch| batch.samples), samples.len() as u64);
            prop_assert_eq!(of(|batch| batch.due_times), 2 * samples.len() as u64);
            prop_assert_eq!(of(|batch| batch.misses), samples.iter().map(|sample| sample.2).sum::<u64>());
            let limit = bucket_of(50_000);
            let above = samples.iter().filter(|sample| bucket_of(sample.1) > limit).count() as u64;
            prop_assert_eq!(merged.list().iter().map(|(_, batch)| batch.above(limit)).sum::<u64>(), above);
        }
    }
}
