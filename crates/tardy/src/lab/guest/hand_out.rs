//! Hands the guest's result out through the memory shared with the host.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use tardy_sys::mmap::SharedMapping;

use crate::lab::boot::{OUTPUT_NAME, REPORT_NAME, STDERR_NAME, STDOUT_NAME};
use crate::lab::cpio::{self, Writer};
use crate::lab::exchange::Sender;
use crate::lab::plan::{GuestReport, OUTPUT_FOLDER};

/// QEMU's ivshmem device (docs/specs/ivshmem-spec.txt): vendor and device number; the memory is resource 2.
const VENDOR_AND_DEVICE: (&str, &str) = ("0x1af4", "0x1110");

/// Puts report, logs and output into the shared memory.
pub(super) fn hand_out(report: &GuestReport) -> io::Result<()> {
    write(report).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            io::Error::other("the result does not fit into the memory shared with the host: give more with --shared")
        }
        _ => error,
    })
}

fn write(report: &GuestReport) -> io::Result<()> {
    let mut writer = Writer::new(Sender::new(shared_memory(Path::new("/sys/bus/pci/devices"))?));
    writer.file_of_bytes(REPORT_NAME, 0o644, &serde_json::to_vec(report)?)?;
    for name in [STDOUT_NAME, STDERR_NAME] {
        let path = Path::new("/run").join(name);
        let content = std::fs::read(&path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        writer.file_of_bytes(name, 0o644, &content)?;
    }
    // A program that failed early leaves none.
    if Path::new(OUTPUT_FOLDER).is_dir() {
        cpio::add_tree(&mut writer, Path::new(OUTPUT_FOLDER), OUTPUT_NAME)?;
    }
    writer.finish()?.finish()
}

/// Finds the device below `devices` and maps its memory.
fn shared_memory(devices: &Path) -> io::Result<SharedMapping> {
    let resource = find_resource(devices)?;
    // Firmware does this on amd64; where there is none, writes to a device that nobody enabled go nowhere.
    std::fs::write(resource.with_file_name("enable"), "1")?;
    let file = File::options().read(true).write(true).open(&resource)?;
    let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    SharedMapping::new(file.as_fd(), length)
}

fn find_resource(devices: &Path) -> io::Result<PathBuf> {
    let is = |device: &Path, name: &str, value: &str| std::fs::read_to_string(device.join(name)).is_ok_and(|text| text.trim() == value);
    for entry in std::fs::read_dir(devices)? {
        let device = entry?.path();
        if is(&device, "vendor", VENDOR_AND_DEVICE.0) && is(&device, "device", VENDOR_AND_DEVICE.1) {
            // Ordinary cached or write-combined access where the architecture offers it: arm64 refuses unaligned access to device memory.
            let combined = device.join("resource2_wc");
            return Ok(if combined.exists() { combined } else { device.join("resource2") });
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, "the machine has no shared memory (ivshmem)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_found_among_others_and_the_combining_resource_preferred() {
        let folder = tempfile::tempdir().unwrap();
        let device = |name: &str, device: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("vendor"), "0x1af4\n").unwrap();
            std::fs::write(path.join("device"), device).unwrap();
            path
        };
        device("0000:00:01.0", "0x1000\n");
        assert_eq!(find_resource(folder.path()).unwrap_err().kind(), io::ErrorKind::NotFound);
        let shared = device("0000:00:02.0", "0x1110\n");
        assert_eq!(find_resource(folder.path()).unwrap(), shared.join("resource2"));
        std::fs::write(shared.join("resource2_wc"), "").unwrap();
        assert_eq!(find_resource(folder.path()).unwrap(), shared.join("resource2_wc"));
    }
}
