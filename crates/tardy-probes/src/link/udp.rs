//! `udp`: datagrams with the kernel's receive stamps at both ends.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tardy_core::units::Nanos;
use tardy_sys::{clock, stamped_socket};

use super::answer_log::AnswerLog;
use super::exchange::{Answer, Initiator, NetworkFloor, floor, look_until, network_floor};
use super::initiation::{Answers, Initiation};
use super::packet::{self, Kind, Packet};
use super::respond::{LOOK, Responder, ResponderResult, note};
use super::{LinkInfo, NAME_REMEDY, ParseLinkError, Place};

pub(super) const INFO: LinkInfo = LinkInfo {
    name: "udp",
    form: "HOST[:PORT]",
    example: "board7",
    carries: "datagrams, stamped by the kernel at both ends",
    answered_by: "`tardy respond udp:ADDRESS`",
    parse,
};

/// Port where none is given.
const PORT: u16 = 5_455;

/// How often, and how long each time, a responder is asked whether it is there.
const HELLOS: u64 = 5;
const HELLO_WAIT: Duration = Duration::from_millis(200);

/// The other machine; of the responder: where it listens.
#[derive(Debug)]
struct HostAndPort {
    /// A name or an address.
    host: String,
    port: u16,
}

/// `HOST`, `HOST:PORT`, `[V6]`, `[V6]:PORT`.
fn parse(place: &str) -> Result<Arc<dyn Place>, ParseLinkError> {
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    let number = |port: &str| {
        let port_of = port.parse().ok().filter(|&port| port > 0);
        port_of.ok_or_else(|| ParseLinkError::BadPlace(format!("`{port}` is no port: write a number from 1 to 65535")))
    };
    Ok(Arc::new(HostAndPort { host: host.to_owned(), port: port.map_or(Ok(PORT), number)? }))
}

impl fmt::Display for HostAndPort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(formatter, "[{host}]:{port}") } else { write!(formatter, "{host}:{port}") }
    }
}

impl Place for HostAndPort {
    fn initiate(&self) -> io::Result<Initiation> {
        let (initiator, peer) = UdpInitiator::connect(&self.host, self.port)?;
        Ok(Initiation { is_external: !peer.is_here, answers: Answers::OfAProcessThatTells, ..Initiation::new(initiator, peer.floor) })
    }

    fn respond(&self) -> io::Result<Box<dyn Responder>> {
        let socket = UdpSocket::bind(address(&self.host, self.port)?)?;
        stamped_socket::stamp_received(&socket)?;
        socket.set_read_timeout(Some(LOOK))?;
        Ok(Box::new(UdpResponder(socket)))
    }

    fn remedy(&self, error: &io::Error) -> &'static str {
        match error.kind() {
            io::ErrorKind::NotFound => NAME_REMEDY,
            _ => "run `tardy respond udp:ADDRESS:PORT` there",
        }
    }

    fn has_stamps(&self) -> bool {
        true
    }
}

/// The initiator's end.
#[derive(Debug)]
struct UdpInitiator {
    socket: UdpSocket,
    conversation: u64,
}

/// What is known of the other end before the first stimulus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Peer {
    /// Whether it is on this very machine.
    is_here: bool,
    /// The least that a round trip can come to: one through this machine's loopback interface.
    floor: NetworkFloor,
}

/// The first address of `host`.
///
/// # Errors
/// Where the name is not known.
pub(super) fn address(host: &str, port: u16) -> io::Result<SocketAddr> {
    (host, port).to_socket_addrs()?.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
}

impl UdpInitiator {
    /// Connects, and asks whether a responder is there.
    ///
    /// # Errors
    /// `TimedOut` or `ConnectionRefused` where none is; those of the name and of sockets.
    fn connect(host: &str, port: u16) -> io::Result<(Self, Peer)> {
        let to = address(host, port)?;
        let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
        socket.connect(to)?;
        stamped_socket::stamp_received(&socket)?;
        let conversation = (clock::realtime() ^ clock::monotonic().rotate_left(32)) as u64 ^ u64::from(std::process::id());
        let mut initiator = Self { socket, conversation };
        let machine = initiator.hello()?;
        let floor = network_floor(own_floor)?;
        Ok((initiator, Peer { is_here: machine == packet::this_machine(), floor }))
    }

    fn hello(&mut self) -> io::Result<u64> {
        let mut buffer = [0; packet::BYTES + 1];
        self.socket.set_read_timeout(Some(HELLO_WAIT))?;
        let mut error = io::Error::new(io::ErrorKind::TimedOut, "no answer");
        for number in 0..HELLOS {
            self.socket.send(&self.packet(Kind::Hello, number).encode())?;
            match self.socket.recv(&mut buffer) {
                Ok(bytes) => {
                    if let Some(answer) = self.own(&buffer[..bytes]) {
                        return Ok(answer.machine);
                    }
                }
                Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => {
                    error = refused;
                    std::thread::sleep(HELLO_WAIT);
                }
                Err(_) => {}
            }
        }
        Err(error)
    }

    fn packet(&self, kind: Kind, number: u64) -> Packet {
        Packet { kind, conversation: self.conversation, number, in_responder: Nanos::ZERO, machine: 0 }
    }

    /// An answer to this conversation.
    fn own(&self, bytes: &[u8]) -> Option<Packet> {
        Packet::decode(bytes).filter(|packet| packet.kind == Kind::Answer && packet.conversation == self.conversation)
    }
}

impl Initiator for UdpInitiator {
    #[inline]
    fn send(&mut self, number: u64) -> io::Result<()> {
        self.socket.send(&self.packet(Kind::Stimulus, number).encode()).map(drop)
    }

    #[inline]
    fn look(&mut self) -> io::Result<Option<Answer>> {
        let mut buffer = [0; packet::BYTES + 1];
        let Some(received) = stamped_socket::receive(&self.socket, &mut buffer, false)? else { return Ok(None) };
        let Some(packet) = self.own(&buffer[..received.bytes]) else { return Ok(None) };
        let stamp = received.stamp.map(on_the_runs_clock);
        let in_responder = Some(packet.in_responder).filter(|&time| time >= Nanos::ZERO);
        Ok(Some(Answer { number: packet.number, received: stamp, in_responder }))
    }
}

/// A time of CLOCK_REALTIME, of just now, on CLOCK_MONOTONIC.
#[inline]
pub(super) fn on_the_runs_clock(realtime: i64) -> Nanos {
    let age = clock::realtime() - realtime;
    Nanos(clock::monotonic() - age)
}

/// A datagram to oneself, and the look that finds it.
fn own_floor() -> io::Result<Nanos> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(socket.local_addr()?)?;
    stamped_socket::stamp_received(&socket)?;
    let mut buffer = [0; packet::BYTES];
    floor(|| {
        socket.send(&[0; packet::BYTES])?;
        look_until(|| stamped_socket::receive(&socket, &mut buffer, false).map(|received| received.is_some()))
    })
}

/// The responder's end.
#[derive(Debug)]
struct UdpResponder(UdpSocket);

impl Responder for UdpResponder {
    fn answer(&mut self, is_over: &AtomicBool, log: &mut Option<AnswerLog>, answered: &mut ResponderResult) -> io::Result<()> {
        let socket = &self.0;
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
}
