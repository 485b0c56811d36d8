//! The responder: answers each stimulus as soon as it has woken up, and keeps count of how late that was.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tardy_core::histogram::{Budget, Histogram};
use tardy_core::units::Nanos;
use tardy_sys::parallel_port::ParallelPort;
use tardy_sys::{clock, serial, signal, stamped_socket};

use super::answer_log::AnswerLog;
use super::byte_stream::{Terminal, answer_to};
use super::gpio::Lines;
use super::packet::{self, Kind, Packet};
use super::parport;
use super::udp::on_the_runs_clock;
use super::{Link, udp};

/// How often it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(250);

/// The responder's end of a link, open.
#[derive(Debug)]
pub enum Responder {
    /// Datagrams.
    Udp(UdpSocket),
    /// Bytes.
    Bytes(Terminal),
    /// Modem lines.
    ModemLines(File),
    /// Lines of a GPIO chip.
    Gpio(Lines),
    /// A parallel port.
    Parport(ParallelPort),
}

/// What a responder did.
#[derive(Debug)]
pub struct Answered {
    /// Stimuli answered.
    pub answers: u64,
    /// Of them, how late it woke up: from the kernel's receive stamp to the responder's own look at the clock. Empty on links without stamps.
    pub wake_up: Histogram,
    /// From the kernel's receive stamp to just before the answer was sent.
    pub in_responder: Histogram,
    /// What came and was no stimulus.
    pub others: u64,
    /// Answers that could not be sent.
    pub failures: u64,
}

impl Answered {
    fn new() -> Self {
        let histogram = || Histogram::new(Budget::RECORDER);
        Self { answers: 0, wake_up: histogram(), in_responder: histogram(), others: 0, failures: 0 }
    }
}

impl Responder {
    /// Opens the responder's end; of `udp:HOST:PORT` the address to listen at.
    ///
    /// # Errors
    /// `Unsupported` for links that need no responder; those of the device or the address.
    pub fn open(link: &Link) -> io::Result<Self> {
        match link {
            Link::Udp { host, port } => {
                let socket = UdpSocket::bind(udp::address(host, *port)?)?;
                stamped_socket::stamp_received(&socket)?;
                socket.set_read_timeout(Some(LOOK))?;
                Ok(Self::Udp(socket))
            }
            Link::Bytes { device, bits_per_second } => Terminal::open(device, *bits_per_second).map(Self::Bytes),
            Link::ModemLines { device } => {
                let device = serial::open(device)?;
                serial::modem_lines(&device)?;
                Ok(Self::ModemLines(device))
            }
            Link::Gpio { chip, input, output } => Lines::open(chip, *input, *output, false).map(Self::Gpio),
            Link::Parport { device } => ParallelPort::open(device).map(Self::Parport),
            Link::Icmp { .. } => Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel there answers by itself")),
            Link::Loopback => Err(io::Error::new(io::ErrorKind::Unsupported, "the run that uses it has its own responder")),
        }
    }

    /// Answers until `is_over`, and writes each answer to `log`. Call it on a thread that is prepared as a probe's.
    ///
    /// # Errors
    /// Those of the link that will not go away: a device that was unplugged.
    pub fn answer(&mut self, is_over: &AtomicBool, log: &mut Option<AnswerLog>) -> io::Result<Answered> {
        let mut answered = Answered::new();
        match self {
            Self::Udp(socket) => answer_datagrams(socket, is_over, log, &mut answered)?,
            Self::Bytes(terminal) => answer_bytes(terminal, is_over, log, &mut answered)?,
            Self::ModemLines(device) => answer_lines(device, is_over, log, &mut answered)?,
            Self::Gpio(lines) => answer_edges(lines, is_over, log, &mut answered)?,
            Self::Parport(port) => answer_pulses(port, is_over, log, &mut answered)?,
        }
        Ok(answered)
    }
}

/// The answer is on the way.
#[inline]
fn note(log: &mut Option<AnswerLog>, stamp: Option<Nanos>, woken: Nanos) {
    if let Some(log) = log {
        log.answered(stamp, woken, Nanos(clock::monotonic()));
    }
}

