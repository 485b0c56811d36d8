//! Waits on a word in memory: futex(2), between threads of this process.
//!
//! The functions call the kernel directly, because the C library has no wrapper for futex(2), and
//! its locks do more than a wait and a wake-up.

use std::io;
use std::sync::atomic::AtomicU32;

/// Sleeps while `word` is `expected`. Returns at once if `word` has another value, and early if a
/// signal arrives, so the caller must read the word again.
///
/// # Errors
/// Returns the errors of futex(2) except EAGAIN and EINTR, for which it returns `Ok`.
#[inline]
pub fn wait(word: &AtomicU32, expected: u32) -> io::Result<()> {
    // SAFETY: FUTEX_WAIT reads the four aligned bytes at `word`, which outlives the call; a null
    // time means no time limit.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            std::ptr::null::<libc::timespec>(),
        )
    };
    match crate::check(result as libc::c_int) {
        Err(error) if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Wakes at most `count` threads that sleep on `word`; returns the number woken.
///
/// # Errors
/// Returns the errors of futex(2), which does not fail for a word of this process.
#[inline]
pub fn wake(word: &AtomicU32, count: i32) -> io::Result<usize> {
    // SAFETY: FUTEX_WAKE uses the address of `word` as a key, and reads and writes nothing.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            count,
        )
    };
    crate::check(result as libc::c_int).map(|woken| woken as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_word_that_has_changed_is_not_waited_for() {
        let word = AtomicU32::new(1);
        wait(&word, 0).unwrap();
        assert_eq!(wake(&word, 1).unwrap(), 0);
    }

    #[test]
    fn a_sleeper_is_woken_once() {
        let word = Arc::new(AtomicU32::new(0));
        let sleeper = std::thread::spawn({
            let word = Arc::clone(&word);
            move || {
                while word.load(Ordering::Acquire) == 0 {
                    wait(&word, 0).unwrap();
                }
            }
        });
        // The word stays 0 until the kernel reports a sleeper, so only the wake-up can end the
        // sleep.
        while wake(&word, 1).unwrap() == 0 {
            std::thread::yield_now();
        }
        word.store(1, Ordering::Release);
        wake(&word, 1).unwrap();
        sleeper.join().unwrap();
    }
}
