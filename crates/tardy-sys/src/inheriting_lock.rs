//! Locks with priority inheritance: FUTEX_LOCK_PI and FUTEX_UNLOCK_PI of futex(2), private to the
//! process.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// A lock whose owner inherits the priority of waiting threads. On release, the kernel passes the
/// lock to the waiting thread with the highest priority.
#[derive(Debug, Default)]
pub struct InheritingLock(AtomicU32);

impl InheritingLock {
    /// Creates an unlocked lock.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Acquires the lock if it is free, without calling futex(2). Returns whether it was free.
    #[inline]
    #[must_use]
    pub fn try_lock(&self) -> bool {
        let me = crate::sched::thread_id() as u32;
        self.0
            .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Waits until the lock is free, and acquires it.
    ///
    /// # Errors
    /// Returns EDEADLK if the thread already owns the lock; ENOSYS if the kernel lacks such locks;
    /// ESRCH if the owner has ended.
    #[inline]
    pub fn lock(&self) -> io::Result<()> {
        if self.try_lock() {
            return Ok(());
        }
        loop {
            match operate(&self.0, libc::FUTEX_LOCK_PI) {
                // The lock was not acquired, because its owner is about to end or a signal arrived.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {}
                result => return result,
            }
        }
    }

    /// Releases the lock and passes it to a waiting thread if there is one.
    ///
    /// # Errors
    /// Returns EPERM if another thread owns the lock.
    #[inline]
    pub fn unlock(&self) -> io::Result<()> {
        let me = crate::sched::thread_id() as u32;
        if self
            .0
            .compare_exchange(me, 0, Ordering::Release, Ordering::Relaxed)
            .is_ok()
        {
            return Ok(());
        }
        operate(&self.0, libc::FUTEX_UNLOCK_PI)
    }

    /// Returns whether a thread waits for the lock in the kernel.
    #[inline]
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed) & libc::FUTEX_WAITERS != 0
    }
}

#[inline]
fn operate(word: &AtomicU32, operation: libc::c_int) -> io::Result<()> {
    // SAFETY: the kernel reads and writes, atomically, the four aligned bytes at `word`, which
    // outlives the call; a null time means no limit, and these operations ignore the value.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            0,
            std::ptr::null::<libc::timespec>(),
        )
    };
    crate::check(result as libc::c_int).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_lock_is_one_threads_and_goes_to_who_waits() {
        let lock = Arc::new(InheritingLock::new());
        match lock.lock() {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => return,
            result => result.unwrap(),
        }
        assert_eq!(
            operate(&lock.0, libc::FUTEX_LOCK_PI)
                .unwrap_err()
                .raw_os_error(),
            Some(libc::EDEADLK)
        );
        let other = Arc::clone(&lock);
        let waiter = std::thread::spawn(move || {
            assert_eq!(
                other.unlock().unwrap_err().raw_os_error(),
                Some(libc::EPERM)
            );
            other.lock().unwrap();
            other.unlock().unwrap();
        });
        while !lock.is_wanted() {
            std::thread::yield_now();
        }
        lock.unlock().unwrap();
        waiter.join().unwrap();
        assert!(
            lock.try_lock() && !lock.try_lock(),
            "a lock that is held is not taken"
        );
        lock.unlock().unwrap();
        assert!(!lock.is_wanted());
    }
}
