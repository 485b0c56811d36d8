//! Converts the cycles of a loop to samples of a series, with the skipped due times and the lost
//! samples.
//!
//! Each cycle is held back until the next cycle arrives, because only the next cycle shows how many
//! due times were skipped.

use tardy_core::sample::Sample;
use tardy_core::units::Nanos;

use crate::recording::ring::Producer;

/// Turns one time of each cycle (its start, or the end of its work) into the samples of one series.
#[derive(Debug)]
pub(crate) struct Track {
    /// Time between two due times; `None` if the due times are not equally spaced.
    period: Option<Nanos>,
    /// Due time of the last cycle. Before the first cycle, this is the grid point before the first
    /// due time.
    last: Nanos,
    held: Option<Sample>,
    /// Number of cycles lost since the last cycle that was added.
    lost: u64,
    producer: Producer,
}

/// A due time that is not on the grid of the previous due times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffGrid {
    pub due: Nanos,
    pub before: Nanos,
}

impl Track {
    /// Starts a series whose first due time is `first`.
    pub(crate) fn new(period: Option<Nanos>, first: Nanos, producer: Producer) -> Self {
        let last = Nanos(first.get().saturating_sub(period.unwrap_or_default().get()));
        Self {
            period,
            last,
            held: None,
            lost: 0,
            producer,
        }
    }

    /// Records that `cycles` cycles were started, but their data are lost. The due times of these
    /// cycles lie between the last cycle and the next one.
    pub(crate) fn lose(&mut self, cycles: u64) {
        self.lost = self.lost.saturating_add(cycles);
    }

    /// Adds the next cycle to the series. The cycle was due at `due`; its value (the start, or the
    /// end of the work) is the time `at`.
    ///
    /// # Errors
    /// Returns [`OffGrid`] if `due` is not on the grid; the cycle is then not added.
    pub(crate) fn take(&mut self, due: Nanos, at: Nanos) -> Result<(), OffGrid> {
        let skipped = self.skipped_before(due)?;
        self.hand_over(skipped);
        self.last = due;
        self.held = Some(Sample {
            due,
            latency: Nanos(at.get().saturating_sub(due.get())),
            skipped: 0,
        });
        Ok(())
    }

    /// Returns how many due times lie between the last cycle and one due at `due`; without a grid,
    /// returns the number of lost cycles.
    fn skipped_before(&self, due: Nanos) -> Result<u64, OffGrid> {
        let Some(period) = self.period else {
            return Ok(self.lost);
        };
        let off_grid = OffGrid {
            due,
            before: self.last,
        };
        let step = due
            .get()
            .checked_sub(self.last.get())
            .filter(|&step| step > 0 && step % period.get() == 0)
            .ok_or(off_grid)?;
        let skipped = (step / period.get()) as u64 - 1;
        // More cycles were lost than there are due times of the grid in between, so some cycles had
        // a due time off the grid.
        if skipped < self.lost {
            Err(off_grid)
        } else {
            Ok(skipped)
        }
    }

    /// Passes on the cycle that was held back. `skipped` due times follow it. Some of these due
    /// times belong to lost cycles.
    fn hand_over(&mut self, skipped: u64) {
        let lost = std::mem::take(&mut self.lost);
        let mut not_lost = skipped - lost;
        if let Some(mut sample) = self.held.take() {
            if lost == 0 {
                sample.skipped = u32::try_from(not_lost).unwrap_or(u32::MAX);
                not_lost -= u64::from(sample.skipped);
            }
            self.producer.begin_cycle();
            self.producer.push(sample);
        }
        // No sample counts these skipped due times, because it is unknown which of the lost cycles
        // skipped them, or because there is no sample before the first cycle.
        if lost > 0 || not_lost > 0 {
            self.producer.lose(lost, not_lost);
        }
    }

    /// Ends the series. `next` is the due time of the first cycle that does not belong to the
    /// series; `None` if it is unknown.
    pub(crate) fn close(mut self, next: Option<Nanos>) {
        let (skipped, next_due) = match next.map(|next| (self.skipped_before(next), next)) {
            Some((Ok(skipped), next)) => (skipped, next),
            _ => (self.lost, self.next_due()),
        };
        self.hand_over(skipped);
        self.producer.close(next_due);
    }

