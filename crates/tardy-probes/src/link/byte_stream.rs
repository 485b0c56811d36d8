//! `serial-bytes`: sends one byte in each direction, over a serial device or a pseudo-terminal.
//!
//! The time of a byte includes the time on the wire and in the device's FIFO: at 115200 bits per
//! second, the wire alone takes 87 us in each direction. The byte that is sent as a stimulus is the
//! low part of the stimulus's number. Two byte values are reserved: one asks whether the other end
//! is present, the other answers this question.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tardy_core::units::Nanos;
use tardy_sys::clock;
use tardy_sys::serial::{self, Setting};
use tardy_sys::signal::wait_readable;

use super::answer_log::AnswerLog;
use super::exchange::{Answer, Initiator, floor};
use super::initiation::Initiation;
use super::respond::{LOOK, Responder, ResponderResult, note};
use super::{LinkInfo, NAME_REMEDY, ParseLinkError, Place};

pub(super) const INFO: LinkInfo = LinkInfo {
    name: "serial-bytes",
    form: "DEVICE[:SPEED]",
    example: "/dev/ttyS0",
    carries: "bytes that the other end echoes; a round trip includes the wire and the devices' \
              FIFOs",
    answered_by: "`tardy respond serial-bytes:DEVICE`",
    parse,
};

/// Default speed in bits per second.
const BITS_PER_SECOND: u32 = 115_200;
/// EIO, the error of a terminal whose other end is closed.
const EIO: i32 = 5;

/// A stimulus is sent as its number modulo this constant, so only this many consecutive stimuli
/// have different bytes.
const NUMBERS: u64 = 0xf0;
const HELLO: u8 = 0xf0;
/// The answer to the question whether the other end is present.
const HERE: u8 = 0xf1;
const HELLOS: u32 = 5;
const HELLO_WAIT_MILLIS: i32 = 200;

/// A serial device or a pseudo-terminal.
#[derive(Debug)]
struct DeviceAndSpeed {
    device: PathBuf,
    /// Bits per second; `None` for a pseudo-terminal, which has no rate.
    bits_per_second: Option<u32>,
}

fn parse(place: &str) -> Result<Arc<dyn Place>, ParseLinkError> {
    let (device, speed) = place
        .split_once(':')
        .map_or((place, None), |(device, speed)| (device, Some(speed)));
    let number = |speed: &str| {
        let wrong = || {
            ParseLinkError::BadPlace(format!(
                "`{speed}` is not a speed: write bits per second, as in \
                 serial-bytes:/dev/ttyS0:115200"
            ))
        };
        speed.parse().map_err(|_| wrong())
    };
    let speed = speed.map_or(Ok(BITS_PER_SECOND), number)?;
    // A pseudo-terminal accepts any speed and ignores it.
    let bits_per_second = (!device.starts_with("/dev/pts/")).then_some(speed);
    Ok(Arc::new(DeviceAndSpeed {
        device: device.into(),
        bits_per_second,
    }))
}

impl fmt::Display for DeviceAndSpeed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.device.display())?;
        self.bits_per_second
            .map_or(Ok(()), |speed| write!(formatter, ":{speed}"))
    }
}

impl Place for DeviceAndSpeed {
    fn initiate(&self) -> io::Result<Initiation> {
        let initiator = ByteInitiator::connect(&self.device, self.bits_per_second)?;
        Ok(Initiation {
            is_external: self.bits_per_second.is_some(),
            ..Initiation::new(initiator, ByteInitiator::floor()?)
        })
    }

    fn respond(&self) -> io::Result<Box<dyn Responder>> {
        Terminal::open(&self.device, self.bits_per_second)
            .map(|terminal| Box::new(terminal) as Box<dyn Responder>)
    }

    fn remedy(&self, error: &io::Error) -> &'static str {
        match error.kind() {
            io::ErrorKind::NotFound => NAME_REMEDY,
            _ => {
                "run `tardy respond` with the device at the other end, and make sure that the cable crosses RTS and CTS"
            }
        }
    }

    fn includes(&self) -> Option<&'static str> {
        Some("the wire and the devices' FIFOs")
    }
}

/// An open end of the link. Dropping it restores the device's settings.
#[derive(Debug)]
pub(super) struct Terminal {
    file: File,
    setting: Option<Setting>,
}

impl Terminal {
    /// Opens the device, and sets it up to pass bytes unchanged.
    ///
    /// # Errors
    /// Fails as [`serial::open`] and [`serial::make_raw`] do.
    fn open(device: &Path, bits_per_second: Option<u32>) -> io::Result<Self> {
        let file = serial::open(device)?;
        let setting = Some(serial::make_raw(&file, bits_per_second)?);
        serial::discard(&file)?;
        Ok(Self { file, setting })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(setting) = &self.setting {
            let _ = serial::restore(&self.file, setting);
        }
    }
}

/// The initiator's end of the link.
#[derive(Debug)]
pub(super) struct ByteInitiator {
    terminal: Terminal,
    sent: u64,
}

/// Returns both ends of a new pseudo-terminal: the initiator's and the responder's.
///
/// # Errors
/// Returns ENOENT if /dev/pts is not mounted, ENOSPC if no more pseudo-terminals are allowed, or
/// the error of opening the other end.
pub(super) fn loopback() -> io::Result<(ByteInitiator, Terminal)> {
    let (master, path) = serial::pseudo_terminal()?;
    let responder = Terminal::open(&path, None)?;
    tardy_sys::file::set_blocking(&master, false)?;
    Ok((
        ByteInitiator {
            terminal: Terminal {
                file: master,
                setting: None,
            },
            sent: 0,
        },
        responder,
    ))
}

