//! A histogram that is exact to the nanosecond as long as its memory budget allows this. It reports
//! how many values it had to count less exactly.
//!
//! Values are counted in pages of 1 ns buckets. Latencies cluster, so nearly all of them fall into
//! a few pages. The histogram creates a page as soon as 64 different values lie in the page's
//! range. Until then, and after the page budget is spent, it stores each value individually, so a
//! long thin tail needs no pages. When the budget of individual values is spent too, further values
//! are counted in buckets of relative width 1/64, and [`Histogram::coarse`] returns their number.
//! The largest and the smallest value are always exact.
//!
//! Pages of counters take a megabyte per series, even for a short series. Readers have all series
//! of a run in memory at once. To save memory, they compress each histogram with
//! [`Histogram::pack`] to about two bytes per distinct value. When a value is added, the histogram
//! is unpacked first.

mod packed;

use std::collections::BTreeMap;

use packed::PackedCounts;

const PAGE_BITS: u32 = 11;
const PAGE_BUCKETS: usize = 1 << PAGE_BITS;
/// Values of at least this many ns are never counted in pages: 2^26 ns = 67 ms.
const PAGED_END: i64 = 1 << 26;
const COARSE_BITS: u32 = 6;
/// If at least this many individual values lie in the range of a page, the page takes less memory
/// than they do.
const VALUES_A_PAGE_MIN: usize = 64;

/// The memory budget of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Number of pages of 2048 buckets, 16 KiB each.
    pub pages: usize,
    /// Number of values that are stored outside of pages, about 50 bytes each.
    pub values: usize,
}

impl Budget {
    /// The budget of the recorder, which must stay below 1 MiB per CPU.
    pub const RECORDER: Self = Self {
        pages: 24,
        values: 4096,
    };
    /// The budget for analyses: at most about 70 MiB, which only unusual runs reach.
    pub const ANALYSIS: Self = Self {
        pages: 4096,
        values: 65_536,
    };
}

/// Counts of values in ns, in bounded memory.
#[derive(Debug, Clone)]
pub struct Histogram {
    pages: Vec<Option<Box<[u64; PAGE_BUCKETS]>>>,
    pages_left: usize,
    values: BTreeMap<i64, u64>,
    values_left: usize,
    coarse: BTreeMap<i64, u64>,
    /// The compressed content; unless it is empty, `pages` and `values` are empty.
    packed: PackedCounts,
    /// How many values were counted. The number is stored because readers need it after every
    /// sample.
    total: u64,
    min: i64,
    max: i64,
}

impl Histogram {
    /// Creates an empty histogram.
    #[must_use]
    pub fn new(budget: Budget) -> Self {
        Self {
            pages: Vec::new(),
            pages_left: budget.pages,
            values: BTreeMap::new(),
            values_left: budget.values,
            coarse: BTreeMap::new(),
            packed: PackedCounts::default(),
            total: 0,
            min: i64::MAX,
            max: i64::MIN,
        }
    }

    /// Counts `value` once.
    #[inline]
    pub fn record(&mut self, value: i64) {
        self.record_many(value, 1);
    }

    /// Counts `value` `count` times.
    #[inline]
    pub fn record_many(&mut self, value: i64, count: u64) {
        self.total += count;
        if let Ok(index) = usize::try_from(value)
            && let Some(Some(page)) = self.pages.get_mut(index >> PAGE_BITS)
        {
            page[index & (PAGE_BUCKETS - 1)] += count;
            return;
        }
        if count > 0 {
            self.record_new(value, count);
        }
    }

    /// Counts `terms` values, each `times` times: `first`, `first - step`, `first - 2 * step` and
    /// so on. The result is the same as with repeated calls of [`Histogram::record_many`], but
    /// values that share a bucket are counted in one step.
    pub fn record_descending(&mut self, first: i64, step: i64, mut terms: u64, times: u64) {
        if step <= 0 || times == 0 {
            return self.record_many(first, terms.saturating_mul(times));
        }
        let mut value = first;
        while terms > 0 {
            let counted = if value >= PAGED_END && self.values_left == 0 && self.packed.is_empty() {
                self.record_in_bucket(value, step, terms, times)
            } else {
                self.record_many(value, times);
                1
            };
            terms -= counted;
            value = value
                .saturating_sub(step.saturating_mul(i64::try_from(counted).unwrap_or(i64::MAX)));
        }
    }

