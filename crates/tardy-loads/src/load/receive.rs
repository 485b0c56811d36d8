//! `receive`: sends and receives an endless stream of small packets.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use tardy_core::units::Nanos;
use tardy_run::parameter::Parameter;
use tardy_sys::socket;

use super::Unsupported;
use super::info::{ErrorContext, Job, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::Resolution;
use super::veth::{self, Pair};
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "receive",
    does: "sends small UDP packets at full rate over a pair of virtual Ethernet devices, in new \
           network namespaces",
    effect: "the network's softirq handles a batch of packets at a time on the sender's CPU, which \
             runs nothing else meanwhile",
    source: "today",
    parameters: &[
        Parameter::bytes("size", "bytes of a packet", "64B", 1, 1400),
        Parameter::count("batch", "number of packets sent at once", "32", 1, 64),
        Parameter::choice(
            "over",
            "path of the packets: a pair of devices in new namespaces, or the loopback device",
            &["veth", "loopback"],
        ),
    ],
    can_do_harm: false,
    placement: Placement::EachCpu,
    uses_disk: false,
    rights: Rights::Nobody {
        keeps: &[],
        opens: "its network namespaces, with a socket in each",
    },
    resolve,
    run: Run::Prepared(prepare),
};

/// Kernel memory of a worker (two namespaces with a device each, and socket buffers), in bytes,
/// rounded up.
const WORKER_BYTES: u64 = 4 << 20;
/// Number of attempts to send the first packet. A new device takes a moment until it is up.
const FIRST_TRIES: u32 = 500;

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let workers = resolution.workers();
    // The load can run with a small share of memory, because the kernel shrinks the buffers when
    // memory is short.
    resolution.plan.budget.memory = (workers * WORKER_BYTES).min(resolution.share.memory);
    resolution.plan.budget.processes = workers;
    Ok(())
}

fn prepare(worker: &mut Worker) -> Result<Job, WorkError> {
    let (near, far) = ends(worker)?;
    Ok(Box::new(move |worker| run(worker, &near, &far)))
}

fn run(worker: &mut Worker, near: &UdpSocket, far: &UdpSocket) -> Result<(), WorkError> {
    let (size, batch) = (
        worker.number("size") as usize,
        worker.number("batch") as usize,
    );
    wait_for_first(worker, near, far)?;
    // Since Linux 4.18, the kernel cuts a large buffer into packets. Older kernels get each packet
    // separately.
    let is_cut_by_kernel = socket::send_in_segments(near, size as u16).is_ok();
    let data = vec![0x5a; size * batch];
    let mut block = vec![0; size];
    while worker.go_on() {
        let sent = if is_cut_by_kernel {
            near.send(&data).map(drop)
        } else {
            data.chunks(size)
                .try_for_each(|packet| near.send(packet).map(drop))
        };
        if sent.is_err() {
            worker.failed();
        }
        let mut received = 0;
        while received < batch as u64 && far.recv(&mut block).is_ok() {
            received += 1;
        }
        worker.did(received, received * size as u64);
    }
    Ok(())
}

/// Returns both ends of the connection. If the worker may not make namespaces, or there are no veth
/// devices, the ends are on the loopback device, and this is reported.
fn ends(worker: &mut Worker) -> Result<(UdpSocket, UdpSocket), WorkError> {
    if worker.plan.load.parameters.text("over") == "veth" {
        match Pair::make() {
            Ok(pair) => {
                return connected(veth::NEAR, || {
                    pair.in_far(|| UdpSocket::bind((veth::FAR, 0)))
                })
                .doing("open sockets at both ends");
            }
            Err(error) => worker.tell(format!(
                "a pair of virtual Ethernet devices in new namespaces is not available ({error}), \
                 so packets go over the loopback device; run as root on a kernel with \
                 CONFIG_VETH, built in or as a module; in the lab, add --module veth"
            )),
        }
    }
    connected(Ipv4Addr::LOCALHOST, || {
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
    })
    .doing("open sockets on the loopback device (is `lo` up?)")
}

fn connected(
    near: Ipv4Addr,
    far: impl FnOnce() -> io::Result<UdpSocket>,
) -> io::Result<(UdpSocket, UdpSocket)> {
    let far = far()?;
    let near = UdpSocket::bind((near, 0))?;
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    far.set_nonblocking(true)?;
    Ok((near, far))
}

fn wait_for_first(worker: &mut Worker, near: &UdpSocket, far: &UdpSocket) -> Result<(), WorkError> {
    for _ in 0..FIRST_TRIES {
        // The device refuses packets until it is up.
        let _ = near.send(&[0]);
        if far.recv(&mut [0; 1]).is_ok() || !worker.rest(Nanos::from_millis(2)) {
            return Ok(());
        }
    }
    Err(WorkError::Bound(
        "packets did not arrive within a second: does a packet filter drop them?".to_owned(),
    ))
}
