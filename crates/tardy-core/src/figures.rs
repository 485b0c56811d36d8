//! Live figures of a growing series: a few numbers, and the shape of its distribution.
//!
//! [`Watch`] processes every sample and keeps what a histogram cannot show, such as the latest
//! value. [`Figures`] are computed on request, from a watch and a histogram.

use crate::accounting::Counts;
use crate::cpu::CpuId;
use crate::histogram::Histogram;
use crate::sample::Sample;
use crate::series::{Descriptor, Schedule};
use crate::units::Nanos;
use crate::verdict::Window;
use crate::verdict::skipped::SkippedLateness;

/// The displayed percentile, as a rank: the number of values, out of [`RANKS`], that are at or
/// below it.
const HIGH: u64 = 999;
const RANKS: u64 = 1000;
/// Base-2 logarithm of the number of bins per power of two in a [`Shape`].
const BINS_BITS: u32 = 3;
/// Maximum number of peaks that are stored until the view reads them.
const PEAKS_MAX: usize = 64;
/// Initial length of the intervals of [`Peaks`]. This length is half a step of the live view's time
/// line, so that each step has a peak.
const PEAK_STEP: Nanos = Nanos::from_millis(62);

/// The state that is updated with each sample of a series.
#[derive(Debug, Clone)]
pub struct Watch {
    window: Option<Window>,
    schedule: Schedule,
    is_work: bool,
    misses: u64,
    latest: Option<Nanos>,
    recent: Peaks,
}

/// The largest value of each interval of time, in constant memory: if there are too many intervals,
/// neighbours are merged and the smaller of their two values is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peaks {
    step: Nanos,
    /// Time at which the last interval ends.
    end: Nanos,
    /// Due time and value of each peak.
    peaks: Vec<(Nanos, Nanos)>,
}

/// The numbers of a growing series, up to its latest sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figures {
    pub probe: String,
    pub cpu: Option<CpuId>,
    pub counts: Counts,
    /// Due times that missed the deadline, including skipped due times; absent if there is no
    /// deadline.
    pub misses: Option<u64>,
    /// The most recent value.
    pub latest: Option<Nanos>,
    /// The largest values since the previous figures were computed.
    pub recent: Peaks,
    /// Minimum, average, maximum and so on; absent if the series has no value.
    pub numbers: Option<FiguresNumbers>,
}

/// Key figures of a series' values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiguresNumbers {
    pub min: Nanos,
    pub average: Nanos,
    /// The 99.9th percentile.
    pub high: Nanos,
    pub max: Nanos,
    pub shape: Shape,
}

/// Counts of values in bins, eight for each power of two. Values below 1 ns are in the first bin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shape(Vec<(u16, u64)>);

impl Watch {
    /// Creates the state for a series that is judged by `window`.
    #[must_use]
    pub fn new(descriptor: &Descriptor, window: Option<Window>) -> Self {
        let window = window.filter(|_| !descriptor.is_outside_verdict);
        Self {
            window,
            schedule: descriptor.schedule,
            is_work: descriptor.is_work(),
            misses: 0,
            latest: None,
            recent: Peaks::default(),
        }
    }

    /// Replaces the schedule.
    #[must_use]
    pub fn on(self, schedule: Schedule) -> Self {
        Self { schedule, ..self }
    }

    /// Processes a sample.
    #[inline]
    pub fn note(&mut self, sample: Sample) {
        self.latest = Some(sample.latency);
        self.recent.note(sample.due, sample.latency);
        let Some(window) = &self.window else { return };
        self.misses += u64::from(window.misses(sample.latency));
        if sample.skipped > 0 {
            let late = || {
                SkippedLateness::of(sample, &self.schedule).late(
                    sample.skipped,
                    self.schedule.period(),
                    window,
                )
            };
            self.misses += if self.is_work {
                u64::from(sample.skipped)
            } else {
                late()
            };
        }
    }