    /// Counts only the values that share a coarse bucket with `first`, and returns their number.
    /// `first` must be at least [`PAGED_END`], and the space for individual values must be used up.
    fn record_in_bucket(&mut self, first: i64, step: i64, terms: u64, times: u64) -> u64 {
        let more = (first - coarse_bucket_begin(first).max(PAGED_END)) / step;
        let inside = u64::try_from(more).map_or(1, |more| more + 1).min(terms);
        let last = first - step * (inside as i64 - 1);
        let mut own = 0;
        for (&value, count) in self.values.range_mut(last..=first) {
            if (first - value) % step == 0 {
                *count += times;
                own += 1;
            }
        }
        if inside > own {
            *self.coarse.entry(coarse_bucket(first)).or_default() += (inside - own) * times;
        }
        self.total += inside * times;
        self.min = self.min.min(last);
        self.max = self.max.max(first);
        inside
    }

    #[cold]
    fn record_new(&mut self, value: i64, count: u64) {
        if !self.packed.is_empty() {
            self.unpack();
            // The caller has already added `count` to the total, and `record_many` will add it
            // again.
            self.total -= count;
            return self.record_many(value, count);
        }
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if let Some(known) = self.values.get_mut(&value) {
            *known += count;
        } else if (0..PAGED_END).contains(&value)
            && self.pages_left > 0
            && self.deserves_page(value)
        {
            let page = self.make_page(value as usize >> PAGE_BITS);
            page[value as usize & (PAGE_BUCKETS - 1)] += count;
        } else if self.values_left > 0 {
            self.values_left -= 1;
            self.values.insert(value, count);
        } else {
            *self.coarse.entry(coarse_bucket(value)).or_default() += count;
        }
    }

    /// Returns whether `value` should get a page: either the page takes less memory than the
    /// individual values that it would replace, or there is no space for individual values.
    fn deserves_page(&self, value: i64) -> bool {
        self.values_left == 0
            || self
                .values
                .range(range_of(value as usize >> PAGE_BITS))
                .count()
                + 1
                >= VALUES_A_PAGE_MIN
    }

    /// Creates a page from the remaining budget, and moves the individual values in its range into
    /// it.
    fn make_page(&mut self, page: usize) -> &mut [u64; PAGE_BUCKETS] {
        self.pages_left -= 1;
        let mut buckets = Box::new([0; PAGE_BUCKETS]);
        let moved: Vec<(i64, u64)> = self
            .values
            .range(range_of(page))
            .map(|(&value, &count)| (value, count))
            .collect();
        for (value, count) in moved {
            self.values.remove(&value);
            self.values_left += 1;
            buckets[value as usize & (PAGE_BUCKETS - 1)] = count;
        }
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        self.pages[page].insert(buckets)
    }

    /// Compresses the counts to a few bytes per value and frees the pages. The content stays the
    /// same; when values are counted later, pages are allocated again.
    pub fn pack(&mut self) {
        if !self.packed.is_empty() {
            return;
        }
        // Values in pages do not update the fields `min` and `max`.
        let (min, max) = (self.min(), self.max());
        let (Some(min), Some(max)) = (min, max) else {
            return;
        };
        (self.min, self.max) = (min, max);
        let coarse = std::mem::take(&mut self.coarse);
        let mut values = Vec::new();
        self.for_each(|value, count| values.push((value, count)));
        self.packed = PackedCounts::new(values.into_iter());
        self.coarse = coarse;
        self.pages_left += self.used_pages().count();
        self.values_left += self.values.len();
        (self.pages, self.values) = (Vec::new(), BTreeMap::new());
    }

    fn unpack(&mut self) {
        let packed = std::mem::take(&mut self.packed);
        self.total -= packed.total();
        packed
            .iter()
            .for_each(|(value, count)| self.record_many(value, count));
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        if !self.packed.is_empty() {
            self.unpack();
        }
        for (page, buckets) in other.used_pages() {
            self.merge_page(page, buckets);
        }
        other
            .others()
            .for_each(|(value, count)| self.record_many(value, count));
        if let (Some(min), Some(max)) = (other.min(), other.max()) {
            self.min = self.min.min(min);
            self.max = self.max.max(max);
        }
    }

