//! The only unsafe code of the crate: mmap(2), munmap(2) and clock_gettime(2). The module declares
//! them itself, because the crate has no dependencies.
//!
//! The declarations are valid for Linux on 64-bit CPUs. On other systems, memory cannot be mapped:
//! every attempt returns an error.

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;

pub(crate) use system::{Memory, now};

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod system {
    use super::{AtomicU64, File, io};
    use std::ffi::{c_int, c_long, c_void};
    use std::os::fd::AsRawFd;
    use std::ptr::NonNull;

    // Values from include/uapi/linux/mman.h, asm-generic/mman-common.h and time.h. These values are
    // the same on all 64-bit architectures of Linux except MIPS and Alpha.
    const PROT_READ: c_int = 1;
    const PROT_WRITE: c_int = 2;
    const MAP_SHARED: c_int = 1;
    const MAP_POPULATE: c_int = 0x8000;
    const CLOCK_MONOTONIC: c_int = 1;

    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanos: c_long,
    }

    unsafe extern "C" {
        fn mmap(
            address: *mut c_void,
            bytes: usize,
            protection: c_int,
            flags: c_int,
            file: c_int,
            offset: i64,
        ) -> *mut c_void;
        fn munmap(address: *mut c_void, bytes: usize) -> c_int;
        fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    }

    /// The mapped words of a file that tardy also maps.
    #[derive(Debug)]
    pub(crate) struct Memory {
        start: NonNull<AtomicU64>,
        words: usize,
    }

    // SAFETY: the mapping belongs to this value and never moves; atomics may be used from any
    // thread.
    unsafe impl Send for Memory {}

    impl Memory {
        /// Maps the first `words` words of `file`. tardy seals the size of the file, so it cannot
        /// shrink.
        pub(crate) fn map(file: &File, words: usize) -> io::Result<Self> {
            let protection = PROT_READ | PROT_WRITE;
            // SAFETY: with a null address and without MAP_FIXED, the kernel chooses a free range,
            // so no existing mapping is touched.
            let start = unsafe {
                mmap(
                    std::ptr::null_mut(),
                    words * 8,
                    protection,
                    MAP_SHARED | MAP_POPULATE,
                    file.as_raw_fd(),
                    0,
                )
            };
            if start.addr() == usize::MAX {
                return Err(io::Error::last_os_error());
            }
            NonNull::new(start.cast())
                .map(|start| Self { start, words })
                .ok_or_else(|| io::Error::other("mapped at address zero"))
        }

        /// Returns all mapped words. They start with the head of the file.
        #[inline]
        pub(crate) fn words(&self) -> &[AtomicU64] {
            // SAFETY: the mapping has `self.words` words, starts at a page, and lives as long as
            // `self`; every value is a valid AtomicU64.
            unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: the mapping belongs to this value, and nothing refers to it after the drop.
            unsafe { munmap(self.start.as_ptr().cast(), self.words * 8) };
        }
    }

    /// Returns the time on CLOCK_MONOTONIC in ns.
    #[inline]
    pub(crate) fn now() -> i64 {
        let mut time = Timespec {
            seconds: 0,
            nanos: 0,
        };
        // SAFETY: `time` is valid for writing. The clock exists on every Linux, so the call cannot
        // fail.
        unsafe { clock_gettime(CLOCK_MONOTONIC, &mut time) };
        time.seconds * 1_000_000_000 + time.nanos
    }
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
mod system {
    use super::{AtomicU64, File, io};

    /// A value of this type cannot exist, because no memory can be mapped on this system.
    #[derive(Debug)]
    pub(crate) struct Memory(std::convert::Infallible);

    impl Memory {
        pub(crate) fn map(_: &File, _: usize) -> io::Result<Self> {
            Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "loops can be measured only on Linux with 64-bit CPUs",
            ))
        }

        pub(crate) fn words(&self) -> &[AtomicU64] {
            match self.0 {}
        }
    }

    pub(crate) fn now() -> i64 {
        0
    }
}
