//! How the guest of a lab run started: the part of `lab.json` that comparisons need.

use std::path::Path;

use serde::Deserialize;
use tardy_sys::regular_file;

/// Name of the file that the lab adds to the run folder of a guest.
pub const PROVENANCE_NAME: &str = "lab.json";
/// Size limit of this file; real ones are far smaller.
pub const PROVENANCE_BYTES_MAX: u64 = 16 << 20;

/// The state in which a guest started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestStart {
    /// Digest of the guest's kernel.
    pub kernel: String,
    /// The kernel's whole command line.
    pub command_line: String,
    /// Digest of the snapshot from which the guest resumed; `None` if it booted.
    pub snapshot: Option<String>,
}

#[derive(Deserialize)]
struct Provenance {
    inputs: Inputs,
}

#[derive(Deserialize)]
struct Inputs {
    variant: Variant,
    command_line: String,
    #[serde(default)]
    snapshot: Option<String>,
}

#[derive(Deserialize)]
struct Variant {
    kernel: Kernel,
}

#[derive(Deserialize)]
struct Kernel {
    digest: String,
}

impl GuestStart {
    /// Reads how the guest of the run in `folder` started; `None` if the run was not made in a
    /// guest, or its record cannot be read.
    #[must_use]
    pub fn read(folder: &Path) -> Option<Self> {
        let record: Provenance = serde_json::from_slice(
            &regular_file::read(&folder.join(PROVENANCE_NAME), PROVENANCE_BYTES_MAX).ok()?,
        )
        .ok()?;
        let Inputs {
            variant,
            command_line,
            snapshot,
        } = record.inputs;
        Some(Self {
            kernel: variant.kernel.digest,
            command_line,
            snapshot,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_record_of_the_lab_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(GuestStart::read(folder.path()), None);
        std::fs::write(folder.path().join(PROVENANCE_NAME), "{}").unwrap();
        assert_eq!(GuestStart::read(folder.path()), None);
        let record = r#"{"version":1,"inputs":{"variant":{"name":"a","kernel":{"name":"b","digest":"c0"}},"command_line":"quiet","pad":3}}"#;
        std::fs::write(folder.path().join(PROVENANCE_NAME), record).unwrap();
        assert_eq!(
            GuestStart::read(folder.path()),
            Some(GuestStart {
                kernel: "c0".into(),
                command_line: "quiet".into(),
                snapshot: None
            })
        );
    }
}
