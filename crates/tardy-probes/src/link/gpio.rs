//! `gpio`: two lines of a GPIO chip at each end, one output and one input, connected crosswise.
//! Stimulus and answer are edges, which the kernel timestamps in its interrupt handlers.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tardy_core::units::Nanos;
use tardy_sys::clock;
use tardy_sys::gpio_lines::{self, InputLine, OutputLine};
use tardy_sys::signal::wait_readable;

use super::answer_log::AnswerLog;
use super::exchange::{Answer, Initiator, floor};
use super::initiation::Initiation;
use super::respond::{LOOK, Responder, ResponderResult, note};
use super::{LinkInfo, NAME_REMEDY, ParseLinkError, Place};

pub(super) const INFO: LinkInfo = LinkInfo {
    name: "gpio",
    form: "CHIP:IN,OUT",
    example: "/dev/gpiochip0:17,27",
    carries: "edges on two lines of a GPIO chip, timestamped by the kernel at both ends",
    answered_by: "`tardy respond gpio:CHIP:IN,OUT`",
    parse,
};

/// How long the other end may take to follow the line, when the link is opened and after a lost
/// answer.
const SETTLE: Nanos = Nanos::from_millis(500);

/// Two lines of a GPIO chip.
#[derive(Debug)]
struct ChipAndLines {
    chip: PathBuf,
    /// The input line to watch.
    input: u32,
    /// The output line to drive.
    output: u32,
}

fn parse(place: &str) -> Result<Arc<dyn Place>, ParseLinkError> {
    let lines = |lines: &str| {
        let (input, output) = lines.split_once(',')?;
        Some((input.parse().ok()?, output.parse().ok()?)).filter(|(input, output)| input != output)
    };
    let example = INFO.example;
    let (chip, (input, output)) = place
        .rsplit_once(':')
        .and_then(|(chip, text)| Some((chip, lines(text)?)))
        .ok_or_else(|| {
            ParseLinkError::BadPlace(format!(
                "`{place}` does not name two lines of a chip: write the numbers of the input and \
                 of the output, as in gpio:{example}"
            ))
        })?;
    Ok(Arc::new(ChipAndLines {
        chip: chip.into(),
        input,
        output,
    }))
}

impl fmt::Display for ChipAndLines {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}:{},{}",
            self.chip.display(),
            self.input,
            self.output
        )
    }
}

impl Place for ChipAndLines {
    fn initiate(&self) -> io::Result<Initiation> {
        let mut initiator = GpioInitiator::connect(&self.chip, self.input, self.output)?;
        let floor = initiator.floor()?;
        Ok(Initiation::new(initiator, floor))
    }

    fn respond(&self) -> io::Result<Box<dyn Responder>> {
        Lines::open(&self.chip, self.input, self.output, false)
            .map(|lines| Box::new(lines) as Box<dyn Responder>)
    }

    fn remedy(&self, error: &io::Error) -> &'static str {
        match error.kind() {
            io::ErrorKind::NotFound => NAME_REMEDY,
            _ => {
                "run `tardy respond` with the lines at the other end, and make sure that each \
                 output is wired to the other's input"
            }
        }
    }

    fn has_stamps(&self) -> bool {
        true
    }
}

/// One end of the link.
#[derive(Debug)]
struct Lines {
    input: InputLine,
    output: OutputLine,
}

impl Lines {
    /// Requests both lines of `chip`. If `waits` is set, a read of the input line blocks until an
    /// edge comes.
    ///
    /// # Errors
    /// Fails as [`gpio_lines::input`] does.
    fn open(chip: &Path, input: u32, output: u32, waits: bool) -> io::Result<Self> {
        let output = gpio_lines::output(chip, output)?;
        Ok(Self {
            input: gpio_lines::input(chip, input, waits)?,
            output,
        })
    }
}

/// The initiator's end of the link.
#[derive(Debug)]
struct GpioInitiator {
    lines: Lines,
    /// The current level of the output, which the input should follow.
    is_high: bool,
    waits_for: Option<u64>,
}

impl GpioInitiator {
    /// Requests the lines, and checks that the other end follows.
    ///
    /// # Errors
    /// Returns `TimedOut` if the other end does not follow, or an error if the lines cannot be
    /// requested.
    fn connect(chip: &Path, input: u32, output: u32) -> io::Result<Self> {
        let mut initiator = Self {
            lines: Lines::open(chip, input, output, false)?,
            is_high: false,
            waits_for: None,
        };
        for is_high in [true, false] {
            initiator.set(is_high)?;
            if !initiator.settles()? {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the input does not follow the output",
                ));
            }
        }
        while initiator.lines.input.edge()?.is_some() {}
        Ok(initiator)
    }

    /// Measures the lower bound of a round trip: the time to set the output to its current level
    /// and to poll once for an edge, although there is none.
    ///
    /// # Errors
    /// Returns the errors of the chip's driver.
    fn floor(&mut self) -> io::Result<Nanos> {
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
            // An edge in the other direction is a late answer to some earlier stimulus. Edges have
            // no numbers, so it is unknown which stimulus it answers.
            if edge.is_rising == self.is_high
                && let Some(number) = self.waits_for.take()
            {
                return Ok(Some(Answer {
                    number,
                    received: Some(Nanos(edge.stamp)),
                    in_responder: None,
                }));
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

impl Responder for Lines {
    fn answer(
        &mut self,
        is_over: &AtomicBool,
        log: &mut Option<AnswerLog>,
        answered: &mut ResponderResult,
    ) -> io::Result<()> {
        self.output.set(self.input.is_high()?)?;
        while !is_over.load(Ordering::Relaxed) {
            let Some(edge) = self.input.edge()? else {
                wait_readable(&[self.input.as_fd()], LOOK.as_millis() as i32)?;
                continue;
            };
            let woken = clock::monotonic();
            match self.output.set(edge.is_rising) {
                Ok(()) => {
                    answered.answers += 1;
                    note(log, Some(Nanos(edge.stamp)), Nanos(woken));
                    answered.wake_up.record(woken - edge.stamp);
                    answered
                        .in_responder
                        .record(clock::monotonic() - edge.stamp);
                }
                Err(_) => answered.failures += 1,
            }
        }
        Ok(())
    }
}
