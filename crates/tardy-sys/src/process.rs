//! Starts, reaps and ends processes: fork(2), waitpid(2), kill(2), setpgid(2), setsid(2), and
//! prctl(2) for relations between parent and child.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::panic::AssertUnwindSafe;
use std::process::ExitStatus;

use crate::usage::Usage;

/// Kills a process at once; the process cannot catch this signal.
pub const KILL: i32 = libc::SIGKILL;
/// Sent to a parent when a child ends.
pub const CHILD_ENDED: i32 = libc::SIGCHLD;
/// Stops a process until CONTINUE.
pub const STOP: i32 = libc::SIGSTOP;
/// Continues a stopped process.
pub const CONTINUE: i32 = libc::SIGCONT;

/// What a wait for children found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitResult {
    /// A child ended and was reaped, so its number is free again.
    Ended(i32, ExitStatus),
    /// There are children, and all of them are running.
    NoneYet,
    /// There is no child.
    NoChildren,
}

/// Returns the calling process's number.
#[must_use]
pub fn id() -> i32 {
    // SAFETY: getpid has no preconditions and cannot fail.
    unsafe { libc::getpid() }
}

/// Returns the parent's number; 0 if the parent is outside of this PID namespace.
#[must_use]
pub fn parent_id() -> i32 {
    // SAFETY: getppid has no preconditions and cannot fail.
    unsafe { libc::getppid() }
}

/// Forks. The child process calls `child` and exits with the value that this call returns (101
/// after a panic). The parent gets the child's process number.
///
/// Fails in a process with several threads, because the child would contain only the calling
/// thread. A lock that another thread holds during the fork would stay locked in the child.
///
/// # Errors
/// Returns EBUSY in a process of several threads (or without /proc to count them); EAGAIN at the
/// limit of processes; ENOMEM.
pub fn fork(child: impl FnOnce() -> i32) -> io::Result<i32> {
    if !is_single_threaded() {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    // SAFETY: the process has one thread (checked above, and no other thread exists that could have
    // started one since), so all locks and the allocator are consistent in the child's copy.
    match crate::check(unsafe { libc::fork() })? {
        0 => {
            // If a panic unwound past this point, the child would run the parent's code.
            let code = std::panic::catch_unwind(AssertUnwindSafe(child)).unwrap_or(101);
            exit_now(code)
        }
        pid => Ok(pid),
    }
}

/// Ends the process without running exit handlers, and without flushing buffers that its parent
/// will flush too.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no preconditions and does not return.
    unsafe { libc::_exit(code) }
}

/// Returns whether the process has one thread. Each thread is a folder in /proc/self/task; a
/// folder's link count is 2 plus the number of folders in it.
fn is_single_threaded() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/task").is_ok_and(|tasks| tasks.nlink() == 3)
}

/// Reaps any child; with `block`, waits until one ends.
///
/// # Errors
/// Returns the errors of waitpid(2) except EINTR, after which the wait continues.
pub fn reap_any(block: bool) -> io::Result<WaitResult> {
    reap(-1, block)
}

