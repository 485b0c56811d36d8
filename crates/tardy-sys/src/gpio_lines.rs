//! Lines of a GPIO chip, through version 2 of the character device interface
//! (include/uapi/linux/gpio.h, Linux 5.10).

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const LINES_MAX: usize = 64;
const ATTRIBUTES_MAX: usize = 10;
/// GPIO_V2_LINE_FLAG_INPUT, followed by _OUTPUT, _EDGE_RISING, _EDGE_FALLING.
const INPUT: u64 = 1 << 2;
const OUTPUT: u64 = 1 << 3;
const BOTH_EDGES: u64 = 1 << 4 | 1 << 5;
/// GPIO_V2_LINE_EVENT_RISING_EDGE.
const RISING: u32 = 1;

/// struct gpio_v2_line_config, with its attributes unused.
#[repr(C)]
#[derive(Clone, Copy)]
struct Config {
    flags: u64,
    attributes_count: u32,
    padding: [u32; 5],
    attributes: [[u64; 3]; ATTRIBUTES_MAX],
}

/// struct gpio_v2_line_request.
#[repr(C)]
#[derive(Clone, Copy)]
struct Request {
    offsets: [u32; LINES_MAX],
    consumer: [u8; 32],
    config: Config,
    lines_count: u32,
    event_buffer_size: u32,
    padding: [u32; 5],
    fd: i32,
}

/// struct gpio_v2_line_values.
#[repr(C)]
#[derive(Clone, Copy)]
struct Values {
    bits: u64,
    mask: u64,
}

/// Size of struct gpio_v2_line_event.
const EVENT_BYTES: usize = 48;

/// Returns the number of a request: _IOWR(0xB4, number, bytes) of asm-generic/ioctl.h.
const fn request_code(number: u32, bytes: usize) -> u32 {
    3 << 30 | (bytes as u32) << 16 | 0xb4 << 8 | number
}

/// A line that this process drives.
#[derive(Debug)]
pub struct OutputLine(File);

/// A line that reports its edges to this process.
#[derive(Debug)]
pub struct InputLine(File);

/// A change of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// Time at which the kernel's interrupt handler saw the edge, in ns of CLOCK_MONOTONIC.
    pub stamp: i64,
    /// Whether the line rose.
    pub is_rising: bool,
}

/// Claims line `offset` of `chip` as an output. The line is low at first.
///
/// # Errors
/// Returns ENOENT, EACCES; EINVAL if the chip lacks the line; EBUSY if another process has claimed
/// it; ENOTTY if `chip` does not have this interface.
pub fn output(chip: &Path, offset: u32) -> io::Result<OutputLine> {
    request(chip, offset, OUTPUT).map(OutputLine)
}

/// Claims line `offset` of `chip` as an input that reports both edges. If `waits` is set, reads
/// wait for an edge.
///
/// # Errors
/// Fails as [`output`] does; also returns ENXIO if the line has no interrupt.
pub fn input(chip: &Path, offset: u32, waits: bool) -> io::Result<InputLine> {
    let line = request(chip, offset, INPUT | BOTH_EDGES)?;
    crate::file::set_blocking(&line, waits)?;
    Ok(InputLine(line))
}

fn request(chip: &Path, offset: u32, flags: u64) -> io::Result<File> {
    let chip = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_CLOEXEC)
        .open(chip)?;
    let mut request = Request {
        offsets: [0; LINES_MAX],
        consumer: [0; 32],
        config: Config {
            flags,
            attributes_count: 0,
            padding: [0; 5],
            attributes: [[0; 3]; ATTRIBUTES_MAX],
        },
        lines_count: 1,
        event_buffer_size: 0,
        padding: [0; 5],
        fd: -1,
    };
    request.offsets[0] = offset;
    request.consumer[..5].copy_from_slice(b"tardy");
    let code = request_code(0x07, std::mem::size_of::<Request>());
    // SAFETY: the kernel reads and writes one gpio_v2_line_request at the pointer. The Rust type
    // has the same layout (a test checks the size).
    crate::check(unsafe {
        libc::ioctl(
            chip.as_raw_fd(),
            code as _,
            std::ptr::from_mut(&mut request),
        )
    })?;
    // SAFETY: the call succeeded, so it stored a new descriptor, which nothing else owns.
    Ok(unsafe { File::from_raw_fd(request.fd) })
}

