//! `parport`: two parallel ports, each with its first data line (pin 2) at the other's ACK (pin 10), as lpptest's cable has them.
//!
//! The stimulus is a pulse on the data line, and so is the answer: a port interrupts at one edge only. Pulses have no numbers, so that an answer after
//! the time-out is waited out before the next stimulus.

use std::io;
use std::path::Path;

use tardy_core::units::Nanos;
use tardy_sys::clock;
use tardy_sys::parallel_port::ParallelPort;

use super::exchange::{Answer, Initiator, floor};

/// The line that is pulsed.
const LINE: u8 = 1;
/// How long the other end may take to answer at the start, and after an answer that was lost.
const SETTLE: Nanos = Nanos::from_millis(500);
/// Stimuli at the start, of which each must be answered.
const TRIALS: u32 = 3;

/// Makes a pulse; what is after its rising edge is no part of a round trip.
#[inline]
pub(super) fn pulse(port: &ParallelPort) -> io::Result<()> {
    port.write(LINE)?;
    port.write(0)
}

/// The initiator's end.
#[derive(Debug)]
pub struct PortInitiator {
    port: ParallelPort,
    waits_for: Option<u64>,
    /// Number of the stimulus answered last.
    answered: u64,
    /// Interrupts that were not yet taken for answers.
    unread: u32,
}

impl PortInitiator {
    /// Takes the port, and sees whether the other end answers.
    ///
    /// # Errors
    /// `TimedOut` where it does not; those of [`ParallelPort::open`].
    pub fn connect(device: &Path) -> io::Result<Self> {
        let port = ParallelPort::open(device)?;
        port.write(0)?;
        let initiator = Self { port, waits_for: None, answered: 0, unread: 0 };
        for _ in 0..TRIALS {
            initiator.port.take_interrupts()?;
            pulse(&initiator.port)?;
            if !initiator.settles()? {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no interrupt came for a pulse"));
            }
        }
        Ok(initiator)
    }

    /// The least that a round trip can come to: a data line driven as it is, twice, and a look for interrupts.
    ///
    /// # Errors
    /// Those of the port.
    pub fn floor(&self) -> io::Result<Nanos> {
        floor(|| {
            self.port.write(0)?;
            self.port.write(0)?;
            self.port.take_interrupts().map(drop)
        })
    }

    /// Whether an interrupt comes.
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
        // A pulse that nothing waits for answers what was answered before once more.
        self.answered = self.waits_for.take().unwrap_or(self.answered);
        Ok(Some(Answer { number: self.answered, received: None, in_responder: None }))
    }

    fn recover(&mut self) {
        self.waits_for = None;
        let _ = self.settles();
    }
}
