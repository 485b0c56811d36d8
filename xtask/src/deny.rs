//! `cargo xtask deny`: licences, sources, versions and known faults of what is linked into the
//! tool, by the rules of deny.toml.
//!
//! Not a part of `cargo xtask test`: cargo-deny must be built, and a fault that others published
//! overnight would fail a change that has nothing to do with it. `.ci/run` builds it and checks all
//! rules but that one.

use crate::failure::{Failure, Result};
use crate::{program, workspace};

/// Checks these rules, or all of them where there are none.
pub(crate) fn run(rules: &[String]) -> Result<()> {
    if program::find("cargo-deny").is_none() {
        return Err(Failure::new(
            "there is no cargo-deny in PATH: install it with `cargo install --locked cargo-deny`",
        ));
    }
    program::run(
        workspace::cargo()
            .args(["deny", "--locked", "check"])
            .args(rules),
    )
}
