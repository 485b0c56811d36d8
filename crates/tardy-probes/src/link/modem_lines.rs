//! `serial`: the modem lines of two serial devices, connected crosswise (RTS to CTS, both ways).
//! The devices send no bytes.
//!
//! The stimulus is a change of RTS. The responder sleeps in TIOCMIWAIT, until the device's
//! interrupt wakes it, and sets its own RTS to the level of its CTS. A change has no number. After
//! a time-out, the initiator therefore waits for the late answer before it sends the next stimulus.
//! Otherwise the initiator could mistake the late answer for the next stimulus's answer.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tardy_core::units::Nanos;
use tardy_sys::{clock, serial};

use super::answer_log::AnswerLog;
use super::exchange::{Answer, Initiator, floor};
use super::initiation::Initiation;
use super::respond::{Responder, ResponderResult, note};
use super::{LinkInfo, NAME_REMEDY, Place};

pub(super) const INFO: LinkInfo = LinkInfo {
    name: "serial",
    form: "DEVICE",
    example: "/dev/ttyS0",
    carries: "changes of the modem lines RTS and CTS; no byte is sent",
    answered_by: "`tardy respond serial:DEVICE`",
    parse: |device| Ok(Arc::new(Device(device.into()))),
};

/// How long the other end may take to follow RTS, when the link is opened and after a lost answer.
const SETTLE: Nanos = Nanos::from_millis(500);

/// A serial device.
#[derive(Debug)]
struct Device(PathBuf);

impl fmt::Display for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(formatter)
    }
}

impl Place for Device {
    fn initiate(&self) -> io::Result<Initiation> {
        let initiator = LineInitiator::connect(&self.0)?;
        let floor = initiator.floor()?;
        Ok(Initiation::new(initiator, floor))
    }

    fn respond(&self) -> io::Result<Box<dyn Responder>> {
        let device = serial::open(&self.0)?;
        serial::modem_lines(&device)?;
        Ok(Box::new(LineResponder(device)))
    }

    fn remedy(&self, error: &io::Error) -> &'static str {
        match error.kind() {
            io::ErrorKind::NotFound => NAME_REMEDY,
            _ => {
                "run `tardy respond` with the device at the other end, and make sure that the cable crosses RTS and CTS"
            }
        }
    }
}

/// The initiator's end of the link.
#[derive(Debug)]
struct LineInitiator {
    device: File,
    /// The level of RTS, which CTS should follow.
    is_on: bool,
    waits_for: Option<u64>,
}

impl LineInitiator {
    /// Opens the device, and checks that the other end follows.
    ///
    /// # Errors
    /// Returns `TimedOut` if the other end does not follow; ENOTTY or EINVAL if the device has no
    /// modem lines; or an error if the device cannot be opened.
    fn connect(device: &Path) -> io::Result<Self> {
        let device = serial::open(device)?;
        serial::modem_lines(&device)?;
        let mut initiator = Self {
            device,
            is_on: false,
            waits_for: None,
        };
        for is_on in [false, true, false] {
            initiator.set(is_on)?;
            if !initiator.settles()? {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "CTS does not follow RTS",
                ));
            }
        }
        Ok(initiator)
    }

    /// Measures the lower bound of a round trip: sets RTS, and reads CTS once.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    fn floor(&self) -> io::Result<Nanos> {
        let floor = floor(|| {
            // The new level equals the current one, so the other end notices nothing.
            serial::set_modem_lines(&self.device, serial::RTS, self.is_on)?;
            serial::modem_lines(&self.device).map(drop)
        })?;
        Ok(floor)
    }

    fn set(&mut self, is_on: bool) -> io::Result<()> {
        self.is_on = is_on;
        serial::set_modem_lines(&self.device, serial::RTS, is_on)
    }

    fn has_followed(&self) -> io::Result<bool> {
        Ok((serial::modem_lines(&self.device)? & serial::CTS != 0) == self.is_on)
    }

    fn settles(&self) -> io::Result<bool> {
        let begin = Nanos(clock::monotonic());
        while Nanos(clock::monotonic()) - begin < SETTLE {
            if self.has_followed()? {
                return Ok(true);
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Ok(false)
    }
}

impl Initiator for LineInitiator {
    #[inline]
    fn send(&mut self, number: u64) -> io::Result<()> {
        self.waits_for = Some(number);
        self.set(!self.is_on)
    }

    #[inline]
    fn look(&mut self) -> io::Result<Option<Answer>> {
        let Some(number) = self.waits_for else {
            return Ok(None);
        };
        if !self.has_followed()? {
            return Ok(None);
        }
        self.waits_for = None;
        Ok(Some(Answer {
            number,
            received: None,
            in_responder: None,
        }))
    }

    fn recover(&mut self) {
        self.waits_for = None;
        // If the responder missed the change, it sleeps until the next change. So the initiator
        // changes the level back, which wakes it. This second change is not a stimulus, so no round
        // trip is recorded for it.
        if !self.settles().unwrap_or(true) && self.set(!self.is_on).is_ok() {
            let _ = self.settles();
        }
    }
}

/// The responder's end of the link.
#[derive(Debug)]
struct LineResponder(File);

impl Responder for LineResponder {
    fn answer(
        &mut self,
        is_over: &AtomicBool,
        log: &mut Option<AnswerLog>,
        answered: &mut ResponderResult,
    ) -> io::Result<()> {
        let device = &self.0;
        let mut was_on = None;
        while !is_over.load(Ordering::Relaxed) {
            let woken = Nanos(clock::monotonic());
            let is_on = serial::modem_lines(device)? & serial::CTS != 0;
            if was_on != Some(is_on) {
                match serial::set_modem_lines(device, serial::RTS, is_on) {
                    // The first reading is the initial level, not a stimulus.
                    Ok(()) if was_on.is_some() => {
                        answered.answers += 1;
                        note(log, None, woken);
                    }
                    Ok(()) => {}
                    Err(_) => answered.failures += 1,
                }
                was_on = Some(is_on);
            } else if let Err(error) = serial::wait_for_modem_lines(device, serial::CTS)
                && error.kind() != io::ErrorKind::Interrupted
            {
                return Err(error);
            }
        }
        Ok(())
    }
}
