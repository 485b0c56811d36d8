//! Children that do not outlive the thread that started them (PR_SET_PDEATHSIG of prctl(2)).

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the kernel kill the program when the *thread* that starts it ends, however that happens.
///
/// The starting thread must therefore be the one that waits for it. The setting is lost when the program forks or gains rights by exec.
pub fn kill_with_parent(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    let set = move || {
        // SAFETY: prctl takes numbers by value here and changes only the calling process.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: getppid takes nothing and cannot fail.
        let parent_now = unsafe { libc::getppid() };
        // The parent may have ended before prctl took effect; nothing would ever kill the child then.
        if u32::try_from(parent_now) == Ok(parent) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    // SAFETY: the closure runs between fork and exec and calls only prctl and getppid, which are async-signal-safe; it allocates nothing: errors are made
    // from codes.
    unsafe { command.pre_exec(set) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_child_dies_with_the_thread_that_started_it() {
        let mut child = std::thread::spawn(|| kill_with_parent(Command::new("sleep").arg("600")).spawn().unwrap()).join().unwrap();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_missing_program_is_still_reported() {
        let error = kill_with_parent(&mut Command::new("/nonexistent")).spawn().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }
}
