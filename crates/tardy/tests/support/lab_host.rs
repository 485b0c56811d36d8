//! Makes a host for `tardy lab` on which nothing boots: its QEMU only prints a version and then
//! waits, and its kernel image only states a version.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::workplace::Workplace;

/// Writes `kernel` and `bin/qemu-system-x86_64` into the folder. The stand-in for QEMU records each
/// boot in `booted` and waits.
pub(crate) fn prepare(place: &Workplace) {
    std::fs::write(
        place.path("kernel"),
        image("6.1.0-tardy (x) #1 SMP PREEMPT_RT"),
    )
    .unwrap();
    let qemu = place.path("bin/qemu-system-x86_64");
    std::fs::create_dir(place.path("bin")).unwrap();
    let booted = place.path("booted").display().to_string();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'QEMU emulator version 7.2.0' && exit\necho >> \
         {booted}\nexec sleep 600\n"
    );
    std::fs::write(&qemu, script).unwrap();
    std::fs::set_permissions(&qemu, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The parts of a bzImage that the lab reads (Documentation/arch/x86/boot.rst of the kernel).
fn image(version: &str) -> Vec<u8> {
    let mut bytes = vec![0; 0x400];
    bytes[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    bytes[0x202..0x206].copy_from_slice(b"HdrS");
    bytes[0x20e..0x210].copy_from_slice(&0x200_u16.to_le_bytes());
    bytes.extend_from_slice(version.as_bytes());
    bytes.push(0);
    bytes
}

/// `tardy` with the stand-in for QEMU first in PATH, and with a separate cache.
pub(crate) fn tardy(place: &Workplace) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tardy"));
    command.env(
        "PATH",
        format!("{}:/usr/bin:/bin", place.path("bin").display()),
    );
    command.env("XDG_CACHE_HOME", place.path("cache"));
    command
}
