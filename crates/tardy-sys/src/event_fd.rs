//! Counters that are file descriptors: eventfd(2).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};

/// A counter; one thread adds to it, and another one waits until it is above 0.
#[derive(Debug)]
pub struct EventFd(File);

impl EventFd {
    /// Creates a counter with the value 0, so [`Self::wait`] blocks until something is added.
    ///
    /// # Errors
    /// Returns EMFILE, ENFILE, ENOMEM.
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes two integers.
        let fd = crate::check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
        // SAFETY: the descriptor was just opened, and nothing else owns it.
        Ok(Self(unsafe { File::from_raw_fd(fd) }))
    }

    /// Adds `count` to the counter, which wakes a waiting thread.
    ///
    /// # Errors
    /// Returns EINVAL for `u64::MAX`, because the counter cannot have this value.
    #[inline]
    pub fn add(&self, count: u64) -> io::Result<()> {
        (&self.0).write_all(&count.to_ne_bytes())
    }

    /// Waits until the counter is above 0, sets it to 0, and returns the previous value.
    ///
    /// # Errors
    /// Returns the errors of read(2) except EINTR, after which the wait continues.
    #[inline]
    pub fn wait(&self) -> io::Result<u64> {
        let mut count = [0; 8];
        (&self.0).read_exact(&mut count)?;
        Ok(u64::from_ne_bytes(count))
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_read_once() {
        let counter = EventFd::new().unwrap();
        counter.add(2).unwrap();
        counter.add(3).unwrap();
        assert_eq!(counter.wait().unwrap(), 5);
        assert_eq!(
            crate::signal::wait_readable(&[counter.as_fd()], 0).unwrap(),
            [false]
        );
        assert_eq!(
            counter.add(u64::MAX).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }
}
