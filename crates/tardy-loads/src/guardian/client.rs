//! Controls the guardian from the measuring process.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command as Program, Stdio};
use std::time::{Duration, Instant};

use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;
use tardy_run::plan::LoadPlan;

use super::message::{Command, Containment, LoadEvent, Message, WorkerKind};
use crate::lines::Lines;

/// Options of the guardian.
#[derive(Debug, Clone)]
pub struct GuardianOptions {
    /// The `tardy` binary; by default the running one.
    pub program: PathBuf,
    /// CPUs for the guardian and the init, so that their few wake-ups do not disturb measured CPUs.
    /// Loads have their own CPUs. An empty list leaves both on the tool's CPUs.
    pub cpus: CpuList,
    /// The strongest containment to try. If it is unavailable, a weaker one is used. A system that
    /// forbids namespaces to some of its users may log each attempt.
    pub strongest: Containment,
    /// Control group that the guardian joins, with all its children; by default the tool's own.
    pub group: Option<PathBuf>,
}

impl Default for GuardianOptions {
    fn default() -> Self {
        Self {
            program: PathBuf::from("/proc/self/exe"),
            cpus: CpuList::default(),
            strongest: Containment::PidNamespace,
            group: None,
        }
    }
}

/// Why the guardian cannot be started, used or ended.
#[derive(Debug, thiserror::Error)]
pub enum GuardianError {
    /// The guardian's process could not be started.
    #[error("the load supervisor cannot be started: {0}: make sure that /proc is mounted")]
    Start(std::io::Error),
    /// The guardian ended, or its first message did not report that it is ready.
    #[error("the load supervisor is not ready: {0}")]
    NotReady(String),
    #[error("the load supervisor is gone ({0}); all loads have stopped, start the run again")]
    Gone(std::io::Error),
    /// The guardian was killed, and still exists.
    #[error(
        "the load supervisor (process {0}) neither answers nor exits, so its loads may still run: \
         thaw its control group, or find out what blocks the process"
    )]
    Stuck(u32),
}

/// Maximum time until the guardian is ready. Even a board at 100 MHz needs less than a second for
/// the two execs.
const READY_LIMIT: Duration = Duration::from_secs(10);
/// Maximum time until the guardian has ended all processes below it. On a busy board, there can be
/// thousands of them. After this time the guardian is killed, and the kernel ends these processes.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(10);
/// Maximum time until a killed guardian is gone. In a frozen control group of version 1, the
/// guardian stays until the group is thawed.
const KILL_LIMIT: Duration = Duration::from_secs(1);
/// Maximum wait of a command for space in the pipe. The pipe holds dozens of commands, but a
/// stopped guardian reads none.
const COMMAND_LIMIT: Duration = Duration::from_millis(500);

/// Maximum number of workers whose processes are started before the measurement. The processes of
/// further workers are started in their phases, because each process needs memory.
const PREPARED_MAX: usize = 64;

/// The tool's handle of the guardian. Dropping the handle ends all loads.
#[derive(Debug)]
pub struct Guardian {
    child: Child,
    commands: Option<File>,
    events: Lines<ChildStdout>,
    containment: Containment,
    end_is_told: bool,
    is_killed: bool,
}

