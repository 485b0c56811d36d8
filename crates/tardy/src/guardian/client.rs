//! The tool's side of the guardian.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command as Program, Stdio};
use std::time::{Duration, Instant};

use tardy_core::cpu::CpuList;
use tardy_run::plan::LoadPlan;

use super::lines::Lines;
use super::message::{Command, Containment, LoadEvent, Message};

/// How the guardian is started.
#[derive(Debug, Clone)]
pub struct GuardianOptions {
    /// The `tardy` binary; by default this one.
    pub program: PathBuf,
    /// CPUs for the guardian and the init (never for the loads, which have their own), to keep their few wake-ups off measured ones;
    /// empty leaves them where the tool may run.
    pub cpus: CpuList,
    /// The strongest containment to try; a weaker one is taken where it is not to be had. A system that forbids namespaces to some of its users
    /// may log each try.
    pub strongest: Containment,
    /// Control group that it joins, with all that it starts; the tool's own where there is none.
    pub group: Option<PathBuf>,
}

impl Default for GuardianOptions {
    fn default() -> Self {
        Self { program: PathBuf::from("/proc/self/exe"), cpus: CpuList::default(), strongest: Containment::PidNamespace, group: None }
    }
}

/// Why there is no guardian.
#[derive(Debug, thiserror::Error)]
pub enum GuardianError {
    /// Its process could not be made.
    #[error("the guardian of the loads cannot be started: {0}; is /proc mounted?")]
    Start(std::io::Error),
    /// It ended, or said something else than that it is ready.
    #[error("the guardian of the loads is not ready: {0}")]
    NotReady(String),
    /// It is gone.
    #[error("the guardian of the loads is gone ({0}); no load runs any more, start the run again")]
    Gone(std::io::Error),
}

/// How long the guardian may take to be ready. Even a board at 100 MHz needs less than a second for two execs.
const READY_LIMIT: Duration = Duration::from_secs(10);
/// How long the guardian may take to end everything below it: thousands of processes on a busy board.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(30);

/// The guardian, as the tool holds it. Dropping it ends all loads.
#[derive(Debug)]
pub struct Guardian {
    child: Child,
    commands: Option<ChildStdin>,
    events: Lines<ChildStdout>,
    containment: Containment,
    end_is_told: bool,
}

