//! Child processes that end with the thread that started them (PR_SET_PDEATHSIG of prctl(2)), and
//! child processes with a real-time priority.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

use crate::sched::{Attributes, Policy};

/// Makes the kernel kill the program when the *thread* that starts it ends for any reason. Also
/// unblocks all signals in the program, because signals that the tool blocks would keep the program
/// from stopping on request.
///
/// The thread that starts the program must therefore also wait for it. The program's own children
/// do not inherit the setting. The program loses the setting when it executes a set-user-ID,
/// set-group-ID or capability binary.
pub fn kill_with_parent(command: &mut Command) -> &mut Command {
    signal_with_parent(command, libc::SIGKILL)
}

/// Works like [`kill_with_parent`], but the kernel sends SIGTERM. Use it for a program that undoes
/// its changes when it is stopped.
pub fn end_with_parent(command: &mut Command) -> &mut Command {
    signal_with_parent(command, libc::SIGTERM)
}

fn signal_with_parent(command: &mut Command, signal: i32) -> &mut Command {
    let parent = std::process::id();
    let set = move || {
        crate::signal::unblock_all()?;
        // SAFETY: prctl takes numbers by value here and changes only the calling process.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: getppid takes nothing and cannot fail.
        let parent_now = unsafe { libc::getppid() };
        // If the parent ended before prctl took effect, the kernel would never kill the child.
        if u32::try_from(parent_now) == Ok(parent) {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        }
    };
    // SAFETY: the closure runs between fork and exec and calls only pthread_sigmask, prctl and
    // getppid, which are async-signal-safe; it allocates nothing, because errors are made from
    // codes.
    unsafe { command.pre_exec(set) }
}

/// Runs the program to its end and returns its output. Unlike [`Command::output`], does not panic
/// if a pipe cannot be read.
///
/// # Errors
/// Returns an error if the program cannot be started or its pipes cannot be read.
pub fn output(command: &mut Command) -> io::Result<Output> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let read = std::thread::scope(|scope| {
        let stderr = std::thread::Builder::new().spawn_scoped(scope, || whole(err))?;
        let stdout = whole(out)?;
        let stderr = stderr
            .join()
            .map_err(|_| io::Error::other("the thread that reads the pipe panicked"))??;
        Ok::<_, io::Error>((stdout, stderr))
    });
    if read.is_err() {
        let _ = child.kill();
    }
    let status = child.wait()?;
    let (stdout, stderr) = read?;
    Ok(Output {
        status,
        stdout,
        stderr,
    })
}

fn whole(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Makes the program ignore SIGHUP, like nohup(1), so that it outlives its terminal.
pub fn ignore_hang_up(command: &mut Command) -> &mut Command {
    let set = || {
        // SAFETY: the call installs no handler; the kernel ignores the signal from now on.
        if unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec and makes one async-signal-safe call.
    unsafe { command.pre_exec(set) }
}

/// Makes the program run under `policy`, and also all threads and processes that the program
/// starts.
///
/// If the process lacks the privilege, the program keeps its old policy; [`crate::sched::policy`]
/// returns the actual one. The kernel ends the program (SIGXCPU, then SIGKILL) if one of its
/// threads runs for `runaway_micros` us at a real-time priority without blocking.
pub fn run_under(command: &mut Command, policy: Policy, runaway_micros: u64) -> &mut Command {
    let attributes = Attributes::inherited(policy);
    let limit = libc::rlimit64 {
        rlim_cur: runaway_micros,
        rlim_max: runaway_micros.saturating_mul(2),
    };
    let set = move || {
        // SAFETY: `limit` is a valid rlimit64 for the kernel to read. If the existing limit is
        // lower, it stays in force, which is acceptable.
        let _ = unsafe { libc::setrlimit64(libc::RLIMIT_RTTIME, &limit) };
        let _ = attributes.give(0);
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec and makes two system calls; their arguments
    // were made before.
    unsafe { command.pre_exec(set) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_and_what_it_starts_run_under_the_policy_or_the_right_is_missing() {
        // The test checks that a child of the shell inherits the policy. Fields 40 and 41 of stat
        // are priority and policy: proc(5).
        let mut shell = Command::new("sh");
        shell.args(["-c", "awk '{ print $40, $41 }' /proc/self/stat; true"]);
        let output = run_under(&mut shell, Policy::Fifo { priority: 3 }, 2_000_000)
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let may = crate::rlimit::get(crate::rlimit::Resource::RealTimePriority)
            .unwrap()
            .0
            >= 3
            || crate::user::is_root();
        assert_eq!(printed.trim(), if may { "3 1" } else { "0 0" });
    }

    #[test]
    fn the_child_dies_with_the_thread_that_started_it() {
        let mut child = std::thread::spawn(|| {
            kill_with_parent(Command::new("sleep").arg("600"))
                .spawn()
                .unwrap()
        })
        .join()
        .unwrap();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn the_child_begins_with_no_signal_blocked() {
        let told = std::thread::spawn(|| {
            let _signals = crate::signal::SignalFd::block(&[libc::SIGTERM, libc::SIGCHLD]).unwrap();
            kill_with_parent(Command::new("grep").args(["SigBlk", "/proc/self/status"]))
                .output()
                .unwrap()
                .stdout
        });
        assert_eq!(
            String::from_utf8(told.join().unwrap()).unwrap().trim_end(),
            "SigBlk:\t0000000000000000"
        );
    }

    #[test]
    fn a_missing_program_is_still_reported() {
        let error = kill_with_parent(&mut Command::new("/nonexistent"))
            .spawn()
            .unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }
}
