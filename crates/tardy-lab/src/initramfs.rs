//! The guest's initial file system: the static binary as /init, its job, and additional files.
//!
//! The archive is uncompressed, because every kernel can read that, and because QEMU copies it all
//! at once. The same input gives the same bytes.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tardy_sys::regular_file;

use super::binary;
use super::cpio::Writer;
use super::digest::{Digest, Digester};
use super::guest_job::{GuestJob, JOB_PATH};

/// Folders on which /init mounts file systems, or that programs expect. Each folder comes before
/// its contents.
const FOLDERS: [&str; 13] = [
    "bin", "dev", "etc", "lib", "mnt", "proc", "root", "run", "sys", "tmp", "usr", "var", "var/tmp",
];

/// A file of the host that is added to the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedFile {
    /// Path on the host.
    pub source: PathBuf,
    /// Path in the guest, without the leading slash.
    pub path: String,
    /// Whether the file gets the permission to be executed.
    pub executable: bool,
}

/// Writes the archive. The part of `binary` that the kernel loads becomes /init. The kernel starts
/// /init, which restarts itself as `/proc/self/exe`.
///
/// # Errors
/// Returns an error if reading a file or writing to `sink` fails; the message names the file.
pub fn write<W: Write>(
    sink: W,
    binary: &Path,
    job: &GuestJob,
    added: &[AddedFile],
) -> io::Result<W> {
    let mut writer = Writer::new(sink);
    let mut folders: BTreeSet<String> = BTreeSet::new();
    for folder in FOLDERS {
        writer.folder(folder)?;
        folders.insert(folder.to_owned());
    }
    // The kernel opens these two devices before /init can mount anything (numbers:
    // Documentation/admin-guide/devices.txt).
    writer.character_device("dev/console", (5, 1))?;
    writer.character_device("dev/null", (1, 3))?;
    writer.file_of_bytes(
        "init",
        0o755,
        &binary::loaded_part(binary).map_err(naming(binary))?,
    )?;
    writer.link("bin/tardy", "/init")?;
    let job = serde_json::to_vec(job).expect("a job can always be written as JSON");
    writer.file_of_bytes(JOB_PATH.trim_start_matches('/'), 0o644, &job)?;
    for file in added {
        for (end, _) in file.path.match_indices('/') {
            if folders.insert(file.path[..end].to_owned()) {
                writer.folder(&file.path[..end])?;
            }
        }
        file_of(
            &mut writer,
            &file.path,
            &file.source,
            if file.executable { 0o755 } else { 0o644 },
        )?;
    }
    writer.finish()
}

/// Returns the digest of the archive that [`write()`] writes.
///
/// # Errors
/// Fails as [`write()`] does.
pub fn digest(binary: &Path, job: &GuestJob, added: &[AddedFile]) -> io::Result<Digest> {
    Ok(write(Digester::default(), binary, job, added)?.finish())
}

fn file_of<W: Write>(
    writer: &mut Writer<W>,
    path: &str,
    source: &Path,
    permissions: u32,
) -> io::Result<()> {
    let mut file = regular_file::open(source).map_err(naming(source))?;
    let length = file.metadata().map_err(naming(source))?.len();
    writer
        .file(path, permissions, length, &mut file)
        .map_err(naming(source))
}

/// Returns a function that adds the name of the file to an error.
fn naming(source: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", source.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest_job::{Program, Task, VERSION};
    use tardy_core::units::Nanos;

    fn archive(folder: &Path, added: &[AddedFile]) -> io::Result<Vec<u8>> {
        let time_limit = Nanos::from_secs(1);
        let task = Task::Run(Program {
            path: None,
            arguments: vec!["list".into()],
        });
        let job = GuestJob {
            version: VERSION,
            task,
            settle: Nanos::ZERO,
            time_limit,
            modules: vec![],
            late_modules: vec![],
            loads: vec![],
            injection: None,
            hand_out_symbols: false,
            scenario: None,
        };
        write(Vec::new(), &folder.join("binary"), &job, added)
    }

    #[test]
    fn the_same_input_gives_the_same_bytes_and_folders_come_before_their_files() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("binary"), "program").unwrap();
        let added = [AddedFile {
            source: folder.path().join("binary"),
            path: "opt/x/y".into(),
            executable: true,
        }];
        let bytes = archive(folder.path(), &added).unwrap();
        assert_eq!(bytes, archive(folder.path(), &added).unwrap());
        let position = |name: &str| {
            let entry = format!("{name}\0");
            bytes
                .windows(entry.len())
                .position(|window| window == entry.as_bytes())
        };
        assert!(
            position("opt").unwrap() < position("opt/x").unwrap()
                && position("opt/x").unwrap() < position("opt/x/y").unwrap()
        );
        assert!(position("init").is_some() && position("plan.json").is_some());
    }

    #[test]
    fn a_missing_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            archive(folder.path(), &[])
                .unwrap_err()
                .to_string()
                .contains("binary")
        );
    }
}
