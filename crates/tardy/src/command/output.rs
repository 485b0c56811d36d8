//! Standard output: results and nothing else. A reader that has seen enough is no error.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use tardy_core::cause::without_numbers;
use tardy_live::view::Look;
use tardy_report::report::screen::{self, Screen};
use tardy_report::report::terminal_histogram::Blocks;
pub use tardy_run::output_file::{is_standard_output, replace, write};
use terminal_size::{Height, Width, terminal_size_of};

use super::reading;

/// Writes `text`; a closed pipe is success.
///
/// # Errors
/// Those of writing, but a broken pipe.
pub fn print(text: &str) -> io::Result<()> {
    reading::end();
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Says on standard error why there is no result.
pub fn complain(error: &dyn Display) {
    reading::end();
    say!("tardy: {}", without_numbers(&error.to_string()));
}

/// Columns of the terminal that standard output goes to; many where it is no terminal.
#[must_use]
pub fn width() -> usize {
    terminal_size_of(io::stdout()).map_or(usize::MAX, |(Width(columns), _)| columns.into())
}

/// The screen that standard output goes to. Where it is no terminal, COLUMNS and LINES tell;
/// without them lines are of 120 columns, as many as it takes.
#[must_use]
pub fn screen() -> Screen {
    let told = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|value| value.trim().parse::<usize>().ok())
            .filter(|&count| count > 0)
    };
    match terminal_size_of(io::stdout()) {
        Some((Width(columns), Height(lines))) => Screen {
            columns: columns.into(),
            lines: Some(lines.into()),
        },
        None => Screen {
            columns: told("COLUMNS").unwrap_or(120),
            lines: told("LINES"),
        },
    }
}

/// The screen for tables that choose their columns: where standard output is no terminal and
/// COLUMNS says nothing, sentences stay on one line.
#[must_use]
pub fn screen_or_page() -> Screen {
    let is_told = std::env::var_os("COLUMNS").is_some_and(|value| !value.is_empty());
    if io::stdout().is_terminal() || is_told {
        screen()
    } else {
        Screen {
            columns: usize::MAX,
            ..screen()
        }
    }
}

/// Text for people as the terminal shows it: no line is longer than it is wide.
#[must_use]
pub fn fitted(text: &str) -> String {
    screen::fitted(text, screen_or_page().columns)
}

/// How the terminal can be drawn on.
#[must_use]
pub fn look() -> Look {
    Look {
        is_unicode: Blocks::of_environment() == Blocks::Unicode,
        is_colored: is_colored(),
    }
}

/// Whether standard output is a terminal whose user wants colour (NO_COLOR is unset or empty).
#[must_use]
pub fn is_colored() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
