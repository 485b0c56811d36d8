//! Requests a maximum C-state exit latency for idle CPUs, by holding /dev/cpu_dma_latency open.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;

use tardy_machine::root::Root;

/// A request, which is withdrawn when this value is dropped. If the process ends without a drop,
/// the kernel withdraws the request.
#[derive(Debug)]
pub struct CpuLatencyRequest {
    _file: File,
}

impl CpuLatencyRequest {
    /// Checks whether [`CpuLatencyRequest::hold`] may write. Requests nothing.
    ///
    /// # Errors
    /// Fails as [`CpuLatencyRequest::hold`] does.
    pub fn is_allowed(root: &Root) -> io::Result<()> {
        // Opening the file registers a request that sets no limit. Closing it at once withdraws the
        // request.
        open(root).map(drop)
    }

    /// Requests a maximum exit latency of `micros` us.
    ///
    /// The value is written as four bytes in native byte order. If a write has any other length,
    /// the kernel parses it as a hexadecimal text: Documentation/power/pm_qos_interface.rst,
    /// `cpu_latency_qos_write` in kernel/power/qos.c.
    ///
    /// # Errors
    /// Returns EACCES if the process may not write the file; ENOENT if the file is absent; an error
    /// of kind `InvalidInput` if the file is not a device.
    pub fn hold(root: &Root, micros: i32) -> io::Result<Self> {
        let mut file = open(root)?;
        file.write_all(&micros.to_ne_bytes())?;
        Ok(Self { _file: file })
    }
}

/// Opens the device. An ordinary file or a FIFO at the device's path is refused, because writing to
/// it would request nothing. Tests may use such a file below another root.
fn open(root: &Root) -> io::Result<File> {
    let path = root.path("dev/cpu_dma_latency");
    let is_device = fs::metadata(&path)?.file_type().is_char_device();
    if *root == Root::system() && !is_device {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is not a device", path.display()),
        ));
    }
    OpenOptions::new().write(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_written_as_four_bytes_and_never_as_text() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("dev")).unwrap();
        let path = folder.path().join("dev/cpu_dma_latency");
        std::fs::write(&path, "").unwrap();
        CpuLatencyRequest::hold(&Root::at(folder.path()), 20).unwrap();
        assert_eq!(std::fs::read(path).unwrap(), 20_i32.to_ne_bytes());
    }

    #[test]
    fn a_missing_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            CpuLatencyRequest::hold(&Root::at(folder.path()), 0)
                .unwrap_err()
                .kind(),
            io::ErrorKind::NotFound
        );
    }
}
