//! A terminal from which each key is read individually: tcsetattr(3), tcgetpgrp(3), read(2).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The setting of a terminal.
#[derive(Debug, Clone)]
pub struct Setting(libc::termios);

/// Returns whether this process belongs to the terminal's foreground process group. The kernel
/// stops a background process that changes the terminal.
#[must_use]
pub fn is_in_foreground(terminal: BorrowedFd<'_>) -> bool {
    // SAFETY: tcgetpgrp takes one descriptor.
    let foreground = unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) };
    // SAFETY: getpgrp takes nothing and cannot fail.
    foreground != -1 && foreground == unsafe { libc::getpgrp() }
}

/// Makes each key readable when it is pressed, without echo. Ctrl-C still interrupts. The keys for
/// suspending and quitting are disabled: if they stopped the program, the shell would get the
/// terminal with this setting. Returns the previous setting.
///
/// # Errors
/// Returns ENOTTY if `terminal` is not a terminal, or the errors of tcgetattr(3) and tcsetattr(3).
pub fn read_single_keys(terminal: BorrowedFd<'_>) -> io::Result<Setting> {
    let mut setting = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: the call fills the termios behind the pointer, which is valid for writing.
    crate::check(unsafe { libc::tcgetattr(terminal.as_raw_fd(), setting.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it filled `setting`.
    let old = unsafe { setting.assume_init() };
    let mut new = old;
    new.c_lflag &= !(libc::ICANON | libc::ECHO | libc::IEXTEN);
    // If these flags stayed set, Ctrl-S would stop the output, and Return would be read as a line
    // feed.
    new.c_iflag &= !(libc::IXON | libc::ICRNL);
    // On Linux, _POSIX_VDISABLE is 0.
    (new.c_cc[libc::VSUSP], new.c_cc[libc::VQUIT]) = (0, 0);
    // A read returns the available bytes, without waiting.
    (new.c_cc[libc::VMIN], new.c_cc[libc::VTIME]) = (0, 0);
    set(terminal, &new)?;
    Ok(Setting(old))
}

/// Restores the setting that [`read_single_keys`] returned.
///
/// # Errors
/// Returns the errors of tcsetattr(3).
pub fn restore(terminal: BorrowedFd<'_>, setting: &Setting) -> io::Result<()> {
    set(terminal, &setting.0)
}

fn set(terminal: BorrowedFd<'_>, setting: &libc::termios) -> io::Result<()> {
    // SAFETY: the call reads the termios behind the pointer, which is valid.
    crate::check(unsafe { libc::tcsetattr(terminal.as_raw_fd(), libc::TCSANOW, setting) }).map(drop)
}

/// Reads the input that arrived since the last call, as far as it fits into `room`.
///
/// # Errors
/// Returns the errors of read(2); it is no error if there is no input.
pub fn read(terminal: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most the length of `room`.
    let read = unsafe { libc::read(terminal.as_raw_fd(), room.as_mut_ptr().cast(), room.len()) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serial;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn keys_come_one_by_one_and_the_terminal_is_put_back() {
        let (mut master, path) = serial::pseudo_terminal().unwrap();
        let terminal = serial::open(&path).unwrap();
        let setting = read_single_keys(terminal.as_fd()).unwrap();
        let mut room = [0; 8];
        master.write_all(b"n\r").unwrap();
        crate::signal::wait_readable(&[terminal.as_fd()], 10_000).unwrap();
        let read_bytes = read(terminal.as_fd(), &mut room).unwrap();
        assert_eq!(&room[..read_bytes], b"n\r");
        restore(terminal.as_fd(), &setting).unwrap();
        // In line mode, a line without its end cannot be read yet.
        master.write_all(b"n").unwrap();
        assert_eq!(
            crate::signal::wait_readable(&[terminal.as_fd()], 20).unwrap(),
            [false]
        );
        assert!(
            !is_in_foreground(terminal.as_fd()),
            "it is nobody's terminal"
        );
    }
}
