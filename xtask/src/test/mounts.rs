//! Mount namespaces for tests that depend on mounts. systemd mounts tracefs, debugfs and cgroup v2;
//! a container or a bare virtual machine often lacks them. These tests run with and without the
//! mounts.

use std::fmt;
use std::path::Path;
use std::process::Command;

use crate::program;

/// A set of mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mounts {
    /// The mounts that systemd makes.
    Systemd,
    /// A machine without the mounts that systemd makes.
    Bare,
}

impl Mounts {
    /// Returns which of the two sets of mounts this machine does not have; `None` without root.
    pub(super) fn other() -> Option<Self> {
        let is_root =
            program::capture(Command::new("id").arg("--user")).is_ok_and(|user| user.trim() == "0");
        let has_tracefs = Path::new("/sys/kernel/tracing/trace").exists();
        is_root.then_some(if has_tracefs {
            Self::Bare
        } else {
            Self::Systemd
        })
    }

    /// Returns a command that runs `command` in a namespace with these mounts.
    pub(super) fn around(self, command: &Command) -> Command {
        let script = match self {
            Self::Systemd => {
                // Some containers have debugfs already, and mounting it again fails. Control groups
                // of version 1 stay mounted, because a second hierarchy would have no controllers.
                "mount -t tracefs tracefs /sys/kernel/tracing && { mountpoint --quiet \
                 /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug; } && { [ -n \
                 \"$(ls /sys/fs/cgroup)\" ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup; } && exec \
                 \"$@\""
            }
            Self::Bare => {
                "for folder in /sys/kernel/tracing /sys/kernel/debug /sys/fs/cgroup; do umount \
                 --lazy --recursive $folder 2>/dev/null; done; exec \"$@\""
            }
        };
        let mut around = Command::new("unshare");
        around
            .args(["--mount", "sh", "-c", script, "sh"])
            .arg(command.get_program())
            .args(command.get_args());
        if let Some(folder) = command.get_current_dir() {
            around.current_dir(folder);
        }
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => around.env(name, value),
                None => around.env_remove(name),
            };
        }
        around
    }
}

impl fmt::Display for Mounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Systemd => "with tracefs mounted",
            Self::Bare => "without tracefs",
        })
    }
}
