//! The parser of the command line must not panic on any words. The words are parsed, but no command
//! runs. NUL bytes separate words, as in /proc/PID/cmdline.

use std::cell::RefCell;

use clap::{Command, CommandFactory, FromArgMatches};
use tardy::cli::{Cli, renamed};

thread_local! {
    /// The definition of the command line. Building the definition takes longer than parsing a
    /// line, so it is built once.
    static COMMAND: RefCell<Command> = RefCell::new(Cli::command());
}

/// See [`crate::Target::check`].
pub fn check(bytes: &[u8]) {
    let line = String::from_utf8_lossy(bytes);
    let words: Vec<String> = line.split('\0').map(str::to_owned).collect();
    let _ = renamed::notes(&words);
    let words = std::iter::once("tardy".to_owned()).chain(words);
    let parsed = COMMAND
        .with_borrow_mut(|command| command.try_get_matches_from_mut(words))
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    match parsed {
        Ok(cli) => drop(format!("{cli:?}")),
        Err(error) => drop(error.to_string()),
    }
}
