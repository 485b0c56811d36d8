//! Shows the progress of a command in a line on standard error, only on a terminal.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use tardy_sys::printable::printable;
use terminal_size::{Width, terminal_size_of};

/// Time after which the line is first shown; faster commands show none.
const FIRST: Duration = Duration::from_secs(1);
const EACH: Duration = Duration::from_millis(500);
/// Control sequence that moves the cursor to the start of the line and erases the line (ECMA-48,
/// EL).
const CLEAR: &str = "\r\x1b[K";

/// The line, which is shown until this value is dropped.
pub(super) struct StatusLine {
    /// Dropping the sender ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl StatusLine {
    /// Shows the result of `line`, first after a second and then twice per second. Returns `None`
    /// if standard error is not a terminal.
    pub(super) fn show(mut line: impl FnMut() -> String + Send + 'static) -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let (end, ended) = mpsc::channel::<()>();
        let work = move || {
            let mut wait = FIRST;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let line = fitted(&line());
                // The cursor returns to the start, so the next output overwrites this line.
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
            // The thread only writes to the terminal, so it ends soon.
            let _ = thread.join();
        }
    }
}

/// Prints a permanent line above the status line.
pub(super) fn say_above(text: &str) {
    let clear = if io::stderr().is_terminal() {
        CLEAR
    } else {
        ""
    };
    // The command continues if the terminal was closed.
    let _ = writeln!(io::stderr(), "{clear}{}", printable(text));
}

/// Returns text such as `, 12 s left`, estimated from the completed share; empty if less than one
/// hundredth is completed.
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

/// Cuts the line at the width of the terminal, because text beyond it could not be erased.
fn fitted(line: &str) -> String {
    let width = terminal_size_of(io::stderr()).map_or(usize::MAX, |(Width(columns), _)| {
        usize::from(columns).saturating_sub(1)
    });
    line.chars().take(width).collect()
}
