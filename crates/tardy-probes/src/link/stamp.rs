//! The receive stamps of the kernel, on the clock of a run.

use tardy_core::units::Nanos;
use tardy_sys::clock;

/// A time of CLOCK_REALTIME, of just now, on CLOCK_MONOTONIC.
#[inline]
pub(super) fn on_the_runs_clock(realtime: i64) -> Nanos {
    let age = clock::realtime() - realtime;
    Nanos(clock::monotonic() - age)
}