fn answer_datagrams(socket: &UdpSocket, is_over: &AtomicBool, log: &mut Option<AnswerLog>, answered: &mut Answered) -> io::Result<()> {
    let machine = packet::this_machine();
    let mut buffer = [0; packet::BYTES + 1];
    let mut peer = None;
    while !is_over.load(Ordering::Relaxed) {
        let received = match stamped_socket::receive_from(socket, &mut buffer) {
            Ok(Some((received, from))) => {
                peer = Some(from).or(peer);
                received
            }
            // The time limit, or a port closed at the initiator's end.
            Ok(None) => continue,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) => return Err(error),
        };
        let woken = Nanos(clock::monotonic());
        let stimulus = Packet::decode(&buffer[..received.bytes]).filter(|packet| packet.kind != Kind::Answer);
        let (Some(stimulus), Some(to)) = (stimulus, peer) else {
            answered.others += 1;
            continue;
        };
        let stamp = received.stamp.map(on_the_runs_clock);
        let in_responder = stamp.map_or(Nanos(-1), |stamp| Nanos(clock::monotonic()) - stamp);
        let answer = Packet { kind: Kind::Answer, in_responder, machine, ..stimulus };
        if socket.send_to(&answer.encode(), to).is_err() {
            answered.failures += 1;
            continue;
        }
        if stimulus.kind == Kind::Stimulus {
            answered.answers += 1;
            note(log, stamp, woken);
            if let Some(stamp) = stamp {
                answered.wake_up.record((woken - stamp).get());
                answered.in_responder.record(in_responder.get());
            }
        }
    }
    Ok(())
}

fn answer_bytes(terminal: &mut Terminal, is_over: &AtomicBool, log: &mut Option<AnswerLog>, answered: &mut Answered) -> io::Result<()> {
    let mut byte = [0];
    while !is_over.load(Ordering::Relaxed) {
        match terminal.file.read(&mut byte) {
            // The other end of a pseudo-terminal is closed.
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                signal::wait_readable(&[terminal.file.as_fd()], LOOK.as_millis() as i32)?;
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
        match terminal.file.write_all(&[answer]) {
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

fn answer_edges(lines: &mut Lines, is_over: &AtomicBool, log: &mut Option<AnswerLog>, answered: &mut Answered) -> io::Result<()> {
    lines.output.set(lines.input.is_high()?)?;
    while !is_over.load(Ordering::Relaxed) {
        let Some(edge) = lines.input.edge()? else {
            signal::wait_readable(&[lines.input.as_fd()], LOOK.as_millis() as i32)?;
            continue;
        };
        let woken = clock::monotonic();
        match lines.output.set(edge.is_rising) {
            Ok(()) => {
                answered.answers += 1;
                note(log, Some(Nanos(edge.stamp)), Nanos(woken));
                answered.wake_up.record(woken - edge.stamp);
                answered.in_responder.record(clock::monotonic() - edge.stamp);
            }
            Err(_) => answered.failures += 1,
        }
    }
    Ok(())
}

fn answer_pulses(port: &ParallelPort, is_over: &AtomicBool, log: &mut Option<AnswerLog>, answered: &mut Answered) -> io::Result<()> {
    port.write(0)?;
    port.take_interrupts()?;
    while !is_over.load(Ordering::Relaxed) {
        let pulses = port.take_interrupts()?;
        if pulses == 0 {
            signal::wait_readable(&[port.as_fd()], LOOK.as_millis() as i32)?;
            continue;
        }
        let woken = Nanos(clock::monotonic());
        // What came while it answered cannot be told apart: one answer for all.
        answered.others += u64::from(pulses - 1);
        match parport::pulse(port) {
            Ok(()) => {
                answered.answers += 1;
                note(log, None, woken);
            }
            Err(_) => answered.failures += 1,
        }
    }
    Ok(())
}

/// What a terminal says whose other end is gone.
const EIO: i32 = 5;

fn answer_lines(device: &File, is_over: &AtomicBool, log: &mut Option<AnswerLog>, answered: &mut Answered) -> io::Result<()> {
    let mut was_on = None;
    while !is_over.load(Ordering::Relaxed) {
        let woken = Nanos(clock::monotonic());
        let is_on = serial::modem_lines(device)? & serial::CTS != 0;
        if was_on != Some(is_on) {
            match serial::set_modem_lines(device, serial::RTS, is_on) {
                // The first is what it finds, and no answer.
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