impl Guardian {
    /// Starts the guardian. Must be called before this process starts threads and before it locks
    /// its memory.
    ///
    /// # Errors
    /// Returns an error if the guardian's process cannot be made, or is not ready in time.
    pub fn start(options: GuardianOptions) -> Result<Self, GuardianError> {
        let mut child = Program::new(&options.program)
            .arg0("tardy-guardian")
            .arg(super::GUARDIAN)
            .arg(options.cpus.to_string())
            .arg(options.strongest.name())
            .arg(options.group.as_deref().unwrap_or(std::path::Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(tardy_sys::scoped::refused)
            .map_err(GuardianError::Start)?;
        let commands = child
            .stdin
            .take()
            .map(|pipe| File::from(OwnedFd::from(pipe)));
        if let Some(commands) = &commands {
            // A stopped guardian reads nothing. A write to its pipe must not block the run.
            tardy_sys::file::set_blocking(commands, false).map_err(GuardianError::Start)?;
        }
        let events = child
            .stdout
            .take()
            .map(Lines::new)
            .expect("standard output was configured as a pipe");
        let mut guardian = Self {
            child,
            commands,
            events,
            containment: Containment::ParentSignals,
            end_is_told: false,
            is_killed: false,
        };
        guardian.containment = guardian.wait_until_ready()?;
        Ok(guardian)
    }

    fn wait_until_ready(&mut self) -> Result<Containment, GuardianError> {
        let deadline = Instant::now() + READY_LIMIT;
        while Instant::now() < deadline {
            let lines = self.events.take_within(100).map_err(GuardianError::Gone)?;
            // The guardian gets no request before it is ready. So its first line either reports
            // that it is ready, or describes a problem that prevents its start.
            if let Some(line) = lines.first() {
                return match serde_json::from_str(line) {
                    Ok(Message::Ready { containment }) => Ok(containment),
                    Ok(Message::Event(LoadEvent::Problem { text, .. })) => {
                        Err(GuardianError::NotReady(text))
                    }
                    _ => Err(GuardianError::NotReady(format!(
                        "it sent `{line}`; is {} the same version of tardy?",
                        std::env::args().next().unwrap_or_default()
                    ))),
                };
            }
            if self.events.ended() {
                return Err(GuardianError::NotReady(
                    "it exited at once; see its message above".to_owned(),
                ));
            }
        }
        Err(GuardianError::NotReady(format!(
            "it was silent for {} s; is the machine overloaded?",
            READY_LIMIT.as_secs()
        )))
    }

    /// Returns the mechanism that ends the loads when the tool ends.
    #[must_use]
    pub fn containment(&self) -> Containment {
        self.containment
    }

    /// Returns the guardian's process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts the processes of the workers of `loads`, which then wait for [`Guardian::begin`]. At
    /// most 64 processes are started. Returns at once.
    ///
    /// # Errors
    /// Returns an error if the guardian is gone.
    pub fn prepare<'a>(
        &mut self,
        loads: impl IntoIterator<Item = &'a LoadPlan>,
    ) -> Result<(), GuardianError> {
        let workers = loads
            .into_iter()
            .flat_map(|load| std::iter::repeat_n(WorkerKind::of(load), load.worker_count()))
            .take(PREPARED_MAX)
            .collect();
        self.send(&Command::Prepare { workers })
    }

    /// Starts `loads` as part of `phase`. Returns at once; [`LoadEvent::Started`] reports each
    /// start.
    ///
    /// # Errors
    /// Returns an error if the guardian is gone.
    pub fn begin(&mut self, phase: u32, loads: &[LoadPlan]) -> Result<(), GuardianError> {
        self.send(&Command::Begin {
            phase,
            loads: loads.to_vec(),
        })
    }

    /// Asks the loads of `phase` to stop. Returns at once; [`LoadEvent::Ended`] reports each end. A
    /// load that has not stopped within its `finish_limit`, or `within` if that is shorter, is
    /// killed.
    ///
    /// # Errors
    /// Returns an error if the guardian is gone.
    pub fn finish(&mut self, phase: u32, within: Option<Nanos>) -> Result<(), GuardianError> {
        self.send(&Command::Finish { phase, within })
    }

    fn send(&mut self, command: &Command) -> Result<(), GuardianError> {
        let gone = || GuardianError::Gone(std::io::ErrorKind::BrokenPipe.into());
        let mut line =
            serde_json::to_vec(command).expect("a command can always be written as JSON");
        line.push(b'\n');
        let commands = self.commands.as_mut().ok_or_else(gone)?;
        let deadline = Instant::now() + COMMAND_LIMIT;
        let mut rest = line.as_slice();
        while !rest.is_empty() {
            match commands.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error)
                    if error.kind() == std::io::ErrorKind::WouldBlock
                        && Instant::now() < deadline =>
                {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(GuardianError::Gone(error)),
            }
        }
        Ok(())
    }

