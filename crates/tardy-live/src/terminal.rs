//! Sets up the terminal for the time in which a screen is drawn on it. The terminal is restored on
//! every exit except SIGKILL; after a SIGKILL, the command `reset` restores it.
//!
//! The view reads its few keys itself, instead of using the event loop of a terminal library. Such
//! an event loop installs a handler of SIGWINCH, which the kernel may run in any thread of the
//! process, even in a measuring thread. Instead, the size of the terminal is queried for each
//! frame.

use std::io::{self, BufWriter, Stderr, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, Once, PoisonError};

use ratatui::Terminal as Drawing;
use ratatui::layout::Rect;
use ratatui::{TerminalOptions, Viewport};
use tardy_sys::terminal::{self, Setting};
use terminal_size::{Height, Width, terminal_size_of};

use crate::ansi::{self, Ansi};
use crate::draw::{self, Look};
use crate::screen::Screen;

/// The settings that must be restored. They are in a static variable, because a panic of any thread
/// must restore the terminal so that the panic's message is readable.
static SAVED: Mutex<Option<SavedTerminal>> = Mutex::new(None);

struct SavedTerminal {
    setting: Option<Setting>,
}

/// Buffer size in bytes. A frame up to this size is written with one system call.
const FRAME_BYTES: usize = 64 << 10;

pub(crate) struct Terminal {
    drawing: Drawing<Ansi<BufWriter<Stderr>>>,
    has_keys: bool,
}

impl Terminal {
    /// Returns whether keys can be read, which is the case if standard input is a terminal and this
    /// process is in the terminal's foreground.
    pub(crate) fn has_keys() -> bool {
        io::IsTerminal::is_terminal(&io::stdin()) && terminal::is_in_foreground(io::stdin().as_fd())
    }

    /// Prepares the terminal of standard error for drawing, and standard input for reading single
    /// keys.
    pub(crate) fn take() -> io::Result<Self> {
        put_back_on_panic();
        let has_keys = Self::has_keys();
        let setting = has_keys
            .then(|| terminal::read_single_keys(io::stdin().as_fd()))
            .transpose()?;
        *SAVED.lock().unwrap_or_else(PoisonError::into_inner) = Some(SavedTerminal { setting });
        let taken = || {
            let mut out = BufWriter::with_capacity(FRAME_BYTES, io::stderr());
            out.write_all(ansi::ENTER.as_bytes())?;
            out.flush()?;
            let size = size();
            // The viewport has a fixed size, because `draw` itself asks for the size of the
            // terminal.
            let options = TerminalOptions {
                viewport: Viewport::Fixed(size),
            };
            let drawing = Drawing::with_options(Ansi { out, size }, options)?;
            Ok(Self { drawing, has_keys })
        };
        taken().inspect_err(|_| put_back())
    }

    /// Draws a frame.
    pub(crate) fn draw(&mut self, screen: &Screen, look: Look) -> io::Result<()> {
        if SAVED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_none()
        {
            return Err(io::Error::other("a panic restored the terminal"));
        }
        let size = size();
        if size != self.drawing.get_frame().area() {
            self.drawing.backend_mut().size = size;
            self.drawing.resize(size)?;
        }
        self.drawing
            .draw(|frame| draw::draw(frame, screen, look))
            .map(drop)
    }

    /// Returns the pressed keys; no keys if the terminal is gone.
    pub(crate) fn keys(&mut self) -> Vec<u8> {
        let mut room = [0; 64];
        match terminal::read(io::stdin().as_fd(), &mut room) {
            Ok(count) if count > 0 => room[..count].to_vec(),
            // The terminal was readable but has no bytes, so it was hung up.
            _ => {
                self.has_keys = false;
                Vec::new()
            }
        }
    }

    /// Returns whether keys can still arrive.
    pub(crate) fn waits_for_keys(&self) -> bool {
        self.has_keys
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        put_back();
    }
}

/// Restores the terminal. Further calls do nothing.
pub(crate) fn put_back() {
    let Some(saved) = SAVED.lock().unwrap_or_else(PoisonError::into_inner).take() else {
        return;
    };
    let mut out = io::stderr().lock();
    // If the terminal cannot be written to, it is gone and nothing has to be restored.
    let _ = out
        .write_all(ansi::LEAVE.as_bytes())
        .and_then(|()| out.flush());
    if let Some(setting) = saved.setting {
        let _ = terminal::restore(io::stdin().as_fd(), &setting);
    }
}

fn put_back_on_panic() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            put_back();
            before(info);
        }));
    });
}

fn size() -> Rect {
    terminal_size_of(io::stderr()).map_or(
        Rect::new(0, 0, 80, 24),
        |(Width(columns), Height(lines))| Rect::new(0, 0, columns, lines),
    )
}
