//! Builds the kernel module that makes known delays, by running a program of tardy-lab, which can
//! fetch kernels and their headers.

use std::process::Command;

use crate::failure::Result;
use crate::{program, workspace};

/// Builds the module for these kernels. If no kernels are given, the program builds the module for
/// its default kernels.
///
/// # Errors
/// Returns an error if the program, or the module, cannot be built.
pub fn build(kernels: &[String]) -> Result<()> {
    // The program is built with the same features as the tests, because other features would
    // require a rebuild. cargo determines the features from all packages on its command line.
    let program = workspace::build(&["--workspace", "--example", "inject"])?;
    program::run(Command::new(program).args(kernels))
}
