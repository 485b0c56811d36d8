//! Functions for the first process of a machine (init). They collect all children (waitpid(2)),
//! wait for a child with a time limit (sigtimedwait(2)), and switch the machine off (reboot(2)).

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// Returns a signal set with only SIGCHLD.
fn child_signal() -> io::Result<libc::sigset_t> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset writes the whole set, for which `set` has room.
    if unsafe { libc::sigemptyset(set.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: sigemptyset returned success above, so the set is initialised.
    let mut set = unsafe { set.assume_init() };
    // SAFETY: `set` is an initialised set and SIGCHLD a valid signal.
    if unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(set)
}

/// Blocks SIGCHLD in the calling thread, so that [`wait_for_child`] can wait for it. Call this
/// before the first child and the first thread are started.
///
/// # Errors
/// Returns the errors of pthread_sigmask(3), which does not fail here.
pub fn hold_back_child_signal() -> io::Result<()> {
    let set = child_signal()?;
    // SAFETY: `set` is initialised, and a null old mask is allowed.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Collects a child that has ended, without waiting. Returns its process number and exit status, or
/// `None` if all children are running.
///
/// # Errors
/// Returns `ECHILD` if there is no child.
pub fn collect_child() -> io::Result<Option<(u32, ExitStatus)>> {
    let mut status = 0;
    // SAFETY: `status` is valid for writing during the call.
    let process = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    match u32::try_from(process) {
        Ok(0) => Ok(None),
        Ok(process) => Ok(Some((process, ExitStatus::from_raw(status)))),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Waits until a child ends, for at most `limit`. May return early, because SIGCHLD can still be
/// pending for a child that was already collected. Call [`hold_back_child_signal`] first.
///
/// # Errors
/// Returns `EINTR` if another signal was handled. If no child ends in time (`EAGAIN`), returns
/// `Ok`.
pub fn wait_for_child(limit: Duration) -> io::Result<()> {
    let set = child_signal()?;
    let limit = libc::timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(i32::MAX.into()),
        tv_nsec: limit.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the set and the limit are initialised and outlive the call; a null signal information
    // is allowed.
    if unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const limit) } >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EAGAIN) {
        Ok(())
    } else {
        Err(error)
    }
}

/// Writes cached data and switches the machine off. Returns only on failure.
///
/// # Errors
/// Returns `EPERM` without `CAP_SYS_BOOT`.
pub fn power_off() -> io::Error {
    // SAFETY: sync takes nothing and cannot fail.
    unsafe { libc::sync() };
    // SAFETY: reboot takes a command by value; the kernel checks the caller's right.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
    io::Error::last_os_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    // `collect_child` also collects children of other tests in the process, so this test runs
    // itself again in a separate process. `power_off` needs no test here, because every guest of
    // the lab calls it at its end.
    #[test]
    fn an_ended_child_is_waited_for_and_collected() {
        const MARK: &str = "TARDY_TEST_INIT";
        if std::env::var_os(MARK).is_none() {
            let name = "init::tests::an_ended_child_is_waited_for_and_collected";
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            assert!(
                again
                    .args(["--exact", name])
                    .env(MARK, "1")
                    .status()
                    .unwrap()
                    .success()
            );
            return;
        }
        assert_eq!(
            collect_child().unwrap_err().raw_os_error(),
            Some(libc::ECHILD)
        );
        hold_back_child_signal().unwrap();
        #[allow(
            clippy::zombie_processes,
            reason = "collected by the function under test"
        )]
        let child = std::process::Command::new("sh")
            .args(["-c", "exit 7"])
            .spawn()
            .unwrap();
        let collected = (0..1000).find_map(|_| {
            wait_for_child(Duration::from_millis(10)).unwrap();
            collect_child().unwrap()
        });
        let (process, status) = collected.expect("the child ends at once");
        assert_eq!((process, status.code()), (child.id(), Some(7)));
    }

    #[test]
    fn waiting_ends_with_the_time_limit() {
        // A signal may be pending from a child of another test. If none is pending, the call waits
        // for the whole time limit.
        let limit = Duration::from_millis(20);
        let waits = || {
            let begin = std::time::Instant::now();
            wait_for_child(limit).unwrap();
            begin.elapsed()
        };
        assert!((0..100).any(|_| waits() >= limit), "it never waits");
    }
}
