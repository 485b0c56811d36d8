//! The clocks that timers and grids of due times can use, in addition to the run's own clock.
//!
//! All times of a run are on CLOCK_MONOTONIC. The other clocks run at the same rate, because
//! adjustments of the rate by NTP and PTP affect all of them. The difference between such a clock
//! and CLOCK_MONOTONIC, in ns, changes only in steps. A due time on another clock therefore equals
//! a fixed time on the run's clock, until somebody steps the other clock.
//!
//! `run.json` stores the difference for each thread, exact to the ns. The difference is read from
//! the coarse clocks, which the kernel updates together. After a step, timers are set again, a
//! signal interrupts the waits that would last too long, and the run gives no verdict.

use serde::{Deserialize, Serialize};
use tardy_core::units::Nanos;

/// A clock of clock_gettime(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SystemClock {
    /// CLOCK_MONOTONIC, the clock of all stored times
    #[default]
    Monotonic,
    /// CLOCK_REALTIME: UTC, which an administrator or time synchronisation can set
    Realtime,
    /// CLOCK_TAI: like CLOCK_REALTIME, but without leap seconds; the time scale of TSN and PTP
    Tai,
}

impl SystemClock {
    /// All clocks.
    pub const ALL: [Self; 3] = [Self::Monotonic, Self::Realtime, Self::Tai];
    /// Names of the clocks in requests, in the order of the variants.
    pub const NAMES: &[&str] = &["monotonic", "realtime", "tai"];

    /// Returns the clock with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|clock| clock.name() == name)
    }

    /// Returns the clock's name in requests.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns whether this is the clock of all times of a run.
    #[must_use]
    pub fn is_of_the_run(&self) -> bool {
        *self == Self::Monotonic
    }

    /// Returns the clock's ID for system calls.
    #[must_use]
    pub fn of_the_system(self) -> tardy_sys::clock::Clock {
        match self {
            Self::Monotonic => tardy_sys::clock::Clock::Monotonic,
            Self::Realtime => tardy_sys::clock::Clock::Realtime,
            Self::Tai => tardy_sys::clock::Clock::Tai,
        }
    }

    /// Reads how far the clock is currently ahead of the run's clock.
    #[must_use]
    pub fn read(self) -> ClockReading {
        ClockReading {
            clock: self,
            ahead: Nanos(self.of_the_system().ahead()),
        }
    }
}

impl std::fmt::Display for SystemClock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Monotonic => "CLOCK_MONOTONIC",
            Self::Realtime => "CLOCK_REALTIME",
            Self::Tai => "CLOCK_TAI",
        })
    }
}

/// A clock, and how far it was ahead of the run's clock when the run started. A time on this clock
/// is a time of the run plus this difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClockReading {
    /// The clock that was read.
    pub clock: SystemClock,
    /// How far the clock was ahead of the run's clock.
    #[serde(rename = "ahead_ns")]
    pub ahead: Nanos,
}

impl ClockReading {
    /// Returns the first time at `start` or later that is `offset` after a whole multiple of
    /// `period` on this clock. `start` and the result are times on the run's clock.
    #[must_use]
    pub fn first_multiple(&self, start: Nanos, period: Nanos, offset: Nanos) -> Nanos {
        let on_clock = i128::from(start.get()) + i128::from(self.ahead.get());
        let wait =
            (i128::from(offset.get()) - on_clock).rem_euclid(i128::from(period.get().max(1)));
        start.saturating_add(Nanos(wait as i64))
    }
}

/// The requested clocks of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProbeClocks {
    /// Clock of the probe's timer.
    #[serde(
        rename = "clock",
        default,
        skip_serializing_if = "SystemClock::is_of_the_run"
    )]
    pub timer: SystemClock,
    /// Clock on which the due times are whole multiples of the period, plus the probe's offset;
    /// absent if they are not aligned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<SystemClock>,
}

impl std::fmt::Display for ProbeClocks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.timer.is_of_the_run() {
            write!(formatter, ":clock={}", self.timer.name())?;
        }
        self.align
            .map_or(Ok(()), |clock| write!(formatter, ":align={}", clock.name()))
    }
}

/// The clocks of a measuring thread, read when the run started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ThreadClocks {
    /// Reading of the timer's clock.
    #[serde(default)]
    pub timer: ClockReading,
    /// Reading of the clock to which the grid is aligned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grid: Option<ClockReading>,
}

impl ThreadClocks {
    /// Returns the clocks that a plan requests. Their readings are unknown before the run.
    #[must_use]
    pub fn planned(clocks: ProbeClocks) -> Self {
        let unread = |clock| ClockReading {
            clock,
            ahead: Nanos::ZERO,
        };
        Self {
            timer: unread(clocks.timer),
            grid: clocks.align.map(unread),
        }
    }

    /// Reads the clocks now.
    #[must_use]
    pub fn read(&self) -> Self {
        Self {
            timer: self.timer.clock.read(),
            grid: self.grid.map(|grid| grid.clock.read()),
        }
    }

    /// Returns whether the timer uses the run's own clock and the grid is not aligned to a clock.
    #[must_use]
    pub fn are_plain(&self) -> bool {
        self.timer.clock.is_of_the_run() && self.grid.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_multiple_lies_within_a_period_of_the_start_and_on_the_clock() {
        for (ahead, start, offset) in [
            (1_795_000_000_123_456_789, 77, 0),
            (-5, 1_000_000, 250),
            (0, 0, 0),
            (37, 999_963, 999_999),
        ] {
            let reading = ClockReading {
                clock: SystemClock::Tai,
                ahead: Nanos(ahead),
            };
            let first = reading.first_multiple(Nanos(start), Nanos(1_000_000), Nanos(offset));
            assert!(
                (start..start + 1_000_000).contains(&first.get()),
                "{ahead} {start}: {first:?}"
            );
            assert_eq!((first.get() + ahead).rem_euclid(1_000_000), offset);
        }
    }

    #[test]
    fn names_are_those_of_the_command_line_and_of_files() {
        for (index, name) in SystemClock::NAMES.iter().enumerate() {
            let clock = SystemClock::find(name).unwrap();
            assert_eq!((clock as usize, clock.name()), (index, *name));
            assert_eq!(serde_json::to_string(&clock).unwrap(), format!("{name:?}"));
        }
        assert_eq!(SystemClock::find("boottime"), None);
        assert_eq!(
            serde_json::to_string(&ProbeClocks::default()).unwrap(),
            "{}",
            "folders without other clocks read as ever"
        );
    }
}
