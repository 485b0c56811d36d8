//! `hackbench`: groups of senders and receivers (koolwal2009: hackbench 30). Own implementation, with the parameters of rt-tests' program.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use tardy_core::units::Nanos;
use tardy_run::parameter::Parameter;
use tardy_sys::process::{self, Reaped};
use tardy_sys::rlimit::{self, Resource as Limit};

use super::gate::Gate;
use super::info::{Doing, LoadInfo, Placement, WorkError};
use super::plan::{Absent, Resolution};
use super::worker::Worker;

/// The load.
pub const INFO: LoadInfo = LoadInfo {
    name: "hackbench",
    does: "groups of senders and receivers, each sender writing small messages to each receiver of its group; over and over",
    hurts: "hundreds of tasks that wake each other, and a scheduler that moves them among CPUs",
    source: "koolwal2009",
    parameters: &[
        Parameter::count("groups", "groups of tasks", "10", 1, 1000),
        Parameter::count("fds", "senders, and receivers, of each group", "20", 1, 1000),
        Parameter::count("loops", "messages from each sender to each receiver", "100", 1, 10_000_000),
        Parameter::bytes("datasize", "bytes of a message", "100B", 1, 1 << 20),
        Parameter::choice("with", "what messages go through", &["socket", "pipe"]),
        Parameter::choice("tasks", "what senders and receivers are", &["process", "thread"]),
    ],
    by_name_only: false,
    placement: Placement::Once,
    uses_disk: false,
    resolve,
    run,
};

/// Kernel memory of a task and its stream, in bytes, rounded up; a pipe holds 64 KiB, a socket twice 208 KiB at most.
const TASK_BYTES: u64 = 256 << 10;
const STREAM_BYTES: u64 = 512 << 10;
/// Descriptors of the worker besides those of the groups.
const OTHER_FILES: u64 = 32;
/// A round is not cut short: it ends by itself. On a slow board, one with the default parameters takes some seconds.
const FINISH_LIMIT: Nanos = Nanos::from_secs(60);

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Absent> {
    let fds = resolution.plan.parameters.number("fds");
    let share = resolution.share;
    let files = rlimit::get(Limit::OpenFiles).map_or(1024, |(_, hard)| hard).saturating_sub(OTHER_FILES);
    let group_bytes = fds * (2 * TASK_BYTES + STREAM_BYTES);
    let limit = (share.processes.saturating_sub(1) / (2 * fds)).min(share.memory / group_bytes).min(files / (2 * fds));
    let groups = resolution.fit_within("groups", limit, "processes, memory or open files")?;
    resolution.plan.budget.memory = groups * group_bytes;
    resolution.plan.budget.processes = 2 * fds * groups + 1;
    resolution.plan.finish_limit = FINISH_LIMIT;
    Ok(())
}

/// The parameters of one round.
#[derive(Debug, Clone, Copy)]
struct Shape {
    groups: usize,
    fds: usize,
    loops: u64,
    bytes: usize,
    sockets: bool,
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let (_, hard) = rlimit::get(Limit::OpenFiles).doing("read the limit of open files")?;
    rlimit::set(Limit::OpenFiles, hard, hard).doing("raise the limit of open files")?;
    let shape = Shape {
        groups: worker.number("groups") as usize,
        fds: worker.number("fds") as usize,
        loops: worker.number("loops"),
        bytes: worker.number("datasize") as usize,
        sockets: worker.plan.load.parameters.text("with") == "socket",
    };
    let threads = worker.plan.load.parameters.text("tasks") == "thread";
    let messages = (shape.groups * shape.fds * shape.fds) as u64 * shape.loops;
    while worker.go_on() {
        let good = if threads { round_of_threads(worker, shape)? } else { round_of_processes(worker, shape)? };
        if good {
            worker.did(messages, messages * shape.bytes as u64);
        } else {
            worker.failed();
        }
    }
    Ok(())
}

/// A stream from any sender of a group to one receiver.
struct Stream {
    reader: File,
    writer: File,
}

