//! A line on standard error with the progress of a command, only at a terminal.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use tardy_sys::printable::printable;
use terminal_size::{Width, terminal_size_of};

/// A command that is quicker shows none.
const FIRST: Duration = Duration::from_secs(1);
const EACH: Duration = Duration::from_millis(500);
/// Back to the start of the line, and erase it (ECMA-48, EL).
const CLEAR: &str = "\r\x1b[K";

/// The line, until it is dropped.
pub(super) struct StatusLine {
    /// Dropped to end the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl StatusLine {
    /// Shows the result of `line`, after a second and then twice a second. Returns `None` if
    /// standard error is not a terminal.
    pub(super) fn show(mut line: impl FnMut() -> String + Send + 'static) -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let (end, ended) = mpsc::channel::<()>();
        let work = move || {
            let mut wait = FIRST;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let line = fitted(&line());
                // The next output starts at the start of this line.
                let _ = write!(io::stderr(), "{CLEAR}{}\r", printable(&line));
                wait = EACH;
            }
            if wait == EACH {
                let _ = write!(io::stderr(), "{CLEAR}");
            }
        };
        let thread = std::thread::Builder::new().name("status".to_owned());
        Some(Self {
            end: Some(end),
            thread: Some(thread.spawn(work).ok()?),
        })
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // It writes to the terminal alone.
            let _ = thread.join();
        }
    }
}

/// Prints a line that stays, above the status line.
pub(super) fn say_above(text: &str) {
    let clear = if io::stderr().is_terminal() {
        CLEAR
    } else {
        ""
    };
    // A terminal that is gone is no reason to end.
    let _ = writeln!(io::stderr(), "{clear}{}", printable(text));
}

/// `, 12 s left`, by the share that is done; empty before a hundredth is.
pub(super) fn time_left(share: f64, elapsed: Duration) -> String {
    if share < 0.01 {
        return String::new();
    }
    let left = elapsed.as_secs_f64() * (1.0 - share).max(0.0) / share;
    if left < 90.0 {
        format!(", {left:.0} s left")
    } else {
        format!(", {:.0} min left", left / 60.0)
    }
}

/// Cuts the line at the terminal's width: text beyond it could not be erased.
fn fitted(line: &str) -> String {
    let width = terminal_size_of(io::stderr()).map_or(usize::MAX, |(Width(columns), _)| {
        usize::from(columns).saturating_sub(1)
    });
    line.chars().take(width).collect()
}
