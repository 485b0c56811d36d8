//! `icmp`: sends echo requests, which the other machine's kernel answers in softirq. The other
//! machine needs no special software, and no process on it has to wake up.

use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use tardy_machine::root::Root;
use tardy_sys::socket::{self, EchoKind};
use tardy_sys::{clock, stamped_socket};

use super::exchange::{Answer, Initiator, NetworkFloor, floor, look_until, network_floor};
use super::initiation::{Answers, Initiation};
use super::respond::Responder;
use super::stamp::on_the_runs_clock;
use super::udp::address;
use super::{LinkInfo, NAME_REMEDY, Place, route};

pub(super) const INFO: LinkInfo = LinkInfo {
    name: "icmp",
    form: "HOST",
    example: "board7",
    carries: "echo requests over IPv4, timestamped by the kernel",
    answered_by: "the other machine's kernel, in softirq",
    parse: |host| Ok(Arc::new(Host(host.to_owned()))),
};

const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
/// Length of the ICMP header: type, code, checksum, identifier, sequence number (RFC 792). The
/// numbers of the conversation and of the stimulus follow the header, and the other machine returns
/// them unchanged.
const HEADER_BYTES: usize = 8;
const PACKET_BYTES: usize = HEADER_BYTES + 16;
/// Length of the longest IPv4 header.
const IP_HEADER_MAX: usize = 60;
const HELLOS: u64 = 5;
const HELLO_WAIT: Duration = Duration::from_millis(200);

/// The other machine's name or address.
#[derive(Debug)]
struct Host(String);
impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Place for Host {
    fn initiate(&self) -> io::Result<Initiation> {
        let (initiator, to, floor) = IcmpInitiator::connect(&self.0)?;
        let is_external = route::leads_outside(&Root::system(), to.ip());
        Ok(Initiation {
            is_external,
            answers: Answers::OfTheKernel,
            ..Initiation::new(initiator, floor)
        })
    }

    fn respond(&self) -> io::Result<Box<dyn Responder>> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the other machine's kernel answers by itself, without a responder",
        ))
    }

    fn remedy(&self, error: &io::Error) -> &'static str {
        match error.kind() {
            io::ErrorKind::NotFound => NAME_REMEDY,
            io::ErrorKind::PermissionDenied => {
                "run as root, or add your group to sysctl net.ipv4.ping_group_range"
            }
            _ => "does the host answer ping?",
        }
    }
}

/// The initiator's end of the link.
#[derive(Debug)]
struct IcmpInitiator {
    socket: UdpSocket,
    kind: EchoKind,
    conversation: u64,
}

impl IcmpInitiator {
    /// Checks that the host answers. Returns its address, and the lower bound of a round trip. The
    /// bound is measured through the loopback interface.
    ///
    /// # Errors
    /// Returns `TimedOut` if the host does not answer; EPERM or EACCES without the right to send
    /// echo requests; or an error if the name cannot be resolved.
    fn connect(host: &str) -> io::Result<(Self, SocketAddr, NetworkFloor)> {
        let floor = network_floor(|| {
            let mut floor_of = Self::new(SocketAddr::from(([127, 0, 0, 1], 0)))?;
            floor(|| {
                floor_of.send(0)?;
                look_until(|| floor_of.look().map(|answer| answer.is_some()))
            })
        })?;
        let to = address(host, 0)?;
        if !to.is_ipv4() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "echo requests are sent over IPv4: give an IPv4 address",
            ));
        }
        let mut initiator = Self::new(to)?;
        for number in 0..HELLOS {
            initiator.send(number)?;
            let begin = clock::monotonic();
            while clock::monotonic() - begin < HELLO_WAIT.as_nanos() as i64 {
                if initiator.look()?.is_some() {
                    return Ok((initiator, to, floor));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "no answer"))
    }

    fn new(to: SocketAddr) -> io::Result<Self> {
        let (socket, kind) = socket::echo()?;
        socket.connect(to)?;
        stamped_socket::stamp_received(&socket)?;
        let conversation = (clock::realtime() ^ clock::monotonic().rotate_left(32)) as u64;
        Ok(Self {
            socket,
            kind,
            conversation,
        })
    }

    fn request(&self, number: u64) -> [u8; PACKET_BYTES] {
        let mut packet = [0; PACKET_BYTES];
        packet[0] = ECHO_REQUEST;
        // If the socket is a ping socket, the kernel replaces the identifier with its own. If it is
        // a raw socket, this identifier is sent. In both cases, the initiator recognises answers by
        // the number of the conversation.
        packet[4..6].copy_from_slice(&(std::process::id() as u16).to_be_bytes());
        packet[6..8].copy_from_slice(&(number as u16).to_be_bytes());
        packet[8..16].copy_from_slice(&self.conversation.to_le_bytes());
        packet[16..24].copy_from_slice(&number.to_le_bytes());
        let sum = checksum(&packet);
        packet[2..4].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    fn answered(&self, bytes: &[u8]) -> Option<u64> {
        let header = match self.kind {
            EchoKind::Ping => 0,
            // The low half of the first byte is the header's length in units of 4 bytes (RFC 791).
            EchoKind::Raw => bytes
                .first()
                .map_or(0, |first| usize::from(first & 0x0f) * 4),
        };
        let packet = bytes.get(header..header + PACKET_BYTES)?;
        let is_own = packet[0] == ECHO_REPLY && packet[8..16] == self.conversation.to_le_bytes();
        let number = packet[16..].first_chunk::<8>()?;
        is_own.then(|| u64::from_le_bytes(*number))
    }
}

impl Initiator for IcmpInitiator {
    #[inline]
    fn send(&mut self, number: u64) -> io::Result<()> {
        self.socket.send(&self.request(number)).map(drop)
    }

    #[inline]
    fn look(&mut self) -> io::Result<Option<Answer>> {
        let mut buffer = [0; IP_HEADER_MAX + PACKET_BYTES];
        let Some(received) = stamped_socket::receive(&self.socket, &mut buffer, false)? else {
            return Ok(None);
        };
        let answer = |number| Answer {
            number,
            received: received.stamp.map(on_the_runs_clock),
            in_responder: None,
        };
        Ok(self.answered(&buffer[..received.bytes]).map(answer))
    }
}

/// Returns the Internet checksum (RFC 1071) of a packet of even length whose checksum field is
/// zero.
fn checksum(packet: &[u8]) -> u16 {
    let mut sum: u32 = packet
        .chunks_exact(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_core::units::Nanos;

    #[test]
    fn the_own_kernel_answers_each_request_by_its_number() {
        let (mut initiator, to, floor) = match IcmpInitiator::connect("127.0.0.1") {
            Ok(connected) => connected,
            Err(error) => return assert!(matches!(error.raw_os_error(), Some(1 | 13)), "{error}"),
        };
        assert!(to.ip().is_loopback() && floor.time > Nanos::ZERO);
        for number in [7, 70_000] {
            initiator.send(number).unwrap();
            let answer = loop {
                if let Some(answer) = initiator.look().unwrap() {
                    break answer;
                }
            };
            assert_eq!(answer.number, number);
            assert!(answer.received.unwrap() <= Nanos(clock::monotonic()));
        }
    }

    #[test]
    fn the_checksum_of_the_rfc_is_computed() {
        // RFC 1071, section 3: the sum of these words is ddf2.
        assert_eq!(
            checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            !0xddf2
        );
    }
}
