//! Timers that are file descriptors: timerfd_create(2), timerfd_settime(2).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::clock::{Clock, timespec};

/// A timer on CLOCK_MONOTONIC.
#[derive(Debug)]
pub struct TimerFd(File);

impl TimerFd {
    /// Creates a disarmed timer with non-blocking reads.
    ///
    /// # Errors
    /// Returns EMFILE, ENFILE, ENOMEM.
    pub fn new() -> io::Result<Self> {
        // SAFETY: timerfd_create takes two integers.
        let fd = crate::check(unsafe {
            libc::timerfd_create(
                libc::CLOCK_MONOTONIC,
                libc::TFD_CLOEXEC | libc::TFD_NONBLOCK,
            )
        })?;
        // SAFETY: the descriptor was just opened, and nothing else owns it.
        Ok(Self(unsafe { File::from_raw_fd(fd) }))
    }

    /// Arms the timer to fire once at `due`, in ns of CLOCK_MONOTONIC, even if it is armed already.
    /// If `due` is 0, disarms the timer.
    ///
    /// # Errors
    /// Returns EINVAL for a negative time.
    pub fn arm_at(&self, due: i64) -> io::Result<()> {
        let setting = libc::itimerspec {
            it_interval: timespec(0),
            it_value: timespec(due),
        };
        // SAFETY: `setting` is valid for the call, and a null old setting is allowed.
        crate::check(unsafe {
            libc::timerfd_settime(
                self.0.as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &setting,
                std::ptr::null_mut(),
            )
        })
        .map(drop)
    }

    /// Returns how often the timer has fired since it was armed or last read.
    ///
    /// # Errors
    /// Returns the errors of read(2) except EAGAIN, for which it returns 0.
    pub fn fired(&mut self) -> io::Result<u64> {
        let mut count = [0; 8];
        match self.0.read_exact(&mut count) {
            Ok(()) => Ok(u64::from_ne_bytes(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error),
        }
    }
}

/// A periodic timer with blocking reads.
#[derive(Debug)]
pub struct PeriodicTimerFd(OwnedFd);

impl PeriodicTimerFd {
    /// Creates a disarmed timer on `clock`.
    ///
    /// # Errors
    /// Returns EINVAL for CLOCK_TAI, for which the kernel has no such timers; EMFILE, ENFILE,
    /// ENOMEM.
    pub fn new(clock: Clock) -> io::Result<Self> {
        // SAFETY: timerfd_create takes two integers.
        let fd = crate::check(unsafe { libc::timerfd_create(clock.number(), libc::TFD_CLOEXEC) })?;
        // SAFETY: the descriptor was just opened, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Arms the timer to expire at `first`, in ns of its clock, and then every `period` ns.
    ///
    /// # Errors
    /// Returns EINVAL for a negative time.
    pub fn start(&self, first: i64, period: i64) -> io::Result<()> {
        let time = |nanos: i64| libc::timespec {
            tv_sec: (nanos / 1_000_000_000) as _,
            tv_nsec: (nanos % 1_000_000_000) as _,
        };
        let setting = libc::itimerspec {
            it_interval: time(period),
            it_value: time(first),
        };
        // SAFETY: `setting` is valid for the call, and a null old setting is allowed.
        crate::check(unsafe {
            libc::timerfd_settime(
                self.0.as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &setting,
                std::ptr::null_mut(),
            )
        })
        .map(drop)
    }

    /// Waits for the next expiry. Returns the number of expiries since the last call, at least 1.
    ///
    /// # Errors
    /// Returns the errors of read(2), including EINTR, so the caller can check whether the clock
    /// was set.
    #[inline]
    pub fn wait(&self) -> io::Result<u64> {
        let mut count = 0_u64;
        // SAFETY: the kernel writes eight bytes to `count`, which is that long.
        let read =
            unsafe { libc::read(self.0.as_raw_fd(), std::ptr::from_mut(&mut count).cast(), 8) };
        if read == 8 {
            Ok(count)
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl AsFd for PeriodicTimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_periodic_timer_tells_every_expiry() {
        let timer = PeriodicTimerFd::new(Clock::Monotonic).unwrap();
        let first = crate::clock::monotonic() + 1_000_000;
        timer.start(first, 1_000_000).unwrap();
        let mut expiries = 0;
        while expiries < 20 {
            expiries += timer.wait().unwrap();
            let passed = (crate::clock::monotonic() - first) / 1_000_000 + 1;
            assert!(expiries <= passed as u64, "{expiries} of {passed}");
        }
        assert_eq!(
            timer.start(-1, 1).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
        assert_eq!(
            PeriodicTimerFd::new(Clock::Tai).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }

    #[test]
    fn a_timer_fires_once_for_each_time_it_is_armed() {
        let mut timer = TimerFd::new().unwrap();
        assert_eq!(timer.fired().unwrap(), 0);
        timer.arm_at(crate::clock::monotonic() + 1).unwrap();
        crate::signal::wait_readable(&[timer.as_fd()], 10_000).unwrap();
        assert_eq!(timer.fired().unwrap(), 1);
        assert_eq!(timer.fired().unwrap(), 0);
        assert_eq!(
            timer.arm_at(-5).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }
}
