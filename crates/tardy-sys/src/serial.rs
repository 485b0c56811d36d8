//! Serial lines and pseudo-terminals: tcsetattr(3), the modem lines through ioctl(2),
//! posix_openpt(3).

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Data terminal ready, an output.
pub const DTR: i32 = libc::TIOCM_DTR;
/// Request to send, an output.
pub const RTS: i32 = libc::TIOCM_RTS;
/// Clear to send, an input: the other end's RTS.
pub const CTS: i32 = libc::TIOCM_CTS;
/// Data set ready, an input: the other end's DTR.
pub const DSR: i32 = libc::TIOCM_DSR;
/// Carrier detect, an input: the other end's DTR on most cables.
pub const CD: i32 = libc::TIOCM_CD;

/// Opens a terminal device without making it the process's controlling terminal, and without
/// waiting for a carrier.
///
/// # Errors
/// Returns ENOENT, EACCES, EIO; ENOTTY if it is not a terminal.
pub fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK)
        .open(path)?;
    // SAFETY: isatty takes one descriptor.
    if unsafe { libc::isatty(file.as_raw_fd()) } == 0 {
        Err(io::Error::from_raw_os_error(libc::ENOTTY))
    } else {
        Ok(file)
    }
}

/// Makes `terminal` transmit bytes unchanged, at `bits_per_second` if given. Reads return the bytes
/// that are available. Returns the previous setting.
///
/// # Errors
/// Returns EINVAL for a speed that the system does not define, or the errors of tcgetattr(3) and
/// tcsetattr(3).
pub fn make_raw(terminal: &File, bits_per_second: Option<u32>) -> io::Result<Setting> {
    let fd = terminal.as_raw_fd();
    let mut setting = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: the call fills the termios behind the pointer, which is valid for writing.
    crate::check(unsafe { libc::tcgetattr(fd, setting.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it filled `setting`.
    let old = unsafe { setting.assume_init() };
    let mut new = old;
    // SAFETY: cfmakeraw changes the termios behind the pointer, which is valid.
    unsafe { libc::cfmakeraw(&mut new) };
    new.c_cflag |= libc::CLOCAL | libc::CREAD;
    new.c_cflag &= !libc::CRTSCTS;
    // A read waits only until the first byte is available.
    (new.c_cc[libc::VMIN], new.c_cc[libc::VTIME]) = (1, 0);
    if let Some(speed) = bits_per_second {
        let code = speed_code(speed).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        // The kernel takes the speed from these bits (asm-generic/termbits.h). The functions that
        // set the speed differ between C libraries.
        new.c_cflag = (new.c_cflag & !libc::CBAUD) | code;
    }
    // SAFETY: the call reads the termios behind the pointer, which is valid.
    crate::check(unsafe { libc::tcsetattr(fd, libc::TCSANOW, &new) })?;
    Ok(Setting(old))
}

/// The setting of a terminal.
#[derive(Debug, Clone)]
pub struct Setting(libc::termios);

/// Restores the setting that [`make_raw`] returned.
///
/// # Errors
/// Returns the errors of tcsetattr(3).
pub fn restore(terminal: &File, setting: &Setting) -> io::Result<()> {
    // SAFETY: the call reads the termios behind the pointer, which is valid.
    crate::check(unsafe { libc::tcsetattr(terminal.as_raw_fd(), libc::TCSANOW, &setting.0) })
        .map(drop)
}

fn speed_code(bits_per_second: u32) -> Option<libc::speed_t> {
    Some(match bits_per_second {
        9_600 => libc::B9600,
        19_200 => libc::B19200,
        38_400 => libc::B38400,
        57_600 => libc::B57600,
        115_200 => libc::B115200,
        230_400 => libc::B230400,
        460_800 => libc::B460800,
        921_600 => libc::B921600,
        1_000_000 => libc::B1000000,
        2_000_000 => libc::B2000000,
        3_000_000 => libc::B3000000,
        _ => return None,
    })
}

/// Discards unread input and unsent output.
///
/// # Errors
/// Returns the errors of tcflush(3).
pub fn discard(terminal: &File) -> io::Result<()> {
    // SAFETY: tcflush takes two integers.
    crate::check(unsafe { libc::tcflush(terminal.as_raw_fd(), libc::TCIOFLUSH) }).map(drop)
}

/// Returns the modem lines of a serial device that are on.
///
/// # Errors
/// Returns ENOTTY or EINVAL if the device has no modem lines, like a pseudo-terminal.
#[inline]
pub fn modem_lines(terminal: &File) -> io::Result<i32> {
    let mut lines = 0;
    // SAFETY: TIOCMGET writes one int, which is valid for writing.
    crate::check(unsafe {
        libc::ioctl(
            terminal.as_raw_fd(),
            libc::TIOCMGET,
            std::ptr::from_mut(&mut lines),
        )
    })?;
    Ok(lines)
}

/// Switches the output lines `lines` on or off. Other lines stay as they are.
///
/// # Errors
/// Fails as [`modem_lines`] does.
#[inline]
pub fn set_modem_lines(terminal: &File, lines: i32, on: bool) -> io::Result<()> {
    let request = if on { libc::TIOCMBIS } else { libc::TIOCMBIC };
    // SAFETY: TIOCMBIS and TIOCMBIC read one int, which is valid.
    crate::check(unsafe { libc::ioctl(terminal.as_raw_fd(), request, std::ptr::from_ref(&lines)) })
        .map(drop)
}

/// Waits until one of the input lines `lines` changes. The device's interrupt wakes the caller. A
/// change that happens between two calls is lost.
///
/// # Errors
/// Fails as [`modem_lines`] does; also returns EINTR if a signal came first, and EIO after a
/// hang-up.
#[inline]
pub fn wait_for_modem_lines(terminal: &File, lines: i32) -> io::Result<()> {
    // SAFETY: TIOCMIWAIT takes an integer.
    crate::check(unsafe {
        libc::ioctl(
            terminal.as_raw_fd(),
            libc::TIOCMIWAIT,
            libc::c_ulong::from(lines as u32),
        )
    })
    .map(drop)
}

/// Returns both ends of a new pseudo-terminal: the open master, and the path of the other end.
///
/// # Errors
/// Returns ENOENT without /dev/pts; ENOSPC at the limit of pseudo-terminals.
pub fn pseudo_terminal() -> io::Result<(File, PathBuf)> {
    // SAFETY: posix_openpt takes one integer.
    let fd = crate::check(unsafe {
        libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC)
    })?;
    // SAFETY: the descriptor was just opened, and nothing else owns it.
    let master = unsafe { File::from_raw_fd(fd) };
    // SAFETY: grantpt takes one descriptor.
    crate::check(unsafe { libc::grantpt(fd) })?;
    // SAFETY: unlockpt takes one descriptor.
    crate::check(unsafe { libc::unlockpt(fd) })?;
    let mut name = [0_u8; 64];
    // SAFETY: the call writes at most the length of `name`, including the zero byte at the end.
    let error = unsafe { libc::ptsname_r(fd, name.as_mut_ptr().cast(), name.len()) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    let name = CStr::from_bytes_until_nul(&name).map_err(io::Error::other)?;
    Ok((
        master,
        PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn what_goes_into_one_end_of_a_pseudo_terminal_comes_out_of_the_other_as_it_is() {
        let (mut master, path) = pseudo_terminal().unwrap();
        let mut other = open(&path).unwrap();
        let setting = make_raw(&other, Some(115_200)).unwrap();
        master.write_all(b"\x03\r\x04 \xff").unwrap();
        let mut bytes = [0; 5];
        crate::signal::wait_readable(&[std::os::fd::AsFd::as_fd(&other)], 10_000).unwrap();
        other.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"\x03\r\x04 \xff");
        discard(&other).unwrap();
        restore(&other, &setting).unwrap();
        assert!(modem_lines(&other).is_err(), "it has no modem lines");
        assert!(set_modem_lines(&other, RTS, true).is_err());
        assert!(wait_for_modem_lines(&other, CTS).is_err());
        assert_eq!(
            make_raw(&other, Some(12_345)).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }

    #[test]
    fn what_is_no_terminal_is_refused() {
        assert_eq!(
            open(Path::new("/dev/null")).unwrap_err().raw_os_error(),
            Some(libc::ENOTTY)
        );
        assert_eq!(
            open(Path::new("/nonexistent")).unwrap_err().raw_os_error(),
            Some(libc::ENOENT)
        );
    }
}
