//! Starts the user's program with the memory for its loops, waits until the loops run, and ends the
//! program when the run ends.

use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;
use tardy_sys::child::kill_with_parent;
use tardy_sys::process;
use tardy_sys::shared_words::set_close_on_exec;
use tardy_sys::signal::{self, wait_readable};
use tardy_sys::{affinity, clock, sched};

use super::memory::{AppMemory, LoopReader, MEMORY_NAME, RING_CYCLES};

/// The environment variable that holds the path of the memory for a program's loops.
pub const VARIABLE: &str = "TARDY_APP";
/// How long the program may take until its loops run.
pub const START_MAX: Nanos = Nanos::from_secs(30);
/// How long the program may take to end after it was asked to.
const END_MAX: Nanos = Nanos::from_secs(5);
/// How long a program that has closed its loop may take to end by itself.
const ENDING_MAX: Nanos = Nanos::from_secs(1);
const LOOK_MILLIS: i32 = 5;

/// Why a program is not measured.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The program could not be started.
    #[error("cannot start {program}: {error}: give a program that can be run")]
    NotStarted { program: String, error: io::Error },
    /// The program ended before it ran a loop.
    #[error("{program} ended ({status}) and {missing}: see include/tardy.h")]
    Ended {
        program: String,
        status: ExitStatus,
        missing: String,
    },
    /// The program's loop did not run in time.
    #[error(
        "{program} ran for {waited} and {missing}: does it call tardy_open, and tardy_due in each \
         cycle (include/tardy.h)?"
    )]
    NoLoop {
        program: String,
        waited: Nanos,
        missing: String,
    },
    /// The user interrupted the wait for the program.
    #[error("interrupted before the loop of {program} ran")]
    Interrupted { program: String },
    /// The system refused memory or a process.
    #[error("cannot measure {program}: {error}")]
    System { program: String, error: io::Error },
}

/// The running program. Dropping the value kills the program.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    memory: Arc<AppMemory>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    ByItself(ExitStatus),
    /// The program ended because it was asked to.
    Asked,
    /// The program was killed.
    Killed,
}

impl Program {
    /// Starts `command`; `name` is for messages. Must be called on the thread that will wait for
    /// the program, before memory is locked and other threads start.
    ///
    /// The program may use all of `cpus`, in addition to the CPUs of this thread. The program's
    /// standard output goes to standard error, because the tool prints its result to standard
    /// output.
    ///
    /// # Errors
    /// Returns [`AppError::NotStarted`] if the program cannot be started, otherwise
    /// [`AppError::System`].
    pub fn start(name: String, mut command: Command, cpus: &CpuList) -> Result<Self, AppError> {
        let program = name;
        let of_the_system = |error| AppError::System {
            program: program.clone(),
            error,
        };
        let memory = Arc::new(AppMemory::create(1, RING_CYCLES).map_err(of_the_system)?);
        let output = io::stderr()
            .as_fd()
            .try_clone_to_owned()
            .map_err(of_the_system)?;
        command
            .env(VARIABLE, memory.path_for_children())
            .stdout(Stdio::from(output));
        set_close_on_exec(memory.file(), false).map_err(of_the_system)?;
        let own_cpus = affinity::get(0).map_err(of_the_system)?;
        let all_cpus: Vec<u32> = cpus
            .iter()
            .map(|cpu| cpu.0)
            .chain(own_cpus.iter().copied())
            .collect();
        affinity::set(0, &all_cpus).map_err(of_the_system)?;
        let started = kill_with_parent(&mut command).spawn();
        affinity::set(0, &own_cpus).map_err(of_the_system)?;
        set_close_on_exec(memory.file(), true).map_err(of_the_system)?;
        let child = started.map_err(|error| AppError::NotStarted {
            program: program.clone(),
            error,
        })?;
        Ok(Self {
            name: program,
            child,
            memory,
        })
    }

    /// Returns the memory of the program's loops.
    #[must_use]
    pub fn memory(&self) -> &Arc<AppMemory> {
        &self.memory
    }

    /// Waits until the program's loop has completed a cycle. While it waits, calls `is_interrupted`
    /// repeatedly.
    ///
    /// # Errors
    /// Returns an [`AppError`] that states why the program cannot be measured.
    pub fn wait_for_loop(
        &mut self,
        mut is_interrupted: impl FnMut() -> bool,
    ) -> Result<LoopReader, AppError> {
        let mut reader = self.memory.readers().remove(0);
        let begin = Nanos(clock::monotonic());
        loop {
            let Some(missing) = missing(&reader) else {
                return Ok(reader);
            };
            // Cycles that were completed before the run do not belong to it, and a full ring would
            // lose later ones.
            keep_latest(&mut reader);
            let program = self.name.clone();
            if let Some(status) = self.child.try_wait().map_err(|error| AppError::System {
                program: program.clone(),
                error,
            })? {
                return Err(AppError::Ended {
                    program,
                    status,
                    missing,
                });
            }
            if is_interrupted() {
                return Err(AppError::Interrupted { program });
            }
            let waited = Nanos(clock::monotonic()) - begin;
            if waited > START_MAX {
                return Err(AppError::NoLoop {
                    program,
                    waited: START_MAX,
                    missing,
                });
            }
            let _ = wait_readable(&[], LOOK_MILLIS);
        }
    }

