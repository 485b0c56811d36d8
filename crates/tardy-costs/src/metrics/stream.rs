//! Measures the bandwidth from one process to another on one CPU, through pipes, local sockets and
//! TCP.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use tardy_core::units::Nanos;
use tardy_run::cost::{CacheState, Group};
use tardy_sys::clock;

use super::big_file::PORTION_BYTES;
use super::round_trip::tcp_pair;
use crate::metric::{Metric, Unavailable, Work};
use crate::peer::Peer;

pub(super) const PIPE: Metric = Metric {
    name: "pipe-bandwidth",
    group: Group::Bandwidth,
    operation: "receive 64 KiB from another process through a pipe",
    bytes: Some(PORTION_BYTES as u64),
    state: CacheState::Warm,
    lmbench: Some("bw_pipe"),
    prepare: |_| {
        let (near, far) = io::pipe().map_err(Unavailable::system("make a pipe"))?;
        stream(near, far)
    },
};

/// A stream through a local socket.
pub(super) const UNIX: Metric = Metric {
    name: "unix-bandwidth",
    group: Group::Bandwidth,
    operation: "receive 64 KiB from another process through AF_UNIX",
    bytes: Some(PORTION_BYTES as u64),
    state: CacheState::Warm,
    lmbench: Some("bw_unix"),
    prepare: |_| {
        let (near, far) =
            UnixStream::pair().map_err(Unavailable::system("make a pair of sockets"))?;
        stream(near, far)
    },
};

pub(super) const TCP: Metric = Metric {
    name: "tcp-bandwidth",
    group: Group::Bandwidth,
    operation: "receive 64 KiB from another process over TCP and loopback",
    bytes: Some(PORTION_BYTES as u64),
    state: CacheState::Warm,
    lmbench: Some("bw_tcp localhost"),
    prepare: |_| {
        let (near, far) = tcp_pair().map_err(Unavailable::system("connect to itself over TCP"))?;
        stream(near, far)
    },
};

struct Stream<R> {
    from: R,
    buffer: Vec<u8>,
    /// Number of bytes that the last read returned beyond the requested ones.
    ahead: u64,
    _writes: Peer,
}

fn stream<R: Read + 'static>(
    from: R,
    mut to: impl Write + 'static,
) -> Result<Box<dyn Work>, Unavailable> {
    let writes = Peer::start(move || {
        let portion = vec![1; PORTION_BYTES];
        loop {
            to.write_all(&portion)?;
        }
    })?;
    Ok(Box::new(Stream {
        from,
        buffer: vec![0; PORTION_BYTES],
        ahead: 0,
        _writes: writes,
    }))
}

impl<R: Read> Work for Stream<R> {
    fn run(&mut self, operations: u64) -> io::Result<Nanos> {
        let wanted = operations * PORTION_BYTES as u64;
        let mut done = self.ahead.min(wanted);
        let ahead = self.ahead - done;
        let begin = clock::monotonic();
        while done < wanted {
            match self.from.read(&mut self.buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => done += bytes as u64,
            }
        }
        let took = clock::monotonic() - begin;
        self.ahead = ahead + (done - wanted);
        Ok(Nanos(took))
    }
}
