//! Controls virtual terminals and keyboard lights: console_ioctl(4), vt_ioctl in drivers/tty/vt.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

const KDGETLED: u64 = 0x4B31;
const KDSETLED: u64 = 0x4B32;
const VT_OPENQRY: u64 = 0x5600;
const VT_GETSTATE: u64 = 0x5603;
const VT_ACTIVATE: u64 = 0x5606;
const VT_WAITACTIVE: u64 = 0x5607;

/// The caps-lock light.
pub const LED_CAPS: u8 = 4;
/// Value for [`set_lights`] that makes the lights show the keyboard's state again.
pub const LED_FOLLOW_STATE: u8 = 0xff;

/// struct vt_stat of include/uapi/linux/vt.h.
#[repr(C)]
#[derive(Default)]
struct State {
    active: u16,
    signal: u16,
    state: u16,
}

/// Returns the number of the terminal that is shown. `console` is an open virtual terminal, such as
/// /dev/tty0.
///
/// # Errors
/// Returns ENOTTY if `console` is no virtual terminal.
pub fn active(console: &File) -> io::Result<u16> {
    let mut state = State::default();
    // SAFETY: VT_GETSTATE fills one vt_stat at the pointer, which is valid.
    crate::check(unsafe {
        libc::ioctl(
            console.as_raw_fd(),
            VT_GETSTATE as _,
            std::ptr::from_mut(&mut state),
        )
    })?;
    Ok(state.active)
}

/// Returns the number of a terminal that is not open.
///
/// # Errors
/// Returns ENOTTY if `console` is no virtual terminal; ENXIO if there is no free one.
pub fn free(console: &File) -> io::Result<u16> {
    let mut number: libc::c_int = -1;
    // SAFETY: VT_OPENQRY fills one int at the pointer, which is valid.
    crate::check(unsafe {
        libc::ioctl(
            console.as_raw_fd(),
            VT_OPENQRY as _,
            std::ptr::from_mut(&mut number),
        )
    })?;
    u16::try_from(number).map_err(|_| io::Error::from_raw_os_error(libc::ENXIO))
}

/// Shows terminal `number`, and waits until it is visible.
///
/// # Errors
/// Returns EPERM without CAP_SYS_TTY_CONFIG; ENXIO for a terminal that does not exist; ENOTTY;
/// EINTR.
pub fn show(console: &File, number: u16) -> io::Result<()> {
    // SAFETY: VT_ACTIVATE takes an integer.
    crate::check(unsafe {
        libc::ioctl(
            console.as_raw_fd(),
            VT_ACTIVATE as _,
            libc::c_ulong::from(number),
        )
    })?;
    // SAFETY: VT_WAITACTIVE takes an integer.
    crate::check(unsafe {
        libc::ioctl(
            console.as_raw_fd(),
            VT_WAITACTIVE as _,
            libc::c_ulong::from(number),
        )
    })
    .map(drop)
}

/// Returns the lights that are on.
///
/// # Errors
/// Returns ENOTTY if `console` is no virtual terminal.
pub fn lights(console: &File) -> io::Result<u8> {
    let mut lights = 0_u8;
    // SAFETY: KDGETLED fills one byte at the pointer, which is valid.
    crate::check(unsafe {
        libc::ioctl(
            console.as_raw_fd(),
            KDGETLED as _,
            std::ptr::from_mut(&mut lights),
        )
    })?;
    Ok(lights)
}

/// Switches the lights in `lights` on, and the others off.
///
/// # Errors
/// Returns EPERM without CAP_SYS_TTY_CONFIG, unless `console` is the controlling terminal; ENOTTY
/// if `console` is not a virtual terminal.
pub fn set_lights(console: &File, lights: u8) -> io::Result<()> {
    // SAFETY: KDSETLED takes an integer.
    crate::check(unsafe {
        libc::ioctl(
            console.as_raw_fd(),
            KDSETLED as _,
            libc::c_ulong::from(lights),
        )
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_terminal_is_an_error() {
        let file = File::open("/dev/null").unwrap();
        let errors = [
            active(&file).err(),
            free(&file).err(),
            show(&file, 1).err(),
            lights(&file).err(),
            set_lights(&file, 0).err(),
        ];
        for error in errors {
            assert_eq!(error.unwrap().raw_os_error(), Some(libc::ENOTTY));
        }
    }

    #[test]
    fn the_terminal_that_is_shown_can_be_shown() {
        // On a machine without virtual terminals, or without the right to use them, the test can
        // only check the error.
        match File::open("/dev/tty0") {
            Ok(console) => {
                let number = active(&console).unwrap();
                assert!(number > 0);
                show(&console, number).unwrap();
                assert_eq!(active(&console).unwrap(), number);
            }
            Err(error) => {
                assert!(
                    matches!(
                        error.raw_os_error(),
                        Some(libc::ENOENT | libc::EACCES | libc::ENXIO | libc::ENODEV)
                    ),
                    "{error}"
                )
            }
        }
    }
}
