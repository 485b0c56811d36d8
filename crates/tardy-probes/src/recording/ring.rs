//! The ring that carries samples from the measuring thread to the recorder: one writer, one reader,
//! no lock, no waiting.
//!
//! A full ring never stops the writer. The writer counts lost records. Before the next sample, or
//! when it closes the ring, it passes on the count as a [`Gap`]. A loss is therefore recorded at
//! its place in the stream, not in a separate counter. So readers know where samples were lost, and
//! can still predict the due times in the file.
//!
//! The ring consists of plain atomics in safe code, with three words per sample: due time, latency,
//! skipped periods. The ring's memory is first touched on the CPU of the measuring thread. The
//! kernel therefore allocates it on that CPU's NUMA node.
//!
//! The rings of a run hold 32,768 samples: 1.6 s at 20 kHz, 32 s at 1 kHz.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use tardy_core::sample::{Gap, Record, Sample};
use tardy_core::units::Nanos;
use tardy_run::record::MovedStretch;
use tardy_sys::{post, watched};

use super::elsewhere::Stretches;

/// Three plain words. The reader sees them once the writer has advanced the ring's head. They are
/// atomics, because the writer and the reader share them.
#[derive(Debug, Default)]
struct Slot {
    /// Due time and latency. If the latency is [`GAP`], the slot marks a gap, and the first word is
    /// the number of lost samples.
    due_and_latency: [AtomicI64; 2],
    skipped: AtomicU64,
}

const GAP: i64 = i64::MIN;

/// A value in its own cache line, so that writer and reader do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line<T>(T);

#[derive(Debug)]
struct Ring {
    slots: Box<[Slot]>,
    head: Line<AtomicU64>,
    tail: Line<AtomicU64>,
    cycles: Line<AtomicU64>,
    /// Counts how often each small value occurred. Such values are only counted, and not passed on.
    bins: Box<[AtomicU64]>,
    /// How long the probe looked for gaps, in ns; only for series of gaps.
    observed: AtomicI64,
    /// Samples that the thread took on a CPU other than its own.
    elsewhere: Stretches,
    closing: RingEnd,
}

#[derive(Debug, Default)]
struct RingEnd {
    closed: AtomicBool,
    next_due: AtomicI64,
    lost: AtomicU64,
    skipped: AtomicU64,
}

/// The writer's final counts, which it stores when it closes the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosingStatement {
    /// Due time of the cycle that follows the last one for which the writer waited.
    pub next_due: Nanos,
    /// Number of samples lost since the last one that was passed on.
    pub gap: Gap,
}

/// The writer's end of the ring, which belongs to a measuring thread.
#[derive(Debug)]
pub struct Producer {
    ring: Arc<Ring>,
    head: u64,
    /// Index of the first slot that the writer does not know to be free. It is equal to `head`
    /// while a gap is pending, or if every sample is announced. So a single comparison detects
    /// these two cases and a full ring.
    free_until: u64,
    /// Whether each sample is announced to an observer of the machine, as in every guest of the
    /// lab.
    is_told: bool,
    cycles: u64,
    gap: Gap,
    /// Value of `head` at the last sample taken on another CPU.
    last_elsewhere: u64,
}

/// The reader's end of the ring, which belongs to the recorder.
#[derive(Debug)]
pub struct Consumer {
    ring: Arc<Ring>,
    tail: u64,
}

/// Makes a ring for at least `capacity` samples, and touches all its memory.
#[must_use]
pub fn ring(capacity: usize) -> (Producer, Consumer) {
    ring_with_bins(capacity, 0)
}