    fn merge_page(&mut self, page: usize, buckets: &[u64; PAGE_BUCKETS]) {
        if let Some(Some(own)) = self.pages.get_mut(page) {
            self.total += add_page(own, buckets);
        } else if self.pages_left > 0 {
            self.total += add_page(self.make_page(page), buckets);
        } else {
            let counted = buckets.iter().enumerate().filter(|(_, count)| **count > 0);
            counted.for_each(|(bucket, &count)| self.record_many(value_of(page, bucket), count));
        }
    }

    fn used_pages(&self) -> impl DoubleEndedIterator<Item = (usize, &[u64; PAGE_BUCKETS])> {
        self.pages
            .iter()
            .enumerate()
            .filter_map(|(page, buckets)| Some((page, buckets.as_deref()?)))
    }

    /// Calls `visit` with each value and its count, in ascending order. All values in a coarse
    /// bucket are visited as its upper end, so that no quantile looks better than it was.
    pub fn for_each(&self, mut visit: impl FnMut(i64, u64)) {
        let mut others = self.others();
        let mut next = others.next();
        for (page, buckets) in self.used_pages() {
            for (bucket, &count) in buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
                let value = value_of(page, bucket);
                while let Some((other, count)) = next.filter(|&(other, _)| other <= value) {
                    visit(other, count);
                    next = others.next();
                }
                visit(value, count);
            }
        }
        while let Some((other, count)) = next {
            visit(other, count);
            next = others.next();
        }
    }

    /// Returns the values outside of pages, both exact and coarse, in ascending order.
    fn others(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        // Either `values` or `packed` is empty.
        let mut exact = self
            .values
            .iter()
            .map(|(&value, &count)| (value, count))
            .chain(self.packed.iter())
            .peekable();
        let mut coarse = self
            .coarse
            .iter()
            .map(|(&value, &count)| (value.min(self.max), count))
            .peekable();
        std::iter::from_fn(move || match (exact.peek(), coarse.peek()) {
            (Some(a), Some(b)) if a.0 <= b.0 => exact.next(),
            (Some(_), None) => exact.next(),
            _ => coarse.next(),
        })
    }

    /// Returns the number of counted values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Returns the smallest value, which is exact; `None` if the histogram is empty.
    #[must_use]
    pub fn min(&self) -> Option<i64> {
        // `record` does not update `min` for a value in an existing page, so the first used bucket
        // is checked too.
        let paged = self.used_pages().find_map(|(page, buckets)| {
            Some(value_of(page, buckets.iter().position(|&count| count > 0)?))
        });
        let noted = (self.min <= self.max).then_some(self.min);
        paged.into_iter().chain(noted).min()
    }

    /// Returns the largest value, which is exact; `None` if the histogram is empty.
    #[must_use]
    pub fn max(&self) -> Option<i64> {
        let paged = self.used_pages().rev().find_map(|(page, buckets)| {
            Some(value_of(
                page,
                buckets.iter().rposition(|&count| count > 0)?,
            ))
        });
        let noted = (self.min <= self.max).then_some(self.max);
        paged.into_iter().chain(noted).max()
    }

    /// Returns how many values were counted in buckets wider than 1 ns because the memory budget
    /// was spent.
    #[must_use]
    pub fn coarse(&self) -> u64 {
        self.coarse.values().sum()
    }

    /// Returns the number of values above `limit`.
    #[must_use]
    pub fn above(&self, limit: i64) -> u64 {
        let mut total = 0;
        self.for_each(|value, count| {
            if value > limit {
                total += count;
            }
        });
        total
    }

    /// Returns the values at the given ranks, which must ascend. Rank 1 is the smallest value. The
    /// result for a rank that does not exist is `None`.
    #[must_use]
    pub fn values_at(&self, ranks: &[u64]) -> Vec<Option<i64>> {
        let mut found = vec![None; ranks.len()];
        let (mut seen, mut next) = (0_u64, ranks.iter().take_while(|&&rank| rank == 0).count());
        self.for_each(|value, count| {
            seen += count;
            while next < ranks.len() && ranks[next] <= seen {
                found[next] = Some(value);
                next += 1;
            }
        });
        found
    }
}

fn range_of(page: usize) -> std::ops::Range<i64> {
    value_of(page, 0)..value_of(page + 1, 0)
}

