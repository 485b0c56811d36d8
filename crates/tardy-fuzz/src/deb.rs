//! The reader of Debian packages must not panic on any bytes, must not need disproportionate time
//! or memory, and must return only the requested files.

use std::path::Path;

use tardy_lab::deb::extract;

use crate::place;

/// See [`crate::Target::check`].
pub fn check(bytes: &[u8]) {
    let folder = place::folder();
    let package = folder.path().join("package.deb");
    place::write(&package, bytes);
    let wanted = |path: &Path| path.starts_with("boot") || path.starts_with("lib");
    match extract(&package, &wanted, &|found| found.len() == 4) {
        Ok(files) => assert!(files.len() <= 4 && files.iter().all(|file| wanted(&file.path))),
        Err(error) => drop(error.to_string()),
    }
}
