//! Signals between threads: pthread_sigmask(3), tgkill(2), rt_sigtimedwait(2).
//!
//! The receiving thread blocks the signal and waits for it, so no handler runs, and only the
//! kernel's wake-up is timed.

use std::io;
use std::mem::MaybeUninit;

/// Returns the first real-time signal that the C library does not use itself. The kernel queues
/// real-time signals, so it never merges one with an earlier one.
#[must_use]
pub fn first_real_time() -> i32 {
    libc::SIGRTMIN()
}

/// A signal that is blocked in the calling thread and in threads that it starts later. It is never
/// unblocked: if the signal were still pending at that time, the kernel would end the process.
#[derive(Debug, Clone, Copy)]
pub struct BlockedSignal {
    set: libc::sigset_t,
    number: i32,
}

impl BlockedSignal {
    /// Blocks signal `number`.
    ///
    /// # Errors
    /// Returns EINVAL for a number that is no signal.
    pub fn block(number: i32) -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the set it is given, and cannot fail for a valid pointer.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: the set was initialised above.
        crate::check(unsafe { libc::sigaddset(set.as_mut_ptr(), number) })?;
        // SAFETY: sigemptyset initialised the set.
        let set = unsafe { set.assume_init() };
        // SAFETY: the set is valid; a null old set is allowed.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) } {
            0 => Ok(Self { set, number }),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    #[must_use]
    pub fn number(&self) -> i32 {
        self.number
    }

    /// Waits for the next signal to the calling thread or to the process, and removes it.
    ///
    /// # Errors
    /// Returns the errors of rt_sigtimedwait(2) except EINTR, after which the wait continues.
    #[inline]
    pub fn wait(&self) -> io::Result<()> {
        loop {
            match self.wait_once() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Works like [`BlockedSignal::wait`], but returns EINTR if the handler of another signal ran.
    ///
    /// # Errors
    /// Returns EINTR.
    #[inline]
    pub fn wait_once(&self) -> io::Result<()> {
        self.wait_until_timeout(std::ptr::null())
    }

    /// Works like [`BlockedSignal::wait`], but waits for at most `timeout` ns; 0 means that it does
    /// not wait. Returns false if no signal came.
    ///
    /// # Errors
    /// Returns EINTR, or EINVAL for a negative time.
    pub fn wait_for(&self, timeout: i64) -> io::Result<bool> {
        let time = crate::clock::timespec(timeout);
        match self.wait_until_timeout(&time) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            other => other.map(|()| true),
        }
    }

    #[inline]
    fn wait_until_timeout(&self, timeout: *const libc::timespec) -> io::Result<()> {
        // SAFETY: the set is valid; a null signal information is allowed; the time is null or, as
        // the callers ensure, valid for the call.
        crate::check(unsafe { libc::sigtimedwait(&self.set, std::ptr::null_mut(), timeout) })
            .map(drop)
    }
}

/// Sends signal `number` to thread `tid` of this process.
///
/// # Errors
/// Returns ESRCH if the thread does not exist; EAGAIN at the limit of queued signals; EINVAL for a
/// number that is no signal.
#[inline]
pub fn send(tid: i32, number: i32) -> io::Result<()> {
    // SAFETY: getpid has no preconditions and cannot fail.
    let process = unsafe { libc::getpid() };
    // SAFETY: tgkill takes three integers.
    crate::check(unsafe { libc::syscall(libc::SYS_tgkill, process, tid, number) } as libc::c_int)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_sent_to_a_thread_queue_and_are_taken_one_by_one() {
        std::thread::spawn(|| {
            let signal = BlockedSignal::block(first_real_time()).unwrap();
            assert!(!signal.wait_for(0).unwrap());
            (0..3).for_each(|_| send(crate::sched::thread_id(), signal.number()).unwrap());
            (0..3).for_each(|_| signal.wait().unwrap());
            assert!(!signal.wait_for(1000).unwrap());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_number_that_is_no_signal_and_a_thread_that_has_ended_are_errors() {
        assert_eq!(
            BlockedSignal::block(4096).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
        let ended = std::thread::spawn(crate::sched::thread_id).join().unwrap();
        assert_eq!(
            send(ended, 0).unwrap_err().raw_os_error(),
            Some(libc::ESRCH)
        );
    }
}
