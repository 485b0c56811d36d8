//! `udp`: datagrams with the kernel's receive time stamps at both ends.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use tardy_core::units::Nanos;
use tardy_sys::{clock, stamped_socket};

use super::exchange::{Answer, Initiator, NetworkFloor, floor, look_until, network_floor};
use super::initiation::{Answers, Initiation};
use super::packet::{self, Kind, Packet};
use super::respond::Responder;
use super::secret::Secret;
use super::stamp::on_the_runs_clock;
use super::udp_responder::UdpResponder;
use super::{LinkInfo, NAME_REMEDY, ParseLinkError, Place};

pub(super) const INFO: LinkInfo = LinkInfo {
    name: "udp",
    form: "HOST[:PORT]",
    example: "board7",
    carries: "datagrams, timestamped by the kernel at both ends",
    answered_by: "`tardy respond udp:ADDRESS`",
    parse,
};

/// Default port.
const PORT: u16 = 5_455;

/// Number of attempts to reach a responder, and the time-out of each.
const HELLOS: u64 = 5;
const HELLO_WAIT: Duration = Duration::from_millis(200);

/// Address of the other machine. On the responder's side, this is the address at which it listens.
#[derive(Debug)]
struct HostAndPort {
    /// Host name or IP address.
    host: String,
    port: u16,
    secret: Option<Secret>,
}

/// Parses `HOST`, `HOST:PORT`, `[V6]` or `[V6]:PORT`.
fn parse(place: &str) -> Result<Arc<dyn Place>, ParseLinkError> {
    let (host, port) = match place
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => place
            .split_once(':')
            .map_or((place, None), |(host, port)| (host, Some(port))),
    };
    let number = |port: &str| {
        let port_of = port.parse().ok().filter(|&port| port > 0);
        port_of.ok_or_else(|| {
            ParseLinkError::BadPlace(format!(
                "`{port}` is not a port: write a number from 1 to 65535"
            ))
        })
    };
    Ok(Arc::new(HostAndPort {
        host: host.to_owned(),
        port: port.map_or(Ok(PORT), number)?,
        secret: None,
    }))
}

impl fmt::Display for HostAndPort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, .. } = self;
        if host.contains(':') {
            write!(formatter, "[{host}]:{port}")
        } else {
            write!(formatter, "{host}:{port}")
        }
    }
}

impl Place for HostAndPort {
    fn initiate(&self) -> io::Result<Initiation> {
        let (initiator, peer) = UdpInitiator::connect(&self.host, self.port, self.secret.as_ref())?;
        Ok(Initiation {
            is_external: !peer.is_here,
            answers: Answers::OfAProcessThatTells,
            ..Initiation::new(initiator, peer.floor)
        })
    }

    fn respond(&self) -> io::Result<Box<dyn Responder>> {
        Ok(Box::new(UdpResponder::bind(
            address(&self.host, self.port)?,
            self.secret.as_ref(),
        )?))
    }

    fn with_secret(&self, secret: Secret) -> Option<Arc<dyn Place>> {
        Some(Arc::new(Self {
            host: self.host.clone(),
            port: self.port,
            secret: Some(secret),
        }))
    }

    fn responders_note(&self) -> Option<&'static str> {
        let is_everywhere =
            address(&self.host, self.port).is_ok_and(|address| address.ip().is_unspecified());
        (is_everywhere && self.secret.is_none()).then_some(
            "the responder listens on all addresses of this machine and, without a secret, answers \
             any peer: give one address, as in udp:192.0.2.7, or give --secret FILE",
        )
    }

    fn remedy(&self, error: &io::Error) -> &'static str {
        match error.kind() {
            io::ErrorKind::NotFound => NAME_REMEDY,
            io::ErrorKind::InvalidData => {
                "give both ends the same file: `tardy respond --secret FILE` there, `--probe \
                 response:secret=FILE:udp:HOST` here"
            }
            io::ErrorKind::TimedOut => {
                "run `tardy respond udp:ADDRESS:PORT` there; a running responder accepts another \
                 peer after 5 s of silence"
            }
            _ => "run `tardy respond udp:ADDRESS:PORT` there",
        }
    }

    fn has_stamps(&self) -> bool {
        true
    }
}

/// The initiator's end of the link.
#[derive(Debug)]
struct UdpInitiator {
    socket: UdpSocket,
    conversation: u64,
}

/// What is known about the other end before the first stimulus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Peer {
    /// Whether the other end is on this machine.
    is_here: bool,
    /// The lower bound of a round trip, which is measured through this machine's loopback
    /// interface.
    floor: NetworkFloor,
}

/// Returns the first address of `host`.
///
/// # Errors
/// Returns an error if the name is unknown.
pub(super) fn address(host: &str, port: u16) -> io::Result<SocketAddr> {
    (host, port)
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
}

