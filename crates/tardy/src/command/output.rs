//! Writes to standard output, which gets only results. A reader that closes the pipe early causes
//! no error.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use tardy_core::cause::without_numbers;
use tardy_live::view::Look;
use tardy_report::report::screen::{self, Screen};
use tardy_report::report::terminal_histogram::Blocks;
pub use tardy_run::output_file::{is_standard_output, replace, write};
use tardy_sys::printable::printable;
use terminal_size::{Height, Width, terminal_size_of};

use super::reading;

/// Words for verdicts and severities, with their SGR colours (ECMA-48).
const COLORS: [(&str, u8); 11] = [
    ("PASSED", 32),
    ("BETTER", 32),
    ("EQUIVALENT", 32),
    ("FAILED", 31),
    ("WORSE", 31),
    ("FATAL", 31),
    ("HIGH", 31),
    ("INCONCLUSIVE", 33),
    ("MIXED", 33),
    ("MEDIUM", 33),
    ("LOW", 33),
];

/// Writes `text` without terminal control characters. On a terminal, verdicts are coloured. A
/// closed pipe counts as success.
///
/// # Errors
/// Returns an error if writing fails, except for a broken pipe.
pub fn print(text: &str) -> io::Result<()> {
    reading::end();
    let mut text = printable(text);
    if is_colored() {
        text = text
            .split_inclusive('\n')
            .map(colored)
            .collect::<String>()
            .into();
    }
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Makes the verdict of a line, at its start or after a colon, bold and coloured.
fn colored(line: &str) -> Cow<'_, str> {
    for (start, _) in line.match_indices(|letter: char| letter.is_ascii_uppercase()) {
        let word = line[start..]
            .split(|letter: char| !letter.is_ascii_uppercase())
            .next()
            .unwrap_or_default();
        let is_first = start == 0 || line[..start].ends_with(": ");
        if is_first && let Some((_, color)) = COLORS.iter().find(|(verdict, _)| *verdict == word) {
            let (before, after) = (&line[..start], &line[start + word.len()..]);
            return format!("{before}\x1b[1;{color}m{word}\x1b[0m{after}").into();
        }
    }
    line.into()
}

/// Prints an error on standard error, as the reason why there is no result.
pub fn complain(error: &dyn Display) {
    reading::end();
    say!("tardy: {}", without_numbers(&error.to_string()));
}

/// Returns the width of standard output in columns; a large number if it is not a terminal.
#[must_use]
pub fn width() -> usize {
    terminal_size_of(io::stdout()).map_or(usize::MAX, |(Width(columns), _)| columns.into())
}

/// Returns the size of the screen for standard output. If standard output is not a terminal,
/// COLUMNS and LINES define the size; if they are not set, lines have 120 columns, and their number
/// is unlimited.
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

/// Returns the size of the screen for text that is fitted to its width. If standard output is not a
/// terminal, and COLUMNS is unset or empty, the width is unlimited.
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

/// Wraps text at the width of the terminal.
#[must_use]
pub fn fitted(text: &str) -> String {
    screen::fitted(text, screen_or_page().columns)
}

/// Returns how the live view can be drawn on standard output: with which characters, and with or
/// without colours.
#[must_use]
pub fn look() -> Look {
    Look {
        is_unicode: Blocks::of_environment() == Blocks::Unicode,
        is_colored: is_colored(),
    }
}

/// Returns whether standard output is a terminal, and its user wants colour (NO_COLOR is unset or
/// empty).
#[must_use]
fn is_colored() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_coloured_where_a_line_or_a_sentence_begins() {
        assert_eq!(colored("FAILED: x\n"), "\x1b[1;31mFAILED\x1b[0m: x\n");
        assert_eq!(
            colored("b against A: MIXED: better\n"),
            "b against A: \x1b[1;33mMIXED\x1b[0m: better\n"
        );
        for plain in ["was PASSED\n", "PASSEDLY\n", "CPU 1: 8 us\n"] {
            assert_eq!(colored(plain), plain);
        }
    }
}
