//! Shared code of probes that occupy their CPU: the conversion of ticks to the run's clock, and the
//! limit on the share of CPU time that they may use.

use std::io;

use tardy_core::units::Nanos;
use tardy_run::plan::{PolicyName, ProbePlan};
use tardy_sys::clock;
use tardy_sys::cycle_counter::Calibration;

/// At a real-time priority, the probe gives up the CPU for a tenth of each window, so that the
/// machine stays usable.
const WINDOW: Nanos = Nanos::from_millis(100);
const WINDOW_OCCUPIED: Nanos = Nanos::from_millis(90);

/// One moment, read from both the tick counter and the run's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Anchor {
    ticks: u64,
    nanos: Nanos,
    calibration: Calibration,
}

impl Anchor {
    /// Reads both clocks.
    pub(super) fn new(read: impl Fn() -> u64, calibration: Calibration) -> Self {
        let nanos = Nanos(clock::monotonic());
        Self {
            ticks: read(),
            nanos,
            calibration,
        }
    }

    pub(super) fn ticks(&self) -> u64 {
        self.ticks
    }

    pub(super) fn nanos(&self) -> Nanos {
        self.nanos
    }

    /// Returns the run's clock at the moment when the tick counter showed `ticks`. The time may be
    /// before or after the anchor, but must be near it.
    pub(super) fn at(&self, ticks: u64) -> Nanos {
        match ticks.checked_sub(self.ticks) {
            Some(since) => self.nanos + Nanos(self.calibration.nanos(since)),
            None => self.nanos - Nanos(self.calibration.nanos(self.ticks - ticks)),
        }
    }
}

/// Limits the time that a probe occupies its CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    is_real_time: bool,
    window: Nanos,
}

impl Share {
    pub(super) fn of(probe: &ProbePlan) -> Self {
        Self {
            is_real_time: probe.policy != PolicyName::Other,
            window: Nanos::ZERO,
        }
    }

    /// Sleeps for the rest of the window if the window's share is used up. Returns whether a new
    /// window started.
    #[inline]
    pub(super) fn give_up_when_used(&mut self, now: Nanos) -> io::Result<bool> {
        if !self.is_real_time || now < self.window + WINDOW_OCCUPIED {
            return Ok(false);
        }
        if now < self.window + WINDOW {
            clock::sleep_until(&clock::Instant::from_nanos((self.window + WINDOW).get()))?;
            self.window += WINDOW;
        } else {
            // Either this is the first window, or the probe was preempted at the end of the
            // previous one.
            self.window = now;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_before_and_after_an_anchor_have_their_place() {
        let anchor = Anchor {
            ticks: 1000,
            nanos: Nanos(50_000),
            calibration: Calibration::OF_NANOSECONDS,
        };
        assert_eq!(
            (anchor.at(1007), anchor.at(990)),
            (Nanos(50_007), Nanos(49_990))
        );
    }

    #[test]
    fn a_tenth_of_each_window_is_given_up_at_a_real_time_priority_and_nothing_otherwise() {
        let now = Nanos(clock::monotonic());
        let mut share = Share {
            is_real_time: true,
            window: now - Nanos::from_millis(95),
        };
        assert!(share.give_up_when_used(now).unwrap());
        assert!(
            Nanos(clock::monotonic()) >= now + Nanos::from_millis(5),
            "the rest of the window is slept through"
        );
        assert_eq!(share.window, now + Nanos::from_millis(5));
        let mut ordinary = Share {
            is_real_time: false,
            window: now - Nanos::from_secs(5),
        };
        assert!(!ordinary.give_up_when_used(now).unwrap());
        assert_eq!(ordinary.window, now - Nanos::from_secs(5));
    }
}
