//! `cargo xtask sanitize`: runs the tests of the two crates with unsafe code under tools that
//! detect undefined behaviour.
//!
//! Each tool has gaps. Miri interprets Rust by its rules, but knows few system calls. Miri
//! therefore runs only [`MIRI_TESTS`]; the test programs print how many tests are left out.
//! AddressSanitizer runs all tests against the real kernel, and detects invalid memory accesses of
//! the compiled code.

use std::process::Command;

use crate::failure::{self, Result};
use crate::{program, workspace};

/// The crates with unsafe code.
const CRATES: [&str; 2] = ["tardy-app", "tardy-sys"];
/// The target for which the tests are built; the sanitizer's library is part of its toolchain.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Tests of `tardy-sys` whose system calls Miri knows. `tardy-app` has no such test, because Miri
/// cannot map files.
const MIRI_TESTS: [&str; 4] = [
    "capability::tests::the_kernel_numbers_them_so",
    "clock::tests::advancing_equals_adding",
    "gpio_lines::tests::layouts_and_codes_are_the_kernels",
    "scoped::tests::what_no_thread_can_do_the_calling_one_does",
];

/// Runs both tools.
pub(crate) fn run() -> Result<()> {
    let mut miri = tests("miri", &["miri", "test"]);
    miri.env("MIRIFLAGS", "-Zmiri-disable-isolation")
        .args(["--", "--exact"])
        .args(MIRI_TESTS);
    // RUSTFLAGS replaces the flags in .cargo/config.toml, because a sanitizer does not work in a
    // static program.
    let mut address = tests("address", &["test"]);
    address.env("RUSTFLAGS", "-Zsanitizer=address");
    let failed: Vec<String> = [miri, address]
        .iter_mut()
        .filter_map(|tool| program::run(tool).err())
        .map(|failure| failure.to_string())
        .collect();
    failure::unless_empty("", &failed)
}

/// Returns the command `cargo WORDS` for the tests; its target folder is `target/sanitize/NAME`.
fn tests(name: &str, words: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command
        .current_dir(workspace::root())
        .arg("+nightly")
        .args(words)
        .args(["--locked", "--lib", "--target", TARGET, "--target-dir"])
        .arg(workspace::root().join("target/sanitize").join(name))
        .args(CRATES.iter().flat_map(|name| ["--package", name]));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

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
