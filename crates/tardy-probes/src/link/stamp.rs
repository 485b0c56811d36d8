//! Converts the kernel's receive time stamps to the run's clock.

use tardy_core::units::Nanos;
use tardy_sys::clock;

/// Converts a time of CLOCK_REALTIME in the recent past to CLOCK_MONOTONIC.
#[inline]
pub(super) fn on_the_runs_clock(realtime: i64) -> Nanos {
    let age = clock::realtime() - realtime;
    Nanos(clock::monotonic() - age)
}
