//! Makes a remote procedure call over the loopback device, to procedure 0 of the portmapper, which
//! does nothing (RFC 5531, RFC 1833).

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use tardy_run::cost::{CacheState, Group};

use crate::metric::{Metric, Unavailable, Work, repeated};

const PORTMAPPER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 111);
/// Maximum wait for an answer over loopback. After this time, the portmapper counts as absent.
const PATIENCE: Duration = Duration::from_secs(2);

/// The remote procedure call over UDP.
pub(super) const UDP: Metric = Metric {
    name: "rpc-udp-latency",
    group: Group::Communication,
    operation: "call the portmapper's procedure 0 over UDP and loopback",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_rpc -p udp localhost"),
    prepare: |_| over_udp().map_err(absent),
};

/// The remote procedure call over TCP.
pub(super) const TCP: Metric = Metric {
    name: "rpc-tcp-latency",
    group: Group::Communication,
    operation: "call the portmapper's procedure 0 over TCP and loopback",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_rpc -p tcp localhost"),
    prepare: |_| over_tcp().map_err(absent),
};

fn absent(error: io::Error) -> Unavailable {
    Unavailable::Missing {
        what: format!("the portmapper on {PORTMAPPER} does not answer ({error})"),
        remedy: "start rpcbind, or leave this metric out",
    }
}

fn over_udp() -> io::Result<Box<dyn Work>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(PORTMAPPER)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let (mut call, mut answer) = (Call::default(), [0; ANSWER_BYTES]);
    let mut once = move || {
        socket.send(call.next())?;
        let bytes = socket.recv(&mut answer)?;
        call.check(&answer[..bytes])
    };
    once()?;
    Ok(repeated(once))
}

fn over_tcp() -> io::Result<Box<dyn Work>> {
    let mut stream = TcpStream::connect_timeout(&PORTMAPPER, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let (mut call, mut answer) = (Call::default(), [0; MARK_BYTES + ANSWER_BYTES]);
    let mut once = move || {
        stream.write_all(call.next_marked())?;
        stream.read_exact(&mut answer)?;
        call.check(&answer[MARK_BYTES..])
    };
    once()?;
    Ok(repeated(once))
}

/// Size of a call without arguments and credentials: number, direction, RPC version, program,
/// version, procedure, credential, verifier.
const CALL_BYTES: usize = 40;
/// Size of an accepted answer without result: number, direction, acceptance, verifier, state.
const ANSWER_BYTES: usize = 24;
/// Size of the mark that precedes each record of a stream. The mark contains the record's length,
/// and a bit that marks the record's last part.
const MARK_BYTES: usize = 4;
const LAST_PART: u32 = 1 << 31;
const RPC_VERSION: u32 = 2;
const PORTMAPPER_PROGRAM: u32 = 100_000;
const PORTMAPPER_VERSION: u32 = 2;
/// Message type of an answer.
const REPLY: u32 = 1;

struct Call {
    number: u32,
    bytes: [u8; MARK_BYTES + CALL_BYTES],
}

impl Default for Call {
    fn default() -> Self {
        let mut bytes = [0; MARK_BYTES + CALL_BYTES];
        let words = [
            LAST_PART | CALL_BYTES as u32,
            0,
            0,
            RPC_VERSION,
            PORTMAPPER_PROGRAM,
            PORTMAPPER_VERSION,
        ];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        Self { number: 0, bytes }
    }
}

impl Call {
    fn next_marked(&mut self) -> &[u8] {
        self.number = self.number.wrapping_add(1);
        self.bytes[MARK_BYTES..][..4].copy_from_slice(&self.number.to_be_bytes());
        &self.bytes
    }

    fn next(&mut self) -> &[u8] {
        &self.next_marked()[MARK_BYTES..]
    }

    /// Checks that `answer` belongs to this call, and that the call was accepted and executed.
    fn check(&self, answer: &[u8]) -> io::Result<()> {
        let word = |index: usize| {
            answer
                .get(index * 4..index * 4 + 4)
                .and_then(|bytes| Some(u32::from_be_bytes(bytes.try_into().ok()?)))
        };
        let is_done = word(0) == Some(self.number)
            && word(1) == Some(REPLY)
            && word(2) == Some(0)
            && word(5) == Some(0);
        if is_done {
            Ok(())
        } else {
            Err(io::Error::other(
                "the portmapper's answer violates RFC 5531",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_laid_out_as_the_standard_has_it_and_only_its_own_answer_is_taken() {
        let mut call = Call::default();
        let sent = call.next().to_vec();
        assert_eq!(sent.len(), CALL_BYTES);
        assert_eq!(
            sent[..24],
            [
                0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0x86, 0xa0, 0, 0, 0, 2, 0, 0, 0, 0
            ]
        );
        assert_eq!(call.next_marked()[..8], [0x80, 0, 0, 40, 0, 0, 0, 2]);
        let mut answer = [0; ANSWER_BYTES];
        answer[3] = 2;
        answer[7] = 1;
        call.check(&answer).unwrap();
        assert!(call.check(&answer[..20]).is_err());
        // The first change makes the answer report SYSTEM_ERR; the second makes it answer another
        // call.
        for (place, value) in [(23, 5), (3, 1)] {
            let mut other = answer;
            other[place] = value;
            assert!(call.check(&other).is_err());
        }
    }
}
