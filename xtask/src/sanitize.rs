//! `cargo xtask sanitize`: runs the tests of the two crates with unsafe code under tools that
//! detect undefined behaviour.
//!
//! Each tool has gaps. Miri interprets Rust by its rules, but knows few system calls. Miri
//! therefore runs only [`MIRI_TESTS`]; the result states the number of omitted tests.
//! AddressSanitizer runs all tests against the real kernel, and detects invalid memory accesses of
//! the compiled code.

use std::process::Command;

use clap::{Args, ValueEnum};

use crate::failure::{Failure, Result};
use crate::{program, workspace};

/// The crates with unsafe code.
const CRATES: [&str; 2] = ["tardy-app", "tardy-sys"];
/// The target for which tests are built; its toolchain includes the sanitizer's library.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Tests of `tardy-sys` whose system calls Miri knows. `tardy-app` has no such test, because Miri
/// cannot map files.
const MIRI_TESTS: [&str; 4] = [
    "capability::tests::the_kernel_numbers_them_so",
    "clock::tests::advancing_equals_adding",
    "gpio_lines::tests::layouts_and_codes_are_the_kernels",
    "scoped::tests::what_no_thread_can_do_the_calling_one_does",
];

/// A tool that detects undefined behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tool {
    /// Miri, on the tests that it can run
    Miri,
    /// AddressSanitizer, on all tests
    Address,
}

/// `cargo xtask sanitize`.
#[derive(Debug, Args)]
pub(crate) struct SanitizeArguments {
    /// The tools to run [default: all]
    #[arg(long = "tool", value_name = "TOOL,...", value_delimiter = ',')]
    tools: Vec<Tool>,
}

/// Runs the task.
pub(crate) fn run(arguments: &SanitizeArguments) -> Result<()> {
    let tools = if arguments.tools.is_empty() {
        Tool::value_variants()
    } else {
        &arguments.tools
    };
    let mut said = Vec::new();
    let mut failed = Vec::new();
    for tool in tools {
        match tool.run() {
            Ok(line) => said.push(line),
            Err(failure) => failed.push(failure.to_string()),
        }
    }
    said.iter().for_each(|line| println!("{line}"));
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(failed.join("; ")))
    }
}

impl Tool {
    /// Runs the tests, and returns a sentence with the numbers of tests that ran and that were
    /// omitted.
    fn run(self) -> Result<String> {
        let all = tests_of(&program::capture(self.command().args(["--", "--list"]))?);
        let chosen: Vec<&String> = all
            .iter()
            .filter(|test| self != Self::Miri || MIRI_TESTS.contains(&test.as_str()))
            .collect();
        let missing = MIRI_TESTS
            .iter()
            .find(|test| self == Self::Miri && !all.iter().any(|found| found == *test));
        if let Some(test) = missing {
            return Err(Failure::new(format!(
                "there is no test {test}: correct the list in xtask/src/sanitize.rs"
            )));
        }
        let mut command = self.command();
        command
            .args(["--", "--exact"])
            .args(if self == Self::Miri { &chosen[..] } else { &[] });
        program::run(&mut command)?;
        Ok(self.told(all.len(), chosen.len()))
    }

    fn told(self, all: usize, ran: usize) -> String {
        let crates = CRATES.join(" and ");
        match self {
            Self::Miri => format!(
                "miri: {ran} of {all} tests of {crates} ran, and nothing was found; left out: {} \
                 that make system calls which Miri does not know",
                all - ran
            ),
            Self::Address => {
                format!("address: all {all} tests of {crates} ran, and nothing was found")
            }
        }
    }

    /// Returns the command that runs the tests.
    fn command(self) -> Command {
        let mut command = Command::new("cargo");
        command.current_dir(workspace::root()).arg("+nightly");
        command.args(if self == Self::Miri {
            &["miri", "test"][..]
        } else {
            &["test"]
        });
        command.args(["--locked", "--lib", "--target", TARGET]);
        for name in CRATES {
            command.args(["--package", name]);
        }
        // RUSTFLAGS replaces the flags of .cargo/config.toml, because a sanitizer does not work in
        // a static program.
        match self {
            Self::Miri => command.env("MIRIFLAGS", "-Zmiri-disable-isolation"),
            Self::Address => command.env("RUSTFLAGS", "-Zsanitizer=address"),
        };
        command
            .arg("--target-dir")
            .arg(workspace::root().join("target/sanitize").join(self.name()));
        command
    }

    fn name(self) -> &'static str {
        match self {
            Self::Miri => "miri",
            Self::Address => "address",
        }
    }
}

/// Returns the names of the tests in the output of `--list`.
fn tests_of(list: &str) -> Vec<String> {
    list.lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_tests_are_read_from_their_list() {
        assert_eq!(
            tests_of("a::tests::it_works: test\nb::bench: benchmark\n\n1 test, 1 benchmark\n"),
            ["a::tests::it_works"]
        );
    }

    #[test]
    fn every_test_that_miri_runs_is_in_its_file() {
        for test in MIRI_TESTS {
            let (module, name) = test.split_once("::tests::").unwrap();
            let file = workspace::root()
                .join("crates/tardy-sys/src")
                .join(format!("{module}.rs"));
            let text = std::fs::read_to_string(&file)
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            assert!(text.contains(&format!("fn {name}()")), "{test}");
        }
    }
}
