//! Builds the kernel module for known delays with a program of tardy-lab, which knows how to get
//! kernels and their headers.

use std::process::Command;

use crate::failure::Result;
use crate::{program, workspace};

/// Builds it for these kernels, or without any, for the program's own choice.
///
/// # Errors
/// Returns an error if the program, or the module, cannot be built.
pub fn build(kernels: &[String]) -> Result<()> {
    // Built with the same features as the tests: cargo selects features over all given packages, so
    // other features would require a rebuild.
    let program = workspace::build(&["--workspace", "--example", "inject"])?;
    program::run(Command::new(program).args(kernels))
}
