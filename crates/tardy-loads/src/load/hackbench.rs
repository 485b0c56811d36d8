//! `hackbench`: groups of senders and receivers (koolwal2009: hackbench 30). This is tardy's own
//! implementation, with the parameters of the program in rt-tests.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;
use tardy_run::parameter::{Parameter, Value};
use tardy_sys::affinity;
use tardy_sys::capability;
use tardy_sys::process::{self, WaitResult};
use tardy_sys::rlimit::{self, Resource as Limit};
use tardy_sys::shared_words::SharedWords;
use tardy_sys::signal::SignalFd;

use super::Unsupported;
use super::gate::Gate;
use super::info::{ErrorContext, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::Resolution;
use super::worker::Worker;

pub const INFO: LoadInfo = LoadInfo {
    name: "hackbench",
    does: "runs groups of senders and receivers; each sender repeatedly writes small messages to \
           each receiver of its group",
    effect: "hundreds of tasks wake each other, and the scheduler moves them among CPUs",
    source: "koolwal2009",
    parameters: &[
        Parameter::count(
            "groups",
            "number of groups of tasks; if unset, 10 or five per CPU, whichever is more",
            "10",
            1,
            1000,
        ),
        Parameter::count(
            "fds",
            "number of senders in each group; there are as many receivers",
            "20",
            1,
            1000,
        ),
        Parameter::count(
            "loops",
            "number of messages from each sender to each receiver",
            "100",
            1,
            10_000_000,
        ),
        Parameter::bytes("datasize", "bytes of a message", "100B", 1, 1 << 20),
        Parameter::choice("with", "channel for the messages", &["socket", "pipe"]),
        Parameter::choice(
            "tasks",
            "whether senders and receivers are processes or threads",
            &["process", "thread"],
        ),
        Parameter::count(
            "whole",
            "minimum number of rounds, which the load completes even if its phase ends earlier",
            "0",
            0,
            1000,
        ),
    ],
    can_do_harm: false,
    placement: Placement::Once,
    uses_disk: false,
    rights: Rights::Nobody {
        keeps: &[capability::SYS_RESOURCE],
        opens: "",
    },
    resolve,
    run: Run::Plain(run),
};

/// Kernel memory that each task and each stream takes, in bytes, rounded up. A pipe holds 64 KiB, a
/// socket at most twice 208 KiB.
const TASK_BYTES: u64 = 256 << 10;
const STREAM_BYTES: u64 = 512 << 10;
/// Number of descriptors that the worker needs in addition to those of the groups.
const OTHER_FILES: u64 = 32;
/// Number of groups for each CPU, as in rteval (`jobspercore`). A fixed number of groups would
/// leave most CPUs of a large machine idle.
const GROUPS_A_CPU: u64 = 5;
const GROUPS_MAX: u64 = 1000;
/// Time for the load to stop if it must complete whole rounds. With the default parameters, a round
/// takes some seconds on a slow board.
const WHOLE_LIMIT: Nanos = Nanos::from_secs(60);

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    if !resolution.is_given("groups") {
        let groups = resolution
            .plan
            .parameters
            .number("groups")
            .max(GROUPS_A_CPU * resolution.plan.cpus.len() as u64)
            .min(GROUPS_MAX);
        resolution
            .plan
            .parameters
            .insert("groups".to_owned(), Value::Count(groups));
    }
    let fds = resolution.plan.parameters.number("fds");
    let share = resolution.share;
    let files = rlimit::get(Limit::OpenFiles)
        .map_or(1024, |(_, hard)| hard)
        .saturating_sub(OTHER_FILES);
    let group_bytes = fds * (2 * TASK_BYTES + STREAM_BYTES);
    let limit = (share.processes.saturating_sub(1) / (2 * fds))
        .min(share.memory / group_bytes)
        .min(files / (2 * fds));
    let groups = resolution.fit_within("groups", limit, "processes, memory or open files")?;
    resolution.plan.budget.memory = groups * group_bytes;
    resolution.plan.budget.processes = 2 * fds * groups + 2;
    if resolution.plan.parameters.number("whole") > 0 {
        resolution.plan.finish_limit = WHOLE_LIMIT;
    }
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
    let (_, hard) = rlimit::get(Limit::OpenFiles).doing("read the limit on open files")?;
    rlimit::set(Limit::OpenFiles, hard, hard).doing("raise the limit on open files")?;
    let shape = Shape {
        groups: worker.number("groups") as usize,
        fds: worker.number("fds") as usize,
        loops: worker.number("loops"),
        bytes: worker.number("datasize") as usize,
        sockets: worker.plan.load.parameters.text("with") == "socket",
    };
    let threads = worker.plan.load.parameters.text("tasks") == "thread";
    let nodes = nodes(Path::new("/sys"), &worker.plan.cpus);
    let mut round = Round {
        shape,
        nodes,
        whole: worker.number("whole"),
        sent: SharedWords::create("tardy-hackbench", 1).doing("make the counter of messages")?,
        ended: SignalFd::block(&[process::CHILD_ENDED]).doing("wait for tasks to end")?,
    };
    while worker.go_on() {
        let good = if threads {
            round.of_threads(worker)?
        } else {
            round.of_processes(worker)?
        };
        if !good {
            worker.failed();
        }
    }
    Ok(())
}

