//! The clock of a probe's timer. Waits continue correctly if this clock is stepped.
//!
//! Due times and latencies are times on the run's clock, CLOCK_MONOTONIC, even if the timer uses
//! another clock. The difference between the two clocks changes only in steps. After a step, the
//! due times on the run's clock stay the same, and the timer is set again. If a step makes a wait
//! end early, the thread waits again. If a step would make a wait too long, `measure::clock_watch`
//! interrupts it. So after a step, no thread keeps the CPU busy, and the run ends on time. The
//! watch also makes a run with a step inconclusive.

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

    /// Returns the clock's ID for system calls.
    pub(super) fn clock(&self) -> Clock {
        self.reading.clock.of_the_system()
    }

    /// Returns the time on this clock at the moment when the run's clock shows `time`.
    #[inline]
    pub(super) fn at(&self, time: i64) -> i64 {
        time + self.reading.ahead.get()
    }

    /// Returns whether the clock was stepped since the last call, or since the run's start. Also
    /// updates the offset, so that times of this clock are right again.
    #[cold]
    pub(super) fn was_stepped(&mut self) -> bool {
        let now = self.reading.clock.read();
        std::mem::replace(&mut self.reading, now) != now
    }

    /// Sleeps until the run's clock shows `due`, with a timer on this clock. Returns the first read
    /// of the run's clock after the wake-up.
    pub(super) fn sleep_until(&mut self, due: i64) -> io::Result<i64> {
        loop {
            let woken = clock::sleep_until_on(self.clock(), self.at(due));
            let now = clock::monotonic();
            match woken {
                // If the timer fires early although there was no step, the timer's error is part of
                // the sample.
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
