//! `udp`: datagrams with the kernel's receive stamps at both ends.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use tardy_core::units::Nanos;
use tardy_sys::{clock, stamped_socket};

use super::exchange::{Answer, Initiator, NetworkFloor, floor, look_until, network_floor};
use super::packet::{self, Kind, Packet};

/// How often, and how long each time, a responder is asked whether it is there.
const HELLOS: u64 = 5;
const HELLO_WAIT: Duration = Duration::from_millis(200);

/// The initiator's end.
#[derive(Debug)]
pub struct UdpInitiator {
    socket: UdpSocket,
    conversation: u64,
}

/// What is known of the other end before the first stimulus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Whether it is on this very machine.
    pub is_here: bool,
    /// The least that a round trip can come to: one through this machine's loopback interface.
    pub floor: NetworkFloor,
}

/// The first address of `host`.
///
/// # Errors
/// Where the name is not known.
pub fn address(host: &str, port: u16) -> io::Result<SocketAddr> {
    (host, port).to_socket_addrs()?.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
}

impl UdpInitiator {
    /// Connects, and asks whether a responder is there.
    ///
    /// # Errors
    /// `TimedOut` or `ConnectionRefused` where none is; those of the name and of sockets.
    pub fn connect(host: &str, port: u16) -> io::Result<(Self, Peer)> {
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
