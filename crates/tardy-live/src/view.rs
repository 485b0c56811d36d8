//! The thread that draws a run and reads keys, on the housekeeping CPUs. The thread sleeps between
//! frames and keys.
//!
//! Ctrl-C still sends a signal, so that the run can be stopped even if the view's thread hangs. It
//! hangs if the terminal accepts no output. Ctrl-Z and Ctrl-\ are disabled, because with them the
//! shell would get the terminal while the screen is drawn on it.
//!
//! The time of a mark is the time at which the view saw the key, rather than the time at which the
//! mark is recorded.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;
use tardy_sys::event_fd::EventFd;
use tardy_sys::signal::wait_readable;
use tardy_sys::{affinity, clock, process, signal};

pub use crate::draw::Look;
use crate::feed::Feed;
use crate::growing::GrowingFolder;
use crate::pace::{INTERVAL_OF_VIEW, Pace};
use crate::screen::{Action, Key, Owner, Screen};
use crate::terminal::Terminal;

const STACK_BYTES: usize = 512 << 10;
/// If the terminal accepts no output, the end of a run waits for the view no longer than this.
const END_LIMIT: Duration = Duration::from_secs(1);
/// Figures are requested this long before a frame, so that the recorder has time to answer.
const FIGURES_COME_WITHIN: Nanos = Nanos::from_millis(130);

/// The view of this process's own run.
#[derive(Debug)]
pub struct View {
    end: Arc<EventFd>,
    has_ended: Receiver<()>,
}

/// Returns whether a screen can be drawn. This requires that standard output and standard error are
/// terminals with a movable cursor, and, if standard input is a terminal, that this process is in
/// the foreground.
#[must_use]
pub fn is_possible() -> bool {
    let can_move = std::env::var_os("TERM").is_some_and(|name| !name.is_empty() && name != "dumb");
    let is_terminal =
        io::IsTerminal::is_terminal(&io::stderr()) && io::IsTerminal::is_terminal(&io::stdout());
    // A run in the background must not draw on the terminal of the foreground process.
    can_move && is_terminal && (Terminal::has_keys() || !io::IsTerminal::is_terminal(&io::stdin()))
}

impl View {
    /// Prepares the terminal, and starts the drawing thread on `cpus`.
    ///
    /// # Errors
    /// Returns an error if the terminal cannot be prepared or the thread cannot be started. If it
    /// returns an error, the terminal is unchanged.
    pub fn start(feed: Arc<Feed>, cpus: &CpuList, look: Look) -> io::Result<Self> {
        let end = Arc::new(EventFd::new()?);
        let is_ended = Arc::clone(&end);
        let cpus: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
        let (ended, has_ended) = mpsc::sync_channel(1);
        let mut terminal = Terminal::take()?;
        std::thread::Builder::new()
            .name("tardy-view".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let _ = affinity::set(0, &cpus);
                // Errors of the terminal are ignored, because they must not stop the run.
                let _ = follow(&feed, &is_ended, &mut terminal, look);
                drop(terminal);
                let _ = ended.send(());
            })?;
        Ok(Self { end, has_ended })
    }

    /// Stops the view and restores the terminal.
    pub fn finish(self) {
        drop(self);
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.end.add(1);
        let _ = self.has_ended.recv_timeout(END_LIMIT);
        crate::terminal::put_back();
    }
}

fn follow(feed: &Feed, end: &EventFd, terminal: &mut Terminal, look: Look) -> io::Result<()> {
    let mut screen = Screen::new(Owner::Own, terminal.waits_for_keys());
    let mut pace = Pace::new(Nanos(clock::monotonic())).at_least_every(INTERVAL_OF_VIEW);
    feed.want();
    loop {
        let began = clock::thread_cpu_time();
        if let Some(progress) = feed.progress() {
            screen.content.take(progress, feed.take_figures());
        }
        terminal.draw(&screen, look)?;
        pace.spent(
            Nanos(clock::monotonic()),
            Nanos(clock::thread_cpu_time() - began),
        );
        let mut has_asked = false;
        loop {
            let now = Nanos(clock::monotonic());
            // Figures are requested shortly before they are drawn, so that they are up to date.
            let next = if has_asked {
                pace.next()
            } else {
                pace.next() + Nanos(-FIGURES_COME_WITHIN.get())
            };
            if now >= next && has_asked {
                break;
            }
            if now >= next {
                feed.want();
                has_asked = true;
                continue;
            }
            let mut fds = vec![end.as_fd()];
            let stdin = io::stdin();
            if terminal.waits_for_keys() {
                fds.push(stdin.as_fd());
            }
            let timeout = ((next - now).get() / 1_000_000 + 1).min(60_000) as i32;
            let ready = wait_readable(&fds, timeout)?;
            if ready.first() == Some(&true) {
                return Ok(());
            }
            if ready.get(1) == Some(&true) {
                for key in Key::of_bytes(&terminal.keys()) {
                    match screen.press(key) {
                        Some(Action::Mark) => feed.mark(Nanos(clock::monotonic())),
                        // As after Ctrl-C, the run ends normally and its record is complete.
                        Some(Action::End) => {
                            process::kill(std::process::id() as i32, signal::INTERRUPT)?
                        }
                        None => {}
                    }
                }
                // The frame is drawn here, so that the effect of a key is visible at once.
                terminal.draw(&screen, look)?;
            }
        }
    }
}

/// Shows the run in `folder` until the run ends or the user quits.
///
/// # Errors
/// Returns an error if the terminal fails or the folder cannot be read.
pub fn watch(folder: &mut GrowingFolder, look: Look) -> io::Result<()> {
    let signals =
        signal::SignalFd::block(&[signal::INTERRUPT, signal::TERMINATE, signal::HANG_UP])?;
    let mut terminal = Terminal::take()?;
    let mut screen = Screen::new(Owner::Other, terminal.waits_for_keys());
    let mut pace = Pace::new(Nanos(clock::monotonic())).at_least_every(INTERVAL_OF_VIEW);
    loop {
        let now = Nanos(clock::monotonic());
        if now >= pace.next() {
            let began = clock::thread_cpu_time();
            folder.look(&mut screen.content)?;
            terminal.draw(&screen, look)?;
            pace.spent(now, Nanos(clock::thread_cpu_time() - began));
        }
        let mut fds = vec![signals.as_fd()];
        let stdin = io::stdin();
        if terminal.waits_for_keys() {
            fds.push(stdin.as_fd());
        }
        let timeout = ((pace.next() - Nanos(clock::monotonic())).get() / 1_000_000 + 1)
            .clamp(1, 60_000) as i32;
        let ready = wait_readable(&fds, timeout)?;
        if ready.first() == Some(&true) && signals.take()?.is_some() {
            return Ok(());
        }
        if ready.get(1) == Some(&true) {
            for key in Key::of_bytes(&terminal.keys()) {
                if screen.press(key) == Some(Action::End) {
                    return Ok(());
                }
            }
            terminal.draw(&screen, look)?;
        }
    }
}
