//! Tasks that need the product's crates. They are separate programs, which cargo builds when they
//! are needed.

use std::process::Command;

use clap::Args;

use crate::failure::Result;
use crate::{program, workspace};

/// Arguments for another program, which also prints the help.
#[derive(Debug, Args)]
pub(crate) struct Words {
    /// Arguments of the program; see `--help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Runs a task of `tardy-bench`, in the release build, because it processes millions of samples.
pub(crate) fn benchmarks(task: &str, words: &Words) -> Result<()> {
    program::run(command("tardy-bench").arg(task).args(&words.words))
}

/// Runs `tardy-faults`.
pub(crate) fn faults(words: &Words) -> Result<()> {
    program::run(command("tardy-faults").args(&words.words))
}

fn command(package: &str) -> Command {
    let mut command = workspace::cargo();
    command
        .args("run --quiet --locked --release --package".split(' '))
        .args([package, "--"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_is_told_what_was_typed() {
        let words = Words {
            words: ["memory", "--quick"].map(str::to_owned).to_vec(),
        };
        let line = program::line(command("tardy-bench").arg("bench").args(&words.words));
        assert!(
            line.ends_with("--release --package tardy-bench -- bench memory --quick"),
            "{line}"
        );
    }
}
