//! Timers that fire without a notification: timer_create(2) with SIGEV_NONE, timer_settime(2),
//! timer_delete(2).

use std::io;
use std::mem::MaybeUninit;

/// A timer on CLOCK_MONOTONIC that fires without a notification. Deleted on drop.
#[derive(Debug)]
pub struct SilentTimer(libc::timer_t);

impl SilentTimer {
    /// Creates a disarmed timer.
    ///
    /// # Errors
    /// Returns EAGAIN at the limit of queued signals (each timer takes one); ENOMEM.
    #[inline]
    pub fn new() -> io::Result<Self> {
        // SAFETY: sigevent is plain data, for which zeros are valid.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_NONE;
        let mut timer = MaybeUninit::uninit();
        // SAFETY: the event is valid, and `timer` is valid for writing.
        crate::check(unsafe {
            libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, timer.as_mut_ptr())
        })?;
        // SAFETY: the call succeeded, so it wrote the number.
        Ok(Self(unsafe { timer.assume_init() }))
    }

    /// Arms the timer to fire once, `after` ns from now; 0 disarms it.
    ///
    /// # Errors
    /// Returns EINVAL for a negative time.
    #[inline]
    pub fn arm(&self, after: i64) -> io::Result<()> {
        let value = libc::timespec {
            tv_sec: (after / 1_000_000_000) as _,
            tv_nsec: (after % 1_000_000_000) as _,
        };
        let setting = libc::itimerspec {
            it_interval: libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: value,
        };
        // SAFETY: the timer exists until drop, the setting is valid for the call, and a null old
        // setting is allowed.
        crate::check(unsafe { libc::timer_settime(self.0, 0, &setting, std::ptr::null_mut()) })
            .map(drop)
    }

    /// Returns the time until the timer fires, in ns; 0 if it has fired or was never armed. For a
    /// disarmed timer, the result depends on the kernel.
    ///
    /// # Errors
    /// Returns the errors of timer_gettime(2).
    pub fn left(&self) -> io::Result<i64> {
        let mut setting = MaybeUninit::<libc::itimerspec>::uninit();
        // SAFETY: the timer exists until drop, and the setting is valid for writing.
        crate::check(unsafe { libc::timer_gettime(self.0, setting.as_mut_ptr()) })?;
        // SAFETY: the call succeeded, so it filled the setting.
        let left = unsafe { setting.assume_init() }.it_value;
        #[allow(
            clippy::unnecessary_cast,
            reason = "time_t has 32 bits on some targets"
        )]
        Ok(left.tv_sec as i64 * 1_000_000_000 + left.tv_nsec as i64)
    }
}

impl Drop for SilentTimer {
    fn drop(&mut self) {
        // SAFETY: this value created the timer, and nothing else deletes it.
        unsafe { libc::timer_delete(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_counts_down_from_what_it_was_set_to_last() {
        let timer = SilentTimer::new().unwrap();
        assert_eq!(timer.left().unwrap(), 0);
        timer.arm(3_600_000_000_000).unwrap();
        assert!((1..=3_600_000_000_000).contains(&timer.left().unwrap()));
        // The remaining time of a disarmed timer depends on the kernel: Linux 6.18 continues to
        // count down if the timer sends no signal.
        timer.arm(0).unwrap();
        timer.arm(7_200_000_000_000).unwrap();
        assert!((3_600_000_000_001..=7_200_000_000_000).contains(&timer.left().unwrap()));
        assert_eq!(
            timer.arm(-5).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }
}
