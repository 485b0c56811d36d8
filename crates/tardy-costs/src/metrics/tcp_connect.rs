//! Opens and closes a TCP connection over the loopback device.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};

use tardy_run::cost::{CacheState, Group};
use tardy_sys::affinity;

use crate::metric::{Metric, Unavailable, repeated};
use crate::peer::Peer;

pub(super) const METRIC: Metric = Metric {
    name: "tcp-connect",
    group: Group::Communication,
    operation: "open and close a TCP connection over loopback (server on another CPU, if there is \
                one)",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_connect localhost"),
    prepare: |place| {
        let (listener, server) = listening().map_err(Unavailable::system("listen on TCP"))?;
        let elsewhere = place.other_cpu;
        let peer = Peer::start(move || {
            // If the server shared the client's CPU, it could run so late that the queue of
            // connections becomes full; the kernel then drops connections, and the client retries
            // them after a second.
            if let Some(other) = elsewhere {
                affinity::set(0, &[other.0])?;
            }
            loop {
                // Like LMbench's server, this one waits until the client has closed its end.
                let (mut connection, _) = listener.accept()?;
                while connection.read(&mut [0; 16]).is_ok_and(|bytes| bytes > 0) {}
            }
        })?;
        Ok(repeated(move || {
            let _accepts = &peer;
            TcpStream::connect(server).map(drop)
        }))
    },
};

fn listening() -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
