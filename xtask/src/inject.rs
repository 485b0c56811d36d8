//! Builds the kernel module that injects known delays, with a program of tardy-lab, which can fetch
//! kernels and their headers.

use std::process::Command;

use crate::failure::Result;
use crate::{program, workspace};

/// Builds the module for these kernels. If no kernels are given, the program chooses them.
///
/// # Errors
/// Returns an error if the program, or the module, cannot be built.
pub fn build(kernels: &[String]) -> Result<()> {
    // The program is built with the same features as the tests, because other features would
    // require a rebuild. cargo selects the features over all given packages.
    let program = workspace::build(&["--workspace", "--example", "inject"])?;
    program::run(Command::new(program).args(kernels))
}
