//! Executes random bytes as a program, in a child without any rights: fork(2), close_range(2),
//! setrlimit(2), setitimer(2), seccomp(2) strict mode.

use std::io::{self, Write};
use std::os::fd::AsRawFd;

use crate::{memory_file, process, rlimit};

/// Maximum run time of a child, in us of real time. Most children end at once with an illegal
/// instruction or a bad address; some run in an endless loop.
const LIFE_MICROS: i32 = 20_000;
/// CPU time limit of the child, in seconds.
const CPU_SECONDS: u64 = 1;

/// Forks a child that only executes `code`, and returns its number. Most children are ended by a
/// signal. The caller must reap the child.
///
/// The child has no descriptor, and may neither fork nor dump core. The child is killed after 20
/// ms, or at the first system call other than read and write (which fail without a descriptor),
/// exit and sigreturn.
///
/// # Errors
/// Fails as [`process::fork`] does; returns EACCES or EPERM if the system forbids executing memory
/// files.
pub fn execute_in_child(code: &[u8]) -> io::Result<i32> {
    let mut file = memory_file::create("tardy-crashme")?;
    file.write_all(code)?;
    // The code is written to a file, and the file is then mapped. In this way, the kernel makes the
    // instruction cache consistent on every architecture; it would not do so if this process wrote
    // the code to executable memory. SAFETY: a null address without MAP_FIXED touches no existing
    // mapping; the file is as long as the mapping.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            code.len(),
            libc::PROT_READ | libc::PROT_EXEC,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let child = process::fork(|| match seal() {
        Ok(()) => run(start),
        Err(_) => SEAL_FAILED,
    });
    // SAFETY: the range is exactly the mapping made above, which only the child uses.
    unsafe { libc::munmap(start, code.len()) };
    child
}

/// Exit code of a child that could not give up its rights, and therefore executed nothing.
pub const SEAL_FAILED: i32 = 125;

/// Removes all rights of the calling process, which must be the new child.
fn seal() -> io::Result<()> {
    rlimit::set(rlimit::Resource::CoreBytes, 0, 0)?;
    rlimit::set(rlimit::Resource::FileBytes, 0, 0)?;
    rlimit::set(rlimit::Resource::Processes, 0, 0)?;
    rlimit::set(rlimit::Resource::CpuSeconds, CPU_SECONDS, CPU_SECONDS)?;
    rlimit::set(rlimit::Resource::OpenFiles, 0, 0)?;
    // The standard library handles these two signals to report stack overflows. Its handlers make
    // system calls that are forbidden from here on.
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: SIG_DFL is a valid disposition for both signals.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let life = libc::timeval {
        tv_sec: 0,
        tv_usec: LIFE_MICROS.into(),
    };
    let timer = libc::itimerval {
        it_interval: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
        it_value: life,
    };
    // SAFETY: `timer` is valid for the call, and a null old timer is allowed. SIGALRM has its
    // default effect, which ends the process.
    crate::check(unsafe { libc::setitimer(libc::ITIMER_REAL as _, &timer, std::ptr::null_mut()) })?;
    // SAFETY: close_range takes three integers. The Rust values of this process do not use their
    // descriptors any more, because the process only calls `run` and ends.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 0_u32, u32::MAX, 0_u32) };
    crate::check(closed as libc::c_int)?;
    // SAFETY: PR_SET_SECCOMP with strict mode takes integers.
    crate::check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) }).map(drop)
}

fn run(start: *mut libc::c_void) -> i32 {
    // SAFETY: `start` is a non-null address of executable memory. The code there may do anything.
    // This process is a copy that shares no memory and no descriptor with others (`seal`). The
    // process can make no system call with an effect, and returns to the program's code only to
    // call `exit_now`.
    let code: extern "C" fn() = unsafe { std::mem::transmute(start) };
    code();
    // If `code` returns, the process tries to exit. Strict mode forbids exit_group, so the kernel
    // then kills the process, which ends it as well.
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_several_threads_makes_no_such_child() {
        std::thread::scope(|scope| {
            let (sender, receiver) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || receiver.recv());
            assert_eq!(
                execute_in_child(&[0; 64]).unwrap_err().raw_os_error(),
                Some(libc::EBUSY)
            );
            drop(sender);
        });
    }

    #[test]
    fn nothing_cannot_be_executed() {
        assert_eq!(
            execute_in_child(&[]).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }
}
