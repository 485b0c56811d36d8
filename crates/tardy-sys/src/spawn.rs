//! Starts processes with as little work outside the kernel as possible: forks a child (fork(2))
//! that ends at once or executes another program, and then waits until the child has ended.

use std::ffi::CString;
use std::io;

/// A program with its arguments, in the form that the kernel takes.
#[derive(Debug)]
pub struct Program {
    path: CString,
    arguments: Vec<CString>,
}

impl Program {
    /// Makes a program: the file `path`, with `arguments` and an empty environment. The first
    /// argument is the program's name.
    #[must_use]
    pub fn new(path: CString, arguments: Vec<CString>) -> Self {
        Self { path, arguments }
    }
}

/// Forks a child that ends at once, and waits for it. This is allowed even in a process with
/// several threads, because the child only makes system calls.
///
/// # Errors
/// Returns EAGAIN at the limit of processes; ENOMEM; `Other` if the child's exit code was not 0.
#[inline]
pub fn fork_and_wait() -> io::Result<()> {
    // SAFETY: the child calls nothing but _exit, which is async-signal-safe.
    match crate::check(unsafe { libc::fork() })? {
        // SAFETY: _exit has no preconditions and does not return.
        0 => unsafe { libc::_exit(0) },
        child => wait(child),
    }
}

/// Forks a child that executes the program, and waits for its end.
///
/// # Errors
/// Fails as [`fork_and_wait`] does, and returns `Other` if the program could not be executed (exit
/// code 127) or ended with a code other than 0.
#[inline]
pub fn fork_execute_and_wait(program: &Program) -> io::Result<()> {
    let mut arguments: Vec<*const libc::c_char> = program
        .arguments
        .iter()
        .map(|argument| argument.as_ptr())
        .collect();
    arguments.push(std::ptr::null());
    let environment = [std::ptr::null()];
    // SAFETY: the child only calls execve and _exit, which are async-signal-safe; their arguments
    // were made before the fork.
    match crate::check(unsafe { libc::fork() })? {
        0 => {
            // SAFETY: path, arguments and environment are terminated as the call requires, and live
            // in the child's copy of this memory.
            unsafe {
                libc::execve(
                    program.path.as_ptr(),
                    arguments.as_ptr(),
                    environment.as_ptr(),
                )
            };
            // SAFETY: _exit has no preconditions and does not return.
            unsafe { libc::_exit(127) }
        }
        child => wait(child),
    }
}

fn wait(child: libc::pid_t) -> io::Result<()> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a valid int for the kernel to fill.
        match crate::check(unsafe { libc::waitpid(child, &mut status, 0) }) {
            Ok(_) if status == 0 => return Ok(()),
            Ok(_) => {
                return Err(io::Error::other(format!(
                    "a child ended with wait status {status}"
                )));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_end_and_programs_that_do_not_exist_are_an_error() {
        fork_and_wait().unwrap();
        let program = |path: &str| {
            Program::new(
                CString::new(path).unwrap(),
                vec![CString::new("true").unwrap()],
            )
        };
        fork_execute_and_wait(&program("/bin/true")).unwrap();
        assert!(fork_execute_and_wait(&program("/bin/false")).is_err());
        assert!(fork_execute_and_wait(&program("/nonexistent")).is_err());
    }
}
