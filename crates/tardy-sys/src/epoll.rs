//! Waits on several descriptors with a time limit in ns: epoll_create1(2), epoll_ctl(2),
//! epoll_pwait2(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// struct __kernel_timespec (include/uapi/linux/time_types.h): 64 bits on every architecture.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct KernelTimespec {
    seconds: i64,
    nanos: i64,
}

/// A set of descriptors to wait on.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// Creates an empty set.
    ///
    /// # Errors
    /// Returns EMFILE, ENFILE, ENOMEM.
    pub fn new() -> io::Result<Self> {
        // SAFETY: epoll_create1 takes one integer.
        let fd = crate::check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor was just opened, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Adds `descriptor` to the set, in which it stays until it is closed. [`Self::wait`] returns
    /// `token` when the descriptor is readable.
    ///
    /// # Errors
    /// Returns EEXIST if the descriptor is already in the set; EPERM if it is of a kind that epoll
    /// cannot wait for, such as a regular file.
    pub fn add_readable(&self, descriptor: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: token,
        };
        // SAFETY: both descriptors are open, and the event is valid for the call.
        crate::check(unsafe {
            libc::epoll_ctl(
                self.0.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                descriptor.as_raw_fd(),
                &mut event,
            )
        })
        .map(drop)
    }

    /// Waits until a descriptor is readable, for at most `timeout` ns; without a timeout, there is
    /// no limit. Returns the descriptor's token, or `None` if the time was up.
    ///
    /// # Errors
    /// Returns ENOSYS before Linux 5.11; EINTR; EINVAL for a negative timeout.
    #[inline]
    pub fn wait(&self, timeout: Option<i64>) -> io::Result<Option<u64>> {
        let time = timeout.map(|timeout| KernelTimespec {
            seconds: timeout / 1_000_000_000,
            nanos: timeout % 1_000_000_000,
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: the descriptor is open; the kernel writes at most one event at `event` and reads
        // the time, which is null or valid; a null mask is allowed.
        let ready = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.0.as_raw_fd(),
                std::ptr::from_mut(&mut event),
                1_i32,
                time,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        crate::check(ready as libc::c_int).map(|ready| (ready > 0).then_some(event.u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_fd::EventFd;
    use std::os::fd::AsFd;

    #[test]
    fn the_token_of_the_readable_descriptor_is_told_or_the_time_is_up() {
        let (silent, ready) = (EventFd::new().unwrap(), EventFd::new().unwrap());
        let set = Epoll::new().unwrap();
        set.add_readable(silent.as_fd(), 1).unwrap();
        set.add_readable(ready.as_fd(), 2).unwrap();
        assert_eq!(
            set.add_readable(ready.as_fd(), 3)
                .unwrap_err()
                .raw_os_error(),
            Some(libc::EEXIST)
        );
        match set.wait(Some(1_000_000)) {
            Ok(token) => assert_eq!(token, None),
            Err(error) => return assert_eq!(error.raw_os_error(), Some(libc::ENOSYS)),
        }
        ready.add(1).unwrap();
        assert_eq!(set.wait(None).unwrap(), Some(2));
        assert_eq!(
            set.wait(Some(-1)).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }
}
