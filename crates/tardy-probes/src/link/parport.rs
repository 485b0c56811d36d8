//! `parport`: two parallel ports. The first data line (pin 2) of each is connected to the other's
//! ACK (pin 10), as in lpptest's cable.
//!
//! Stimulus and answer are pulses on the data line, because a port interrupts at one edge only.
//! Pulses have no numbers. After a time-out, the initiator therefore waits for the late answer
//! before it sends the next stimulus.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tardy_core::units::Nanos;
use tardy_sys::clock;
use tardy_sys::parallel_port::ParallelPort;
use tardy_sys::signal::wait_readable;

use super::answer_log::AnswerLog;
use super::exchange::{Answer, Initiator, floor};
use super::initiation::Initiation;
use super::respond::{LOOK, Responder, ResponderResult, note};
use super::{LinkInfo, Place};

pub(super) const INFO: LinkInfo = LinkInfo {
    name: "parport",
    form: "DEVICE",
    example: "/dev/parport0",
    carries: "pulses on a data line of a parallel port, and its ACK interrupt",
    answered_by: "`tardy respond parport:DEVICE`",
    parse: |device| Ok(Arc::new(Port(device.into()))),
};

/// What to do if a port cannot be opened.
const PORT_REMEDY: &str = "load the drivers (modprobe parport_pc ppdev; they need CONFIG_PPDEV and \
                           a parallel port), and unload the module lp, which also uses the port";

/// The data line that carries the pulses.
const LINE: u8 = 1;
/// How long the other end may take to answer, when the link is opened and after a lost answer.
const SETTLE: Nanos = Nanos::from_millis(500);
/// Number of stimuli that are sent when the link is opened. Each must be answered.
const TRIALS: u32 = 3;

/// Makes a pulse. The time from the pulse's rising edge to its end is not part of a round trip.
#[inline]
fn pulse(port: &ParallelPort) -> io::Result<()> {
    port.write(LINE)?;
    port.write(0)
}

/// The device file of a parallel port (driver ppdev).
#[derive(Debug)]
struct Port(PathBuf);

impl fmt::Display for Port {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(formatter)
    }
}

impl Place for Port {
    fn initiate(&self) -> io::Result<Initiation> {
        let initiator = PortInitiator::connect(&self.0)?;
        let floor = initiator.floor()?;
        Ok(Initiation::new(initiator, floor))
    }

    fn respond(&self) -> io::Result<Box<dyn Responder>> {
        ParallelPort::open(&self.0).map(|port| Box::new(PortResponder(port)) as Box<dyn Responder>)
    }

    fn remedy(&self, error: &io::Error) -> &'static str {
        match error.kind() {
            io::ErrorKind::TimedOut => {
                "run `tardy respond` with the port at the other end, wire pin 2 of each port to \
                 pin 10 of the other port, and give both ports an interrupt (modprobe parport_pc \
                 irq=auto)"
            }
            _ => PORT_REMEDY,
        }
    }

    fn responders_remedy(&self) -> Option<&'static str> {
        Some(PORT_REMEDY)
    }
}

/// The initiator's end of the link.
#[derive(Debug)]
struct PortInitiator {
    port: ParallelPort,
    waits_for: Option<u64>,
    /// Number of the last answered stimulus.
    answered: u64,
    /// Number of interrupts that were not yet counted as answers.
    unread: u32,
}

impl PortInitiator {
    /// Opens the port, and checks that the other end answers.
    ///
    /// # Errors
    /// Returns `TimedOut` if the other end does not answer, or the errors of
    /// [`ParallelPort::open`].
    fn connect(device: &Path) -> io::Result<Self> {
        let port = ParallelPort::open(device)?;
        port.write(0)?;
        let initiator = Self {
            port,
            waits_for: None,
            answered: 0,
            unread: 0,
        };
        for _ in 0..TRIALS {
            initiator.port.take_interrupts()?;
            pulse(&initiator.port)?;
            if !initiator.settles()? {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "a pulse raised no interrupt",
                ));
            }
        }
        Ok(initiator)
    }

    /// Measures the lower bound of a round trip: writes a data line's current level twice, and
    /// polls for interrupts once.
    ///
    /// # Errors
    /// Returns an error if the port fails.
    fn floor(&self) -> io::Result<Nanos> {
        floor(|| {
            self.port.write(0)?;
            self.port.write(0)?;
            self.port.take_interrupts().map(drop)
        })
    }

    /// Waits for an interrupt. Returns whether an interrupt came.
    fn settles(&self) -> io::Result<bool> {
        let begin = Nanos(clock::monotonic());
        while Nanos(clock::monotonic()) - begin < SETTLE {
            if self.port.take_interrupts()? > 0 {
                return Ok(true);
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Ok(false)
    }
}

impl Initiator for PortInitiator {
    #[inline]
    fn send(&mut self, number: u64) -> io::Result<()> {
        self.waits_for = Some(number);
        pulse(&self.port)
    }

    #[inline]
    fn look(&mut self) -> io::Result<Option<Answer>> {
        self.unread += self.port.take_interrupts()?;
        if self.unread == 0 {
            return Ok(None);
        }
        self.unread -= 1;
        // An unexpected pulse is reported as another answer to the last answered stimulus.
        self.answered = self.waits_for.take().unwrap_or(self.answered);
        Ok(Some(Answer {
            number: self.answered,
            received: None,
            in_responder: None,
        }))
    }

    fn recover(&mut self) {
        self.waits_for = None;
        let _ = self.settles();
    }
}

/// The responder's end of the link.
#[derive(Debug)]
struct PortResponder(ParallelPort);

impl Responder for PortResponder {
    fn answer(
        &mut self,
        is_over: &AtomicBool,
        log: &mut Option<AnswerLog>,
        answered: &mut ResponderResult,
    ) -> io::Result<()> {
        let port = &self.0;
        port.write(0)?;
        port.take_interrupts()?;
        while !is_over.load(Ordering::Relaxed) {
            let pulses = port.take_interrupts()?;
            if pulses == 0 {
                wait_readable(&[port.as_fd()], LOOK.as_millis() as i32)?;
                continue;
            }
            let woken = Nanos(clock::monotonic());
            // Pulses that arrived while the responder answered cannot be told apart, so they get
            // one answer.
            answered.others += u64::from(pulses - 1);
            match pulse(port) {
                Ok(()) => {
                    answered.answers += 1;
                    note(log, None, woken);
                }
                Err(_) => answered.failures += 1,
            }
        }
        Ok(())
    }
}
