//! Standard output: results and nothing else. A reader that has seen enough is no error.

use std::io::{self, IsTerminal, Write};

use terminal_size::{Width, terminal_size_of};

/// Writes `text`; a closed pipe is success.
///
/// # Errors
/// Those of writing, but a broken pipe.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Columns of the terminal that standard output goes to; many where it is none.
#[must_use]
pub fn width() -> usize {
    terminal_size_of(io::stdout()).map_or(usize::MAX, |(Width(columns), _)| columns.into())
}

/// Whether standard output is a terminal whose user wants colour (NO_COLOR is unset or empty).
#[must_use]
pub fn is_colored() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
