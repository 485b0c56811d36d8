//! The clock that a probe's timer is set on, and what becomes of a wait when somebody steps it.
//!
//! Due times and latencies are of CLOCK_MONOTONIC whatever the clock: all differ by a number of ns
//! that changes in steps alone. After a step the grid stays where it is on the run's clock, and the
//! timer is set anew for it: a wait that ends early is gone on with, and one that would take longer
//! is cut short by `measure::clock_watch`. So no step takes the CPU or keeps the run from ending;
//! that a run with a step decides nothing the watch says.

use std::io;

use tardy_run::plan::ThreadPlan;
use tardy_run::system_clock::ClockReading;
use tardy_sys::clock::{self, Clock};

/// The clock of a timer.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimerClock {
    reading: ClockReading,
}

impl TimerClock {
    pub(super) fn of(plan: &ThreadPlan) -> Self {
        Self {
            reading: plan.clocks.timer,
        }
    }

    /// The clock for system calls.
    pub(super) fn clock(&self) -> Clock {
        self.reading.clock.of_the_system()
    }

    /// The time on this clock when the run's shows `time`.
    #[inline]
    pub(super) fn at(&self, time: i64) -> i64 {
        time + self.reading.ahead.get()
    }

    /// Whether somebody has stepped the clock since this was last asked, or since the run began;
    /// times of this clock are right again then.
    #[cold]
    pub(super) fn was_stepped(&mut self) -> bool {
        let now = self.reading.clock.read();
        std::mem::replace(&mut self.reading, now) != now
    }

    /// Sleeps until the run's clock shows `due`, by a timer on this one; the answer is the first
    /// read of the run's clock after the wake-up.
    pub(super) fn sleep_until(&mut self, due: i64) -> io::Result<i64> {
        loop {
            let woken = clock::sleep_until_on(self.clock(), self.at(due));
            let now = clock::monotonic();
            match woken {
                // A timer that is early without a step has an error that the sample is to show.
                Ok(()) if now >= due || !self.was_stepped() => return Ok(now),
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    self.was_stepped();
                }
                Err(error) => return Err(error),
            }
        }
    }
}