fn streams(shape: Shape) -> std::io::Result<Vec<Stream>> {
    (0..shape.fds)
        .map(|_| {
            let (reader, writer) = if shape.sockets {
                let (one, other) = UnixStream::pair()?;
                (OwnedFd::from(one), OwnedFd::from(other))
            } else {
                let (one, other) = std::io::pipe()?;
                (OwnedFd::from(one), OwnedFd::from(other))
            };
            Ok(Stream { reader: File::from(reader), writer: File::from(writer) })
        })
        .collect()
}

fn send(streams: &[Stream], shape: Shape) -> std::io::Result<()> {
    let message = vec![0; shape.bytes];
    for _ in 0..shape.loops {
        for stream in streams {
            (&stream.writer).write_all(&message)?;
        }
    }
    Ok(())
}

fn receive(mut reader: &File, shape: Shape) -> std::io::Result<()> {
    let mut message = vec![0; shape.bytes];
    for _ in 0..shape.fds as u64 * shape.loops {
        reader.read_exact(&mut message)?;
    }
    Ok(())
}

/// All tasks of a round wait at the gate until the last of them exists. Says whether all did their work.
fn round_of_processes(worker: &mut Worker, shape: Shape) -> Result<bool, WorkError> {
    let gate = Gate::new().doing("make the gate")?;
    let mut made = 0;
    let mut complete = true;
    for _ in 0..shape.groups {
        let streams = streams(shape).doing("make the streams of a group")?;
        for index in 0..2 * shape.fds {
            let task = || {
                let waited = process::set_parent_death_signal(process::KILL).and_then(|()| gate.wait());
                i32::from(waited.and_then(|()| task(&streams, index, shape)).is_err())
            };
            match process::fork(task) {
                Ok(_) => made += 1,
                Err(_) => complete = false,
            }
        }
    }
    if !complete {
        end_waiting(made)?;
        worker.rest(Nanos::from_millis(100));
        return Ok(false);
    }
    gate.open(made).doing("start the round")?;
    let mut good = true;
    for _ in 0..made {
        match process::reap_any(true).doing("reap the round")? {
            Reaped::Ended(_, status) => good &= status.success(),
            Reaped::NoneYet | Reaped::NoChildren => return Ok(false),
        }
        worker.go_on();
    }
    Ok(good)
}

/// Ends tasks that wait at a gate that never opens: without all of them, the others would wait for each other for ever.
fn end_waiting(made: u64) -> Result<(), WorkError> {
    for child in crate::guardian::children::of_this_process() {
        let _ = process::kill(child, process::KILL);
    }
    for _ in 0..made {
        process::reap_any(true).doing("reap the round")?;
    }
    Ok(())
}

fn round_of_threads(worker: &mut Worker, shape: Shape) -> Result<bool, WorkError> {
    let mut groups = Vec::with_capacity(shape.groups);
    for _ in 0..shape.groups {
        groups.push(streams(shape).doing("make the streams of a group")?);
    }
    let gate = Gate::new().doing("make the gate")?;
    let gate = &gate;
    // Without all of its threads a round is not worked off: it would wait for those that are missing for ever.
    let complete = AtomicBool::new(false);
    let complete = &complete;
    let tasks = 2 * shape.fds * shape.groups;
    std::thread::scope(|scope| {
        let mut started = Vec::with_capacity(tasks);
        for (streams, index) in groups.iter().flat_map(|streams| (0..2 * shape.fds).map(move |index| (streams, index))) {
            let task = move || {
                gate.wait()?;
                if complete.load(Ordering::Acquire) { task(streams, index, shape) } else { Ok(()) }
            };
            match std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, task) {
                Ok(thread) => started.push(thread),
                Err(_) => break,
            }
        }
        complete.store(started.len() == tasks, Ordering::Release);
        gate.open(started.len() as u64).doing("start the round")?;
        let mut good = complete.load(Ordering::Acquire);
        for thread in started {
            good &= matches!(thread.join(), Ok(Ok(())));
            worker.go_on();
        }
        Ok(good)
    })
}

/// One task of a group: the first are receivers, as many as there are streams; the others are senders.
fn task(streams: &[Stream], index: usize, shape: Shape) -> std::io::Result<()> {
    match streams.get(index) {
        Some(stream) => receive(&stream.reader, shape),
        None => send(streams, shape),
    }
}