impl UdpInitiator {
    /// Connects, and asks whether a responder is present.
    ///
    /// # Errors
    /// Returns `TimedOut` or `ConnectionRefused` if no responder is present; `InvalidData` if the
    /// two ends do not know the same secret; or an error if the name cannot be resolved or a socket
    /// fails.
    fn connect(host: &str, port: u16, secret: Option<&Secret>) -> io::Result<(Self, Peer)> {
        let to = address(host, port)?;
        let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
        socket.connect(to)?;
        stamped_socket::stamp_received(&socket)?;
        let conversation = (clock::realtime() ^ clock::monotonic().rotate_left(32)) as u64
            ^ u64::from(std::process::id());
        let drawn = secret.map(|_| Secret::drawn()).transpose()?;
        // With a secret, the responder recognises the peer by the conversation's number, so the
        // number must not be guessable.
        let mut initiator = Self {
            socket,
            conversation: drawn.map_or(conversation, |drawn| drawn.number()),
        };
        let machine = initiator.hello(secret)?;
        let floor = network_floor(own_floor)?;
        Ok((
            initiator,
            Peer {
                is_here: machine == packet::this_machine(),
                floor,
            },
        ))
    }

    /// Asks until a responder answers; with a secret, until both ends have proved that they know
    /// it. Returns the digest of the responder's machine.
    fn hello(&mut self, secret: Option<&Secret>) -> io::Result<u64> {
        let mut buffer = [0; packet::TAGGED_BYTES + 1];
        self.socket.set_read_timeout(Some(HELLO_WAIT))?;
        let mut error = io::Error::new(io::ErrorKind::TimedOut, "no answer");
        for number in 0..HELLOS {
            self.socket
                .send(&self.packet(Kind::Hello, number).encode())?;
            match self.socket.recv(&mut buffer) {
                Ok(bytes) => match (self.own(&buffer[..bytes]), secret) {
                    (
                        Some(Packet {
                            kind: Kind::Answer,
                            machine,
                            ..
                        }),
                        None,
                    ) => return Ok(machine),
                    (
                        Some(Packet {
                            kind: Kind::Answer, ..
                        }),
                        Some(_),
                    ) => {
                        return Err(io::Error::new(
                            io::ErrorKind::InvalidData,
                            "the responder there has no secret",
                        ));
                    }
                    (
                        Some(Packet {
                            kind: Kind::Challenge,
                            ..
                        }),
                        None,
                    ) => {
                        return Err(io::Error::new(
                            io::ErrorKind::InvalidData,
                            "the responder there requires a secret",
                        ));
                    }
                    (
                        Some(
                            challenge @ Packet {
                                kind: Kind::Challenge,
                                ..
                            },
                        ),
                        Some(secret),
                    ) => match self.show(challenge, secret)? {
                        Some(machine) => return Ok(machine),
                        None => {
                            error = io::Error::new(
                                io::ErrorKind::InvalidData,
                                "the responder there has a different secret",
                            )
                        }
                    },
                    _ => {}
                },
                Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => {
                    error = refused;
                    std::thread::sleep(HELLO_WAIT);
                }
                Err(_) => {}
            }
        }
        Err(error)
    }

    /// Proves to the responder that this end knows the secret, and checks the responder's proof.
    /// Returns the digest of the responder's machine; `None` if the proof fails.
    fn show(&self, challenge: Packet, secret: &Secret) -> io::Result<Option<u64>> {
        let opening = Packet {
            kind: Kind::Opening,
            ..challenge
        };
        self.socket.send(&opening.tagged(secret))?;
        let mut buffer = [0; packet::TAGGED_BYTES + 1];
        let Ok(bytes) = self.socket.recv(&mut buffer) else {
            return Ok(None);
        };
        let is_to_it = |opened: &Packet| {
            Packet {
                kind: Kind::Opening,
                machine: opening.machine,
                ..*opened
            } == opening
        };
        let opened = Packet::decode_tagged(&buffer[..bytes], secret)
            .filter(|opened| opened.kind == Kind::Opened && is_to_it(opened));
        Ok(opened.map(|opened| opened.machine))
    }

    fn packet(&self, kind: Kind, number: u64) -> Packet {
        Packet {
            kind,
            conversation: self.conversation,
            number,
            in_responder: Nanos::ZERO,
            machine: 0,
        }
    }

    /// Decodes a packet of this conversation.
    fn own(&self, bytes: &[u8]) -> Option<Packet> {
        Packet::decode(bytes).filter(|packet| packet.conversation == self.conversation)
    }
}

impl Initiator for UdpInitiator {
    #[inline]
    fn send(&mut self, number: u64) -> io::Result<()> {
        self.socket
            .send(&self.packet(Kind::Stimulus, number).encode())
            .map(drop)
    }

    #[inline]
    fn look(&mut self) -> io::Result<Option<Answer>> {
        let mut buffer = [0; packet::BYTES + 1];
        let Some(received) = stamped_socket::receive(&self.socket, &mut buffer, false)? else {
            return Ok(None);
        };
        let Some(packet) = self
            .own(&buffer[..received.bytes])
            .filter(|packet| packet.kind == Kind::Answer)
        else {
            return Ok(None);
        };
        let stamp = received.stamp.map(on_the_runs_clock);
        let in_responder = Some(packet.in_responder).filter(|&time| time >= Nanos::ZERO);
        Ok(Some(Answer {
            number: packet.number,
            received: stamp,
            in_responder,
        }))
    }
}

/// Measures the lower bound of a round trip: a socket sends a datagram to itself, and polls until
/// it arrives.
fn own_floor() -> io::Result<Nanos> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(socket.local_addr()?)?;
    stamped_socket::stamp_received(&socket)?;
    let mut buffer = [0; packet::BYTES];
    floor(|| {
        socket.send(&[0; packet::BYTES])?;
        look_until(|| {
            stamped_socket::receive(&socket, &mut buffer, false).map(|received| received.is_some())
        })
    })
}
