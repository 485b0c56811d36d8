//! `ping-flood`: sends echo requests to the loopback address as fast as answers arrive
//! (koolwal2009: ping flood to localhost).

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use tardy_run::parameter::Parameter;
use tardy_sys::socket::{self, EchoKind};

use super::Unsupported;
use super::info::{ErrorContext, Job, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::Resolution;
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "ping-flood",
    does: "sends ICMP echo requests to its own address in 127.0.0.0/8 without pause, and waits for \
           each answer",
    effect: "each request and each answer causes a network softirq",
    source: "koolwal2009",
    parameters: &[Parameter::bytes(
        "size",
        "bytes of data in each request, like ping's -s",
        "56B",
        8,
        60_000,
    )],
    can_do_harm: false,
    placement: Placement::EachCpu,
    uses_disk: false,
    rights: Rights::Nobody {
        keeps: &[],
        opens: "a socket for echo requests to its own address",
    },
    resolve,
    run: Run::Prepared(prepare),
};

const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
/// Length of an echo header: type, code, checksum, identifier, sequence number (RFC 792).
const HEADER_BYTES: usize = 8;
/// Length of the longest IPv4 header.
const IP_HEADER_MAX: usize = 60;
/// Maximum wait for an answer. An answer from the same machine arrives sooner, unless it was
/// dropped.
const ANSWER_LIMIT: Duration = Duration::from_millis(100);

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    socket::echo().map_err(|error| {
        let remedy = "run as root, or add your group to sysctl net.ipv4.ping_group_range";
        Unsupported::new(format!("the right to send echo requests ({error})"), remedy)
    })?;
    resolution.plan.budget.processes = resolution.workers();
    Ok(())
}

fn prepare(worker: &mut Worker) -> Result<Job, WorkError> {
    let (socket, kind) = socket::echo().doing("open an echo socket")?;
    socket
        .connect(SocketAddrV4::new(own_address(worker.plan.index), 0))
        .doing("connect to the loopback address (is `lo` up?)")?;
    socket
        .set_read_timeout(Some(ANSWER_LIMIT))
        .doing("set the time limit for answers")?;
    let flood = Flood::new(socket, kind, worker.number("size") as usize);
    Ok(Box::new(|worker| run(worker, flood)))
}

fn run(worker: &mut Worker, mut flood: Flood) -> Result<(), WorkError> {
    let bytes = flood.request.len() as u64;
    while worker.go_on() {
        if flood.once() {
            worker.did(1, bytes);
        } else {
            worker.failed();
        }
    }
    Ok(())
}

/// Returns a loopback address for the worker with this index; all of 127.0.0.0/8 belongs to the
/// loopback interface. A raw socket receives every packet from the address that it is connected to,
/// so workers that share an address would receive each other's answers.
fn own_address(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(
        127,
        0,
        1 + (index / 250 % 250) as u8,
        1 + (index % 250) as u8,
    )
}

struct Flood {
    socket: UdpSocket,
    kind: EchoKind,
    identifier: u16,
    sequence: u16,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Flood {
    fn new(socket: UdpSocket, kind: EchoKind, data_bytes: usize) -> Self {
        // A raw socket also receives the answers to other programs. The worker recognises its own
        // answers by the identifier, the low half of the process number.
        let identifier = std::process::id() as u16;
        let mut request = vec![0x5a; HEADER_BYTES + data_bytes];
        request[0] = ECHO_REQUEST;
        request[1] = 0;
        let answer = vec![0; request.len() + IP_HEADER_MAX];
        Self {
            socket,
            kind,
            identifier,
            sequence: 0,
            request,
            answer,
        }
    }

    /// Sends a request and waits for its answer. Returns whether the answer arrived.
    fn once(&mut self) -> bool {
        self.sequence = self.sequence.wrapping_add(1);
        self.request[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        self.request[6..8].copy_from_slice(&self.sequence.to_be_bytes());
        self.request[2..4].fill(0);
        let sum = checksum(&self.request);
        self.request[2..4].copy_from_slice(&sum.to_be_bytes());
        if self.socket.send(&self.request).is_err() {
            return false;
        }
        loop {
            match self.socket.recv(&mut self.answer) {
                Ok(count) if self.is_own_answer(count) => return true,
                // The packet is another program's, or the worker's own request on its way through
                // the loopback interface.
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    fn is_own_answer(&self, count: usize) -> bool {
        let packet = &self.answer[..count];
        let header = match self.kind {
            EchoKind::Ping => 0,
            // The low half of the first byte is the header's length in units of 4 bytes (RFC 791).
            EchoKind::Raw => packet
                .first()
                .map_or(0, |first| usize::from(first & 0x0f) * 4),
        };
        let Some(packet) = packet.get(header..header + HEADER_BYTES) else {
            return false;
        };
        let own = self.kind == EchoKind::Ping || packet[4..6] == self.identifier.to_be_bytes();
        packet[0] == ECHO_REPLY && own && packet[6..8] == self.sequence.to_be_bytes()
    }
}

/// Returns the Internet checksum (RFC 1071) of a packet whose checksum field is zero.
fn checksum(packet: &[u8]) -> u16 {
    let words = packet
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_the_rfc_is_computed() {
        // RFC 1071, section 3: the sum of these words is ddf2.
        assert_eq!(
            checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            !0xddf2
        );
        assert_eq!(checksum(&[0x12]), !0x1200);
    }

    #[test]
    fn only_the_own_answer_counts() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut flood = Flood::new(socket, EchoKind::Raw, 8);
        (flood.identifier, flood.sequence) = (0x1234, 7);
        let mut packet = vec![0; 36];
        packet[0] = 0x45;
        packet[20..28].copy_from_slice(&[ECHO_REPLY, 0, 0, 0, 0x12, 0x34, 0, 7]);
        flood.answer[..36].copy_from_slice(&packet);
        assert!(flood.is_own_answer(36));
        for (index, value) in [(20, ECHO_REQUEST), (24, 0x13), (27, 8)] {
            let mut other = packet.clone();
            other[index] = value;
            flood.answer[..36].copy_from_slice(&other);
            assert!(!flood.is_own_answer(36), "byte {index}");
        }
        assert!(!flood.is_own_answer(10));
    }
}