impl Guardian {
    /// Starts the guardian. Call it before the process has threads and before it locks its memory.
    ///
    /// # Errors
    /// Where its process cannot be made, or is not ready in time.
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
            .map_err(GuardianError::Start)?;
        let commands = child.stdin.take();
        let events = child.stdout.take().map(Lines::new).expect("standard output was asked to be a pipe");
        let mut guardian = Self { child, commands, events, containment: Containment::ParentSignals, end_is_told: false };
        guardian.containment = guardian.wait_until_ready()?;
        Ok(guardian)
    }

    fn wait_until_ready(&mut self) -> Result<Containment, GuardianError> {
        let deadline = Instant::now() + READY_LIMIT;
        while Instant::now() < deadline {
            let lines = self.events.take_within(100).map_err(GuardianError::Gone)?;
            // Nothing else can have been asked for yet, so that the first line is the answer.
            if let Some(line) = lines.first() {
                return match serde_json::from_str(line) {
                    Ok(Message::Ready { containment }) => Ok(containment),
                    Ok(Message::Event(LoadEvent::Problem { text, .. })) => Err(GuardianError::NotReady(text)),
                    _ => Err(GuardianError::NotReady(format!(
                        "it said `{line}`; is {} this version of tardy?",
                        std::env::args().next().unwrap_or_default()
                    ))),
                };
            }
            if self.events.ended() {
                return Err(GuardianError::NotReady("it ended at once; its message stands above".to_owned()));
            }
        }
        Err(GuardianError::NotReady(format!("it said nothing for {} s; is the machine overloaded?", READY_LIMIT.as_secs())))
    }

    /// What keeps loads from outliving the tool.
    #[must_use]
    pub fn containment(&self) -> Containment {
        self.containment
    }

    /// The guardian's process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts `loads` as part of `phase`. Returns at once; [`LoadEvent::Started`] tells when each did.
    ///
    /// # Errors
    /// Where the guardian is gone.
    pub fn begin(&mut self, phase: u32, loads: &[LoadPlan]) -> Result<(), GuardianError> {
        self.send(&Command::Begin { phase, loads: loads.to_vec() })
    }

    /// Lets the loads of `phase` end by themselves. Returns at once; [`LoadEvent::Ended`] tells when each did, at the latest when its
    /// `finish_limit` has passed and it was killed.
    ///
    /// # Errors
    /// Where the guardian is gone.
    pub fn finish(&mut self, phase: u32) -> Result<(), GuardianError> {
        self.send(&Command::Finish { phase })
    }

    fn send(&mut self, command: &Command) -> Result<(), GuardianError> {
        let gone = || GuardianError::Gone(std::io::ErrorKind::BrokenPipe.into());
        let mut line = serde_json::to_vec(command).expect("a command is plain data, which always becomes JSON");
        line.push(b'\n');
        self.commands.as_mut().ok_or_else(gone)?.write_all(&line).map_err(GuardianError::Gone)
    }

    /// All events that have come, without waiting. The end of the guardian itself is a [`LoadEvent::Problem`], once.
    pub fn drain(&mut self) -> Vec<LoadEvent> {
        let mut events = Vec::new();
        for line in self.events.take() {
            match serde_json::from_str(&line) {
                Ok(Message::Event(event)) => events.push(event),
                Ok(Message::Ready { .. }) => {}
                Err(_) => events.push(LoadEvent::Problem {
                    load: None,
                    text: format!("the guardian said `{line}`, which is no message; it is left out"),
                }),
            }
        }
        if self.events.ended() && !std::mem::replace(&mut self.end_is_told, true) {
            events.push(LoadEvent::Problem { load: None, text: "the guardian is gone; no load runs any more".to_owned() });
        }
        events
    }

    /// Whether the guardian is gone, so that its descriptor is not worth waiting on.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.events.ended()
    }

    /// Ends all loads at once (by force, where they were not finished), undoes what they changed, and waits for it. Returns the last events.
    ///
    /// # Errors
    /// Where the guardian does not end in time.
    pub fn shutdown(mut self) -> Result<Vec<LoadEvent>, GuardianError> {
        self.end_is_told = true;
        let mut events = self.drain();
        self.commands = None;
        let deadline = Instant::now() + SHUTDOWN_LIMIT;
        while !self.events.ended() && Instant::now() < deadline {
            self.events_within(100, &mut events)?;
        }
        if self.wait_for_end(deadline) {
            return Ok(events);
        }
        let text = format!("process {} did not end within {} s", self.child.id(), SHUTDOWN_LIMIT.as_secs());
        Err(GuardianError::Gone(std::io::Error::other(text)))
    }

    fn wait_for_end(&mut self, deadline: Instant) -> bool {
        loop {
            match self.child.try_wait() {
                // An error means that there is no such child any more.
                Ok(Some(_)) | Err(_) => return true,
                Ok(None) if Instant::now() >= deadline => return false,
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn events_within(&mut self, timeout_ms: i32, events: &mut Vec<LoadEvent>) -> Result<(), GuardianError> {
        let fds = [self.events.as_fd()];
        tardy_sys::signal::wait_readable(&fds, timeout_ms).map_err(GuardianError::Gone)?;
        events.extend(self.drain());
        Ok(())
    }
}

/// Readable when [`Guardian::drain`] has something to give.
impl AsFd for Guardian {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.commands = None;
        // The guardian ends by itself and undoes what the loads changed; a tool that did not wait would end before that is done.
        if !self.wait_for_end(Instant::now() + SHUTDOWN_LIMIT) {
            // With it dies what it holds; the journal tells `tardy restore` the rest.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