    /// Returns the number of due times that missed the deadline so far; `None` if there is no
    /// deadline.
    #[must_use]
    pub fn misses(&self) -> Option<u64> {
        self.window.map(|_| self.misses)
    }

    /// Returns the figures of a series whose values are in `histogram`, and clears the peaks.
    pub fn figures(
        &mut self,
        descriptor: &Descriptor,
        counts: Counts,
        histogram: &Histogram,
    ) -> Figures {
        Figures {
            probe: descriptor.probe.clone(),
            cpu: descriptor.cpu,
            counts,
            misses: self.misses(),
            latest: self.latest,
            recent: std::mem::take(&mut self.recent),
            numbers: FiguresNumbers::of(histogram),
        }
    }
}

impl Figures {
    /// Inserts the peaks of the `older` figures before the peaks of `self`. The caller does this if
    /// the live view did not read `older`.
    pub fn after(&mut self, older: &Self) {
        let mut all = older.recent.clone();
        self.recent
            .iter()
            .for_each(|(due, value)| all.note(due, value));
        self.recent = all;
    }
}

impl Default for Peaks {
    fn default() -> Self {
        Self {
            step: PEAK_STEP,
            end: Nanos::MIN,
            peaks: Vec::new(),
        }
    }
}

impl Peaks {
    /// Adds a value that is newer than all others.
    #[inline]
    pub fn note(&mut self, due: Nanos, value: Nanos) {
        match self.peaks.last_mut() {
            Some(last) if due < self.end => {
                if value > last.1 {
                    *last = (due, value);
                }
            }
            _ => self.begin(due, value),
        }
    }

    #[cold]
    fn begin(&mut self, due: Nanos, value: Nanos) {
        if self.peaks.len() == PEAKS_MAX {
            self.step = self.step * 2;
            // If values are equal, the first one stays.
            let larger =
                |pair: &[(Nanos, Nanos)]| pair.iter().rev().copied().max_by_key(|peak| peak.1);
            self.peaks = self.peaks.chunks(2).filter_map(larger).collect();
        }
        self.end = due.saturating_add(self.step);
        self.peaks.push((due, value));
    }

    /// Iterates over due time and value of each peak.
    pub fn iter(&self) -> impl Iterator<Item = (Nanos, Nanos)> + '_ {
        self.peaks.iter().copied()
    }
}

impl FiguresNumbers {
    /// Computes the numbers of the values in `histogram`, in one pass.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Option<Self> {
        let total = histogram.count();
        let rank = (u128::from(total) * u128::from(HIGH)).div_ceil(u128::from(RANKS));
        let (mut seen, mut sum, mut high, mut shape) = (0_u128, 0_i128, None, Shape::default());
        histogram.for_each(|value, count| {
            seen += u128::from(count);
            sum += i128::from(value) * i128::from(count);
            if high.is_none() && seen >= rank {
                high = Some(value);
            }
            shape.add(value, count);
        });
        let average = sum.checked_div(i128::from(total))?;
        Some(Self {
            min: Nanos(histogram.min()?),
            average: Nanos(i64::try_from(average).ok()?),
            high: Nanos(high?),
            max: Nanos(histogram.max()?),
            shape,
        })
    }
}

impl Shape {
    /// Adds `value` `count` times. This is fastest if values are added in ascending order.
    fn add(&mut self, value: i64, count: u64) {
        let bin = bin_of(value);
        match self.0.last_mut() {
            Some((last, counted)) if *last == bin => *counted += count,
            Some((last, _)) if *last > bin => {
                match self.0.binary_search_by_key(&bin, |&(bin, _)| bin) {
                    Ok(place) => self.0[place].1 += count,
                    Err(place) => self.0.insert(place, (bin, count)),
                }
            }
            _ => self.0.push((bin, count)),
        }
    }

    /// Adds the counts of another series.
    pub fn merge(&mut self, other: &Self) {
        other
            .0
            .iter()
            .for_each(|&(bin, count)| self.add(first_of(bin), count));
    }