/// Adds the counts of page `other` to page `own`; returns the sum of the added counts.
fn add_page(own: &mut [u64; PAGE_BUCKETS], other: &[u64; PAGE_BUCKETS]) -> u64 {
    own.iter_mut()
        .zip(other)
        .for_each(|(own, count)| *own += count);
    other.iter().sum()
}

fn value_of(page: usize, bucket: usize) -> i64 {
    ((page << PAGE_BITS) | bucket) as i64
}

/// Returns the upper end of the bucket of relative width 1/64 that contains `value`.
fn coarse_bucket(value: i64) -> i64 {
    let magnitude = value.unsigned_abs();
    let shift = (64 - magnitude.leading_zeros()).saturating_sub(COARSE_BITS + 1);
    if value >= 0 {
        i64::try_from(((magnitude >> shift) << shift) | ((1_u64 << shift) - 1)).unwrap_or(i64::MAX)
    } else {
        // Rounds towards zero, because in a bucket of negative values, the upper end is the end
        // closer to zero.
        -i64::try_from((magnitude >> shift) << shift).unwrap_or(i64::MAX)
    }
}

/// Returns the lower end of the bucket that contains `value`, which must not be negative.
fn coarse_bucket_begin(value: i64) -> i64 {
    let shift = (64 - value.unsigned_abs().leading_zeros()).saturating_sub(COARSE_BITS + 1);
    (value >> shift) << shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_value() -> impl Strategy<Value = i64> {
        prop_oneof![4 => 0_i64..1500, 2 => 0_i64..100_000, 2 => -1000_i64..100_000_000, 1 => any::<i64>()]
    }

    #[test]
    fn an_empty_histogram_has_no_extremes() {
        let histogram = Histogram::new(Budget::RECORDER);
        assert_eq!(
            (histogram.min(), histogram.max(), histogram.count()),
            (None, None, 0)
        );
        assert_eq!(histogram.values_at(&[1]), [None]);
    }

    #[test]
    fn a_spent_budget_is_said_and_never_makes_a_quantile_smaller() {
        let mut histogram = Histogram::new(Budget {
            pages: 1,
            values: 2,
        });
        // The budget allows the histogram to store 1 and 2 ms individually and 10 ns in a page. The
        // other values share coarse buckets.
        for value in [
            1_000_000, 2_000_000, 10, 3_000_123, 3_000_124, 4_000_000, -5,
        ] {
            histogram.record(value);
        }
        assert_eq!((histogram.coarse(), histogram.count()), (4, 7));
        assert_eq!(
            (histogram.min(), histogram.max()),
            (Some(-5), Some(4_000_000))
        );
        let median = histogram.values_at(&[5])[0].unwrap();
        assert!(
            (3_000_123..3_000_123 + 3_000_123 / 32).contains(&median),
            "{median}"
        );
    }

    #[test]
    fn a_page_is_made_for_many_values_and_not_for_a_thin_tail() {
        let mut histogram = Histogram::new(Budget::ANALYSIS);
        (0..40_i64).for_each(|step| histogram.record(step * 1_000_000));
        assert_eq!(histogram.used_pages().count(), 0);
        (0..200_i64).for_each(|value| histogram.record(value));
        assert_eq!(
            (histogram.used_pages().count(), histogram.values.len()),
            (1, 39)
        );
        assert_eq!(histogram.values_left, Budget::ANALYSIS.values - 39);
        assert_eq!(
            histogram.values_at(&[1, 2, 3, 201, 202]),
            [Some(0), Some(0), Some(1), Some(199), Some(1_000_000)]
        );
    }

    #[test]
    fn as_many_values_as_a_sample_can_have_skipped_are_counted_bucket_by_bucket() {
        let mut histogram = Histogram::new(Budget::ANALYSIS);
        let (first, step) = (i64::from(u32::MAX) * 1_000_000, 1_000_000);
        histogram.record_descending(first, step, u64::from(u32::MAX), 1);
        assert_eq!(
            (histogram.count(), histogram.min(), histogram.max()),
            (u64::from(u32::MAX), Some(step), Some(first))
        );
        assert_eq!(
            histogram.coarse(),
            u64::from(u32::MAX) - histogram.values.len() as u64 - 67
        );
    }

    proptest! {
        #[test]
        fn a_descending_progression_is_what_its_values_are_one_by_one(
            before in prop::collection::vec(any_value(), 0..40), first in 0_i64..20_000_000_000, step in 0_i64..300_000_000, terms in 0_u64..300,
            times in 0_u64..3, values in 0_usize..200, is_packed: bool,
        ) {
            let mut at_once = Histogram::new(Budget { pages: 2, values });
            before.iter().for_each(|&value| at_once.record(value));
            if is_packed {
                at_once.pack();
            }
            let mut one_by_one = at_once.clone();
            at_once.record_descending(first, step, terms, times);
            (0..terms as i64).for_each(|term| one_by_one.record_many(first - term * step, times));
            prop_assert_eq!((at_once.count(), at_once.min(), at_once.max(), at_once.coarse()),
                (one_by_one.count(), one_by_one.min(), one_by_one.max(), one_by_one.coarse()));
            let counts = |histogram: &Histogram| {
                let mut counts = Vec::new();
                histogram.for_each(|value, count| counts.push((value, count)));
                counts
            };
            prop_assert_eq!(counts(&at_once), counts(&one_by_one));
        }

        #[test]
        fn ranks_equal_those_of_the_sorted_values(values in proptest::collection::vec(any_value(), 1..300)) {
            let mut histogram = Histogram::new(Budget::ANALYSIS);
            values.iter().for_each(|&value| histogram.record(value));
            let mut sorted = values;
            sorted.sort_unstable();
            let ranks: Vec<u64> = (1..=sorted.len() as u64).collect();
            let expected: Vec<Option<i64>> = sorted.iter().map(|&value| Some(value)).collect();
            prop_assert_eq!(histogram.values_at(&ranks), expected);
            prop_assert_eq!((histogram.min(), histogram.max()), (sorted.first().copied(), sorted.last().copied()));
            let limit = sorted[sorted.len() / 2];
            prop_assert_eq!(histogram.above(limit), sorted.iter().filter(|&&value| value > limit).count() as u64);
        }

        #[test]
        fn merging_equals_recording_both(
            left in proptest::collection::vec(any_value(), 0..200),
            right in proptest::collection::vec(any_value(), 0..200),
        ) {
            let fill = |values: &[i64]| {
                let mut histogram = Histogram::new(Budget::ANALYSIS);
                values.iter().for_each(|&value| histogram.record(value));
                histogram
            };
            let mut merged = fill(&left);
            merged.merge(&fill(&right));
            let both = fill(&[left, right].concat());
            let list = |histogram: &Histogram| { let mut out = Vec::new(); histogram.for_each(|v, c| out.push((v, c))); out };
            prop_assert_eq!(list(&merged), list(&both));
            prop_assert_eq!((merged.min(), merged.max()), (both.min(), both.max()));
        }

        #[test]
        fn a_packed_histogram_is_the_same_and_goes_on(
            before in proptest::collection::vec(any_value(), 0..300),
            after in proptest::collection::vec(any_value(), 0..100),
            pages in 0_usize..4,
            rooms in 0_usize..400,
        ) {
            let mut plain = Histogram::new(Budget { pages, values: rooms });
            before.iter().for_each(|&value| plain.record(value));
            let mut packed = plain.clone();
            packed.pack();
            let list = |histogram: &Histogram| { let mut out = Vec::new(); histogram.for_each(|v, c| out.push((v, c))); out };
            prop_assert_eq!(list(&packed), list(&plain));
            prop_assert_eq!((packed.min(), packed.max(), packed.count(), packed.coarse()), (plain.min(), plain.max(), plain.count(), plain.coarse()));
            prop_assert_eq!((packed.pages_left, packed.values_left), (pages, rooms));
            let mut elsewhere = Histogram::new(Budget::ANALYSIS);
            elsewhere.merge(&packed);
            prop_assert_eq!(elsewhere.count(), before.len() as u64);
            after.iter().for_each(|&value| packed.record(value));
            prop_assert_eq!(packed.count(), (before.len() + after.len()) as u64);
            let all = before.iter().chain(&after);
            prop_assert_eq!((packed.min(), packed.max()), (all.clone().min().copied(), all.max().copied()));
        }

        #[test]
        fn a_coarse_bucket_contains_its_value(value in any::<i64>()) {
            let upper = coarse_bucket(value);
            prop_assert!(upper >= value);
            prop_assert!((upper as i128 - value as i128) <= (value.unsigned_abs() >> COARSE_BITS) as i128 + 1);
        }
    }
}
