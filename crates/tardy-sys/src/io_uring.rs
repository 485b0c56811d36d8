//! Requests through rings that are shared with the kernel: io_uring_setup(2), io_uring_enter(2),
//! with the crate io-uring.

use std::io;

use io_uring::types::{TimeoutFlags, Timespec};
use io_uring::{IoUring, opcode, squeue};

/// A ring with at most one request in progress.
pub struct Ring {
    rings: IoUring,
    /// Whether the submission of an earlier request has failed. Such a request stays in the ring
    /// and points to memory that may be reused, so no later request may be submitted.
    is_broken: bool,
}

impl Ring {
    /// Makes the rings.
    ///
    /// # Errors
    /// Returns ENOSYS before Linux 5.1 and in kernels built without io_uring; EPERM if
    /// kernel.io_uring_disabled or a filter forbids it.
    pub fn new() -> io::Result<Self> {
        IoUring::new(2).map(|rings| Self {
            rings,
            is_broken: false,
        })
    }

    /// Waits until `due`, in ns of CLOCK_MONOTONIC, with one timeout request.
    ///
    /// # Errors
    /// Returns EINVAL for a negative time, or the errors of io_uring_enter(2) except EINTR.
    #[inline]
    pub fn sleep_until(&mut self, due: i64) -> io::Result<()> {
        self.timeout(due, TimeoutFlags::ABS)
    }

    /// Waits for `duration` ns with one timeout request.
    ///
    /// # Errors
    /// Fails as [`Ring::sleep_until`] does.
    #[inline]
    pub fn sleep_for(&mut self, duration: i64) -> io::Result<()> {
        self.timeout(duration, TimeoutFlags::empty())
    }

    /// Submits a request that does nothing, and waits for its completion.
    ///
    /// # Errors
    /// Returns the errors of io_uring_enter(2) except EINTR.
    #[inline]
    pub fn nop(&mut self) -> io::Result<()> {
        self.submit(&opcode::Nop::new().build())
    }

    fn timeout(&mut self, nanos: i64, flags: TimeoutFlags) -> io::Result<()> {
        if nanos < 0 {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let time = Timespec::new()
            .sec((nanos / 1_000_000_000) as u64)
            .nsec((nanos % 1_000_000_000) as u32);
        match self.submit(&opcode::Timeout::new(&time).flags(flags).build()) {
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => Ok(()),
            other => other,
        }
    }

    #[inline]
    fn submit(&mut self, request: &squeue::Entry) -> io::Result<()> {
        if self.is_broken {
            return Err(io::Error::other(
                "an earlier request could not be submitted",
            ));
        }
        // SAFETY: the caller owns the time of a timeout. The kernel copies the time when it takes
        // the request (io_uring/timeout.c, __io_timeout_prep), and this function returns
        // successfully only after that. After an error, nothing is submitted any more. Other
        // requests of this file contain no pointer.
        unsafe { self.rings.submission().push(request) }
            .map_err(|_| io::Error::other("a request is already pending"))?;
        loop {
            match self.rings.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    self.is_broken = true;
                    return Err(error);
                }
                _ => {}
            }
            if let Some(completion) = self.rings.completion().next() {
                return if completion.result() < 0 {
                    Err(io::Error::from_raw_os_error(-completion.result()))
                } else {
                    Ok(())
                };
            }
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ring").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn timeouts_end_no_earlier_than_asked_for_and_requests_complete() {
        let mut ring = match Ring::new() {
            Ok(ring) => ring,
            Err(error) => {
                return assert!(
                    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)),
                    "{error}"
                );
            }
        };
        for step in 1..4 {
            let due = clock::monotonic() + step * 500_000;
            ring.sleep_until(due).unwrap();
            assert!(clock::monotonic() >= due);
            ring.nop().unwrap();
        }
        let before = clock::monotonic();
        ring.sleep_for(1_000_000).unwrap();
        assert!(clock::monotonic() - before >= 1_000_000);
        assert_eq!(
            ring.sleep_until(-1).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
        ring.is_broken = true;
        assert!(
            ring.nop().is_err(),
            "a request that was not handed over may wait in the ring"
        );
    }
}
