//! Memory barriers on all CPUs: membarrier(2).

use std::io;

/// From include/uapi/linux/membarrier.h.
const QUERY: libc::c_int = 0;
const GLOBAL: libc::c_int = 1;
const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// Returns whether the kernel supports the barrier over all processes, which waits for an RCU grace
/// period.
///
/// # Errors
/// Returns ENOSYS in kernels without membarrier(2).
pub fn has_global() -> io::Result<bool> {
    Ok(call(QUERY)? & GLOBAL != 0)
}

/// Waits until every CPU has left its RCU read-side sections: one grace period
/// (kernel/sched/membarrier.c).
///
/// # Errors
/// Returns EINVAL if CPUs run without a tick (nohz_full).
pub fn global() -> io::Result<()> {
    call(GLOBAL).map(drop)
}

/// Which CPUs an expedited barrier interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// CPUs that are running a thread of the calling process (Linux 4.14).
    Process,
    /// CPUs that are running a thread of any registered process (Linux 4.16).
    Registered,
}

/// Registers the process for [`expedited`], as a caller and as a target, until the process ends.
///
/// # Errors
/// Returns EINVAL if the kernel lacks this barrier; ENOSYS if it lacks membarrier(2).
pub fn register(reach: Reach) -> io::Result<()> {
    match reach {
        Reach::Process => call(REGISTER_PRIVATE_EXPEDITED),
        Reach::Registered => call(REGISTER_GLOBAL_EXPEDITED),
    }
    .map(drop)
}

/// Interrupts every other CPU within `reach` and returns when each has passed a barrier
/// (kernel/sched/membarrier.c).
///
/// # Errors
/// Returns EPERM for [`Reach::Process`] if the process did not [`register`]; otherwise the errors
/// of [`register`].
#[inline]
pub fn expedited(reach: Reach) -> io::Result<()> {
    match reach {
        Reach::Process => call(PRIVATE_EXPEDITED),
        Reach::Registered => call(GLOBAL_EXPEDITED),
    }
    .map(drop)
}

fn call(command: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: membarrier takes integers.
    let result = unsafe {
        libc::syscall(
            libc::SYS_membarrier,
            command,
            0 as libc::c_uint,
            0 as libc::c_int,
        )
    };
    crate::check(result as libc::c_int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_barrier_is_there_or_the_kernel_says_why_not() {
        match has_global() {
            Ok(true) => global().unwrap(),
            Ok(false) => assert_eq!(global().unwrap_err().raw_os_error(), Some(libc::EINVAL)),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOSYS)),
        }
        assert!(call(1 << 20).is_err());
    }

    #[test]
    fn an_expedited_barrier_is_passed_once_the_process_has_registered() {
        for reach in [Reach::Registered, Reach::Process] {
            match register(reach) {
                Ok(()) => expedited(reach).unwrap(),
                Err(error) => assert!(
                    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)),
                    "{error}"
                ),
            }
        }
    }
}