    /// Returns the first due time after all cycles that were added or lost, as far as it is known.
    pub(crate) fn next_due(&self) -> Nanos {
        let cycles = i64::try_from(self.lost)
            .unwrap_or(i64::MAX)
            .saturating_add(1);
        self.last.saturating_add(Nanos(
            self.period.unwrap_or_default().get().saturating_mul(cycles),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::ring::{Consumer, ring};
    use proptest::prelude::*;
    use tardy_core::sample::{Gap, Record};
    use tardy_core::series::Schedule;

    const PERIOD: Nanos = Nanos(1000);

    fn track(period: Option<Nanos>) -> (Track, Consumer) {
        let (producer, consumer) = ring(1024);
        (Track::new(period, Nanos(0), producer), consumer)
    }

    fn drained(consumer: &mut Consumer) -> Vec<Record> {
        let mut records = Vec::new();
        consumer.drain_up_to(u64::MAX, |record| records.push(record));
        records
    }

    fn sample(due: i64, latency: i64, skipped: u32) -> Record {
        Record::Sample(Sample {
            due: Nanos(due),
            latency: Nanos(latency),
            skipped,
        })
    }

    #[test]
    fn due_times_that_a_cycle_skipped_are_its_own() {
        let (mut track, mut consumer) = track(Some(PERIOD));
        track.take(Nanos(0), Nanos(10)).unwrap();
        track.take(Nanos(1000), Nanos(3500)).unwrap();
        track.take(Nanos(4000), Nanos(4001)).unwrap();
        track.close(Some(Nanos(6000)));
        assert_eq!(
            drained(&mut consumer),
            [sample(0, 10, 0), sample(1000, 2500, 2), sample(4000, 1, 1)]
        );
        assert_eq!(consumer.closing_statement().unwrap().next_due, Nanos(6000));
    }

    #[test]
    fn cycles_that_were_lost_are_a_gap_with_the_due_times_that_they_skipped() {
        let (mut track, mut consumer) = track(Some(PERIOD));
        track.take(Nanos(0), Nanos(10)).unwrap();
        track.lose(2);
        track.take(Nanos(5000), Nanos(5001)).unwrap();
        track.lose(3);
        track.close(None);
        assert_eq!(
            drained(&mut consumer),
            [
                sample(0, 10, 0),
                Record::Gap(Gap {
                    lost: 2,
                    skipped: 2
                }),
                sample(5000, 1, 0)
            ]
        );
        let closing = consumer.closing_statement().unwrap();
        assert_eq!(
            (closing.next_due, closing.gap),
            (
                Nanos(9000),
                Gap {
                    lost: 3,
                    skipped: 0
                }
            )
        );
    }

    #[test]
    fn a_due_time_off_the_grid_is_refused_and_the_series_stays_whole() {
        for due in [1500, 0, -1000, i64::MIN] {
            let (mut track, mut consumer) = track(Some(PERIOD));
            track.take(Nanos(0), Nanos(10)).unwrap();
            assert_eq!(
                track.take(Nanos(due), Nanos(9)),
                Err(OffGrid {
                    due: Nanos(due),
                    before: Nanos(0)
                })
            );
            track.close(Some(Nanos(due)));
            assert_eq!(drained(&mut consumer), [sample(0, 10, 0)]);
            assert_eq!(consumer.closing_statement().unwrap().next_due, Nanos(1000));
        }
    }

    #[test]
    fn due_times_before_the_first_cycle_are_skipped_too() {
        let (mut track, mut consumer) = track(Some(PERIOD));
        track.take(Nanos(2000), Nanos(2010)).unwrap();
        track.close(None);
        assert_eq!(
            drained(&mut consumer),
            [
                Record::Gap(Gap {
                    lost: 0,
                    skipped: 2
                }),
                sample(2000, 10, 0)
            ]
        );
        let (never, mut consumer) = super::tests::track(Some(PERIOD));
        never.close(Some(Nanos(5000)));
        assert_eq!(drained(&mut consumer), []);
        let closing = consumer.closing_statement().unwrap();
        assert_eq!(
            (closing.next_due, closing.gap),
            (
                Nanos(5000),
                Gap {
                    lost: 0,
                    skipped: 5
                }
            )
        );
    }

    #[test]
    fn more_cycles_than_due_times_are_off_the_grid() {
        let (mut track, _consumer) = track(Some(PERIOD));
        track.take(Nanos(0), Nanos(10)).unwrap();
        track.lose(3);
        assert!(track.take(Nanos(2000), Nanos(2001)).is_err());
    }

    #[test]
    fn without_a_grid_any_due_time_will_do_and_cycles_are_what_is_expected() {
        let (mut track, mut consumer) = track(None);
        track.take(Nanos(700), Nanos(710)).unwrap();
        track.lose(2);
        track.take(Nanos(300), Nanos(310)).unwrap();
        track.close(None);
        assert_eq!(
            drained(&mut consumer),
            [
                sample(700, 10, 0),
                Record::Gap(Gap {
                    lost: 2,
                    skipped: 0
                }),
                sample(300, 10, 0)
            ]
        );
        assert_eq!(consumer.cycles(), 4);
    }

    proptest! {
        #[test]
        fn every_due_time_of_the_grid_is_recorded_skipped_or_lost(
            steps in proptest::collection::vec((1_u64..5, 0_u64..4), 1..40), losing_last in 0_u64..3,
        ) {
            let (mut track, mut consumer) = track(Some(PERIOD));
            let mut place = 0;
            track.take(Nanos(0), Nanos(5)).unwrap();
            for (step, lost) in steps {
                let lost = lost.min(step - 1);
                track.lose(lost);
                place += step;
                track.take(Nanos(place as i64 * 1000), Nanos(place as i64 * 1000 + 5)).unwrap();
            }
            track.lose(losing_last);
            track.close(None);
            let (mut recorded, mut skipped, mut lost) = (0, 0, 0);
            for record in drained(&mut consumer) {
                match record {
                    Record::Sample(sample) => { recorded += 1; skipped += u64::from(sample.skipped); }
                    Record::Gap(gap) => { lost += gap.lost; skipped += gap.skipped; }
                }
            }
            let closing = consumer.closing_statement().unwrap();
            let grid = Schedule::Grid { period: PERIOD, start: Nanos(0), dither: Nanos(0) };
            let expected = grid.expected_at(closing.next_due).unwrap() - 1;
            prop_assert_eq!(expected, recorded + skipped + lost + closing.gap.lost + closing.gap.skipped);
        }
    }
}