    /// Kills the guardian, and with it all processes below it. This function is used if the
    /// guardian does not answer. The changes of loads are then undone from the journal.
    pub fn kill(&mut self) {
        self.is_killed = true;
        self.end_is_told = true;
        self.commands = None;
        let _ = self.child.kill();
    }

    /// Returns whether a signal or a debugger has stopped the guardian. A stopped guardian does
    /// nothing until it is continued.
    fn is_stopped(&self) -> bool {
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
    }

    /// Returns all events that have arrived, without waiting. The end of the guardian itself is
    /// reported once, as a [`LoadEvent::Problem`].
    pub fn drain(&mut self) -> Vec<LoadEvent> {
        let mut events = Vec::new();
        for line in self.events.take() {
            match serde_json::from_str(&line) {
                Ok(Message::Event(event)) => events.push(event),
                Ok(Message::Ready { .. }) => {}
                Err(_) => events.push(LoadEvent::Problem {
                    load: None,
                    text: format!(
                        "the load supervisor sent `{line}`, which is not a message and is ignored"
                    ),
                }),
            }
        }
        if self.events.ended() && !std::mem::replace(&mut self.end_is_told, true) {
            events.push(LoadEvent::Problem {
                load: None,
                text: "the load supervisor is gone; all loads have stopped".to_owned(),
            });
        }
        events
    }

    /// Returns whether the guardian is gone. Its descriptor is then always readable, so a wait on
    /// it would return at once.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.events.ended()
    }

    /// Ends all loads at once, undoes their changes, and waits until this is done. Loads that still
    /// run are killed. Returns the last events.
    ///
    /// # Errors
    /// Returns an error if the guardian does not end in time, even when killed.
    pub fn shutdown(mut self) -> Result<Vec<LoadEvent>, GuardianError> {
        let mut events = self.drain();
        self.end_is_told = true;
        self.commands = None;
        let deadline = Instant::now() + SHUTDOWN_LIMIT;
        while !self.is_killed
            && !self.events.ended()
            && Instant::now() < deadline
            && !self.is_stopped()
        {
            self.events_within(100, &mut events)?;
        }
        let rest = if self.events.ended() {
            deadline - Instant::now()
        } else {
            Duration::ZERO
        };
        if self.end(rest) {
            Ok(events)
        } else {
            Err(GuardianError::Stuck(self.child.id()))
        }
    }

    /// Waits for the guardian's end, and kills it after `patience`. Returns whether the guardian is
    /// gone.
    fn end(&mut self, patience: Duration) -> bool {
        if !self.is_killed && self.wait_for_end(Instant::now() + patience) {
            return true;
        }
        self.kill();
        self.wait_for_end(Instant::now() + KILL_LIMIT)
    }

    fn wait_for_end(&mut self, deadline: Instant) -> bool {
        loop {
            match self.child.try_wait() {
                // An error means that the child does not exist any more.
                Ok(Some(_)) | Err(_) => return true,
                Ok(None) if Instant::now() >= deadline => return false,
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn events_within(
        &mut self,
        timeout_ms: i32,
        events: &mut Vec<LoadEvent>,
    ) -> Result<(), GuardianError> {
        let fds = [self.events.as_fd()];
        tardy_sys::signal::wait_readable(&fds, timeout_ms).map_err(GuardianError::Gone)?;
        events.extend(self.drain());
        Ok(())
    }
}

/// The descriptor is readable when [`Guardian::drain`] has an event to return.
impl AsFd for Guardian {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.commands = None;
        // The guardian sees the end of its input, undoes the changes of loads and ends. Waiting for
        // it ensures that the changes are undone before the tool ends. If the guardian is killed,
        // `tardy restore` undoes the rest from the journal.
        let patience = if self.is_stopped() {
            Duration::ZERO
        } else {
            SHUTDOWN_LIMIT
        };
        self.end(patience);
    }
}
