//! The kernel's own NFS server, without the programs that usually start it and answer its
//! questions: exports(5) are lines that are written into the kernel's caches beforehand.
//!
//! Formats: Documentation/filesystems/nfs/rpc-cache.rst, fs/nfsd/nfsctl.c and fs/nfsd/export.c of
//! Linux.

use std::fmt::Write;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tardy_machine::clock::VIRTUAL_CLOCK_MARK;
use tardy_sys::mount;

use super::super::Unsupported;
use super::super::info::{ErrorContext, WorkError};
use super::{PORT, has_file_system};

/// Number of the server's threads: the kernel's usual number (NFSD_NRSERVS of nfs-utils).
pub(super) const THREADS: u64 = 8;
/// When the lines in the caches expire, in seconds since 1970: as late as possible.
const EXPIRY: u32 = i32::MAX as u32;
/// Folder in which the server records its clients (fs/nfsd/nfs4recover.c). It does so in the first
/// network namespace only, and only if nothing else records them.
const RECORD: &str = "/var/lib/nfs/v4recovery";
/// The shortest grace period and lease that the server allows, in seconds (fs/nfsd/nfsctl.c,
/// __nfsd4_write_time).
const SHORTEST_GRACE: &str = "10";
/// The name by which the caches know the only client.
const CLIENT: &str = "loopback";
/// Options of the export (include/uapi/linux/nfsd/export.h): any port (0x2), asynchronous (0x10),
/// no check of subtrees (0x400), and the number 0 as the export's name (0x2000), which makes the
/// export the root that clients see.
const OPTIONS: u32 = 0x2 | 0x10 | 0x400 | 0x2000;

/// Returns whether loads of this machine use the kernel's server: only in guests of the lab.
pub(super) fn is_for(proc: &Path) -> bool {
    std::fs::read_to_string(proc.join("cmdline"))
        .unwrap_or_default()
        .split_whitespace()
        .any(|word| word == VIRTUAL_CLOCK_MARK)
}

/// Checks that the kernel has the server.
pub(super) fn check(proc: &Path) -> Result<(), Unsupported> {
    if has_file_system(proc, "nfsd") {
        return Ok(());
    }
    Err(Unsupported::new(
        "the kernel's NFS server",
        "use a kernel whose package has the modules nfsd and nfsv4, as `tardy lab run` loads them",
    ))
}

/// The running server.
pub(super) struct KernelServer {
    /// The folder with the server's control files.
    control: PathBuf,
}

impl KernelServer {
    /// Starts the server of this network namespace, which exports one folder to this machine.
    pub(super) fn start(scratch: &Path, export: &Path) -> Result<Self, WorkError> {
        let control = scratch.join("control");
        std::fs::create_dir_all(&control).doing("make the folder of the server's controls")?;
        mount::mount("nfsd", &control, "nfsd", "").doing("mount the server's controls")?;
        let server = Self { control };
        match server.configure(export) {
            Ok(()) => Ok(server),
            Err(error) => {
                let _ = server.stop();
                Err(error)
            }
        }
    }

    fn configure(&self, export: &Path) -> Result<(), WorkError> {
        // Without this folder, the grace period cannot be ended, only shortened.
        let _ = std::fs::create_dir_all(RECORD);
        for (cache, line) in cache_lines(export) {
            let failed = |error: io::Error| {
                WorkError::Bound(format!(
                    "the kernel's NFS server refuses its line in the cache {cache}: {error}"
                ))
            };
            std::fs::write(Path::new("/proc/net/rpc").join(cache).join("channel"), line)
                .map_err(failed)?;
        }
        // NFS 2 and 3 would need a port mapper.
        self.set("versions", "-2 -3 +4")?;
        // During the grace period after its start, the server opens no files for new clients.
        self.set("nfsv4leasetime", SHORTEST_GRACE)?;
        self.set("nfsv4gracetime", SHORTEST_GRACE)?;
        self.set("portlist", &format!("tcp {PORT}"))?;
        self.set("threads", &THREADS.to_string())?;
        // A server without a record of its clients refuses this. The client then waits.
        let _ = self.set("v4_end_grace", "Y");
        Ok(())
    }

    fn set(&self, control: &str, value: &str) -> Result<(), WorkError> {
        let failed = |error: io::Error| {
            WorkError::Bound(format!(
                "the kernel's NFS server refuses `{value}` in {control}: {error}"
            ))
        };
        std::fs::write(self.control.join(control), format!("{value}\n")).map_err(failed)
    }

    /// Stops the server's threads.
    pub(super) fn stop(self) -> Result<(), WorkError> {
        let stopped = self.set("threads", "0");
        let unmounted = mount::unmount(&self.control, false).doing("unmount the server's controls");
        stopped.and(unmounted)
    }
}

/// Returns the caches that the server asks, each with its only line.
fn cache_lines(export: &Path) -> [(&'static str, String); 3] {
    let path = in_hexadecimal(export.as_os_str().as_bytes());
    let number = in_hexadecimal(&0_u32.to_ne_bytes());
    [
        (
            "auth.unix.ip",
            format!("nfsd 127.0.0.1 {EXPIRY} {CLIENT}\n"),
        ),
        (
            "nfsd.export",
            format!("{CLIENT} {path} {EXPIRY} {OPTIONS} 65534 65534 0\n"),
        ),
        // 1 stands for a number as the export's name (FSID_NUM in fs/nfsd/nfsfh.h).
        ("nfsd.fh", format!("{CLIENT} 1 {number} {EXPIRY} {path}\n")),
    ]
}

/// Encodes `bytes` in hexadecimal, as the kernel's caches read them (qword_get in
/// net/sunrpc/cache.c). Words in this form may contain any byte.
fn in_hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold("\\x".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_exports_one_folder_to_this_machine_alone() {
        let lines = cache_lines(Path::new("/a b")).map(|(cache, line)| format!("{cache}: {line}"));
        assert_eq!(
            lines.concat(),
            "auth.unix.ip: nfsd 127.0.0.1 2147483647 loopback\n\
             nfsd.export: loopback \\x2f612062 2147483647 9234 65534 65534 0\n\
             nfsd.fh: loopback 1 \\x00000000 2147483647 \\x2f612062\n"
        );
    }

    #[test]
    fn only_a_guest_of_the_lab_uses_the_kernels_server() {
        let proc = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(proc.path().join(name), text).unwrap();
        assert!(!is_for(proc.path()));
        write("cmdline", "quiet tardy.lab=1\n");
        assert!(!is_for(proc.path()));
        write("cmdline", "quiet tardy.clock=virtual\n");
        assert!(is_for(proc.path()));
        assert!(check(proc.path()).is_err());
        write("filesystems", "nodev\tproc\nnodev\tnfsd\n");
        assert!(check(proc.path()).is_ok());
    }
}
