//! `ttcp`: sends bulk data by TCP over loopback (williams2002: TTCP).

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use tardy_run::parameter::Parameter;
use tardy_sys::process::{self, WaitResult};

use super::Unsupported;
use super::info::{ErrorContext, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::{Resolution, Resource};
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "ttcp",
    does: "sends an endless stream of data over a TCP connection on the loopback interface, to a \
           process that reads the data",
    effect: "the network's softirq work runs in long batches, on the sender's CPU",
    source: "williams2002",
    parameters: &[Parameter::bytes(
        "block",
        "bytes of each write call and each read call",
        "128KiB",
        1,
        1 << 24,
    )],
    can_do_harm: false,
    placement: Placement::EachCpu,
    uses_disk: false,
    rights: Rights::NONE,
    resolve,
    run: Run::Plain(run),
};

/// Default maximum size of the two socket buffers of a connection together, in bytes: 6 MiB to
/// receive (net.ipv4.tcp_rmem) and 4 MiB to send (tcp_wmem).
const SOCKET_BYTES: u64 = 10 << 20;

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let workers = resolution.workers();
    let block = resolution.fit("block", 2, Resource::Memory)?;
    // The load can run with a small share of memory, because the kernel shrinks the buffers when
    // memory is short.
    resolution.plan.budget.memory =
        (workers * (2 * block + SOCKET_BYTES)).min(resolution.share.memory);
    resolution.plan.budget.processes = 2 * workers;
    Ok(())
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let bytes = worker.number("block") as usize;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .doing("listen on the loopback interface (is `lo` up?)")?;
    let address = listener.local_addr().doing("ask for the port")?;
    process::fork(|| receive(&listener, bytes)).doing("fork the receiver")?;
    let mut stream = TcpStream::connect(address).doing("connect to the receiver")?;
    // The receiver has its own copy of the listener. If the sender kept its copy open, it would not
    // notice when the receiver ends.
    drop(listener);
    let block = vec![0x5a; bytes];
    while worker.go_on() {
        stream.write_all(&block).doing("send")?;
        worker.did(1, bytes as u64);
    }
    drop(stream);
    match process::reap_any(true).doing("reap the receiver")? {
        WaitResult::Ended(_, status) if status.success() => Ok(()),
        _ => {
            worker.failed();
            Ok(())
        }
    }
}

/// Runs in the other process: reads until the connection is closed.
fn receive(listener: &TcpListener, bytes: usize) -> i32 {
    if process::set_parent_death_signal(process::KILL).is_err() {
        return 1;
    }
    let Ok((mut stream, _)) = listener.accept() else {
        return 1;
    };
    let mut block = vec![0; bytes];
    loop {
        match stream.read(&mut block) {
            Ok(0) => return 0,
            Ok(_) => {}
            Err(_) => return 1,
        }
    }
}
