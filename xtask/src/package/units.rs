//! Tests the package's units under systemd. A bare Debian with a kernel and the package boots in a
//! guest, where a script starts and stops the units (units.sh).

use std::path::Path;
use std::process::Command;

use crate::debian::Debian;
use crate::failure::{Failure, Result};
use crate::{program, workspace};

/// The script that runs in the guest.
const SCRIPT: &str = include_str!("units.sh");
/// The unit that starts the script after all other units; its output goes to the console.
const SERVICE: &str = "[Unit]
After=multi-user.target
[Service]
Type=exec
ExecStart=/bin/bash /units.sh
StandardOutput=tty
TTYPath=/dev/ttyS0
[Install]
WantedBy=multi-user.target
";
/// Packages for the guest: systemd as PID 1, and a kernel with drivers for QEMU's devices.
const PACKAGES: &str = "systemd-sysv linux-image-cloud-amd64";
const DISK: &str = "2G";
/// Time limit of the guest on a busy machine, in s.
const PATIENCE: &str = "3600";

/// Tests the units of the package in the file `deb`.
pub(super) fn run(deb: &Path) -> Result<()> {
    for (name, package) in [
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("mkfs.ext4", "e2fsprogs"),
    ] {
        program::required(name, package)?;
    }
    let debian = Debian::fresh("units")?;
    debian.put(deb, "package.deb")?;
    debian.shell(&format!(
        "apt-get update --quiet && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet \
         --no-install-recommends {PACKAGES} && apt-get clean"
    ))?;
    debian.shell("dpkg --install /package.deb")?;
    workspace::write(&debian.path("units.sh"), SCRIPT.as_bytes())?;
    workspace::write(
        &debian.path("etc/systemd/system/units.service"),
        SERVICE.as_bytes(),
    )?;
    // A login on the console would hang up the script's terminal.
    debian.shell("systemctl mask serial-getty@ttyS0.service && systemctl enable units.service")?;
    let folder = workspace::target_folder()?.join("package/guest");
    workspace::remove(&folder)?;
    workspace::make_folder(&folder)?;
    program::capture(
        Command::new("mkfs.ext4")
            .args(["-q", "-d"])
            .arg(debian.path(""))
            .arg(folder.join("disk"))
            .arg(DISK),
    )?;
    let booted = boot(&debian, &folder);
    let said = std::fs::read_to_string(folder.join("results")).unwrap_or_default();
    print!("{said}");
    booted?;
    judge(&said).map_err(|bad| {
        Failure::new(format!(
            "{bad}; the guest's console is {}",
            folder.join("console").display()
        ))
    })?;
    println!("the units ran under systemd, in a guest");
    Ok(())
}

/// Boots the guest, and waits until it switches itself off.
fn boot(debian: &Debian, folder: &Path) -> Result<()> {
    let mut qemu = Command::new("timeout");
    qemu.args(["--kill-after=10", PATIENCE, "qemu-system-x86_64"])
        .args(["-accel", "tcg", "-m", "1024", "-smp", "2", "-nodefaults"])
        .args(["-nic", "none", "-display", "none", "-monitor", "none"])
        .args(["-no-reboot", "-serial", "file:console"])
        .args(["-serial", "file:results"])
        .args(["-drive", "if=virtio,format=raw,file=disk"])
        .arg("-kernel")
        .arg(debian.path("vmlinuz"))
        .arg("-initrd")
        .arg(debian.path("initrd.img"))
        .args(["-append", "root=/dev/vda rw console=ttyS0 panic=-1"])
        .current_dir(folder);
    program::run(&mut qemu)
}

/// Checks that every step of the script succeeded, in the right order.
fn judge(said: &str) -> std::result::Result<(), String> {
    let name = |line: &str| Some(line.strip_prefix("step '")?.split_once('\'')?.0.to_owned());
    let mut lines = said.lines().map(|line| line.trim_end_matches('\r'));
    for step in SCRIPT.lines().filter_map(name) {
        match lines.next() {
            Some(line) if line == format!("good: {step}") => {}
            Some(line) => return Err(line.to_owned()),
            None => return Err(format!("the guest did not reach `{step}`")),
        }
    }
    match lines.next() {
        Some("end") => Ok(()),
        other => Err(format!("the guest did not reach its end: {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_of_the_script_must_be_good() {
        let steps: Vec<&str> = SCRIPT
            .lines()
            .filter_map(|line| line.strip_prefix("step '")?.split('\'').next())
            .collect();
        assert!(steps.len() > 15, "{steps:?}");
        let good: String = steps
            .iter()
            .map(|step| format!("good: {step}\r\n"))
            .collect();
        assert_eq!(judge(&format!("{good}end\r\n")), Ok(()));
        assert!(judge(&good).is_err());
        let bad = good.replacen("good: it stops", "bad: it stops: why", 1);
        assert_eq!(judge(&bad), Err("bad: it stops: why".to_owned()));
        assert!(judge("").unwrap_err().contains(steps[0]));
    }
}
