//! Asks, as servers do, which of 100 connections have something to read: epoll_pwait2(2).

use std::hint::black_box;
use std::io;
use std::os::fd::AsFd;

use tardy_run::cost::{CacheState, Group};
use tardy_sys::epoll::Epoll;

use super::round_trip::tcp_pair;
use crate::metric::{Metric, Unavailable, Work, repeated};

const CONNECTIONS: usize = 100;

pub(super) const METRIC: Metric = Metric {
    name: "epoll-tcp",
    group: Group::Today,
    operation: "call epoll_pwait2 on 100 TCP connections that have nothing to read",
    bytes: None,
    state: CacheState::Warm,
    lmbench: None,
    prepare: |_| {
        watching().map_err(Unavailable::system(
            "watch 100 TCP connections over loopback",
        ))
    },
};

fn watching() -> io::Result<Box<dyn Work>> {
    let set = Epoll::new()?;
    let connections = (0..CONNECTIONS)
        .map(|_| tcp_pair())
        .collect::<io::Result<Vec<_>>>()?;
    for (near, _) in &connections {
        set.add_readable(near.as_fd(), 0)?;
    }
    Ok(repeated(move || {
        let _open = &connections;
        black_box(set.wait(Some(0))?);
        Ok(())
    }))
}
