//! External programs as part of a load: started in a separate group, watched, stopped, killed.

use std::os::unix::process::CommandExt;
use std::process::{ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use tardy_core::units::Nanos;
use tardy_sys::process::{self, WaitResult};
use tardy_sys::signal;

use super::info::{ErrorContext, WorkError};
use super::worker::Worker;
use crate::lines::Lines;

/// How a program ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// By itself; with the last line of its error output.
    Ended(ExitStatus, String),
    /// Because the load was asked to end.
    Stopped,
}

/// Interval between checks of a program.
const CHECK_INTERVAL: Nanos = Nanos::from_millis(20);
/// Maximum time until a program and its children end after SIGTERM.
const TERMINATE_LIMIT: Nanos = Nanos::from_secs(5);

/// Runs `command` until it ends or the load is stopped; `line` gets its output.
pub(super) fn run(
    worker: &mut Worker,
    command: &mut Command,
    mut line: impl FnMut(&mut Worker, &str),
) -> Result<Outcome, WorkError> {
    worker.counts_living_programs();
    let mut child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .doing("start a program")?;
    let pid = i32::try_from(child.id()).unwrap_or(i32::MAX);
    let mut output = Output::new(child.stdout.take(), child.stderr.take());
    loop {
        let going_on = worker.rest(CHECK_INTERVAL);
        output.take(|text| line(worker, text));
        // Processes that the program forked and left become children of this process, their
        // subreaper, and are reaped here, too.
        while let WaitResult::Ended(ended, status) =
            process::reap_any(false).doing("reap a program")?
        {
            if ended == pid {
                output.take(|text| line(worker, text));
                return Ok(if going_on {
                    Outcome::Ended(status, output.last_error)
                } else {
                    Outcome::Stopped
                });
            }
        }
        if !going_on {
            end(worker, pid, &mut output)?;
            return Ok(Outcome::Stopped);
        }
    }
}

/// Asks the program's group to stop, and kills it if it does not.
fn end(worker: &mut Worker, pid: i32, output: &mut Output) -> Result<(), WorkError> {
    let deadline = tardy_sys::clock::monotonic() + TERMINATE_LIMIT.get();
    let _ = process::kill_group(pid, signal::TERMINATE);
    let mut killed = false;
    loop {
        // A program that is busy printing must not wait for a reader.
        output.take(|_| ());
        match process::reap_any(false).doing("reap a program")? {
            WaitResult::Ended(ended, _) if ended == pid => return Ok(()),
            WaitResult::Ended(..) => continue,
            WaitResult::NoChildren => return Ok(()),
            WaitResult::NoneYet => {}
        }
        if !killed && tardy_sys::clock::monotonic() >= deadline {
            killed = true;
            worker.tell(format!(
                "the load's program did not exit within {TERMINATE_LIMIT} of SIGTERM, and was \
                 killed"
            ));
            let _ = process::kill_group(pid, process::KILL);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

struct Output {
    lines: Option<Lines<ChildStdout>>,
    errors: Option<Lines<ChildStderr>>,
    last_error: String,
}

impl Output {
    fn new(lines: Option<ChildStdout>, errors: Option<ChildStderr>) -> Self {
        Self {
            lines: lines.map(Lines::new),
            errors: errors.map(Lines::new),
            last_error: String::new(),
        }
    }

    fn take(&mut self, mut line: impl FnMut(&str)) {
        for text in self.lines.iter_mut().flat_map(Lines::take) {
            line(&text);
        }
        if let Some(last) = self.errors.iter_mut().flat_map(Lines::take).last() {
            self.last_error = last;
        }
    }
}
