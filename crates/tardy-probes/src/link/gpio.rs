//! `gpio`: two lines of a GPIO chip at each end, one out and one in, crossed. The stimulus is an edge, and so is the answer; the kernel stamps both
//! in its interrupt handlers.

use std::io;
use std::path::Path;

use tardy_core::units::Nanos;
use tardy_sys::clock;
use tardy_sys::gpio_lines::{self, InputLine, OutputLine};

use super::exchange::{Answer, Initiator, floor};

/// How long the other end may take to show what it is told at the start.
const SETTLE: Nanos = Nanos::from_millis(500);

/// One end of the link.
#[derive(Debug)]
pub struct Lines {
    pub(super) input: InputLine,
    pub(super) output: OutputLine,
}

impl Lines {
    /// Takes both lines of `chip`; waiting for edges where `waits`.
    ///
    /// # Errors
    /// Those of [`gpio_lines::input`].
    pub fn open(chip: &Path, input: u32, output: u32, waits: bool) -> io::Result<Self> {
        let output = gpio_lines::output(chip, output)?;
        Ok(Self { input: gpio_lines::input(chip, input, waits)?, output })
    }
}

/// The initiator's end.
#[derive(Debug)]
pub struct GpioInitiator {
    lines: Lines,
    /// What the output is, and the input is to become.
    is_high: bool,
    waits_for: Option<u64>,
}

impl GpioInitiator {
    /// Takes the lines, and sees whether the other end follows.
    ///
    /// # Errors
    /// `TimedOut` where it does not; those of taking lines.
    pub fn connect(chip: &Path, input: u32, output: u32) -> io::Result<Self> {
        let mut initiator = Self { lines: Lines::open(chip, input, output, false)?, is_high: false, waits_for: None };
        for is_high in [true, false] {
            initiator.set(is_high)?;
            if !initiator.settles()? {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the input does not follow the output"));
            }
        }
        while initiator.lines.input.edge()?.is_some() {}
        Ok(initiator)
    }

    /// The least that a round trip can come to: the output set as it is, and a look for an edge that finds none.
    ///
    /// # Errors
    /// Those of the chip.
    pub fn floor(&mut self) -> io::Result<Nanos> {
        floor(|| {
            self.lines.output.set(self.is_high)?;
            self.lines.input.edge().map(drop)
        })
    }

    fn set(&mut self, is_high: bool) -> io::Result<()> {
        self.is_high = is_high;
        self.lines.output.set(is_high)
    }

    fn settles(&self) -> io::Result<bool> {
        let begin = Nanos(clock::monotonic());
        while Nanos(clock::monotonic()) - begin < SETTLE {
            if self.lines.input.is_high()? == self.is_high {
                return Ok(true);
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Ok(false)
    }
}

impl Initiator for GpioInitiator {
    #[inline]
    fn send(&mut self, number: u64) -> io::Result<()> {
        self.waits_for = Some(number);
        self.set(!self.is_high)
    }

    #[inline]
    fn look(&mut self) -> io::Result<Option<Answer>> {
        while let Some(edge) = self.lines.input.edge()? {
            // An edge the other way is a late answer to an earlier stimulus; lines have no numbers to tell to which.
            if edge.is_rising == self.is_high
                && let Some(number) = self.waits_for.take()
            {
                return Ok(Some(Answer { number, received: Some(Nanos(edge.stamp)), in_responder: None }));
            }
        }
        Ok(None)
    }

    fn recover(&mut self) {
        self.waits_for = None;
        let _ = self.settles();
        while let Ok(Some(_)) = self.lines.input.edge() {}
    }
}
