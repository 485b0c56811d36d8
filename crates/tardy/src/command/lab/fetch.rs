//! `tardy lab fetch`: fetches kernels into the cache, and continues if one cannot be fetched.

use tardy_lab::cache::Cache;
use tardy_results::exit::Exit;

use super::super::output;
use super::setting::{LabError, architecture};
use crate::cli::lab::FetchArguments;
use crate::cli::lab::kernels::resolve;

pub(super) fn fetch(arguments: &FetchArguments) -> Result<Exit, LabError> {
    let architecture = architecture(arguments.arch)?;
    let cache = Cache::of_user()?;
    let mut exit = Exit::Done;
    for source in &arguments.kernels {
        match resolve(source, architecture, &cache, arguments.refresh) {
            Ok(kernel) => {
                let name = kernel
                    .package
                    .or(kernel.version)
                    .unwrap_or_else(|| kernel.name.clone());
                let _ = output::print(&format!("{source}: {name}\n"));
            }
            Err(error) => {
                say!("tardy: {source}: {error}");
                exit = Exit::Machine;
            }
        }
    }
    Ok(exit)
}
