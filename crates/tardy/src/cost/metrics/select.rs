//! Asking which of 100 descriptors are ready: select(2) on files, and on connections of TCP.

use std::fs::File;
use std::hint::black_box;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use tardy_sys::select::DescriptorSet;

use crate::cost::metric::{CacheState, Group, Metric, Place, Unavailable, Work, repeated};

const DESCRIPTORS: usize = 100;

/// On files.
pub(super) const FILES: Metric = Metric {
    name: "select-files",
    group: Group::Processor,
    operation: "select on 100 files",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_select -n 100 file"),
    prepare: |place| {
        let path = place.scratch.join("selected");
        let open = || File::options().read(true).append(true).create(true).open(&path).map(OwnedFd::from);
        let files: Result<Vec<_>, _> = (0..DESCRIPTORS).map(|_| open()).collect();
        selecting(files.map_err(Unavailable::system("open 100 files"))?, Vec::new())
    },
};

/// On connections.
pub(super) const TCP: Metric = Metric {
    name: "select-tcp",
    group: Group::Processor,
    operation: "select on 100 connections of TCP",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_select -n 100 tcp"),
    prepare: connections,
};

fn connections(_: &Place) -> Result<Box<dyn Work>, Unavailable> {
    let connect = || -> std::io::Result<(Vec<OwnedFd>, Vec<OwnedFd>)> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for _ in 0..DESCRIPTORS {
            near.push(TcpStream::connect(listener.local_addr()?)?.into());
            far.push(listener.accept()?.0.into());
        }
        Ok((near, far))
    };
    let (near, far) = connect().map_err(Unavailable::system("connect 100 times to itself over TCP"))?;
    selecting(near, far)
}

/// `kept` are only held open.
fn selecting(descriptors: Vec<OwnedFd>, kept: Vec<OwnedFd>) -> Result<Box<dyn Work>, Unavailable> {
    let set = DescriptorSet::new(descriptors.iter().map(AsFd::as_fd)).map_err(Unavailable::system("select on so high descriptors"))?;
    Ok(repeated(move || {
        let _open = (&descriptors, &kept);
        black_box(set.readable()?);
        Ok(())
    }))
}
