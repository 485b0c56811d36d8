//! Uses devices of the guest's machine without a driver. Finds the devices below /sys by their PCI
//! IDs, and maps their memory.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use tardy_sys::mmap::SharedMapping;

/// Vendor and device number as /sys prints them.
type Numbers = (&'static str, &'static str);

/// QEMU's shared memory, ivshmem (docs/specs/ivshmem-spec.txt); the memory is resource 2.
const SHARED_MEMORY: Numbers = ("0x1af4", "0x1110");
/// QEMU's pvpanic-pci (docs/specs/pvpanic.txt); its one register is at the start of resource 0.
const PANIC: Numbers = ("0x1b36", "0x0011");

/// The folder in which the kernel lists the devices.
const DEVICES: &str = "/sys/bus/pci/devices";

/// Size of a page in bytes: a device's memory can be mapped only in whole pages.
const PAGE: usize = 4096;

/// Returns the memory shared with the host.
///
/// # Errors
/// Returns `NotFound` if the machine has no such memory, and an error if it cannot be opened or
/// mapped.
pub(super) fn shared_memory() -> io::Result<SharedMapping> {
    let (device, resource) = shared_device()?;
    let length = std::fs::metadata(&resource)?.len();
    let length = usize::try_from(length).map_err(io::Error::other)?;
    map(&device, &resource, length)
}

/// Returns the first page of the shared memory, which contains the header.
///
/// # Errors
/// Fails as [`shared_memory`] does.
pub(super) fn shared_header() -> io::Result<SharedMapping> {
    let (device, resource) = shared_device()?;
    map(&device, &resource, PAGE)
}

/// Returns the device with the shared memory, and the file to map.
fn shared_device() -> io::Result<(PathBuf, PathBuf)> {
    let device = find(Path::new(DEVICES), SHARED_MEMORY, "shared memory (ivshmem)")?;
    let resource = shared_resource(&device);
    Ok((device, resource))
}

/// Returns the mapped register that stops the machine, and its offset in the mapping.
///
/// # Errors
/// Fails as [`shared_memory`] does.
pub(super) fn panic_register() -> io::Result<(SharedMapping, usize)> {
    let device = find(
        Path::new(DEVICES),
        PANIC,
        "device that can stop it (pvpanic-pci)",
    )?;
    // The page may also contain registers of other devices, before those of this device.
    let offset = start_of_resource_0(&std::fs::read_to_string(device.join("resource"))?)? % PAGE;
    Ok((map(&device, &device.join("resource0"), PAGE)?, offset))
}

fn map(device: &Path, resource: &Path, length: usize) -> io::Result<SharedMapping> {
    // The device must be enabled, because writes to a disabled device are lost. On amd64, the
    // firmware has already enabled it.
    std::fs::write(device.join("enable"), "1")?;
    let file = File::options().read(true).write(true).open(resource)?;
    SharedMapping::new(file.as_fd(), length)
}

fn find(devices: &Path, numbers: Numbers, what: &str) -> io::Result<PathBuf> {
    let is = |device: &Path, name: &str, value: &str| {
        std::fs::read_to_string(device.join(name)).is_ok_and(|text| text.trim() == value)
    };
    for entry in std::fs::read_dir(devices)? {
        let device = entry?.path();
        if is(&device, "vendor", numbers.0) && is(&device, "device", numbers.1) {
            return Ok(device);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        format!("the machine has no {what}"),
    ))
}

/// Returns the resource file through which writes are combined, if the architecture offers one;
/// otherwise the plain resource file. arm64 needs combined writes, because it refuses unaligned
/// access to device memory.
fn shared_resource(device: &Path) -> PathBuf {
    let combined = device.join("resource2_wc");
    if combined.exists() {
        combined
    } else {
        device.join("resource2")
    }
}

/// Parses the start address in the first line of a device's `resource` file: start, end and flags
/// in hexadecimal (Documentation/PCI/sysfs-pci.rst).
fn start_of_resource_0(text: &str) -> io::Result<usize> {
    let word = text.split_whitespace().next().unwrap_or_default();
    usize::from_str_radix(word.trim_start_matches("0x"), 16)
        .map_err(|_| io::Error::other(format!("`{word}` is not the address of a resource")))
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
        let find = || find(folder.path(), SHARED_MEMORY, "shared memory");
        assert_eq!(find().unwrap_err().kind(), io::ErrorKind::NotFound);
        let shared = device("0000:00:02.0", "0x1110\n");
        assert_eq!(find().unwrap(), shared);
        assert_eq!(shared_resource(&shared), shared.join("resource2"));
        std::fs::write(shared.join("resource2_wc"), "").unwrap();
        assert_eq!(shared_resource(&shared), shared.join("resource2_wc"));
    }

    #[test]
    fn the_registers_address_is_read_from_the_first_line() {
        let text = "0x00000000febf1010 0x00000000febf101f 0x0000000000040200\n0x0 0x0 0x0\n";
        assert_eq!(start_of_resource_0(text).unwrap() % 4096, 0x10);
        assert!(start_of_resource_0("").is_err());
    }
}
