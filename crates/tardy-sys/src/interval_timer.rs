//! The process's real-time interval timer and its signal: setitimer(2), sigwaitinfo(2).

use std::io;
use std::mem::MaybeUninit;

/// The timer ITIMER_REAL; its signal, SIGALRM, is blocked. A process has only one such timer.
#[derive(Debug)]
pub struct IntervalTimer(libc::sigset_t);

impl IntervalTimer {
    /// Blocks SIGALRM in the calling thread and in threads that it starts later. Call this before
    /// other threads exist.
    ///
    /// # Errors
    /// Returns the errors of sigprocmask(2), which does not fail here.
    pub fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the set it is given, and cannot fail for a valid pointer.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: the set was initialised above.
        crate::check(unsafe { libc::sigaddset(set.as_mut_ptr(), libc::SIGALRM) })?;
        // SAFETY: the set was initialised above.
        let set = unsafe { set.assume_init() };
        // SAFETY: `set` is valid for the call; a null old set is allowed.
        crate::check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) })?;
        Ok(Self(set))
    }

    /// Starts to send the signal every `micros` us; 0 stops the timer.
    ///
    /// # Errors
    /// Returns EINVAL for a negative interval.
    pub fn start(&self, micros: i64) -> io::Result<()> {
        let time = libc::timeval {
            tv_sec: (micros / 1_000_000) as _,
            tv_usec: (micros % 1_000_000) as _,
        };
        let setting = libc::itimerval {
            it_interval: time,
            it_value: time,
        };
        // SAFETY: `setting` is valid for the call; a null old setting is allowed.
        crate::check(unsafe { libc::setitimer(libc::ITIMER_REAL, &setting, std::ptr::null_mut()) })
            .map(drop)
    }

    /// Stops the timer.
    ///
    /// # Errors
    /// Returns the errors of setitimer(2), which does not fail here.
    pub fn stop(&self) -> io::Result<()> {
        self.start(0)
    }

    /// Waits for the signal, in any thread.
    ///
    /// # Errors
    /// Returns the errors of sigwaitinfo(2) except EINTR.
    #[inline]
    pub fn wait(&self) -> io::Result<()> {
        loop {
            // SAFETY: the set is valid for the call; a null information is allowed.
            match crate::check(unsafe { libc::sigwaitinfo(&self.0, std::ptr::null_mut()) }) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signal_comes_to_the_thread_that_waits() {
        // Only this thread of the test process blocks SIGALRM, and raise(2) sends the signal to
        // this thread.
        std::thread::spawn(|| {
            let timer = IntervalTimer::block().unwrap();
            // SAFETY: raise sends the signal to this thread, which blocks it, so it stays pending.
            unsafe { libc::raise(libc::SIGALRM) };
            timer.wait().unwrap();
            assert_eq!(
                timer.start(-1).unwrap_err().raw_os_error(),
                Some(libc::EINVAL)
            );
        })
        .join()
        .unwrap();
    }
}
