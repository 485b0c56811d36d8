//! Signal handlers (sigaction(2)): one counts signals, one only interrupts waiting system calls,
//! one handles faults.

use std::io;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::mapping::{Mapping, PAGE_BYTES};

/// The signal of the counting handler.
pub const USER: i32 = libc::SIGUSR1;

/// The signal that interrupts a thread's wait. Without a handler, the kernel drops the signal.
pub const NUDGE: i32 = libc::SIGURG;

static CAUGHT: AtomicU64 = AtomicU64::new(0);
static FAULTS_LEFT: AtomicU64 = AtomicU64::new(0);
static FAULTING_PAGE: AtomicPtr<libc::c_void> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn count(_signal: libc::c_int) {
    CAUGHT.fetch_add(1, Ordering::Relaxed);
}

/// Does nothing. It replaces the default effect of a signal, so that [`NUDGE`] interrupts a waiting
/// system call, and SIGINT does not end the process.
extern "C" fn do_nothing(_signal: libc::c_int) {}

/// Lets the write fault again until enough faults have occurred; then makes the page writable, so
/// that the write succeeds.
extern "C" fn count_fault(signal: libc::c_int) {
    let page = FAULTING_PAGE.load(Ordering::Relaxed);
    let left = FAULTS_LEFT.load(Ordering::Relaxed);
    if left > 1 && !page.is_null() {
        FAULTS_LEFT.store(left - 1, Ordering::Relaxed);
        return;
    }
    // SAFETY: the page belongs to the only existing `ProtectedPage`, which stores its address;
    // mprotect is a plain system call, which a handler may make.
    let opened = !page.is_null()
        && unsafe { libc::mprotect(page, PAGE_BYTES, libc::PROT_READ | libc::PROT_WRITE) } == 0;
    if !opened {
        // SAFETY: signal takes numbers, and a handler may call it. After this, any other or
        // repeated fault kills the process, as it would without the handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    FAULTS_LEFT.store(0, Ordering::Relaxed);
}

/// Installs the counting handler for SIGUSR1, which replaces any other.
///
/// # Errors
/// Returns the errors of sigaction(2), which does not fail here.
#[inline]
pub fn install() -> io::Result<()> {
    set_action(libc::SIGUSR1, count as *const () as libc::sighandler_t).map(drop)
}

/// Allows [`NUDGE`] to interrupt waiting system calls with EINTR.
///
/// # Errors
/// Returns the errors of sigaction(2), which does not fail here.
pub fn allow_nudges() -> io::Result<()> {
    set_action(NUDGE, do_nothing as *const () as libc::sighandler_t).map(drop)
}

/// Lets this process survive SIGINT (Ctrl-C). SIGINT still ends programs that this process starts.
///
/// # Errors
/// Returns the errors of sigaction(2), which does not fail here.
pub fn survive_interrupts() -> io::Result<()> {
    set_action(libc::SIGINT, do_nothing as *const () as libc::sighandler_t).map(drop)
}

/// Returns how often the counting handler ran.
#[must_use]
pub fn caught() -> u64 {
    CAUGHT.load(Ordering::Relaxed)
}

/// A write-protected page, with a handler that counts the attempts to write. A process has at most
/// one protected page at a time.
#[derive(Debug)]
pub struct ProtectedPage {
    page: Mapping,
    before: libc::sigaction,
}

impl ProtectedPage {
    /// Makes the page and installs the handler of SIGSEGV.
    ///
    /// # Errors
    /// Returns EBUSY if there is a protected page already; ENOMEM.
    pub fn new() -> io::Result<Self> {
        let mut page = Mapping::anonymous(PAGE_BYTES)?;
        page.touch(0, PAGE_BYTES);
        let taken = FAULTING_PAGE.compare_exchange(
            std::ptr::null_mut(),
            page.address(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if taken.is_err() {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        let before = set_action(
            libc::SIGSEGV,
            count_fault as *const () as libc::sighandler_t,
        )
        .inspect_err(|_| FAULTING_PAGE.store(std::ptr::null_mut(), Ordering::Relaxed))?;
        Ok(Self { page, before })
    }

    /// Writes to the page. The write faults `count` times (at least once) before it succeeds.
    ///
    /// # Errors
    /// Returns ENOMEM at the limit of mappings.
    pub fn fault(&mut self, count: u64) -> io::Result<()> {
        self.page.set_writable(0, PAGE_BYTES, false)?;
        FAULTS_LEFT.store(count.max(1), Ordering::Relaxed);
        self.page.write_even_if_protected();
        self.page.set_writable(0, PAGE_BYTES, true)
    }
}

impl Drop for ProtectedPage {
    fn drop(&mut self) {
        // SAFETY: `before` came from sigaction, and a null old action is allowed.
        unsafe { libc::sigaction(libc::SIGSEGV, &self.before, std::ptr::null_mut()) };
        FAULTING_PAGE.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
}

#[inline]
fn set_action(signal: libc::c_int, handler: libc::sighandler_t) -> io::Result<libc::sigaction> {
    // SAFETY: sigaction is plain data, for which zeros are valid: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    let mut before = action;
    // SAFETY: both actions are valid; the handlers of this file only use atomics and system calls.
    crate::check(unsafe { libc::sigaction(signal, &action, &mut before) })?;
    Ok(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signal_is_caught_and_faults_end_with_the_write() {
        install().unwrap();
        let before = caught();
        let me = crate::process::id();
        (0..5).for_each(|_| crate::process::kill(me, USER).unwrap());
        crate::process::kill(me, 0).unwrap();
        // Another thread of the test process may run the handler, so the count may rise a little
        // later.
        while caught() < before + 1 {
            std::thread::yield_now();
        }
        let mut page = ProtectedPage::new().unwrap();
        assert_eq!(
            ProtectedPage::new().unwrap_err().raw_os_error(),
            Some(libc::EBUSY)
        );
        for count in [1, 100] {
            page.fault(count).unwrap();
            assert_eq!(FAULTS_LEFT.load(Ordering::Relaxed), 0);
        }
    }
}