    /// Returns the counts in `columns` columns of equal width on a logarithmic scale, the start of
    /// the first column, and the end of the last one; `None` if there are no values.
    #[must_use]
    pub fn columns(&self, columns: usize) -> Option<(Vec<u64>, Nanos, Nanos)> {
        let (first, last) = (self.0.first()?.0, self.0.last()?.0);
        let bins = usize::from(last - first) + 1;
        let mut counts = vec![0; columns];
        for &(bin, count) in &self.0 {
            let place = usize::from(bin - first);
            let from = place * columns / bins;
            // A bin may be wider than a column. Such a bin fills all columns that it covers. Each
            // column gets the bin's full count, because the height of a column shows a density.
            for counted in &mut counts[from..((place + 1) * columns / bins).max(from + 1)] {
                *counted += count;
            }
        }
        Some((counts, Nanos(first_of(first)), Nanos(first_of(last + 1))))
    }
}

fn bin_of(value: i64) -> u16 {
    let Some(value) = u64::try_from(value).ok().filter(|&value| value > 0) else {
        return 0;
    };
    let power = value.ilog2();
    let part = if power >= BINS_BITS {
        value >> (power - BINS_BITS)
    } else {
        value << (BINS_BITS - power)
    };
    (power << BINS_BITS) as u16 + (part & ((1 << BINS_BITS) - 1)) as u16
}

