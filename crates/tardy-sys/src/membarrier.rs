//! Memory barriers on all processors: membarrier(2).

use std::io;

/// From include/uapi/linux/membarrier.h.
const QUERY: libc::c_int = 0;
const GLOBAL: libc::c_int = 1;

/// Whether the kernel has the barrier of all processes, which waits for an RCU grace period.
///
/// # Errors
/// ENOSYS in kernels without membarrier(2).
pub fn has_global() -> io::Result<bool> {
    Ok(call(QUERY)? & GLOBAL != 0)
}

/// Returns when every processor has passed a point without RCU read-side sections: one grace period (kernel/sched/membarrier.c).
///
/// # Errors
/// EINVAL where processors run without a tick (nohz_full).
pub fn global() -> io::Result<()> {
    call(GLOBAL).map(drop)
}

fn call(command: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: membarrier takes integers.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, command, 0 as libc::c_uint, 0 as libc::c_int) };
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
}
