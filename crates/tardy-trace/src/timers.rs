//! The timers that programs set: which kind and clock they have, and how they end.
//!
//! The clock of a timer is found from the time that the timer's interrupt read. It cannot be read
//! from the events, because these do not name it. The offsets between clocks are read in user
//! space. An event would show them inexactly, because it comes some microseconds after the
//! interrupt read the clock.

use serde::Serialize;

/// A timer's interrupt reads the timer's clock. If the time that it read and the time of the
/// expiry's event differ by less than this many ns, the timer uses the monotonic clock.
const SAME_CLOCK_NS: i64 = 1_000_000_000;
/// The same limit for a clock that can be set. Such a clock is recognised by the offset that it had
/// at the last reading.
const SETTABLE_CLOCK_NS: i64 = 10_000_000;

/// How a program set a timer; the timer's function shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimerKind {
    /// A sleep, or a wait with a time limit, by clock_nanosleep, futex, poll, epoll or select. Such
    /// a timer is on the thread's stack.
    Sleep,
    /// timer_create(2).
    PosixTimer,
    /// timerfd_create(2).
    Timerfd,
    /// setitimer(2) and alarm(2), with ITIMER_REAL.
    Itimer,
}

impl TimerKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Sleep, Self::PosixTimer, Self::Timerfd, Self::Itimer];

    /// Returns the kernel's function that timers of this kind call.
    #[must_use]
    pub fn function(self) -> &'static str {
        match self {
            Self::Sleep => "hrtimer_wakeup",
            Self::PosixTimer => "posix_timer_fn",
            Self::Timerfd => "timerfd_tmrproc",
            Self::Itimer => "it_real_fn",
        }
    }

    /// Returns the kind's name in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::PosixTimer => "posix-timer",
            Self::Timerfd => "timerfd",
            Self::Itimer => "itimer",
        }
    }
}

/// The clock of a timer, as the timer's expiry shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimerClock {
    /// CLOCK_MONOTONIC; or CLOCK_BOOTTIME, on a machine that was never suspended.
    Monotonic,
    /// CLOCK_REALTIME.
    Realtime,
    /// CLOCK_BOOTTIME.
    Boottime,
    /// CLOCK_TAI.
    Tai,
    /// A clock whose offset was set since the offsets were last read, so that it matches none of
    /// them. For such a clock, the due time is computed from the moment of the expiry. It is then
    /// too late, at most by the time that passes between the interrupt's reading of the clock and
    /// the call of the timer's function.
    Set,
}

/// The offsets of other clocks from the monotonic clock, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockOffsets {
    /// CLOCK_REALTIME.
    pub realtime: i64,
    /// CLOCK_BOOTTIME.
    pub boottime: i64,
    /// CLOCK_TAI.
    pub tai: i64,
}

impl ClockOffsets {
    /// Returns which clock showed `now` at an expiry, and the offset of this clock from the
    /// monotonic clock. Shortly after the expiry, the monotonic clock showed `time`.
    pub(crate) fn clock(self, time: i64, now: i64) -> (TimerClock, i64) {
        let ahead = now.saturating_sub(time);
        if ahead.saturating_abs()
            < SAME_CLOCK_NS.min(
                ahead
                    .saturating_sub(self.boottime)
                    .saturating_abs()
                    .saturating_add(1),
            )
        {
            return (TimerClock::Monotonic, 0);
        }
        let others = [
            (TimerClock::Realtime, self.realtime),
            (TimerClock::Tai, self.tai),
            (TimerClock::Boottime, self.boottime),
        ];
        let nearest = others
            .into_iter()
            .min_by_key(|&(_, offset)| offset.saturating_sub(ahead).saturating_abs());
        match nearest {
            Some((clock, offset))
                if offset.saturating_sub(ahead).saturating_abs() < SETTABLE_CLOCK_NS =>
            {
                (clock, offset)
            }
            _ => (TimerClock::Set, ahead),
        }
    }
}

/// How the timers of one kind ended: `started = wake_ups + unawaited + cancelled + lost + pending`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct TimerCounts {
    /// Timers that followed threads set. If a timer is set again, it counts again.
    pub started: u64,
    /// Timers that woke a followed thread.
    pub wake_ups: u64,
    /// Timers that expired when no followed thread waited for them.
    pub unawaited: u64,
    /// Timers that were cancelled or set again before they expired, because the wait had ended
    /// earlier.
    pub cancelled: u64,
    /// Timers for which the event at their end may have been lost.
    pub lost: u64,
    /// Timers that had neither expired nor been cancelled when the trace ended.
    pub pending: u64,
}
