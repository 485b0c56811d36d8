//! Shared code of loads that write files to the device behind a folder. It chooses the folder and
//! its device, and defines how long a busy device may take.

use std::path::PathBuf;

use tardy_core::units::Nanos;
use tardy_machine::host::disk_floor;
use tardy_run::parameter::Parameter;

use super::Unsupported;
use super::allowance;
use super::backing::Backing;
use super::resolution::Resolution;

/// The parameter that names the folder.
pub(super) const FOLDER: Parameter = Parameter::path(
    "folder",
    "folder whose file system holds the file; if unset, the run's file system",
);
/// Pause while the load may not write to the device.
pub(super) const REST: Nanos = Nanos::from_millis(5);
/// Time that the load may take to stop. A sync to a busy card takes seconds.
const FINISH_LIMIT: Nanos = Nanos::from_secs(60);

/// Returns the folder whose file system gets the load's files, and its storage. The folder is the
/// given one, otherwise that of the run, otherwise the scratch folder. Also limits the load's disk
/// share to the free space there, minus the reserve.
///
/// # Errors
/// Returns an error if the given path is not a folder.
pub(super) fn folder(resolution: &mut Resolution<'_>) -> Result<(PathBuf, Backing), Unsupported> {
    let host = resolution.host;
    let folder = match resolution.plan.parameters.path(FOLDER.name) {
        Some(given) if given.is_dir() => given.to_owned(),
        Some(given) => {
            let remedy = format!(
                "give an existing folder with {}:folder=...",
                resolution.plan.name
            );
            return Err(Unsupported::new(
                format!("folder {}", given.display()),
                remedy,
            ));
        }
        None => host.run.clone().unwrap_or_else(|| host.scratch.clone()),
    };
    let room = host
        .room(&folder)
        .map_or(0, |room| room.free.saturating_sub(disk_floor(room.total)));
    resolution.share.disk = resolution.share.disk.min(room);
    let backing = Backing::of(&folder, host);
    Ok((folder, backing))
}

/// Plans that each worker writes a file of `size` bytes in `folder`.
pub(super) fn put_files(
    resolution: &mut Resolution<'_>,
    folder: PathBuf,
    backing: &Backing,
    size: u64,
) {
    allowance::declare(resolution, backing);
    resolution.plan.budget.disk = size * resolution.workers();
    resolution.plan.finish_limit = FINISH_LIMIT;
    resolution.plan.scratch = Some(folder);
}
