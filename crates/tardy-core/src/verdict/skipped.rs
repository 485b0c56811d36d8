//! Latencies of the due times that a wake-up skipped: the latency of the wake-up minus one period,
//! minus two periods, and so on.
//!
//! A skipped due time gets a latency only if the probe was still waiting for its late wake-up at
//! that time. If the wake-up was in time but the work after it took too long, it is not known
//! exactly when the probe was ready again. It is only known that the probe was ready before the
//! first due time that was not skipped. This gives upper bounds of the latencies. Verdicts use
//! these bounds, and the histogram stays without the skipped due times.

use super::Window;
use crate::sample::Sample;
use crate::series::Schedule;
use crate::units::Nanos;

/// The latencies of the due times that a sample skipped: `latency` minus one period, minus two
/// periods, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkippedLateness {
    /// The wake-up was so late that the skipped due times passed before it.
    Known { latency: Nanos },
    /// The wake-up was in time, and the work after it took too long. The probe was ready again
    /// before the first due time that was not skipped; this gives upper bounds of the latencies.
    AtMost {
        /// Time from the sample's due time to the next due time that was not skipped; dither is
        /// included.
        latency: Nanos,
    },
}

impl SkippedLateness {
    /// Derives the latencies of the due times that `sample` skipped in a series with this schedule.
    #[must_use]
    pub fn of(sample: Sample, schedule: &Schedule) -> Self {
        let (period, skipped) = (
            i128::from(schedule.period().get()),
            i128::from(sample.skipped),
        );
        let last = i128::from(sample.latency.get()) - period * skipped;
        // Dither moves due times by up to half a period.
        if last >= -(period / 2) {
            return Self::Known {
                latency: sample.latency,
            };
        }
        let dither = match *schedule {
            Schedule::Grid { dither, .. } => dither,
            Schedule::Event { .. } => Nanos::ZERO,
        };
        let latency = period * (skipped + 1) + i128::from(dither.get());
        Self::AtMost {
            latency: Nanos(i64::try_from(latency).unwrap_or(i64::MAX)),
        }
    }

    /// Returns the sum of one period and the latency of the first skipped due time.
    #[must_use]
    pub fn latency(self) -> Nanos {
        match self {
            Self::Known { latency } | Self::AtMost { latency } => latency,
        }
    }

    /// Returns how many of `skipped` skipped due times miss the window. If only upper bounds of the
    /// latencies are known, a due time counts as a miss if its bound misses the window. Without a
    /// period, all skipped due times count as misses.
    #[must_use]
    pub fn late(self, skipped: u32, period: Nanos, window: &Window) -> u64 {
        if period <= Nanos::ZERO {
            return u64::from(skipped);
        }
        let beyond = i128::from(self.latency().get()) - i128::from(window.latest.get());
        // Counts the skipped due times k = 1, 2, ... for which `beyond`, minus k periods, is
        // positive.
        let late = (beyond - 1).div_euclid(i128::from(period.get()));
        u64::try_from(late.clamp(0, i128::from(skipped))).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PERIOD: Nanos = Nanos(1_000);
    const GRID: Schedule = Schedule::Grid {
        period: PERIOD,
        start: Nanos::ZERO,
        dither: Nanos::ZERO,
    };

    fn late(latency: i64, skipped: u32, deadline: i64) -> u64 {
        let sample = Sample {
            due: Nanos(5_000),
            latency: Nanos(latency),
            skipped,
        };
        SkippedLateness::of(sample, &GRID).late(skipped, PERIOD, &Window::deadline(Nanos(deadline)))
    }

    #[test]
    fn a_skipped_due_time_is_late_by_what_was_left_of_the_stall() {
        // The latencies of the skipped due times are 4400, 3400, 2400, 1400 and 400.
        assert_eq!(
            [300, 400, 1_399, 2_400, 4_399, 4_400, 5_400].map(|deadline| late(5_400, 5, deadline)),
            [5, 4, 4, 2, 1, 0, 0]
        );
    }

    #[test]
    fn one_of_unknown_lateness_counts_with_the_most_that_it_can_have_been() {
        // The wake-up is in time, but the thread then works for five periods. The thread is ready
        // again before the sixth due time, so the latencies of the skipped due times are at most
        // 5000, 4000 and so on.
        assert_eq!(
            [999, 1_000, 4_999, 5_000].map(|deadline| late(10, 5, deadline)),
            [5, 4, 1, 0]
        );
        let dithered = Schedule::Grid {
            period: PERIOD,
            start: Nanos::ZERO,
            dither: Nanos(300),
        };
        let sample = Sample {
            due: Nanos(5_000),
            latency: Nanos(10),
            skipped: 5,
        };
        assert_eq!(
            SkippedLateness::of(sample, &dithered),
            SkippedLateness::AtMost {
                latency: Nanos(6_300)
            }
        );
    }

    #[test]
    fn without_a_period_every_one_counts() {
        let sample = Sample {
            due: Nanos(5_000),
            latency: Nanos(10),
            skipped: 5,
        };
        let event = Schedule::Event {
            request: Nanos::ZERO,
        };
        assert_eq!(
            SkippedLateness::of(sample, &event).late(5, Nanos::ZERO, &Window::deadline(Nanos::MAX)),
            5
        );
    }

    proptest! {
        #[test]
        fn as_many_are_late_as_are_when_taken_one_by_one(latency in 0_i64..20_000, skipped in 0_u32..20, deadline in 0_i64..20_000) {
            let sample = Sample { due: Nanos(5_000), latency: Nanos(latency), skipped };
            let first = SkippedLateness::of(sample, &GRID).latency().get();
            let one_by_one = (1..=i64::from(skipped)).filter(|periods| first - periods * PERIOD.get() > deadline).count() as u64;
            prop_assert_eq!(late(latency, skipped, deadline), one_by_one);
        }
    }
}
