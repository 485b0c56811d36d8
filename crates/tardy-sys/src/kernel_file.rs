//! Distinguishes kernel settings from files on a disk: open(2) with O_PATH, fstatfs(2).

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::{file, regular_file};

/// Numbers, from linux/magic.h, of file systems whose files belong to the kernel: procfs, sysfs,
/// control groups of both versions, debugfs, tracefs.
const KERNELS: [u32; 6] = [
    0x9fa0,
    0x6265_6572,
    0x0027_e0eb,
    0x6367_7270,
    0x6462_6720,
    0x7472_6163,
];

/// Opens the file that currently has this name. With the descriptor and
/// [`crate::private_folder::inside`], the caller can open the same file again later, even if
/// another file has this name by then.
///
/// # Errors
/// Returns the errors of open(2), or `InvalidInput` if the path is a link, a folder, a FIFO or a
/// device.
pub fn pin(path: &Path) -> io::Result<File> {
    let file = file::open_path(path, libc::O_NOFOLLOW)?;
    match regular_file::name(file.metadata()?.file_type()) {
        None => Ok(file),
        Some(name) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("it is {name}, not a file"),
        )),
    }
}

/// Returns whether the file is on a file system whose files belong to the kernel.
///
/// # Errors
/// Returns the errors of fstatfs(2).
pub fn is_kernels(file: &File) -> io::Result<bool> {
    let mut stat = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open, and `stat` is valid for writing one statfs.
    crate::check(unsafe { libc::fstatfs(file.as_raw_fd(), stat.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it filled `stat`.
    let stat = unsafe { stat.assume_init() };
    // The type differs between targets; the numbers have 32 bits.
    Ok(KERNELS.contains(&(stat.f_type as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_told_from_others() {
        let is_kernels = |path: &str| is_kernels(&pin(Path::new(path)).unwrap()).unwrap();
        assert!(is_kernels("/proc/sys/kernel/core_pattern"));
        assert!(is_kernels("/sys/kernel/mm/transparent_hugepage/enabled"));
        // The file has mode 0200, so nobody can read it, not even root.
        assert!(is_kernels("/proc/sys/vm/drop_caches"));
        assert!(!is_kernels("/etc/passwd"));
    }

    #[test]
    fn links_devices_and_folders_are_refused_by_name() {
        for (path, what) in [
            ("/proc/self/exe", "a symbolic link"),
            ("/dev/null", "a device"),
            ("/proc/sys", "a folder"),
        ] {
            let refused = pin(Path::new(path)).unwrap_err().to_string();
            assert_eq!(refused, format!("it is {what}, not a file"));
        }
    }
}
