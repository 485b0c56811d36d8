//! The kernel module for known delays, which a program of tardy-lab builds: that crate knows where
//! kernels and their headers are had.

use std::process::Command;

use crate::failure::Result;
use crate::{program, workspace};

/// Builds it for these kernels, or for the program's own choice where there are none.
///
/// # Errors
/// Where the program, or the module, cannot be built.
pub fn build(kernels: &[String]) -> Result<()> {
    // Built with the same features as the tests: cargo selects features over all given packages, so
    // other features would require a rebuild.
    let program = workspace::build(&["--workspace", "--example", "inject"])?;
    program::run(Command::new(program).args(kernels))
}
