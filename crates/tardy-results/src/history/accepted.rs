//! Reads and writes the list of builds whose changes the user accepted. The list is a file next to
//! the runs.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tardy_sys::regular_file;

/// Name of the file, in the folder of the runs.
const FILE: &str = "accepted.json";
/// Maximum size of the file in bytes.
const LENGTH_MAX: u64 = 1 << 20;

#[derive(Debug, Default, Serialize, Deserialize)]
struct AcceptedBuilds {
    builds: BTreeSet<String>,
}

/// Why the list of accepted builds cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AcceptedError {
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("{} is not a list of accepted builds ({error})", path.display())]
    Content {
        path: PathBuf,
        error: serde_json::Error,
    },
}

/// Reads the builds that are accepted for the runs in `folder`; empty if the file does not exist.
///
/// # Errors
/// Fails with an [`AcceptedError`] if the file cannot be read or does not contain a list.
pub fn accepted(folder: &Path) -> Result<BTreeSet<String>, AcceptedError> {
    let path = folder.join(FILE);
    let error = |error| AcceptedError::File {
        path: path.clone(),
        error,
    };
    let text = match regular_file::read(&path, LENGTH_MAX) {
        Err(missing)
            if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory]
                .contains(&missing.kind()) =>
        {
            return Ok(BTreeSet::new());
        }
        read => read.map_err(error)?,
    };
    let accepted: AcceptedBuilds =
        serde_json::from_slice(&text).map_err(|error| AcceptedError::Content {
            path: path.clone(),
            error,
        })?;
    Ok(accepted.builds)
}

/// Adds these builds to the list, so that changes that start with them are accepted for the runs in
/// `folder`. Returns the path of the file.
///
/// # Errors
/// Fails with an [`AcceptedError`] if the file cannot be read or written.
pub fn accept(folder: &Path, builds: &[String]) -> Result<PathBuf, AcceptedError> {
    let path = folder.join(FILE);
    let mut accepted = AcceptedBuilds {
        builds: accepted(folder)?,
    };
    accepted.builds.extend(builds.iter().cloned());
    let text = serde_json::to_string_pretty(&accepted).expect("names are text") + "\n";
    let written = tardy_run::output_file::replace(&path, |mut file| {
        io::Write::write_all(&mut file, text.as_bytes())
    });
    written.map_err(|error| AcceptedError::File {
        path: path.clone(),
        error,
    })?;
    Ok(path)
}
