//! Loading kernel modules (finit_module(2)).

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Loads the uncompressed module in `file`, with parameters as modprobe(8) takes them:
/// `NAME=VALUE`, with spaces between.
///
/// # Errors
/// Returns errors of finit_module(2): `EPERM` without `CAP_SYS_MODULE`, `ENOEXEC` for a file that
/// is not a module of this kernel, `EEXIST` when it is loaded already.
pub fn load(file: &File, parameters: &CStr) -> io::Result<()> {
    // SAFETY: the descriptor is open as long as `file` is borrowed, the parameters are a
    // NUL-terminated text by their type and the flags are zero; the kernel checks the module
    // itself.
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

    // Success needs a separate machine: the lab's tests load a module in a guest. ENOSYS: a kernel
    // without modules.
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
