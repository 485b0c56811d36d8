//! Runs external programs as part of a load: starts each in a separate process group, watches it,
//! and stops or kills it.

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
    /// The program ended by itself. The text is the last line of its error output.
    Ended(ExitStatus, String),
    /// The program was stopped because the load was asked to stop.
    Stopped,
}

/// Interval between checks whether a program has ended.
const CHECK_INTERVAL: Nanos = Nanos::from_millis(20);
/// Maximum time until a program ends after SIGTERM. Then its process group is killed.
const TERMINATE_LIMIT: Nanos = Nanos::from_secs(5);

/// Runs `command` until it ends or the load is asked to stop. Calls `line` with each line of its
/// output.
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
        // Processes that the program forked and abandoned become children of this process, because
        // it is their subreaper. This loop reaps these processes, too.
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

/// Asks the program's group to stop, and kills the group if the program does not end in time.
fn end(worker: &mut Worker, pid: i32, output: &mut Output) -> Result<(), WorkError> {
    let deadline = tardy_sys::clock::monotonic() + TERMINATE_LIMIT.get();
    let _ = process::kill_group(pid, signal::TERMINATE);
    let mut killed = false;
    loop {
        // Reads the output, so that a program that is busy printing does not block.
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