/// Reaps child `pid`; with `block`, waits until it ends. Returns `NoChildren` if `pid` is not a
/// child of this process.
///
/// # Errors
/// Returns the errors of waitpid(2).
pub fn reap(pid: i32, block: bool) -> io::Result<WaitResult> {
    let mut status = 0;
    loop {
        let flags = if block { 0 } else { libc::WNOHANG };
        // SAFETY: `status` is a valid int for the kernel to fill.
        match crate::check(unsafe { libc::waitpid(pid, &mut status, flags) }) {
            Ok(0) => return Ok(WaitResult::NoneYet),
            Ok(pid) => return Ok(WaitResult::Ended(pid, ExitStatus::from_raw(status))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
                return Ok(WaitResult::NoChildren);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Waits until child `pid` ends. Returns its exit status, and the resources that the child and its
/// own reaped children used.
///
/// # Errors
/// Returns ECHILD if `pid` is not a child of this process, or was reaped before; EINVAL for a
/// number below 1.
pub fn reap_with_usage(pid: i32) -> io::Result<(ExitStatus, Usage)> {
    if pid < 1 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut status = 0;
    let mut raw = MaybeUninit::<libc::rusage>::uninit();
    loop {
        // SAFETY: `status` is a valid int and `raw` a valid rusage for the kernel to fill.
        match crate::check(unsafe { libc::wait4(pid, &mut status, 0, raw.as_mut_ptr()) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) => {
                // SAFETY: the call returned a child, so it filled `raw`.
                let raw = unsafe { raw.assume_init() };
                return Ok((ExitStatus::from_raw(status), Usage::from_raw(&raw)));
            }
        }
    }
}

/// Sends `signal` to process `pid`, which must be above 0. Numbers below 1 have other meanings in
/// kill(2).
///
/// # Errors
/// Returns ESRCH if the process does not exist; EPERM; EINVAL for a bad signal or a number below 1.
pub fn kill(pid: i32, signal: i32) -> io::Result<()> {
    if pid < 1 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: kill takes two integers.
    crate::check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Sends `signal` to all processes of group `group`, which must be above 1.
///
/// # Errors
/// Fails as [`kill`] does.
pub fn kill_group(group: i32, signal: i32) -> io::Result<()> {
    if group < 2 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: kill takes two integers.
    crate::check(unsafe { libc::kill(-group, signal) }).map(drop)
}

/// Moves process `pid` (0: the calling one) into process group `group`; 0 makes it the leader of a
/// new group.
///
/// # Errors
/// Returns EACCES after the process has executed another program; EPERM if the group belongs to
/// another session; ESRCH.
pub fn join_group(pid: i32, group: i32) -> io::Result<()> {
    // SAFETY: setpgid takes two integers.
    crate::check(unsafe { libc::setpgid(pid, group) }).map(drop)
}

/// Starts a new session, so that the process gets no signals of the terminal.
///
/// # Errors
/// Returns EPERM if the process leads a group already.
pub fn new_session() -> io::Result<()> {
    // SAFETY: setsid has no preconditions.
    crate::check(unsafe { libc::setsid() }).map(drop)
}

/// Makes the kernel send `signal` (0: none) to this process when the *thread* that started it ends.
/// Children do not inherit the setting. Exec keeps it, except for a set-user-ID, set-group-ID or
/// capability binary.
///
/// # Errors
/// Returns EINVAL for a bad signal.
pub fn set_parent_death_signal(signal: i32) -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes one integer and reads no memory.
    crate::check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong) }).map(drop)
}

/// Makes this process the new parent of each descendant that loses its parent. This process must
/// reap such descendants.
///
/// # Errors
/// Returns the errors of prctl(2).
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes one integer and reads no memory.
    crate::check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1 as libc::c_ulong) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test harness has several threads. Therefore, code that forks successfully is tested in a
    /// separate process.
    #[test]
    fn a_process_of_several_threads_does_not_fork() {
        std::thread::scope(|scope| {
            let (sender, receiver) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || receiver.recv());
            assert_eq!(fork(|| 0).unwrap_err().raw_os_error(), Some(libc::EBUSY));
            drop(sender);
        });
    }

    #[test]
    #[allow(clippy::zombie_processes, reason = "reaped by the function under test")]
    fn a_child_is_reaped_with_its_status() {
        let child = std::process::Command::new("sh")
            .args(["-c", "exit 7"])
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        match reap(pid, true).unwrap() {
            WaitResult::Ended(ended, status) => assert_eq!((ended, status.code()), (pid, Some(7))),
            other => panic!("{other:?}"),
        }
        assert_eq!(reap(pid, true).unwrap(), WaitResult::NoChildren);
    }

    #[test]
    #[allow(clippy::zombie_processes, reason = "reaped by the function under test")]
    fn a_killed_child_tells_its_signal() {
        let child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert_eq!(reap(pid, false).unwrap(), WaitResult::NoneYet);
        kill(pid, KILL).unwrap();
        match reap(pid, true).unwrap() {
            WaitResult::Ended(_, status) => assert_eq!(status.signal(), Some(KILL)),
            other => panic!("{other:?}"),
        }
        assert_eq!(kill(pid, 0).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    #[allow(clippy::zombie_processes, reason = "reaped by the function under test")]
    fn a_child_is_reaped_with_what_it_used() {
        let child = std::process::Command::new("sh")
            .args(["-c", "exit 3"])
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let (status, usage) = reap_with_usage(pid).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(
            usage.resident_bytes_max > 4096 && usage.faults_minor > 0,
            "{usage:?}"
        );
        assert_eq!(
            reap_with_usage(pid).unwrap_err().raw_os_error(),
            Some(libc::ECHILD)
        );
        assert_eq!(
            reap_with_usage(-1).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }

    #[test]
    fn numbers_that_mean_many_processes_are_refused() {
        for pid in [0, -1, -2] {
            assert_eq!(kill(pid, 0).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        }
        assert_eq!(
            kill_group(1, 0).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
        assert_eq!(
            kill_group(i32::MAX, 0).unwrap_err().raw_os_error(),
            Some(libc::ESRCH)
        );
    }

    #[test]
    fn a_signal_that_is_none_is_refused_as_death_signal() {
        assert_eq!(
            set_parent_death_signal(4096).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
        std::thread::spawn(|| set_parent_death_signal(0).unwrap())
            .join()
            .unwrap();
    }
}
