//! Signals as a file descriptor: sigprocmask(2), signalfd(2); and waiting on descriptors with
//! poll(2).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Sent by Ctrl-C.
pub const INTERRUPT: i32 = libc::SIGINT;
/// Sent by init systems and `kill`.
pub const TERMINATE: i32 = libc::SIGTERM;
/// Sent when the terminal is closed.
pub const HANG_UP: i32 = libc::SIGHUP;
/// Sent when a real-time thread exceeds RLIMIT_RTTIME.
pub const CPU_LIMIT: i32 = libc::SIGXCPU;
/// Sent on writing to a pipe without a reader.
pub const PIPE: i32 = libc::SIGPIPE;
/// `SIGUSR1`: a request for the status.
pub const USER_1: i32 = libc::SIGUSR1;
/// `SIGUSR2`.
pub const USER_2: i32 = libc::SIGUSR2;
/// Sent when a write exceeds RLIMIT_FSIZE.
pub const FILE_LIMIT: i32 = libc::SIGXFSZ;

/// Signals that are blocked in the calling thread, and in threads that it starts later. The process
/// reads them from the descriptor instead of handling them.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Blocks `signals` and opens a descriptor that reads them. Call this before other threads
    /// exist.
    ///
    /// # Errors
    /// Returns EMFILE, ENFILE, ENOMEM; EINVAL for a number that is no signal.
    pub fn block(signals: &[i32]) -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the set it is given, and cannot fail for a valid pointer.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        for &signal in signals {
            // SAFETY: the set was initialised above.
            crate::check(unsafe { libc::sigaddset(set.as_mut_ptr(), signal) })?;
        }
        // SAFETY: the set was initialised above; a null old set is allowed.
        crate::check(unsafe {
            libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut())
        })?;
        // SAFETY: the set is initialised; -1 asks for a new descriptor.
        let fd = crate::check(unsafe {
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        })?;
        // SAFETY: the descriptor was just opened, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Returns the next pending signal, if any.
    ///
    /// # Errors
    /// Returns the errors of read(2).
    pub fn take(&self) -> io::Result<Option<i32>> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let bytes = std::mem::size_of::<libc::signalfd_siginfo>();
        // SAFETY: the kernel writes at most `bytes` bytes to `info`, which is that long.
        let read = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), bytes) };
        if read == -1 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock {
                Ok(None)
            } else {
                Err(error)
            };
        }
        // SAFETY: a read from a signalfd returns whole records or an error, so `info` is filled.
        Ok(Some(unsafe { info.assume_init() }.ssi_signo as i32))
    }
}

impl std::os::fd::AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns whether one of `signals`, which must be blocked, is pending.
#[must_use]
pub fn is_pending(signals: &[i32]) -> bool {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigpending fills the set behind the pointer, which is valid for writing.
    if unsafe { libc::sigpending(set.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call succeeded, so it filled `set`; for a number that is no signal, sigismember
    // returns a value below 1.
    signals
        .iter()
        .any(|&signal| unsafe { libc::sigismember(set.as_ptr(), signal) } == 1)
}

/// Gives `signal` its default effect. A parent may have made this process ignore the signal. A
/// shell does so with SIGINT for background jobs, and a process that ignores SIGCHLD cannot wait
/// for its children.
pub fn set_default(signal: i32) {
    // SAFETY: the call installs no handler. For a number that is no signal, the call changes
    // nothing.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Unblocks all signals in the calling thread. A program inherits the set of blocked signals from
/// its parent. With these signals blocked, it would not react to a request to stop.
///
/// The function is async-signal-safe, as required between fork and exec.
///
/// # Errors
/// Returns the errors of pthread_sigmask(3), which does not fail here.
pub fn unblock_all() -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset fills the set behind the pointer, which is valid for writing.
    crate::check(unsafe { libc::sigemptyset(set.as_mut_ptr()) })?;
    // SAFETY: the set was filled; the null pointer requests no old set.
    match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut()) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Waits until one of `fds` is readable or closed at its other end, for at most `timeout_ms`
/// milliseconds; a negative value sets no limit. Returns for each descriptor whether it is
/// readable.
///
/// # Errors
/// Returns the errors of ppoll(2) except EINTR, after which nothing is reported as readable.
pub fn wait_readable(fds: &[BorrowedFd<'_>], timeout_ms: i32) -> io::Result<Vec<bool>> {
    wait_readable_within(
        fds,
        u64::try_from(timeout_ms).ok().map(Duration::from_millis),
    )
}

/// Works like [`wait_readable`], but takes the limit as a `Duration`, exact to the ns, or no limit.
/// The thread's timer slack may extend the wait.
///
/// # Errors
/// Fails as [`wait_readable`] does.
pub fn wait_readable_within(
    fds: &[BorrowedFd<'_>],
    timeout: Option<Duration>,
) -> io::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> = fds
        .iter()
        .map(|fd| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let timeout = timeout.map(|time| libc::timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i32::MAX.into()),
        tv_nsec: time.subsec_nanos() as libc::c_long,
    });
    let timeout = timeout
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the pointer and the length describe `polled`; `timeout` is null or points to a time
    // that outlives the call; a null mask changes no signals.
    match crate::check(unsafe {
        libc::ppoll(
            polled.as_mut_ptr(),
            polled.len() as libc::nfds_t,
            timeout,
            std::ptr::null(),
        )
    }) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(polled.iter().map(|fd| fd.revents != 0).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_blocked_signal_is_read_from_the_descriptor() {
        std::thread::spawn(|| {
            let signals = SignalFd::block(&[libc::SIGUSR2]).unwrap();
            assert_eq!(signals.take().unwrap(), None);
            assert!(!is_pending(&[libc::SIGUSR2]));
            assert_eq!(wait_readable(&[signals.as_fd()], 0).unwrap(), [false]);
            // SAFETY: the signal is blocked in this thread, so it stays pending.
            unsafe { libc::raise(libc::SIGUSR2) };
            assert!(is_pending(&[libc::SIGUSR2]) && !is_pending(&[libc::SIGUSR1, 4096]));
            assert_eq!(wait_readable(&[signals.as_fd()], 1000).unwrap(), [true]);
            assert_eq!(signals.take().unwrap(), Some(libc::SIGUSR2));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_number_that_is_no_signal_is_an_error() {
        assert_eq!(
            SignalFd::block(&[4096]).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }
}
