//! Writes lines for people to standard error.
//!
//! Text on standard error may be lost; results on standard output must not be lost. For example, a
//! run of a week continues if the disk of its log fills up, but an export that cannot be written
//! ends with exit code
//! 3. If a write fails, `eprintln!` and `println!` end the program, so a lint bans them from the
//!    code that users run.

use std::io::{self, Write};

/// Writes the text. If a write fails, for example because the disk of a log is full or the terminal
/// is closed, the error is ignored: the program's work matters more.
pub fn write(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Writes a line, as `eprintln!` does, but does not panic if the write fails; see
/// `standard_error::write`. Replaces characters that could control a terminal.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {{
        let mut line = ::std::format!($($words)*);
        line.push('\n');
        $crate::standard_error::write(&$crate::printable::printable(&line));
    }};
}