/// Makes a ring that also has a counter for each value from 0 to `bins` - 1, for values that are
/// too frequent to pass on.
#[must_use]
pub fn ring_with_bins(capacity: usize, bins: usize) -> (Producer, Consumer) {
    let slots: Box<[Slot]> = (0..capacity.next_power_of_two().max(4))
        .map(|_| Slot::default())
        .collect();
    let is_told = std::env::var_os(watched::VARIABLE).is_some();
    let free_until = if is_told { 0 } else { slots.len() as u64 };
    let ring = Arc::new(Ring {
        slots,
        head: Line::default(),
        tail: Line::default(),
        cycles: Line::default(),
        bins: (0..bins).map(|_| AtomicU64::new(0)).collect(),
        observed: AtomicI64::new(0),
        elsewhere: Stretches::default(),
        closing: RingEnd::default(),
    });
    (
        Producer {
            ring: Arc::clone(&ring),
            head: 0,
            free_until,
            is_told,
            cycles: 0,
            gap: Gap::default(),
            last_elsewhere: 0,
        },
        Consumer { ring, tail: 0 },
    )
}

impl Producer {
    /// Counts the start of a cycle, for probes without a schedule. A probe without a schedule is
    /// expected to take as many samples as it starts cycles.
    #[inline]
    pub fn begin_cycle(&mut self) {
        self.cycles += 1;
        self.ring.cycles.0.store(self.cycles, Ordering::Relaxed);
    }

    /// Counts a value in its bin, and does not pass it on. Returns false if there is no bin for it.
    #[inline]
    pub fn count(&mut self, value: i64) -> bool {
        let Some(bin) = usize::try_from(value)
            .ok()
            .and_then(|value| self.ring.bins.get(value))
        else {
            return false;
        };
        // No other thread can add in between, because there is only one writer.
        bin.store(bin.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        true
    }

    /// Records how long, in ns, the probe has looked for gaps so far.
    #[inline]
    pub fn observed(&mut self, nanos: i64) {
        self.ring.observed.store(nanos, Ordering::Relaxed);
    }

    /// Passes on `sample`, or counts it as lost when the ring is full.
    #[inline]
    pub fn push(&mut self, sample: Sample) {
        // The current CPU is known without a system call, because the kernel writes it into each
        // thread's memory.
        let Sample {
            due,
            latency,
            skipped,
        } = sample;
        if let Some(cpu) = post::elsewhere() {
            self.note_elsewhere(cpu, due);
        }
        if self.head == self.free_until {
            self.push_or_lose(due, latency, skipped);
        } else {
            self.store(due.get(), latency.get(), u64::from(skipped));
        }
    }

    #[cold]
    #[inline(never)]
    fn note_elsewhere(&mut self, cpu: u32, due: Nanos) {
        // `head` does not advance while samples are lost, so a lost sample falls into the interval
        // of the sample before it.
        let goes_on = self.head <= self.last_elsewhere + 1;
        self.last_elsewhere = self.head;
        self.ring.elsewhere.note(cpu, due, goes_on);
    }

    /// Records that there are no samples for `lost` cycles and `skipped` due times since the last
    /// sample. This function is for other programs' loops, which write to a separate ring first.
    pub fn lose(&mut self, lost: u64, skipped: u64) {
        self.cycles += lost;
        self.ring.cycles.0.store(self.cycles, Ordering::Relaxed);
        self.gap.lost += lost;
        self.gap.skipped += skipped;
        // Makes the next sample take the slow path, which stores the gap.
        self.free_until = self.head;
    }

    /// Stores a sample, or counts it as lost. The arguments are words, because a sample passed by
    /// reference would have to be in memory even in the fast path, which would cost a dozen
    /// instructions per sample.
    #[cold]
    #[inline(never)]
    fn push_or_lose(&mut self, due: Nanos, latency: Nanos, skipped: u32) {
        let free_until = self.ring.tail.0.load(Ordering::Acquire) + self.ring.slots.len() as u64;
        let wanted = if self.gap.is_empty() { 1 } else { 2 };
        if free_until - self.head < wanted {
            self.gap.lost += 1;
            self.gap.skipped += u64::from(skipped);
            self.free_until = self.head;
            return;
        }
        self.free_until = free_until;
        if !self.gap.is_empty() {
            let gap = std::mem::take(&mut self.gap);
            self.store(gap.lost.min(i64::MAX as u64) as i64, GAP, gap.skipped);
        }
        self.store(due.get(), latency.get(), u64::from(skipped));
        if self.is_told {
            let last = (self.head - 1) as usize & (self.ring.slots.len() - 1);
            watched::sample(&self.ring.slots[last].due_and_latency);
            self.free_until = self.head;
        }
    }

    #[inline]
    fn store(&mut self, due: i64, latency: i64, skipped: u64) {
        let slot = &self.ring.slots[self.head as usize & (self.ring.slots.len() - 1)];
        slot.due_and_latency[0].store(due, Ordering::Relaxed);
        slot.due_and_latency[1].store(latency, Ordering::Relaxed);
        slot.skipped.store(skipped, Ordering::Relaxed);
        self.head += 1;
        self.ring.head.0.store(self.head, Ordering::Release);
    }

    /// Ends the series. `next_due` is the due time of the cycle that follows the last one for which
    /// the writer waited.
    pub fn close(self, next_due: Nanos) {
        let closing = &self.ring.closing;
        closing.next_due.store(next_due.get(), Ordering::Relaxed);
        closing.lost.store(self.gap.lost, Ordering::Relaxed);
        closing.skipped.store(self.gap.skipped, Ordering::Relaxed);
        closing.closed.store(true, Ordering::Release);
    }
}

impl Consumer {
    /// Passes at most `count_max` records in order to `take`. Returns the number of records passed.
    pub fn drain_up_to(&mut self, count_max: u64, mut take: impl FnMut(Record)) -> u64 {
        let begin = self.tail;
        let end = self
            .ring
            .head
            .0
            .load(Ordering::Acquire)
            .min(begin.saturating_add(count_max));
        while self.tail < end {
            let slot = &self.ring.slots[self.tail as usize & (self.ring.slots.len() - 1)];
            let (due, latency, skipped) = (
                slot.due_and_latency[0].load(Ordering::Relaxed),
                slot.due_and_latency[1].load(Ordering::Relaxed),
                slot.skipped.load(Ordering::Relaxed),
            );
            take(if latency == GAP {
                Record::Gap(Gap {
                    lost: due.unsigned_abs(),
                    skipped,
                })
            } else {
                Record::Sample(Sample {
                    due: Nanos(due),
                    latency: Nanos(latency),
                    skipped: skipped as u32,
                })
            });
            self.tail += 1;
            // Returns slots to the writer in batches, because each single store would take the
            // cache line away from the writer.
            if self.tail.is_multiple_of(64) {
                self.ring.tail.0.store(self.tail, Ordering::Release);
            }
        }
        self.ring.tail.0.store(self.tail, Ordering::Release);
        self.tail - begin
    }