impl OutputLine {
    /// Drives the line high or low.
    ///
    /// # Errors
    /// Returns the errors of the chip's driver.
    #[inline]
    pub fn set(&self, is_high: bool) -> io::Result<()> {
        let values = Values {
            bits: u64::from(is_high),
            mask: 1,
        };
        let code = request_code(0x0f, std::mem::size_of::<Values>());
        // SAFETY: the kernel reads one gpio_v2_line_values at the pointer. The Rust type has the
        // same layout.
        crate::check(unsafe {
            libc::ioctl(self.0.as_raw_fd(), code as _, std::ptr::from_ref(&values))
        })
        .map(drop)
    }
}

impl InputLine {
    /// Returns whether the line is high.
    ///
    /// # Errors
    /// Returns the errors of the chip's driver.
    pub fn is_high(&self) -> io::Result<bool> {
        let mut values = Values { bits: 0, mask: 1 };
        let code = request_code(0x0e, std::mem::size_of::<Values>());
        // SAFETY: the kernel reads and writes one gpio_v2_line_values at the pointer. The Rust type
        // has the same layout.
        crate::check(unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                code as _,
                std::ptr::from_mut(&mut values),
            )
        })?;
        Ok(values.bits & 1 != 0)
    }

    /// Returns the next edge. Returns `None` if a signal arrived, and, if reads do not wait, also
    /// if there is no edge.
    ///
    /// # Errors
    /// Returns the errors of read(2), such as ENODEV if the chip was unplugged.
    #[inline]
    pub fn edge(&mut self) -> io::Result<Option<Edge>> {
        let mut event = [0; EVENT_BYTES];
        match self.0.read(&mut event) {
            Ok(EVENT_BYTES) => Ok(Some(decode(&event))),
            Ok(_) => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl std::os::fd::AsFd for InputLine {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn decode(event: &[u8; EVENT_BYTES]) -> Edge {
    let (stamp, rest) = event
        .split_first_chunk::<8>()
        .expect("an event has 48 bytes");
    let id = rest.first_chunk::<4>().expect("an event has 48 bytes");
    Edge {
        stamp: i64::from_ne_bytes(*stamp),
        is_rising: u32::from_ne_bytes(*id) == RISING,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_and_codes_are_the_kernels() {
        assert_eq!(
            (
                std::mem::size_of::<Config>(),
                std::mem::size_of::<Request>()
            ),
            (272, 592)
        );
        // Numbers that strace prints for GPIO_V2_GET_LINE_IOCTL, GPIO_V2_LINE_GET_VALUES_IOCTL and
        // GPIO_V2_LINE_SET_VALUES_IOCTL.
        assert_eq!(
            (
                request_code(0x07, 592),
                request_code(0x0e, 16),
                request_code(0x0f, 16)
            ),
            (0xc250_b407, 0xc010_b40e, 0xc010_b40f)
        );
    }

    #[test]
    fn an_event_is_read() {
        let mut event = [0; EVENT_BYTES];
        event[..8].copy_from_slice(&123_456_789_i64.to_ne_bytes());
        event[8..12].copy_from_slice(&1_u32.to_ne_bytes());
        assert_eq!(
            decode(&event),
            Edge {
                stamp: 123_456_789,
                is_rising: true
            }
        );
        event[8..12].copy_from_slice(&2_u32.to_ne_bytes());
        assert!(!decode(&event).is_rising);
    }

    #[test]
    fn what_is_no_chip_is_refused() {
        assert_eq!(
            output(Path::new("/dev/null"), 0)
                .unwrap_err()
                .raw_os_error(),
            Some(libc::ENOTTY)
        );
        assert_eq!(
            input(Path::new("/nonexistent"), 0, true)
                .unwrap_err()
                .raw_os_error(),
            Some(libc::ENOENT)
        );
    }
}
