//! Parallel ports, through the driver ppdev (include/uapi/linux/ppdev.h): output on the data lines,
//! and interrupts from the line ACK.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const CLAIM: u32 = code(NONE, 0x8b, 0);
const EXCLUSIVE: u32 = code(NONE, 0x8f, 0);
const WRITE_DATA: u32 = code(WRITE, 0x86, 1);
const TAKE_INTERRUPTS: u32 = code(READ, 0x93, size_of::<libc::c_int>());

/// Direction bits of ioctl(2) requests from asm-generic/ioctl.h, which most architectures use.
const NONE: u32 = 0;
const WRITE: u32 = 1;
const READ: u32 = 2;

/// Returns the code of a request of type PP_IOCTL.
const fn code(direction: u32, number: u32, bytes: usize) -> u32 {
    direction << 30 | (bytes as u32) << 16 | (b'p' as u32) << 8 | number
}

/// A port that this process has claimed; released on drop.
#[derive(Debug)]
pub struct ParallelPort(File);

impl ParallelPort {
    /// Claims the port and its interrupt. Other processes cannot use the port until it is released.
    ///
    /// # Errors
    /// Returns ENOENT if the driver is not loaded; EACCES; ENOTTY if `device` is not a port; ENXIO
    /// if the device has no port, or another driver (a printer's) has claimed it.
    pub fn open(device: &Path) -> io::Result<Self> {
        let port = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_CLOEXEC)
            .open(device)?;
        for request in [EXCLUSIVE, CLAIM] {
            // SAFETY: these requests take no argument.
            crate::check(unsafe { libc::ioctl(port.as_raw_fd(), request as _) })?;
        }
        Ok(Self(port))
    }

    /// Sets the eight data lines.
    ///
    /// # Errors
    /// Returns the errors of the port's driver.
    #[inline]
    pub fn write(&self, data: u8) -> io::Result<()> {
        // SAFETY: the kernel reads one byte at the pointer.
        crate::check(unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                WRITE_DATA as _,
                std::ptr::from_ref(&data),
            )
        })
        .map(drop)
    }

    /// Returns the number of interrupts since the last call, without waiting. While there are
    /// unread interrupts, the descriptor is readable.
    ///
    /// # Errors
    /// Returns the errors of the port's driver.
    #[inline]
    pub fn take_interrupts(&self) -> io::Result<u32> {
        let mut count: libc::c_int = 0;
        // SAFETY: the kernel writes one int to the pointer.
        crate::check(unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                TAKE_INTERRUPTS as _,
                std::ptr::from_mut(&mut count),
            )
        })?;
        Ok(count.unsigned_abs())
    }
}

impl AsFd for ParallelPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn requests_are_those_of_the_kernels_header() {
        let folder = std::env::temp_dir().join(format!("tardy-ppdev-{}", std::process::id()));
        let mut compiler = Command::new("cc")
            .args(["-x", "c", "-", "-o"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .spawn()
            .expect("a C compiler (cargo xtask test)");
        let text = "#include <stdio.h>\n#include <sys/ioctl.h>\n#include <linux/ppdev.h>\nint \
                    main(void) { printf(\"%u %u %u %u\", (unsigned)PPEXCL, (unsigned)PPCLAIM, \
                    (unsigned)PPWDATA, (unsigned)PPCLRIRQ); return 0; }\n";
        compiler
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        assert!(compiler.wait().unwrap().success());
        let printed = Command::new(&folder).output().unwrap().stdout;
        std::fs::remove_file(&folder).unwrap();
        assert_eq!(
            String::from_utf8(printed).unwrap(),
            format!("{EXCLUSIVE} {CLAIM} {WRITE_DATA} {TAKE_INTERRUPTS}")
        );
    }

    #[test]
    fn what_is_no_port_is_an_error() {
        assert_eq!(
            ParallelPort::open(Path::new("/dev/null"))
                .unwrap_err()
                .raw_os_error(),
            Some(libc::ENOTTY)
        );
        assert_eq!(
            ParallelPort::open(Path::new("/dev/no-such-port"))
                .unwrap_err()
                .raw_os_error(),
            Some(libc::ENOENT)
        );
        let port = ParallelPort(
            File::options()
                .read(true)
                .write(true)
                .open("/dev/null")
                .unwrap(),
        );
        assert_eq!(
            port.write(1).unwrap_err().raw_os_error(),
            Some(libc::ENOTTY)
        );
        assert_eq!(
            port.take_interrupts().unwrap_err().raw_os_error(),
            Some(libc::ENOTTY)
        );
    }
}