/// Returns the smallest whole value of a bin.
fn first_of(bin: u16) -> i64 {
    let (power, part) = (
        u32::from(bin) >> BINS_BITS,
        u64::from(bin) & ((1 << BINS_BITS) - 1),
    );
    let first = (u128::from((1 << BINS_BITS) | part) << power).div_ceil(1 << BINS_BITS);
    i64::try_from(first).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Budget;
    use crate::series::ClockKind;
    use proptest::prelude::*;

    const PERIOD: Nanos = Nanos(1_000);

    fn descriptor() -> Descriptor {
        let schedule = Schedule::Grid {
            period: PERIOD,
            start: Nanos::ZERO,
            dither: Nanos::ZERO,
        };
        Descriptor::latency("cyclic", Some(CpuId(3)), ClockKind::Hardware, schedule)
    }

    fn figures(samples: &[Sample], window: Option<Window>) -> Figures {
        let mut histogram = Histogram::new(Budget::RECORDER);
        let mut watch = Watch::new(&descriptor(), window);
        for &sample in samples {
            histogram.record(sample.latency.get());
            watch.note(sample);
        }
        watch.figures(&descriptor(), Counts::default(), &histogram)
    }

    #[test]
    fn a_series_without_a_sample_has_no_numbers() {
        assert_eq!(figures(&[], None).numbers, None);
        assert_eq!(Shape::default().columns(10), None);
    }

    #[test]
    fn skipped_periods_miss_as_they_do_in_the_verdict() {
        let sample = |due, latency, skipped| Sample {
            due: Nanos(due),
            latency: Nanos(latency),
            skipped,
        };
        // Because the wake-up is 2.6 us late, it skips two periods, whose latencies are 1.6 us and
        // 0.6 us.
        let samples = [
            sample(0, 100, 0),
            sample(1_000, 2_600, 2),
            sample(4_000, 900, 0),
        ];
        let misses = |deadline| figures(&samples, Some(Window::deadline(Nanos(deadline)))).misses;
        assert_eq!(
            [50, 500, 1_000, 2_000, 3_000].map(misses),
            [Some(5), Some(4), Some(2), Some(1), Some(0)]
        );
        assert_eq!(figures(&samples, None).misses, None);
    }

    #[test]
    fn the_largest_value_since_the_last_look_is_told_once() {
        let mut watch = Watch::new(&descriptor(), None);
        let histogram = Histogram::new(Budget::RECORDER);
        for latency in [Nanos(7), Nanos(5)] {
            watch.note(Sample {
                due: Nanos(3),
                latency,
                skipped: 0,
            });
            let figures = watch.figures(&descriptor(), Counts::default(), &histogram);
            assert_eq!(
                figures.recent.iter().collect::<Vec<_>>(),
                [(Nanos(3), latency)]
            );
        }
        let figures = watch.figures(&descriptor(), Counts::default(), &histogram);
        assert_eq!(
            (figures.recent.iter().count(), figures.latest),
            (0, Some(Nanos(5)))
        );
    }

    proptest! {
        #[test]
        fn the_largest_value_stays_where_it_was_due_however_long_nobody_looks(steps in prop::collection::vec((0_i64..300, 1_i64..1_000_000), 1..2000), cut in 0_usize..2000) {
            let mut due = Nanos::ZERO;
            let mut halves = [Peaks::default(), Peaks::default()];
            let mut largest = (Nanos::ZERO, Nanos::ZERO);
            for (place, &(milliseconds, value)) in steps.iter().enumerate() {
                due += Nanos::from_millis(milliseconds);
                halves[usize::from(place >= cut)].note(due, Nanos(value));
                if Nanos(value) > largest.1 {
                    largest = (due, Nanos(value));
                }
            }
            let [older, newer] = halves.map(|recent| Figures { recent, ..figures(&[], None) });
            let mut both = newer;
            both.after(&older);
            let peaks: Vec<_> = both.recent.iter().collect();
            prop_assert!(peaks.contains(&largest), "{peaks:?}");
            prop_assert!(peaks.len() <= PEAKS_MAX && peaks.is_sorted());
        }

        #[test]
        fn figures_are_those_of_the_sorted_values(latencies in prop::collection::vec(-500_i64..5_000_000, 1..3000)) {
            let sample = |(place, &latency): (usize, &i64)| Sample { due: PERIOD * place as i64, latency: Nanos(latency), skipped: 0 };
            let samples: Vec<Sample> = latencies.iter().enumerate().map(sample).collect();
            let numbers = figures(&samples, None).numbers.unwrap();
            let mut sorted = latencies.clone();
            sorted.sort_unstable();
            let rank = (sorted.len() * 999).div_ceil(1000);
            let average = sorted.iter().sum::<i64>() / sorted.len() as i64;
            prop_assert_eq!((numbers.min.get(), numbers.max.get()), (sorted[0], sorted[sorted.len() - 1]));
            prop_assert_eq!(numbers.high.get(), sorted[rank - 1]);
            prop_assert_eq!(numbers.average.get(), average);
            // If there are as many columns as bins, each value falls into exactly one column.
            let bins = usize::from(numbers.shape.0.last().unwrap().0 - numbers.shape.0[0].0) + 1;
            let (counts, from, to) = numbers.shape.columns(bins).unwrap();
            prop_assert_eq!(counts.iter().sum::<u64>(), sorted.len() as u64);
            prop_assert!(from.get() <= sorted[0].max(1) && to > numbers.max);
        }

        #[test]
        fn a_value_lies_in_the_bin_that_begins_at_or_below_it(value in 1_i64..i64::MAX) {
            let bin = bin_of(value);
            prop_assert!(first_of(bin) <= value);
            prop_assert!(first_of(bin + 1) > value || first_of(bin + 1) == i64::MAX);
        }

        #[test]
        fn shapes_of_two_series_add_up(first in prop::collection::vec(-9_i64..100_000, 1..200), second in prop::collection::vec(-9_i64..100_000, 1..200)) {
            let shape = |values: &[i64]| {
                let mut shape = Shape::default();
                values.iter().for_each(|&value| shape.add(value, 1));
                shape
            };
            let mut merged = shape(&first);
            merged.merge(&shape(&second));
            prop_assert_eq!(merged, shape(&[first, second].concat()));
        }
    }
}