impl ByteInitiator {
    /// Opens the device, and asks whether a responder is present.
    ///
    /// # Errors
    /// Returns `TimedOut` if no responder is present, or an error if the device fails.
    fn connect(device: &Path, bits_per_second: Option<u32>) -> io::Result<Self> {
        let mut terminal = Terminal::open(device, bits_per_second)?;
        for _ in 0..HELLOS {
            terminal.file.write_all(&[HELLO])?;
            let mut byte = [0];
            while wait_readable(&[terminal.file.as_fd()], HELLO_WAIT_MILLIS)?.contains(&true) {
                match terminal.file.read(&mut byte) {
                    Ok(1) if byte[0] == HERE => return Ok(Self { terminal, sent: 0 }),
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "no answer"))
    }

    /// Measures the lower bound of a round trip: how long one thread takes to write a byte to a
    /// pseudo-terminal and to read it at the other end.
    ///
    /// # Errors
    /// Returns an error if a pseudo-terminal cannot be made or fails.
    pub(super) fn floor() -> io::Result<Nanos> {
        let (mut one, mut other) = loopback()?;
        floor(|| {
            one.send(0)?;
            let mut byte = [0];
            loop {
                match other.file.read(&mut byte) {
                    Ok(_) => return Ok(()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        })
    }
}

impl Initiator for ByteInitiator {
    #[inline]
    fn send(&mut self, number: u64) -> io::Result<()> {
        self.sent = number;
        self.terminal.file.write_all(&[(number % NUMBERS) as u8])
    }

    #[inline]
    fn look(&mut self) -> io::Result<Option<Answer>> {
        let mut byte = [0];
        match self.terminal.file.read(&mut byte) {
            Ok(1) => {}
            Ok(_) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        let low = u64::from(byte[0]);
        if low >= NUMBERS {
            return Ok(None);
        }
        // Several earlier stimuli have the same byte. The answer is assumed to belong to the latest
        // of them.
        let behind = (self.sent % NUMBERS + NUMBERS - low) % NUMBERS;
        Ok(Some(Answer {
            number: self.sent.saturating_sub(behind),
            received: None,
            in_responder: None,
        }))
    }
}

/// Returns the byte with which a responder answers `byte`; a stimulus is echoed.
#[inline]
fn answer_to(byte: u8) -> Option<u8> {
    match byte {
        HELLO => Some(HERE),
        HERE.. => None,
        stimulus => Some(stimulus),
    }
}

impl Responder for Terminal {
    fn answer(
        &mut self,
        is_over: &AtomicBool,
        log: &mut Option<AnswerLog>,
        answered: &mut ResponderResult,
    ) -> io::Result<()> {
        let mut byte = [0];
        while !is_over.load(Ordering::Relaxed) {
            match self.file.read(&mut byte) {
                // The other end of a pseudo-terminal is closed.
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait_readable(&[self.file.as_fd()], LOOK.as_millis() as i32)?;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.raw_os_error() == Some(EIO) => return Ok(()),
                Err(error) => return Err(error),
            }
            let woken = Nanos(clock::monotonic());
            let Some(answer) = answer_to(byte[0]) else {
                answered.others += 1;
                continue;
            };
            match self.file.write_all(&[answer]) {
                Ok(()) if answer == byte[0] => {
                    answered.answers += 1;
                    note(log, None, woken);
                }
                Ok(()) => {}
                Err(_) => answered.failures += 1,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_answer_the_latest_stimulus_that_they_can() {
        let (mut one, mut other) = loopback().unwrap();
        for number in [0, 239, 240, 1000] {
            one.send(number).unwrap();
            let mut byte = [0];
            wait_readable(&[other.file.as_fd()], 10_000).unwrap();
            other.file.read_exact(&mut byte).unwrap();
            other
                .file
                .write_all(&[answer_to(byte[0]).unwrap()])
                .unwrap();
            wait_readable(&[one.terminal.file.as_fd()], 10_000).unwrap();
            assert_eq!(
                one.look().unwrap(),
                Some(Answer {
                    number,
                    received: None,
                    in_responder: None
                })
            );
            assert_eq!(one.look().unwrap(), None);
        }
        // The byte answers the previous stimulus.
        one.send(1001).unwrap();
        other.file.write_all(&[(1000 % NUMBERS) as u8]).unwrap();
        wait_readable(&[one.terminal.file.as_fd()], 10_000).unwrap();
        assert_eq!(one.look().unwrap().unwrap().number, 1000);
        drop(other);
        assert!(one.look().is_err(), "the other end is closed");
    }

    #[test]
    fn hellos_are_answered_and_answers_are_not() {
        assert_eq!(
            (
                answer_to(HELLO),
                answer_to(HERE),
                answer_to(7),
                answer_to(0xff)
            ),
            (Some(HERE), None, Some(7), None)
        );
    }

    #[test]
    fn a_round_trip_takes_some_time_at_least() {
        assert!(ByteInitiator::floor().unwrap() > Nanos::ZERO);
    }
}
