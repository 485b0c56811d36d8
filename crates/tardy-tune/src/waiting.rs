//! Waits for a program while termination signals are blocked, because the tool must undo its
//! changes before it ends.

use std::io;
use std::os::fd::AsFd;
use std::process::{Command, ExitStatus};

use tardy_sys::{child, process, signal};

/// The blocked signals that ask the tool to end.
pub struct Signals(signal::SignalFd);

/// Interval in ms between checks whether a program has ended. A run takes seconds, so the delay is
/// small.
const LOOK_MS: i32 = 20;

impl Signals {
    /// Blocks the signals. Must be called before the process starts threads.
    pub fn block() -> io::Result<Self> {
        signal::SignalFd::block(&[signal::INTERRUPT, signal::TERMINATE, signal::HANG_UP]).map(Self)
    }

    /// Returns whether a signal has arrived since the last call.
    pub fn have_come(&self) -> bool {
        matches!(self.0.take(), Ok(Some(_)))
    }

    /// Runs a program to its end, and passes on signals that ask the tool to end. Also returns
    /// whether such a signal arrived. The kernel kills the program if the tool dies.
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
                // Ctrl-C in a terminal has already reached the program.
                if signal != signal::INTERRUPT || !std::io::IsTerminal::is_terminal(&io::stdin()) {
                    let _ = process::kill(i32::try_from(program.id()).unwrap_or(i32::MAX), signal);
                }
            }
        }
    }
}
