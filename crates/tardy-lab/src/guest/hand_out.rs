//! Exports the guest's result through the memory shared with the host.

use std::io;
use std::path::Path;

use crate::boot::{OUTPUT_NAME, REPORT_NAME, STDERR_NAME, STDOUT_NAME};
use crate::cpio::{self, Writer};
use crate::exchange::Sender;
use crate::guest_job::{GuestReport, OUTPUT_FOLDER};

use super::pci;

/// Writes the report, the logs and the output into the shared memory.
pub(super) fn hand_out(report: &GuestReport) -> io::Result<()> {
    write(report).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other(
            "the result does not fit into the memory shared with the host: share more memory with \
             --shared",
        ),
        _ => error,
    })
}

fn write(report: &GuestReport) -> io::Result<()> {
    let mut writer = Writer::new(Sender::new(pci::shared_memory()?));
    writer.file_of_bytes(REPORT_NAME, 0o644, &serde_json::to_vec(report)?)?;
    for name in [STDOUT_NAME, STDERR_NAME] {
        let path = Path::new("/run").join(name);
        let content = std::fs::read(&path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        writer.file_of_bytes(name, 0o644, &content)?;
    }
    // If a program fails early, it leaves no output.
    if Path::new(OUTPUT_FOLDER).is_dir() {
        cpio::add_tree(&mut writer, Path::new(OUTPUT_FOLDER), OUTPUT_NAME)?;
    }
    writer.finish()?.finish()
}
