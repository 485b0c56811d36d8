//! Checks whether a thread is still on the CPU on which it should stay. The kernel updates the
//! number of the current CPU in the thread's rseq(2) area (Linux 4.18 and later), so a check costs
//! a few instructions and no system call.
//!
//! Each thread has one area. glibc from 2.35 on registers it and exports its position
//! (`__rseq_offset` from the thread pointer); with older versions and other C libraries, this
//! module registers an area.
//!
//! In this way, every sample is checked. Policy, priority and affinity are checked only once per
//! second, and by each thread at its end. The results are `elsewhere` and `scheduling_changes` in
//! `run.json`; readers turn them into warnings.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// `struct rseq` (include/uapi/linux/rseq.h) as of Linux 4.18, with its alignment. Later fields are
/// not needed.
#[repr(C, align(32))]
#[derive(Debug)]
struct Area {
    cpu_id_start: AtomicU32,
    cpu_id: AtomicU32,
    critical_section: AtomicU64,
    flags: AtomicU32,
    padding: [AtomicU32; 3],
}

const AREA_BYTES: u32 = 32;
/// Signature of abort handlers, which this module does not use. An area must be registered and
/// unregistered with the same value.
const SIGNATURE: u32 = 0x5305_3053;
/// RSEQ_FLAG_UNREGISTER.
const UNREGISTER: i32 = 1;
/// RSEQ_CPU_ID_UNINITIALIZED, which is not the number of any CPU.
const NO_CPU: u32 = u32::MAX;

/// The current CPU of a thread without a [`Post`]. The expected CPU of such a thread has the same
/// value, so [`elsewhere`] returns `None`.
static NOWHERE: AtomicU32 = AtomicU32::new(NO_CPU);

thread_local! {
    static CURRENT: Cell<&'static AtomicU32> = const { Cell::new(&NOWHERE) };
    static EXPECTED: Cell<u32> = const { Cell::new(NO_CPU) };
}

/// A CPU on which the calling thread should stay until the value is dropped.
#[derive(Debug)]
pub struct Post {
    /// The area that this module registered; absent if the C library has one.
    own: Option<Box<Area>>,
    /// Prevents the value from being moved to another thread.
    of_thread: PhantomData<*const ()>,
}

impl Area {
    fn new() -> Self {
        Self {
            cpu_id_start: AtomicU32::new(NO_CPU),
            cpu_id: AtomicU32::new(NO_CPU),
            critical_section: AtomicU64::new(0),
            flags: AtomicU32::new(0),
            padding: Default::default(),
        }
    }
}

impl Post {
    /// From this call on, [`elsewhere`] reports if the calling thread is on a CPU other than `cpu`.
    ///
    /// # Errors
    /// Returns ENOSYS if the kernel lacks rseq(2); EBUSY if the thread already has a [`Post`];
    /// EINVAL if another library has registered an area that this module cannot find.
    pub fn take(cpu: u32) -> io::Result<Self> {
        if EXPECTED.get() != NO_CPU {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        let (own, current) = match area_of_the_c_library() {
            Some(area) => (None, area.cast()),
            None => {
                let area = Box::new(Area::new());
                register(&area, 0)?;
                let current = std::ptr::from_ref(&area.cpu_id);
                (Some(area), current)
            }
        };
        // SAFETY: the word lies either in the area that the C library keeps as long as this thread
        // lives, or in our area on the heap, which lives until `self` is dropped. Both are aligned,
        // and only the kernel writes to them. The pointer is stored in a thread-local variable, and
        // removed from it before the area is freed.
        CURRENT.set(unsafe { &*current });
        EXPECTED.set(cpu);
        Ok(Self {
            own,
            of_thread: PhantomData,
        })
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        EXPECTED.set(NO_CPU);
        CURRENT.set(&NOWHERE);
        if let Some(area) = self.own.take()
            && register(&area, UNREGISTER).is_err()
        {
            // The kernel may still write to the area, so its memory is leaked and never reused.
            Box::leak(area);
        }
    }
}

/// Returns the calling thread's CPU if the thread has a [`Post`] on another CPU; otherwise `None`.
#[inline]
#[must_use]
pub fn elsewhere() -> Option<u32> {
    let current = CURRENT.get().load(Ordering::Relaxed);
    (current != EXPECTED.get()).then_some(current)
}

fn register(area: &Area, flags: i32) -> io::Result<()> {
    // SAFETY: the kernel writes to the area, which has the required size and alignment, whenever
    // the thread resumes after an interruption. All words are atomics. The caller keeps the area in
    // place until it has unregistered it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rseq,
            std::ptr::from_ref(area),
            AREA_BYTES,
            flags,
            SIGNATURE,
        )
    };
    crate::check(result as libc::c_int).map(drop)
}

/// Returns the word `cpu_id` of the area that the C library registered for the calling thread;
/// `None` if it registered none.
fn area_of_the_c_library() -> Option<*const u32> {
    let (thread_pointer, offset, size) = c_library::rseq()?;
    // The size is 0 if glibc was configured not to register an area (glibc.pthread.rseq=0), or the
    // kernel refused.
    (size > 0).then(|| {
        thread_pointer
            .wrapping_byte_offset(offset)
            .wrapping_byte_add(offset_of!(Area, cpu_id))
            .cast()
    })
}