/// Returns, for each memory node, which of its CPUs are among `cpus`. If the machine has no nodes,
/// returns all `cpus` as one list.
fn nodes(sys: &Path, cpus: &CpuList) -> Vec<CpuList> {
    let folders = std::fs::read_dir(sys.join("devices/system/node"))
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let mut nodes: Vec<CpuList> = folders
        .filter_map(|folder| {
            std::fs::read_to_string(folder.path().join("cpulist"))
                .ok()?
                .trim()
                .parse::<CpuList>()
                .ok()
        })
        .map(|node| node.iter().filter(|&cpu| cpus.contains(cpu)).collect())
        .filter(|node: &CpuList| !node.is_empty())
        .collect();
    nodes.sort_by_key(|node| node.iter().next());
    if nodes.is_empty() {
        vec![cpus.clone()]
    } else {
        nodes
    }
}

/// A stream from the senders of a group to one receiver.
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
            Ok(Stream {
                reader: File::from(reader),
                writer: File::from(writer),
            })
        })
        .collect()
}

fn send(streams: &[Stream], shape: Shape, sent: &AtomicU64) -> std::io::Result<()> {
    let message = vec![0; shape.bytes];
    for _ in 0..shape.loops {
        for stream in streams {
            (&stream.writer).write_all(&message)?;
        }
        sent.fetch_add(streams.len() as u64, Ordering::Relaxed);
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

/// The state that rounds share. A round takes seconds on a slow machine. A round is therefore cut
/// short when the load must stop, and its messages are counted while they are sent.
struct Round {
    shape: Shape,
    /// The CPUs of each node. A group stays on one node, as with a separate hackbench for each
    /// node.
    nodes: Vec<CpuList>,
    /// How many of the next rounds are completed even if the load must stop.
    whole: u64,
    /// Number of messages that are sent but not yet counted as work.
    sent: SharedWords,
    ended: SignalFd,
}

impl Round {
    /// Runs a round with a process for each task. All tasks wait at the gate until the last of them
    /// exists. Returns true if all tasks did their work or were cut short.
    fn of_processes(&mut self, worker: &mut Worker) -> Result<bool, WorkError> {
        let shape = self.shape;
        let gate = Gate::new().doing("make the pipes that start a round")?;
        let mut tasks = BTreeSet::new();
        let mut complete = true;
        for group in 0..shape.groups {
            let streams = streams(shape).doing("make the streams of a group")?;
            for index in 0..2 * shape.fds {
                let task = || {
                    let tied = process::set_parent_death_signal(process::KILL)
                        .and_then(|()| self.bind(group));
                    let waited = tied.and_then(|()| gate.wait());
                    i32::from(
                        waited
                            .and_then(|()| task(&streams, index, shape, &self.sent[0]))
                            .is_err(),
                    )
                };
                match process::fork(task) {
                    Ok(pid) => drop(tasks.insert(pid)),
                    Err(_) => complete = false,
                }
            }
        }
        if !complete {
            end(&tasks)?;
            worker.rest(Nanos::from_millis(100));
            return Ok(false);
        }
        gate.open(tasks.len() as u64).doing("start the round")?;
        self.follow(worker, tasks)
    }

    /// Runs a round in one process with a thread for each task.
    fn of_threads(&mut self, worker: &mut Worker) -> Result<bool, WorkError> {
        let task = || {
            let good =
                process::set_parent_death_signal(process::KILL).and_then(|()| self.threads());
            i32::from(!good.is_ok_and(|good| good))
        };
        let pid = process::fork(task).doing("start the process of a round")?;
        let good = self.follow(worker, BTreeSet::from([pid]))?;
        if !good {
            worker.rest(Nanos::from_millis(100));
        }
        Ok(good)
    }

    fn threads(&self) -> std::io::Result<bool> {
        let shape = self.shape;
        let groups: Vec<Vec<Stream>> = (0..shape.groups)
            .map(|_| streams(shape))
            .collect::<Result<_, _>>()?;
        let gate = &Gate::new()?;
        // If a thread could not be started, the round cannot complete, because the others would
        // wait for its messages forever.
        let complete = &AtomicBool::new(false);
        let tasks = 2 * shape.fds * shape.groups;
        std::thread::scope(|scope| {
            let mut started = Vec::with_capacity(tasks);
            let places = groups.iter().enumerate().flat_map(|(group, streams)| {
                (0..2 * shape.fds).map(move |index| (group, streams, index))
            });
            for (group, streams, index) in places {
                let task = move || {
                    self.bind(group)?;
                    gate.wait()?;
                    if complete.load(Ordering::Acquire) {
                        task(streams, index, shape, &self.sent[0])
                    } else {
                        Ok(())
                    }
                };
                match std::thread::Builder::new()
                    .stack_size(64 << 10)
                    .spawn_scoped(scope, task)
                {
                    Ok(thread) => started.push(thread),
                    Err(_) => break,
                }
            }
            complete.store(started.len() == tasks, Ordering::Release);
            gate.open(started.len() as u64)?;
            let mut good = complete.load(Ordering::Acquire);
            for thread in started {
                good &= matches!(thread.join(), Ok(Ok(())));
            }
            Ok(good)
        })
    }

    /// Binds a task of `group` to the CPUs of the group's node.
    fn bind(&self, group: usize) -> std::io::Result<()> {
        if self.nodes.len() < 2 {
            return Ok(());
        }
        let cpus: Vec<u32> = self.nodes[group % self.nodes.len()]
            .iter()
            .map(|cpu| cpu.0)
            .collect();
        affinity::set(0, &cpus)
    }

    /// Reaps the round's processes. Ends these processes when the load must stop. Returns true if
    /// the processes did their work or were cut short.
    fn follow(&mut self, worker: &mut Worker, mut tasks: BTreeSet<i32>) -> Result<bool, WorkError> {
        let mut good = true;
        let is_whole = self.whole > 0;
        self.whole = self.whole.saturating_sub(1);
        while !tasks.is_empty() {
            worker.wait_for(self.ended.as_fd());
            self.tell(worker);
            let goes_on = worker.go_on();
            if !goes_on && is_whole {
                good &= reap_all(&tasks)?;
                break;
            }
            if !goes_on {
                // Ending hundreds of tasks takes time, and a worker that is killed meanwhile sends
                // no further report.
                worker.report();
                end(&tasks)?;
                self.tell(worker);
                return Ok(true);
            }
            while let Ok(Some(_)) = self.ended.take() {}
            while let WaitResult::Ended(task, status) =
                process::reap_any(false).doing("reap the round")?
            {
                good &= status.success();
                tasks.remove(&task);
            }
        }
        self.tell(worker);
        Ok(good)
    }

    /// Counts the messages sent since the last call.
    fn tell(&self, worker: &mut Worker) {
        let messages = self.sent[0].swap(0, Ordering::Relaxed);
        worker.did(messages, messages * self.shape.bytes as u64);
    }
}

/// Kills all tasks of the round. If some tasks are missing, the others wait for each other forever.
fn end(tasks: &BTreeSet<i32>) -> Result<(), WorkError> {
    for &task in tasks {
        let _ = process::kill(task, process::KILL);
    }
    reap_all(tasks).map(drop)
}

/// Waits for the end of all tasks. Returns whether all did their work.
fn reap_all(tasks: &BTreeSet<i32>) -> Result<bool, WorkError> {
    let mut good = true;
    for &task in tasks {
        good &= matches!(process::reap(task, true).doing("reap the round")?, WaitResult::Ended(_, status) if status.success());
    }
    Ok(good)
}

/// Runs one task of a group. The first tasks are receivers, one per stream; the others are senders.
fn task(streams: &[Stream], index: usize, shape: Shape, sent: &AtomicU64) -> std::io::Result<()> {
    match streams.get(index) {
        Some(stream) => receive(&stream.reader, shape),
        None => send(streams, shape, sent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_spread_over_the_nodes_of_memory() {
        let sys = tempfile::tempdir().unwrap();
        let cpus: CpuList = "0-5".parse().unwrap();
        assert_eq!(nodes(sys.path(), &cpus), std::slice::from_ref(&cpus));
        for (node, of_node) in [("node0", "0-3\n"), ("node1", "4-7\n"), ("node2", "\n")] {
            let folder = sys.path().join("devices/system/node").join(node);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("cpulist"), of_node).unwrap();
        }
        assert_eq!(
            nodes(sys.path(), &cpus),
            ["0-3".parse().unwrap(), "4-5".parse().unwrap()]
        );
    }

    #[test]
    fn a_larger_machine_gets_more_groups_and_a_given_number_is_kept() {
        let bounds = crate::load::bounds::Bounds {
            memory: 1 << 40,
            disk: 1 << 40,
            processes: 1_000_000,
        };
        let groups = |text: &str, cpus: &str| {
            let requests = crate::load::LoadRequest::parse(text).unwrap();
            let host = tardy_machine::host::Host::of_this_machine();
            let mut plans =
                crate::load::resolve_all(&requests, &cpus.parse().unwrap(), &host, bounds);
            plans.remove(0).1.unwrap().parameters.number("groups")
        };
        assert_eq!(
            ["0", "0-1", "0-3"].map(|cpus| groups("hackbench:fds=2", cpus)),
            [10, 10, 20]
        );
        assert_eq!(groups("hackbench:groups=3:fds=2", "0-3"), 3);
    }
}
