//! Making and closing a connection over TCP and the loopback device.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::cost::metric::{CacheState, Group, Metric, Unavailable, repeated};
use crate::cost::peer::Peer;

/// The metric.
pub(super) const METRIC: Metric = Metric {
    name: "tcp-connect",
    group: Group::Communication,
    operation: "connection to a server over TCP and loopback, made and closed",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_connect localhost"),
    prepare: |_| {
        let (listener, server) = listening().map_err(Unavailable::system("listen on TCP"))?;
        let peer = Peer::start(move || {
            loop {
                drop(listener.accept()?);
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
