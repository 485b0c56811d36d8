//! A terminal whose keys are read one by one: tcsetattr(3), tcgetpgrp(3), read(2).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The setting of a terminal.
#[derive(Debug, Clone)]
pub struct Setting(libc::termios);

/// Returns whether this process is one that the terminal's shell waits for: others are stopped when
/// they change the terminal.
#[must_use]
pub fn is_in_foreground(terminal: BorrowedFd<'_>) -> bool {
    // SAFETY: tcgetpgrp takes one descriptor.
    let foreground = unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) };
    // SAFETY: getpgrp takes nothing and cannot fail.
    foreground != -1 && foreground == unsafe { libc::getpgrp() }
}

/// Makes each key readable as it is pressed, without echo. Ctrl-C still interrupts; the keys that
/// suspend and quit do nothing, because both would leave the terminal in this state to the shell.
/// Returns the previous setting.
///
/// # Errors
/// Returns ENOTTY if it is no terminal; errors of tcgetattr(3) and tcsetattr(3).
pub fn read_single_keys(terminal: BorrowedFd<'_>) -> io::Result<Setting> {
    let mut setting = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: the call fills the termios behind the pointer, which is valid for writing.
    crate::check(unsafe { libc::tcgetattr(terminal.as_raw_fd(), setting.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so that it filled `setting`.
    let old = unsafe { setting.assume_init() };
    let mut new = old;
    new.c_lflag &= !(libc::ICANON | libc::ECHO | libc::IEXTEN);
    // Without these, Ctrl-S would stop the output, and return would arrive as a line feed.
    new.c_iflag &= !(libc::IXON | libc::ICRNL);
    // 0 is _POSIX_VDISABLE on Linux.
    (new.c_cc[libc::VSUSP], new.c_cc[libc::VQUIT]) = (0, 0);
    // A read returns the available bytes.
    (new.c_cc[libc::VMIN], new.c_cc[libc::VTIME]) = (0, 0);
    set(terminal, &new)?;
    Ok(Setting(old))
}

/// Restores the setting from before [`read_single_keys`].
///
/// # Errors
/// Returns errors of tcsetattr(3).
pub fn restore(terminal: BorrowedFd<'_>, setting: &Setting) -> io::Result<()> {
    set(terminal, &setting.0)
}

fn set(terminal: BorrowedFd<'_>, setting: &libc::termios) -> io::Result<()> {
    // SAFETY: the call reads the termios behind the pointer, which is valid.
    crate::check(unsafe { libc::tcsetattr(terminal.as_raw_fd(), libc::TCSANOW, setting) }).map(drop)
}

/// Reads the input since the last call, at most as many bytes as `room` has.
///
/// # Errors
/// Returns errors of read(2); the absence of input is not one.
pub fn read(terminal: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most so many bytes as `room` has.
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
        // Line mode again: an unfinished line is not readable.
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