#[cfg(all(
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod c_library {
    use std::arch::asm;

    /// Returns the thread pointer and the values of `__rseq_offset` and `__rseq_size`; `None` if
    /// the C library lacks these symbols.
    pub(super) fn rseq() -> Option<(*const u8, isize, u32)> {
        let (offset, size) = symbols();
        if offset.is_null() || size.is_null() {
            return None;
        }
        // SAFETY: glibc defines this symbol as a constant `ptrdiff_t` (<sys/rseq.h>).
        let offset = unsafe { *offset };
        // SAFETY: glibc defines this symbol as a constant `unsigned int` (<sys/rseq.h>).
        let size = unsafe { *size };
        Some((thread_pointer(), offset, size))
    }

    /// Returns the addresses of the two symbols; null if they are undefined.
    #[cfg(target_arch = "x86_64")]
    fn symbols() -> (*const isize, *const u32) {
        let (offset, size): (*const isize, *const u32);
        // SAFETY: the instructions load two addresses from the global offset table; undefined weak
        // symbols are 0.
        unsafe {
            asm!(
                ".weak __rseq_offset",
                ".weak __rseq_size",
                "mov {offset}, qword ptr [rip + __rseq_offset@GOTPCREL]",
                "mov {size}, qword ptr [rip + __rseq_size@GOTPCREL]",
                offset = out(reg) offset,
                size = out(reg) size,
                options(nostack, readonly, preserves_flags)
            );
        }
        (offset, size)
    }

    #[cfg(target_arch = "x86_64")]
    fn thread_pointer() -> *const u8 {
        let pointer: *const u8;
        // SAFETY: the word at the thread pointer is the thread pointer itself (System V ABI,
        // thread-local storage of x86-64).
        unsafe {
            asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags))
        };
        pointer
    }

    /// Returns the addresses of the two symbols; null if they are undefined.
    #[cfg(target_arch = "aarch64")]
    fn symbols() -> (*const isize, *const u32) {
        let (offset, size): (*const isize, *const u32);
        // SAFETY: the instructions load two addresses from the global offset table; undefined weak
        // symbols are 0.
        unsafe {
            asm!(
                ".weak __rseq_offset",
                ".weak __rseq_size",
                "adrp {offset}, :got:__rseq_offset",
                "ldr {offset}, [{offset}, :got_lo12:__rseq_offset]",
                "adrp {size}, :got:__rseq_size",
                "ldr {size}, [{size}, :got_lo12:__rseq_size]",
                offset = out(reg) offset,
                size = out(reg) size,
                options(nostack, readonly, preserves_flags)
            );
        }
        (offset, size)
    }

    #[cfg(target_arch = "aarch64")]
    fn thread_pointer() -> *const u8 {
        let pointer: *const u8;
        // SAFETY: Linux lets programs read the register; the instruction touches no memory and no
        // flags.
        unsafe {
            asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags))
        };
        pointer
    }
}

/// This version is used with other C libraries, which register no area, and on other architectures,
/// where this module does not look for the C library's area. If a C library has registered an area
/// nevertheless, the kernel refuses a second one, and the CPU of threads is not checked.
#[cfg(not(all(
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
mod c_library {
    pub(super) fn rseq() -> Option<(*const u8, isize, u32)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity;

    #[test]
    fn a_thread_that_is_moved_is_elsewhere_and_without_a_post_it_is_nowhere() {
        std::thread::spawn(|| {
            let allowed = affinity::get(0).unwrap();
            let (first, last) = (allowed[0], allowed[allowed.len() - 1]);
            assert_eq!(elsewhere(), None);
            affinity::set(0, &[first]).unwrap();
            let post = Post::take(first).unwrap();
            assert_eq!(elsewhere(), None);
            assert_eq!(
                Post::take(last).unwrap_err().raw_os_error(),
                Some(libc::EBUSY)
            );
            affinity::set(0, &[last]).unwrap();
            assert_eq!(elsewhere(), (last != first).then_some(last));
            drop(post);
            assert_eq!(elsewhere(), None);
            let _post = Post::take(last + 1).unwrap();
            assert_eq!(elsewhere(), Some(last), "the post may be taken again");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn an_area_of_our_own_is_registered_once() {
        std::thread::spawn(|| {
            let (mine, another) = (Area::new(), Area::new());
            // A thread can register one area. If the C library has already registered one, both
            // calls of the test fail; otherwise only the second one does.
            let is_free = area_of_the_c_library().is_none();
            assert_eq!(register(&mine, 0).is_ok(), is_free);
            assert!(register(&another, 0).is_err());
            if is_free {
                assert_ne!(mine.cpu_id.load(Ordering::Relaxed), NO_CPU);
                register(&mine, UNREGISTER).unwrap();
            }
        })
        .join()
        .unwrap();
    }
}
