//! Loads kernel modules: finit_module(2).

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Loads the uncompressed module in `file`. The parameters have the form of modprobe(8):
/// `NAME=VALUE`, separated by spaces.
///
/// # Errors
/// Returns the errors of finit_module(2), such as `EPERM` without `CAP_SYS_MODULE`, `ENOEXEC` for a
/// file that is not a module of this kernel, `EEXIST` if it is loaded already.
pub fn load(file: &File, parameters: &CStr) -> io::Result<()> {
    // SAFETY: the descriptor is open while `file` is borrowed, the parameters are NUL-terminated by
    // their type, and the flags are zero. The kernel checks the module itself.
    let result = unsafe {
        libc::syscall(
            libc::SYS_finit_module,
            file.as_raw_fd(),
            parameters.as_ptr(),
            0,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Loading a module needs a separate machine, so the lab's tests do it in a guest. A kernel
    // without modules returns ENOSYS.
    #[test]
    fn what_is_no_module_is_refused_by_the_kernel() {
        let program = File::open("/proc/self/status").unwrap();
        let error = load(&program, c"").unwrap_err();
        assert!(
            matches!(
                error.raw_os_error(),
                Some(libc::ENOEXEC | libc::EPERM | libc::EINVAL | libc::ENOSYS)
            ),
            "{error}"
        );
    }
}