    /// Returns the number of cycles started so far.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.ring.cycles.0.load(Ordering::Relaxed)
    }

    /// Returns the count of each bin, that is, how often each small value occurred; empty if there
    /// are no bins.
    pub fn bins(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.ring.bins.iter().map(|bin| bin.load(Ordering::Relaxed))
    }

    /// Returns how long the probe looked for gaps, in ns; `None` if it did not.
    #[must_use]
    pub fn observed(&self) -> Option<Nanos> {
        Some(Nanos(self.ring.observed.load(Ordering::Relaxed)))
            .filter(|&observed| observed > Nanos::ZERO)
    }

    /// Returns the samples that the measuring thread took on the wrong CPU.
    #[must_use]
    pub fn elsewhere(&self) -> Vec<MovedStretch> {
        self.ring.elsewhere.read()
    }

    /// Returns the writer's final counts, once it has closed the ring. Afterwards the caller must
    /// read the ring once more, because it may still contain samples.
    #[must_use]
    pub fn closing_statement(&self) -> Option<ClosingStatement> {
        let closing = &self.ring.closing;
        closing
            .closed
            .load(Ordering::Acquire)
            .then(|| ClosingStatement {
                next_due: Nanos(closing.next_due.load(Ordering::Relaxed)),
                gap: Gap {
                    lost: closing.lost.load(Ordering::Relaxed),
                    skipped: closing.skipped.load(Ordering::Relaxed),
                },
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(index: i64, skipped: u32) -> Sample {
        Sample {
            due: Nanos(index * 1000),
            latency: Nanos(index),
            skipped,
        }
    }

    fn drained(consumer: &mut Consumer) -> Vec<Record> {
        let mut records = Vec::new();
        consumer.drain_up_to(u64::MAX, |record| records.push(record));
        records
    }

    #[test]
    fn an_overflow_is_handed_over_as_a_gap_before_the_next_sample() {
        let (mut producer, mut consumer) = ring(4);
        for index in 0..6 {
            producer.push(sample(index, 2));
        }
        assert_eq!(drained(&mut consumer).len(), 4);
        producer.push(sample(6, 0));
        let expected = [
            Record::Gap(Gap {
                lost: 2,
                skipped: 4,
            }),
            Record::Sample(sample(6, 0)),
        ];
        assert_eq!(drained(&mut consumer), expected);
    }

    #[test]
    fn values_with_a_bin_are_counted_and_the_others_are_not() {
        let (mut producer, consumer) = ring_with_bins(4, 3);
        let counted: Vec<bool> = [0, 2, 2, 3, -1, i64::MAX]
            .into_iter()
            .map(|value| producer.count(value))
            .collect();
        assert_eq!(counted, [true, true, true, false, false, false]);
        assert_eq!(consumer.bins().collect::<Vec<_>>(), [1, 0, 2]);
        assert_eq!(consumer.observed(), None);
        producer.observed(70);
        assert_eq!(consumer.observed(), Some(Nanos(70)));
    }

    #[test]
    fn what_is_lost_at_the_end_stands_in_the_closing_statement() {
        let (mut producer, mut consumer) = ring(4);
        for index in 0..7 {
            producer.push(sample(index, 1));
        }
        assert_eq!(consumer.closing_statement(), None);
        producer.close(Nanos(7000));
        assert_eq!(drained(&mut consumer).len(), 4);
        let statement = ClosingStatement {
            next_due: Nanos(7000),
            gap: Gap {
                lost: 3,
                skipped: 3,
            },
        };
        assert_eq!(consumer.closing_statement(), Some(statement));
    }

    #[test]
    fn two_threads_lose_nothing_that_is_not_counted() {
        let (mut producer, mut consumer) = ring(64);
        let writer = std::thread::spawn(move || {
            for index in 0..200_000 {
                producer.push(sample(index, 0));
            }
            producer.close(Nanos(200_000_000));
        });
        let (mut next, mut lost) = (0, 0);
        let mut check = |record| match record {
            Record::Gap(gap) => (lost, next) = (lost + gap.lost, next + gap.lost as i64),
            Record::Sample(taken) => {
                assert_eq!(taken, sample(next, 0));
                next += 1;
            }
        };
        let statement = loop {
            let statement = consumer.closing_statement();
            consumer.drain_up_to(u64::MAX, &mut check);
            if let Some(statement) = statement {
                break statement;
            }
        };
        writer.join().unwrap();
        assert_eq!(next + statement.gap.lost as i64, 200_000);
    }

    proptest! {
        #[test]
        fn recorded_and_lost_add_up_for_any_order_of_events(pushes in proptest::collection::vec((0_usize..12, 0_u32..4), 0..60)) {
            let (mut producer, mut consumer) = ring(8);
            let (mut pushed, mut skipped) = (0, 0);
            let (mut recorded, mut recorded_skipped, mut gaps) = (0, 0, Gap::default());
            let mut take = |record| match record {
                Record::Sample(sample) => { recorded += 1; recorded_skipped += u64::from(sample.skipped); }
                Record::Gap(gap) => { gaps.lost += gap.lost; gaps.skipped += gap.skipped; }
            };
            for (count, miss) in pushes {
                for _ in 0..count {
                    producer.push(sample(pushed as i64, miss));
                    pushed += 1;
                    skipped += u64::from(miss);
                }
                consumer.drain_up_to(u64::MAX, &mut take);
            }
            producer.close(Nanos(0));
            consumer.drain_up_to(u64::MAX, &mut take);
            let closing = consumer.closing_statement().unwrap().gap;
            prop_assert_eq!(recorded + gaps.lost + closing.lost, pushed);
            prop_assert_eq!(recorded_skipped + gaps.skipped + closing.skipped, skipped);
        }
    }
}
