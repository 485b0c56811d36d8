//! Times round trips between two processes on one CPU. A message has one byte if it goes through a
//! pipe, a local socket or TCP, and four bytes if it goes through UDP.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;

use tardy_run::cost::{CacheState, Group};

use crate::metric::{Metric, Unavailable, Work, repeated};
use crate::peer::Peer;

pub(super) const PIPE: Metric = Metric {
    name: "pipe-latency",
    group: Group::Communication,
    operation: "send 1 byte to another process and back through two pipes",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_pipe"),
    prepare: |_| {
        let pipe = || io::pipe().map_err(Unavailable::system("make pipes"));
        let ((mut far_in, mut out), (mut back, mut far_out)) = (pipe()?, pipe()?);
        let peer = Peer::start(move || echo(&mut far_in, &mut far_out))?;
        Ok(repeated(move || {
            let _answers = &peer;
            there_and_back(&mut out, &mut back)
        }))
    },
};

/// Round trips through a local socket.
pub(super) const UNIX: Metric = Metric {
    name: "unix-latency",
    group: Group::Communication,
    operation: "send 1 byte to another process and back through AF_UNIX",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_unix"),
    prepare: |_| {
        let (near, far) =
            UnixStream::pair().map_err(Unavailable::system("make a pair of sockets"))?;
        let peer = Peer::start(move || echo(&mut &far, &mut &far))?;
        Ok(repeated(move || {
            let _answers = &peer;
            there_and_back(&mut &near, &mut &near)
        }))
    },
};

/// Round trips by UDP over the loopback device.
pub(super) const UDP: Metric = Metric {
    name: "udp-latency",
    group: Group::Communication,
    operation: "send 4 bytes to a server and back over UDP and loopback",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_udp localhost"),
    prepare: |_| udp().map_err(Unavailable::system("send to itself over UDP"))?,
};

/// Round trips by TCP over the loopback device.
pub(super) const TCP: Metric = Metric {
    name: "tcp-latency",
    group: Group::Communication,
    operation: "send 1 byte to a server and back over TCP and loopback",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_tcp localhost"),
    prepare: |_| {
        let (near, far) = tcp_pair().map_err(Unavailable::system("connect to itself over TCP"))?;
        let peer = Peer::start(move || echo(&mut &far, &mut &far))?;
        Ok(repeated(move || {
            let _answers = &peer;
            there_and_back(&mut &near, &mut &near)
        }))
    },
};

/// Returns both ends of a local connection: the client's end and the server's.
pub(super) fn tcp_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok((near, far))
}

fn udp() -> io::Result<Result<Box<dyn Work>, Unavailable>> {
    let (near, far) = (
        UdpSocket::bind("127.0.0.1:0")?,
        UdpSocket::bind("127.0.0.1:0")?,
    );
    near.connect(far.local_addr()?)?;
    // The server learns the client's address from each datagram.
    let peer = Peer::start(move || {
        let mut message = [0; 4];
        loop {
            let (bytes, who) = far.recv_from(&mut message)?;
            far.send_to(&message[..bytes], who)?;
        }
    });
    Ok(peer.map(|peer| {
        let mut message = [0; 4];
        repeated(move || {
            let _answers = &peer;
            near.send(&message)?;
            near.recv(&mut message).map(drop)
        })
    }))
}

fn echo(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut byte = [0];
    loop {
        from.read_exact(&mut byte)?;
        to.write_all(&byte)?;
    }
}

fn there_and_back(to: &mut impl Write, from: &mut impl Read) -> io::Result<()> {
    let mut byte = [0];
    to.write_all(&byte)?;
    from.read_exact(&mut byte)
}
