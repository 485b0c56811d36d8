//! The periodic interrupt of a real-time clock: rtc(4).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;

/// RTC_PIE_ON and RTC_PIE_OFF (include/uapi/linux/rtc.h): _IO('p', 0x05) and _IO('p', 0x06).
const PERIODIC_ON: u64 = 0x7005;
const PERIODIC_OFF: u64 = 0x7006;
/// RTC_IRQP_SET: _IOW('p', 0x0c, unsigned long).
const SET_RATE: u64 = 0x4000_700c | ((std::mem::size_of::<libc::c_ulong>() as u64) << 16);

/// An open clock. Only one program at a time can have a clock open.
#[derive(Debug)]
pub struct Rtc(File);

impl Rtc {
    /// Opens the device.
    ///
    /// # Errors
    /// Returns ENOENT if the device does not exist, EBUSY if another program has opened it, EACCES.
    pub fn open(path: &Path) -> io::Result<Self> {
        File::open(path).map(Self)
    }

    /// Sets the number of interrupts per second.
    ///
    /// # Errors
    /// Returns EINVAL for a rate that the kernel does not support, EACCES above
    /// /proc/sys/dev/rtc/max-user-freq without CAP_SYS_RESOURCE, ENOTTY for another device.
    pub fn set_rate(&self, hz: u64) -> io::Result<()> {
        self.control(SET_RATE, hz as libc::c_ulong)
    }

    /// Enables the interrupts.
    ///
    /// # Errors
    /// Returns EINVAL or ENOTTY if the device has no periodic interrupts.
    pub fn start(&self) -> io::Result<()> {
        self.control(PERIODIC_ON, 0)
    }

    /// Disables the interrupts.
    ///
    /// # Errors
    /// Fails as [`Rtc::start`] does.
    pub fn stop(&self) -> io::Result<()> {
        self.control(PERIODIC_OFF, 0)
    }

    /// Waits for the next interrupt. Returns the number of interrupts since the last call, at least
    /// 1.
    ///
    /// # Errors
    /// Returns the errors of read(2) except EINTR.
    pub fn wait(&self) -> io::Result<u64> {
        let mut word = [0; std::mem::size_of::<libc::c_ulong>()];
        (&self.0).read_exact(&mut word)?;
        // The lowest byte contains the kind of interrupt (rtc(4)).
        Ok((usize::from_ne_bytes(word) as u64 >> 8).max(1))
    }

    fn control(&self, request: u64, argument: libc::c_ulong) -> io::Result<()> {
        // SAFETY: the requests of this file take a number or nothing, and access no memory of this
        // process.
        crate::check(unsafe { libc::ioctl(self.0.as_raw_fd(), request as _, argument) }).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_clock_is_an_error() {
        assert_eq!(
            Rtc::open(Path::new("/dev/no-such-clock"))
                .unwrap_err()
                .kind(),
            io::ErrorKind::NotFound
        );
        let null = Rtc::open(Path::new("/dev/null")).unwrap();
        assert_eq!(
            null.set_rate(2048).unwrap_err().raw_os_error(),
            Some(libc::ENOTTY)
        );
        assert_eq!(null.start().unwrap_err().raw_os_error(), Some(libc::ENOTTY));
    }
}