    /// Returns the program's exit status, once it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Asks the program to end (SIGTERM), and kills it if it does not. A program that has already
    /// closed its loop (`is_ending`) first gets a moment to end by itself.
    ///
    /// # Errors
    /// Returns an error if signalling the program or waiting for it fails.
    pub fn end(mut self, is_ending: bool) -> io::Result<Ending> {
        let begin = Nanos(clock::monotonic());
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Ending::ByItself(status));
            }
            if !is_ending || Nanos(clock::monotonic()) - begin > ENDING_MAX {
                break;
            }
            wait_readable(&[], LOOK_MILLIS)?;
        }
        process::kill(self.child.id() as i32, signal::TERMINATE)?;
        let begin = Nanos(clock::monotonic());
        while Nanos(clock::monotonic()) - begin < END_MAX {
            if self.child.try_wait()?.is_some() {
                return Ok(Ending::Asked);
            }
            wait_readable(&[], LOOK_MILLIS)?;
        }
        self.child.kill()?;
        self.child.wait()?;
        Ok(Ending::Killed)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // These calls do nothing if the program has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns, as text for a message, what the program has not done yet: open a loop, or complete a
/// cycle. Returns `None` if it has done both.
fn missing(reader: &LoopReader) -> Option<String> {
    match reader.introduction() {
        None => Some("opened no loop".to_owned()),
        Some(loop_) if reader.waiting() == 0 => {
            Some(format!("completed no cycle of its loop `{}`", loop_.name))
        }
        Some(_) => None,
    }
}

fn keep_latest(reader: &mut LoopReader) {
    let mut surplus = reader.waiting().saturating_sub(1);
    reader.drain(|_| {
        let is_surplus = surplus > 0;
        surplus = surplus.saturating_sub(1);
        is_surplus
    });
}

/// What is known about a loop after its first cycles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopDescription {
    pub name: String,
    /// Time between two due times; `None` if the due times are not equally spaced.
    pub period: Option<Nanos>,
    /// One of the loop's due times.
    pub phase: Nanos,
    /// The loop's scheduling policy, such as `SCHED_FIFO 80`; `None` if it could not be read.
    pub policy: Option<String>,
    /// The loop's thread; `None` if this process cannot see it.
    pub thread: Option<i32>,
    /// Whether the loop reports when its work is done.
    pub tells_done: bool,
}

/// Describes the loop of `reader`, which has completed at least one cycle.
#[must_use]
pub fn look_at(reader: &mut LoopReader) -> LoopDescription {
    let introduction = reader
        .introduction()
        .unwrap_or_else(|| super::memory::Introduction {
            name: String::new(),
            period: None,
            thread: 0,
        });
    let phase = reader.latest_begun().map_or(Nanos::ZERO, |(_, due)| due);
    let mut tells_done = false;
    reader.drain(|cycle| {
        tells_done |= cycle.done.is_some();
        true
    });
    let policy = (introduction.thread > 0)
        .then(|| sched::policy(introduction.thread).ok())
        .flatten()
        .map(describe);
    let thread = Some(introduction.thread).filter(|&thread| thread > 0 && has_the_memory(thread));
    LoopDescription {
        name: introduction.name,
        period: introduction.period,
        phase,
        policy,
        thread,
        tells_done,
    }
}

/// Returns whether the process of the thread with this number maps the memory of loops. A program
/// in a PID namespace reports a number that can belong to another thread here.
fn has_the_memory(thread: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{thread}/maps"))
        .is_ok_and(|maps| maps.contains(MEMORY_NAME))
}

/// Returns the name and priority of a scheduling policy. The numbers of policies are in
/// include/uapi/linux/sched.h.
fn describe((policy, priority): (u32, u32)) -> String {
    match policy {
        0 => "SCHED_OTHER".to_owned(),
        1 => format!("SCHED_FIFO {priority}"),
        2 => format!("SCHED_RR {priority}"),
        3 => "SCHED_BATCH".to_owned(),
        5 => "SCHED_IDLE".to_owned(),
        6 => "SCHED_DEADLINE".to_owned(),
        other => format!("policy {other}"),
    }
}
