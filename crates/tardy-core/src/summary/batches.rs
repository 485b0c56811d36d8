//! Counts by stretches of time on the run's own clock, from which the dependence of samples on each other is judged.
//!
//! A stretch is `2^shift` ns long and begins at a multiple of that, so that the stretches of all processors are the same ones: put together, they are one
//! time line. When there are too many of them, pairs are joined. What remains depends on the samples alone, never on how the series was cut.

use std::collections::BTreeMap;

use crate::units::Nanos;

/// Stretches that are kept at most, unless asked for otherwise.
pub const BATCHES_MOST: usize = 256;
/// The shortest stretch is 2^16 ns = 65.5 us long.
const SHIFT_LEAST: u32 = 16;
/// Longer stretches than 2^62 ns do not exist.
const SHIFT_MOST: u32 = 62;
/// Binary digits that a value keeps: a bucket is 1/64 of its value wide.
const BITS: u32 = 7;
/// Buckets of all values: one each up to 2^7, and 64 for each further binary digit.
const BUCKETS: usize = 64 * (64 - BITS as usize + 2);

/// Phases that samples belong to: levels of different kinds of phases are planned, and are no dependence.
pub type Stratum = u64;

/// The samples of a stretch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Samples.
    pub samples: u64,
    /// Samples and due times skipped.
    pub due_times: u64,
    /// Those of them that missed the window asked for.
    pub misses: u64,
    /// Samples by bucket, ascending.
    buckets: Vec<(u16, u32)>,
}

/// Counts by stretches of time.
#[derive(Debug, Clone)]
pub struct Batches {
    shift: u32,
    most: usize,
    batches: BTreeMap<(Stratum, i64), Batch>,
    open: Option<Box<Open>>,
}

/// The stretch that samples are being added to.
#[derive(Debug, Clone)]
struct Open {
    key: (Stratum, i64),
    counts: [u32; BUCKETS],
    /// First and last bucket in use; the first lies behind the last where none is.
    used: (usize, usize),
}

impl Default for Batches {
    fn default() -> Self {
        Self::at_most(BATCHES_MOST)
    }
}

impl Batch {
    /// Samples above the bucket.
    #[must_use]
    pub fn above(&self, bucket: u16) -> u64 {
        self.buckets.iter().rev().take_while(|&&(at, _)| at > bucket).map(|&(_, count)| u64::from(count)).sum()
    }

    /// Samples of each bucket, ascending.
    #[must_use]
    pub fn buckets(&self) -> &[(u16, u32)] {
        &self.buckets
    }

    /// Adds what another stretch counted.
    pub fn merge(&mut self, other: &Self) {
        self.samples += other.samples;
        self.due_times += other.due_times;
        self.misses += other.misses;
        self.add_buckets(&other.buckets);
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
    /// None yet, and at most so many later.
    #[must_use]
    pub fn at_most(most: usize) -> Self {
        Self { shift: SHIFT_LEAST, most: most.max(2), batches: BTreeMap::new(), open: None }
    }

    /// Gives back the room that counting needed.
    pub fn pack(&mut self) {
        self.close();
        self.open = None;
        self.batches.values_mut().for_each(|batch| batch.buckets.shrink_to_fit());
    }

    /// Whether samples due at both times belong to one stretch.
    #[inline]
    #[must_use]
    pub fn is_one(&self, first: Nanos, last: Nanos) -> bool {
        first.get() >> self.shift == last.get() >> self.shift
    }

    /// Adds samples that are due within one stretch, with the due times that they skipped together.
    pub fn add_all(&mut self, stratum: Stratum, due: Nanos, latencies: &[i64], skipped: u64) {
        let open = self.open(stratum, due);
        latencies.iter().for_each(|&latency| open.record(latency));
        let batch = self.batch(stratum, due);
        batch.samples += latencies.len() as u64;
        batch.due_times += latencies.len() as u64 + skipped;
    }

    /// Counts misses of a sample that was added, due at that time.
    pub fn note_misses(&mut self, stratum: Stratum, due: Nanos, misses: u64) {
        self.batch(stratum, due).misses += misses;
    }

    fn batch(&mut self, stratum: Stratum, due: Nanos) -> &mut Batch {
        self.batches.entry((stratum, due.get() >> self.shift)).or_default()
    }

    fn open(&mut self, stratum: Stratum, due: Nanos) -> &mut Open {
        let key = (stratum, due.get() >> self.shift);
        if self.open.as_ref().is_none_or(|open| open.key != key) {
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

    /// Moves what was counted last to its stretch.
    fn close(&mut self) {
        if let Some(open) = &mut self.open
            && open.used.0 <= open.used.1
        {
            let buckets = open.take();
            self.batches.entry(open.key).or_default().add_buckets(&buckets);
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
            self.batches.entry((stratum, place >> 1)).or_default().merge(&batch);
        }
    }

    /// Adds the stretches of other samples: of the same series, or of another processor at the same time.
    pub fn merge(&mut self, other: &Self) {
        self.close();
        self.open = None;
        while self.shift < other.shift {
            self.join_pairs();
        }
        let coarser = self.shift - other.shift;
        for (&(stratum, place), batch) in &other.batches {
            self.batches.entry((stratum, place >> coarser)).or_default().merge(batch);
        }
        if let Some(open) = &other.open {
            let (stratum, place) = open.key;
            self.batches.entry((stratum, place >> coarser)).or_default().add_buckets(&open.entries());
        }
        self.join_to_fit();
    }

    /// The stretches in order of time, those of a stratum together.
    #[must_use]
    pub fn list(&self) -> Vec<((Stratum, i64), Batch)> {
        let mut closed = self.clone();
        closed.close();
        closed.batches.into_iter().collect()
    }
}

impl Open {
    fn new(key: (Stratum, i64)) -> Self {
        Self { key, counts: [0; BUCKETS], used: (BUCKETS, 0) }
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
        used.map(|bucket| (bucket as u16, self.counts[bucket])).collect()
    }

    fn take(&mut self) -> Vec<(u16, u32)> {
        let entries = self.entries();
        self.counts[self.used.0..=self.used.1].fill(0);
        self.used = (BUCKETS, 0);
        entries
    }
}

/// The bucket that a value falls into; those below 0 fall into that of 0.
#[inline]
#[must_use]
pub fn bucket_of(value: i64) -> u16 {
    let value = value.max(0).unsigned_abs();
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BITS);
    // Each binary digit beyond those kept adds 64 buckets.
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
        assert_eq!((bucket_of(-5), bucket_of(0), bucket_of(127), bucket_of(128)), (0, 0, 127, 128));
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
