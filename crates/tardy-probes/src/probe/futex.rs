//! `futex`: a thread sleeps on a word in memory until another thread changes it. The locks of the C
//! library and of most languages are based on futexes.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::ProbeInfo;
use super::pair::{self, Channel};

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "futex",
    about: "one thread wakes another through a futex",
    times: "FUTEX_WAKE wakes a thread in FUTEX_WAIT: from the waker's clock read just before FUTEX_WAKE to the woken \
            thread's clock read just after FUTEX_WAIT returns",
    source: "williams2002 (wake-ups by threads), ptsematest",
    open: pair::open::<Futex>,
    system_calls: &["clock_nanosleep", "futex"],
    ..pair::INFO
};

/// The word is 1 from the moment of a wake-up until the woken thread has noticed it.
struct Futex(AtomicU32);

impl Channel for Futex {
    fn new() -> io::Result<Self> {
        Ok(Self(AtomicU32::new(0)))
    }

    #[inline]
    fn wake(&self) -> io::Result<()> {
        self.0.store(1, Ordering::Release);
        tardy_sys::futex::wake(&self.0, 1).map(drop)
    }

    #[inline]
    fn wait(&self) -> io::Result<()> {
        while self.0.swap(0, Ordering::Acquire) == 0 {
            tardy_sys::futex::wait(&self.0, 0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_period_is_accounted_for() {
        pair::tests::accounts_for_every_period::<Futex>();
    }
}
