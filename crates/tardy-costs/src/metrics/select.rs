//! Asks which of 100 descriptors are ready: select(2) on descriptors of a file, and of a TCP
//! connection.
//!
//! As in LMbench, all descriptors are copies of a single descriptor (dup(2)). With 100 different
//! sockets, the metric would measure how they fill the cache.

use std::fs::File;
use std::hint::black_box;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use tardy_run::cost::{CacheState, Group};
use tardy_sys::select::DescriptorSet;

use crate::metric::{Metric, Place, Unavailable, Work, repeated};

const DESCRIPTORS: usize = 100;

/// select(2) on descriptors of a file.
pub(super) const FILES: Metric = Metric {
    name: "select-files",
    group: Group::Processor,
    operation: "call select on 100 descriptors of a file",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_select -n 100 file"),
    prepare: |place| {
        let path = place.scratch.join("selected");
        let open = || {
            File::options()
                .read(true)
                .append(true)
                .create(true)
                .open(&path)
                .map(OwnedFd::from)
        };
        selecting(open().map_err(Unavailable::system("open a file"))?, None)
    },
};

/// select(2) on descriptors of a TCP connection.
pub(super) const TCP: Metric = Metric {
    name: "select-tcp",
    group: Group::Processor,
    operation: "call select on 100 descriptors of one TCP connection",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_select -n 100 tcp"),
    prepare: connection,
};

fn connection(_: &Place) -> Result<Box<dyn Work>, Unavailable> {
    let connect = || -> std::io::Result<(OwnedFd, OwnedFd)> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let near = TcpStream::connect(listener.local_addr()?)?;
        Ok((near.into(), listener.accept()?.0.into()))
    };
    let (near, far) = connect().map_err(Unavailable::system("connect to itself over TCP"))?;
    selecting(near, Some(far))
}

/// Returns work that calls select on copies of `descriptor`. `kept` is not used, but stays open as
/// long as the work exists.
fn selecting(descriptor: OwnedFd, kept: Option<OwnedFd>) -> Result<Box<dyn Work>, Unavailable> {
    let copies: Result<Vec<_>, _> = (0..DESCRIPTORS).map(|_| descriptor.try_clone()).collect();
    let copies = copies.map_err(Unavailable::system("have 100 descriptors (ulimit -n)"))?;
    let set = DescriptorSet::new(copies.iter().map(AsFd::as_fd)).map_err(Unavailable::system(
        "use select on such high descriptor numbers",
    ))?;
    Ok(repeated(move || {
        let _open = (&copies, &kept);
        black_box(set.readable()?);
        Ok(())
    }))
}
