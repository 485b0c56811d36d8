//! Lines for people on standard error.
//!
//! Text on standard error may be lost, results on standard output may not. A week-long run keeps
//! running when the disk of its log fills up; an export that cannot be written is exit code 3.
//! `eprintln!` and `println!` would end the program in both cases, so a lint bans them from the
//! code that users run.

use std::io::{self, Write};

/// Writes the text. One that cannot be written, because the disk of a log is full or the terminal
/// is gone, is lost: what the program does matters more.
pub fn write(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Writes a line as `eprintln!` does, which panics where that fails; see `standard_error::write`.
/// No character of it can steer a terminal.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {{
        let mut line = ::std::format!($($words)*);
        line.push('\n');
        $crate::standard_error::write(&$crate::printable::printable(&line));
    }};
}
