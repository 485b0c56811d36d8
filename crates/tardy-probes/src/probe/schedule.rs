//! The grid of due times that a measuring loop follows.

use std::io;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_core::series::Schedule;
use tardy_core::units::Nanos;
use tardy_run::plan::ThreadPlan;
use tardy_sys::clock::Instant;

/// Returns the grid of `plan` and its end; all grid points are before the end.
pub(crate) fn grid_of(plan: &ThreadPlan) -> io::Result<(GridWalk, Nanos)> {
    let Schedule::Grid {
        start,
        period,
        dither,
    } = plan.schedule
    else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the plan has no grid for a probe that needs one",
        ));
    };
    let end = plan.cycles.map_or(Nanos::MAX, |cycles| {
        start.saturating_add(Nanos(period.get().saturating_mul(cycles as i64)))
    });
    Ok((GridWalk::new(start, period, dither, plan.seed), end))
}

/// Returns the sleep time that `plan` requests in each cycle.
pub(crate) fn request_of(plan: &ThreadPlan) -> io::Result<Nanos> {
    match plan.schedule {
        Schedule::Event { request } => Ok(request),
        Schedule::Grid { .. } => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the plan has a grid for a probe that has none",
        )),
    }
}

/// A position on a grid, which advances from due time to due time. After a late wake-up it
/// continues at the next future due time, so that latency never accumulates.
#[derive(Debug)]
pub(crate) struct GridWalk {
    base: i64,
    due: Instant,
    period: i64,
    dither: Option<Dither>,
}

/// Random shifts of due times, from 0 up to `width` ns.
#[derive(Debug)]
struct Dither {
    width: i64,
    random: Pcg64Mcg,
}

impl GridWalk {
    pub(crate) fn new(start: Nanos, period: Nanos, dither: Nanos, seed: u64) -> Self {
        let dither = (dither > Nanos::ZERO).then(|| Dither {
            width: dither.get(),
            random: Pcg64Mcg::seed_from_u64(seed),
        });
        let mut walk = Self {
            base: start.get(),
            due: Instant::from_nanos(start.get()),
            period: period.get(),
            dither,
        };
        walk.draw_due();
        walk
    }

    /// Returns the current grid point, without dither.
    #[inline]
    pub(crate) fn base(&self) -> Nanos {
        Nanos(self.base)
    }

    /// Returns the time at which to wake up: the grid point, shifted by its dither.
    #[inline]
    pub(crate) fn due(&self) -> &Instant {
        &self.due
    }

    /// Advances to the first due time after `now`, or to the first one at or after `end` if that is
    /// earlier. Returns the number of due times before `end` that it skipped. Calls `end` only if
    /// due times were skipped.
    #[inline]
    pub(crate) fn advance_past(&mut self, now: i64, end: impl FnOnce() -> Nanos) -> u32 {
        self.base += self.period;
        if self.dither.is_none() {
            self.due.advance(self.period);
        } else {
            self.draw_due();
        }
        if self.due.to_nanos() > now {
            0
        } else {
            self.skip_past(now, end())
        }
    }

    /// Advances past `expiries` expiries of a timer on the same grid, at most to the first due time
    /// at or after `end`. Returns the number of skipped due times. Must be used only for a grid
    /// without dither.
    #[inline]
    pub(crate) fn advance_by(&mut self, expiries: u64, end: impl FnOnce() -> Nanos) -> u32 {
        self.base += self.period;
        self.due.advance(self.period);
        if expiries <= 1 {
            return 0;
        }
        let skipped = self
            .left_until(end())
            .min(i64::try_from(expiries - 1).unwrap_or(i64::MAX));
        let step = self.period.saturating_mul(skipped);
        self.base += step;
        self.due.advance(step);
        u32::try_from(skipped).unwrap_or(u32::MAX)
    }

    /// Returns the number of grid points before `end`, from the current one on.
    fn left_until(&self, end: Nanos) -> i64 {
        let left = i128::from(end.get()) - i128::from(self.base);
        i64::try_from(
            (left + i128::from(self.period) - 1)
                .div_euclid(i128::from(self.period))
                .max(0),
        )
        .unwrap_or(i64::MAX)
    }

