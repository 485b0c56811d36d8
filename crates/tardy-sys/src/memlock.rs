//! Locks memory (mlockall(2)), and touches the stack that the measuring loop will use, so that the
//! loop takes no page faults. [`share_heap`] limits the freed memory that the process keeps.

use std::io;

/// Locks all memory of the process, present and future.
///
/// # Errors
/// Returns EPERM or ENOMEM if RLIMIT_MEMLOCK does not allow it; EAGAIN if some memory could not be
/// locked.
pub fn lock_all() -> io::Result<()> {
    // SAFETY: mlockall takes flags and no memory.
    crate::check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) }).map(drop)
}

/// Unlocks all memory.
///
/// # Errors
/// Returns the errors of munlockall(2).
pub fn unlock_all() -> io::Result<()> {
    // SAFETY: munlockall has no preconditions.
    crate::check(unsafe { libc::munlockall() }).map(drop)
}

/// Makes all threads of this process share one heap. With glibc, each thread otherwise has its own
/// heap, which keeps the memory that is freed. Must be called before the process starts threads.
pub fn share_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call only sets a number. The process has no other thread that allocates.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Checks whether the process can map another `bytes` bytes. The check makes such a mapping, which
/// takes no memory, and removes it at once. After [`lock_all`], the kernel refuses a mapping beyond
/// RLIMIT_MEMLOCK, such as the stack of a new thread.
///
/// # Errors
/// Returns EAGAIN if the limit is exceeded; ENOMEM.
pub fn check_room(bytes: usize) -> io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a null address without MAP_FIXED lets the kernel choose, so no existing mapping is
    // touched.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping was made above with this length, and nothing refers to it.
    crate::check(unsafe { libc::munmap(start, bytes) }).map(drop)
}

/// Touches 64 KiB of the calling thread's stack, so that its loop takes no page faults there. The
/// stack must be larger than that.
#[inline(never)]
pub fn touch_stack() {
    let mut pages = [0_u8; 64 * 1024];
    for page in pages.chunks_mut(4096) {
        page[0] = std::hint::black_box(1);
    }
    std::hint::black_box(&pages);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_locked_or_the_limit_is_named() {
        match lock_all() {
            Ok(()) => unlock_all().unwrap(),
            Err(error) => assert!(
                matches!(
                    error.raw_os_error(),
                    Some(libc::EPERM | libc::ENOMEM | libc::EAGAIN)
                ),
                "{error}"
            ),
        }
        touch_stack();
    }

    #[test]
    fn there_is_room_for_a_page_and_not_for_the_whole_address_space() {
        check_room(4096).unwrap();
        assert_eq!(
            check_room(1 << 62).unwrap_err().raw_os_error(),
            Some(libc::ENOMEM)
        );
    }
}
