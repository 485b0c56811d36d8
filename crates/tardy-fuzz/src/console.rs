//! The diagnosis of a guest must not panic on any console output, and must not print text that
//! controls the terminal.

use tardy_lab::diagnosis::{Failure, from_console, tail};

/// See [`crate::Target::check`].
pub fn check(bytes: &[u8]) {
    let console = String::from_utf8_lossy(bytes);
    let failure = Failure {
        cause: from_console(&console),
        console_tail: tail(&console),
        has_booted: false,
    };
    let _ = failure.blame();
    let shown = failure.to_string();
    assert!(
        !shown.contains(
            |character: char| character.is_control() && !['\n', '\t'].contains(&character)
        ),
        "{shown:?}"
    );
}
