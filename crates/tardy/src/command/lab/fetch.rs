//! `tardy lab fetch`: kernels into the cache. One that cannot be had does not keep the others from being fetched.

use tardy_lab::cache::Cache;
use tardy_lab::kernel;
use tardy_results::exit::Exit;

use super::setting::{LabError, architecture};
use crate::cli::lab::FetchArguments;

pub(super) fn fetch(arguments: &FetchArguments) -> Result<Exit, LabError> {
    let architecture = architecture(arguments.arch)?;
    let cache = Cache::of_user()?;
    let mut exit = Exit::Done;
    for source in &arguments.kernels {
        match kernel::resolve(source, architecture, &cache, arguments.refresh) {
            Ok(kernel) => println!("{source}: {}", kernel.package.or(kernel.version).unwrap_or_else(|| kernel.name.clone())),
            Err(error) => {
                eprintln!("tardy: {source}: {error}");
                exit = Exit::Machine;
            }
        }
    }
    Ok(exit)
}
