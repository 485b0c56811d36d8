//! Running other programs.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::failure::{Failure, Result, While};

/// The command as a user would type it.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| quoted(&word.to_string_lossy()))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Runs the command to its end with its output on the terminal.
pub fn run(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", line(command));
    let status = command
        .status()
        .while_doing(|| format!("starting `{}`", line(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!(
            "`{}` failed ({status})",
            line(command)
        )))
    }
}

/// Runs the command to its end and returns what it printed, whatever its exit code.
pub fn output(command: &mut Command) -> Result<Output> {
    command
        .output()
        .while_doing(|| format!("starting `{}`", line(command)))
}

/// Runs the command to its end, which must be a good one, and returns its standard output.
pub fn capture(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::new(format!(
            "`{}` failed ({}): {}",
            line(command),
            output.status,
            said.trim()
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Where a program is: in PATH, or where administrators' programs are, which not every user's PATH
/// has.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_a_shell_would_split_are_quoted() {
        let mut command = Command::new("cargo");
        command.args(["run", "--for", "1 s", "it's"]);
        assert_eq!(line(&command), r"cargo run --for '1 s' 'it'\''s'");
    }

    #[test]
    fn a_program_that_is_not_there_is_not_found() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-anywhere").is_none());
    }
}