    /// Not inlined, so that the generator's state takes no registers from the loop.
    #[inline(never)]
    fn draw_due(&mut self) {
        let moved = self
            .dither
            .as_mut()
            .map_or(0, |dither| dither.random.random_range(0..dither.width));
        self.due = Instant::from_nanos(self.base + moved);
    }

    #[cold]
    fn skip_past(&mut self, now: i64, end: Nanos) -> u32 {
        // A sample can count at most 2^32 - 1 skipped due times. The next sample counts the rest.
        let (first, left) = (self.base, self.left_until(end).min(i64::from(u32::MAX)));
        // If a grid point is before `now` by more than the maximum dither, its due time has passed,
        // no matter how large its random shift is.
        let width = self.dither.as_ref().map_or(0, |dither| dither.width);
        let mut skipped = ((now - width - self.base) / self.period).max(0);
        self.base += self.period * skipped;
        while self.due.to_nanos() <= now {
            self.base += self.period;
            self.draw_due();
            skipped += 1;
        }
        if skipped > left {
            skipped = left;
            self.base = first + self.period * left;
            self.draw_due();
        }
        u32::try_from(skipped).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn overrun_is_counted_when_two_periods_are_skipped() {
        let mut walk = GridWalk::new(Nanos(1000), Nanos(100), Nanos(0), 1);
        assert_eq!(walk.advance_past(1050, || Nanos::MAX), 0);
        assert_eq!(walk.base(), Nanos(1100));
        assert_eq!(walk.advance_past(1350, || Nanos::MAX), 2);
        assert_eq!(walk.base(), Nanos(1400));
    }

    /// Such a long stall was seen on a machine with eight busy processes: it lasted 5 s, and the
    /// period was 1 ns.
    #[test]
    fn what_a_sample_cannot_count_is_left_to_the_next_one() {
        let mut walk = GridWalk::new(Nanos(0), Nanos(1), Nanos::ZERO, 1);
        let stall = 5_000_000_000;
        let mut due_times = 0;
        while walk.base() <= Nanos(stall) {
            due_times += 1 + i64::from(walk.advance_past(stall, || Nanos::MAX));
        }
        assert_eq!(due_times, walk.base().get());
    }

    #[test]
    fn what_is_due_after_the_end_is_not_skipped_however_late_the_last_wake_up_is() {
        for (end, skipped) in [
            (1350, 3),
            (1301, 3),
            (1300, 2),
            (1299, 2),
            (1101, 1),
            (1100, 0),
            (700, 0),
            (i64::MAX, 8),
        ] {
            let (mut walk, mut counted) = (
                GridWalk::new(Nanos(1000), Nanos(100), Nanos(0), 1),
                GridWalk::new(Nanos(1000), Nanos(100), Nanos(0), 1),
            );
            assert_eq!(walk.advance_past(1880, || Nanos(end)), skipped, "{end}");
            assert_eq!(walk.base(), Nanos(1100 + i64::from(skipped) * 100));
            assert_eq!(counted.advance_by(9, || Nanos(end)), skipped, "{end}");
            assert_eq!(
                (counted.base(), counted.due().to_nanos()),
                (walk.base(), walk.base().get())
            );
        }
    }

    #[test]
    fn a_due_time_that_is_now_has_passed() {
        let mut walk = GridWalk::new(Nanos(1000), Nanos(100), Nanos(0), 1);
        assert_eq!(walk.advance_past(1100, || Nanos::MAX), 1);
        assert_eq!(walk.base(), Nanos(1200));
    }

    proptest! {
        #[test]
        fn the_next_due_time_is_in_the_future_and_none_before_it_is_left_out(
            period in 1_i64..10_000_000_000, late in 0_i64..20_000_000_000, dither in 0_i64..1000, seed in any::<u64>(),
        ) {
            let (start, dither) = (Nanos(7), dither.min(period - 1));
            let mut walk = GridWalk::new(start, Nanos(period), Nanos(dither), seed);
            let due = walk.due().to_nanos();
            prop_assert!((7..7 + period).contains(&due));
            prop_assume!(late / period < i64::from(u32::MAX));
            let now = due + late;
            let skipped = walk.advance_past(now, || Nanos::MAX);
            prop_assert!(walk.due().to_nanos() > now);
            prop_assert!(walk.base().get() - period <= now, "the point before may have passed");
            prop_assert_eq!((walk.base() - start).get() / period, i64::from(skipped) + 1);
        }
    }
}
