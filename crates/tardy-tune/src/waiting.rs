//! Waits for a program while signals that would end the tool wait too, because changes must be
//! undone first.

use std::io;
use std::os::fd::AsFd;
use std::process::{Command, ExitStatus};

use tardy_sys::{child, process, signal};

/// Signals that ask the tool to end, blocked.
pub struct Signals(signal::SignalFd);

/// Interval between checks whether a program has ended, in ms; a run takes seconds.
const LOOK_MS: i32 = 20;

impl Signals {
    /// Call it before the process has threads.
    pub fn block() -> io::Result<Self> {
        signal::SignalFd::block(&[signal::INTERRUPT, signal::TERMINATE, signal::HANG_UP]).map(Self)
    }

    /// Returns whether one has come since it was asked last.
    pub fn have_come(&self) -> bool {
        matches!(self.0.take(), Ok(Some(_)))
    }

    /// Runs a program to its end, and stops it when the tool is stopped; returns whether it was.
    /// The kernel kills it with the tool.
    pub fn wait_for(&self, command: &mut Command) -> io::Result<(ExitStatus, bool)> {
        let mut program = child::kill_with_parent(command).spawn()?;
        let mut is_asked = false;
        loop {
            if let Some(status) = program.try_wait()? {
                return Ok((status, is_asked));
            }
            signal::wait_readable(&[self.0.as_fd()], LOOK_MS)?;
            while let Some(signal) = self.0.take()? {
                is_asked = true;
                // The terminal's interrupt has reached the program, too.
                if signal != signal::INTERRUPT || !std::io::IsTerminal::is_terminal(&io::stdin()) {
                    let _ = process::kill(i32::try_from(program.id()).unwrap_or(i32::MAX), signal);
                }
            }
        }
    }
}
