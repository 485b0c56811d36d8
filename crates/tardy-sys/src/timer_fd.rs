//! Timers that are file descriptors: timerfd_create(2), timerfd_settime(2).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};

use crate::clock::timespec;

/// A timer on CLOCK_MONOTONIC.
#[derive(Debug)]
pub struct TimerFd(File);

impl TimerFd {
    /// A timer that is not armed; reads do not block.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM.
    pub fn new() -> io::Result<Self> {
        // SAFETY: timerfd_create takes two integers.
        let fd = crate::check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) })?;
        // SAFETY: the descriptor was just opened, and nothing else owns it.
        Ok(Self(unsafe { File::from_raw_fd(fd) }))
    }

    /// Arms it to fire once at `due`, in ns of CLOCK_MONOTONIC, whether or not it was armed; 0 disarms it.
    ///
    /// # Errors
    /// EINVAL for a negative time.
    pub fn arm_at(&self, due: i64) -> io::Result<()> {
        let setting = libc::itimerspec { it_interval: timespec(0), it_value: timespec(due) };
        // SAFETY: `setting` is valid for the call, and a null old setting is allowed.
        crate::check(unsafe { libc::timerfd_settime(self.0.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &setting, std::ptr::null_mut()) })
            .map(drop)
    }

    /// How often it has fired since it was armed or last read.
    ///
    /// # Errors
    /// Those of read(2) but EAGAIN, which is 0.
    pub fn fired(&mut self) -> io::Result<u64> {
        let mut count = [0; 8];
        match self.0.read_exact(&mut count) {
            Ok(()) => Ok(u64::from_ne_bytes(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error),
        }
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
    fn a_timer_fires_once_for_each_time_it_is_armed() {
        let mut timer = TimerFd::new().unwrap();
        assert_eq!(timer.fired().unwrap(), 0);
        timer.arm_at(crate::clock::monotonic() + 1).unwrap();
        crate::signal::wait_readable(&[timer.as_fd()], 10_000).unwrap();
        assert_eq!(timer.fired().unwrap(), 1);
        assert_eq!(timer.fired().unwrap(), 0);
        assert_eq!(timer.arm_at(-5).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}
