//! Timers that send a signal to a thread: timer_create(2), timer_settime(2), timer_getoverrun(2).

use std::io;
use std::mem::MaybeUninit;

use crate::clock::{Clock, timespec};
use crate::thread_signal::BlockedSignal;

/// A timer that sends a signal to the thread that created it. The thread waits for the signal, and
/// no handler runs.
#[derive(Debug)]
pub struct PosixTimer {
    timer: libc::timer_t,
    signal: BlockedSignal,
}

impl PosixTimer {
    /// Creates a disarmed timer on `clock`, and blocks the signal in the calling thread. The same
    /// thread must wait for the timer.
    ///
    /// # Errors
    /// Returns EAGAIN at the limit of queued signals; each timer takes one.
    pub fn new(clock: Clock) -> io::Result<Self> {
        let signal = BlockedSignal::block(crate::thread_signal::first_real_time())?;
        // SAFETY: sigevent is plain data, for which zeros are valid.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal.number();
        event.sigev_notify_thread_id = crate::sched::thread_id();
        let mut timer = MaybeUninit::uninit();
        // SAFETY: the event is valid for the call, and `timer` is valid for writing.
        crate::check(unsafe {
            libc::timer_create(clock.number(), &mut event, timer.as_mut_ptr())
        })?;
        // SAFETY: the call succeeded, so it filled `timer`.
        let timer = unsafe { timer.assume_init() };
        Ok(Self { timer, signal })
    }

    /// Arms the timer to fire at `first`, in ns of its clock, and then every `period` ns; if
    /// `period` is 0, it fires only once. If `first` is 0, disarms the timer.
    ///
    /// # Errors
    /// Returns EINVAL for a negative time.
    pub fn arm_at(&self, first: i64, period: i64) -> io::Result<()> {
        let setting = libc::itimerspec {
            it_interval: timespec(period),
            it_value: timespec(first),
        };
        // SAFETY: the timer was created and not deleted; the setting is valid for the call, and a
        // null old setting is allowed.
        crate::check(unsafe {
            libc::timer_settime(
                self.timer,
                libc::TIMER_ABSTIME,
                &setting,
                std::ptr::null_mut(),
            )
        })
        .map(drop)
    }

    /// Waits for the timer's signal, and returns how many further expiries this one signal stands
    /// for. Only the thread that created the timer may call this.
    ///
    /// # Errors
    /// Returns EINTR after another signal, so the caller can check whether the clock was set.
    #[inline]
    pub fn wait(&self) -> io::Result<u32> {
        self.signal.wait_once()?;
        // SAFETY: the timer was created and not deleted.
        crate::check(unsafe { libc::timer_getoverrun(self.timer) }).map(|overrun| overrun as u32)
    }
}

impl Drop for PosixTimer {
    fn drop(&mut self) {
        // SAFETY: the timer was created, and is deleted only here.
        unsafe { libc::timer_delete(self.timer) };
        // Removes a pending signal, because the next timer that uses this signal would mistake it
        // for its own.
        let _ = self.signal.wait_for(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn expiries_that_nobody_waited_for_are_counted_with_the_next() {
        std::thread::spawn(|| {
            let timer = PosixTimer::new(Clock::Monotonic).unwrap();
            let start = clock::monotonic();
            timer.arm_at(start + 1_000_000, 1_000_000).unwrap();
            clock::sleep_until(&clock::Instant::from_nanos(start + 5_500_000)).unwrap();
            assert!(timer.wait().unwrap() >= 4);
            timer.arm_at(clock::monotonic() + 1, 0).unwrap();
            timer.wait().unwrap();
            drop(timer);
            let other = PosixTimer::new(Clock::Monotonic).unwrap();
            assert!(
                !other.signal.wait_for(2_000_000).unwrap(),
                "the first timer leaves no signal"
            );
            assert_eq!(
                other.arm_at(-1, 0).unwrap_err().raw_os_error(),
                Some(libc::EINVAL)
            );
        })
        .join()
        .unwrap();
    }
}
