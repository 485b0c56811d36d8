//! Finds the storage behind a folder, which is a device, memory, or unknown.

use std::path::Path;

use tardy_machine::host::Host;

/// The storage behind a folder's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backing {
    /// A block device, a pool or bare flash, with its name in /proc/self/mountinfo.
    Device(String),
    /// A file system that stores its files only in the page cache, with the file system's type.
    Memory(String),
    /// A file system that is backed by other file systems (overlay), a server (nfs) or the
    /// emulator's host (9p), with the file system's type.
    Unknown(String),
}

/// Types of file systems that are only in memory.
const IN_MEMORY: [&str; 4] = ["tmpfs", "ramfs", "rootfs", "devtmpfs"];

/// File systems on pools of disks or on bare flash. mountinfo does not name a device file for them.
const WITHOUT_DEVICE_FILE: [&str; 3] = ["zfs", "ubifs", "jffs2"];

impl Backing {
    /// Returns the storage of `folder`, which must exist.
    #[must_use]
    pub fn of(folder: &Path, host: &Host) -> Self {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let mounts = std::fs::read_to_string(host.proc.join("self/mountinfo")).unwrap_or_default();
        // A later mount hides an earlier one at the same path.
        let covers = mounts
            .lines()
            .filter_map(Mount::parse)
            .filter(|mount| folder.starts_with(&mount.point));
        covers
            .max_by_key(|mount| mount.point.len())
            .map_or_else(|| Self::Unknown("unknown".to_owned()), Mount::backing)
    }

    /// Returns the name of the device; for memory and unknown storage, the type of the file system.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Device(name) | Self::Memory(name) | Self::Unknown(name) => name,
        }
    }
}

struct Mount {
    point: String,
    kind: String,
    source: String,
}

impl Mount {
    /// Parses one line of mountinfo, proc_pid_mountinfo(5). Uses field 5 and the first two fields
    /// after the separator.
    fn parse(line: &str) -> Option<Self> {
        let (head, tail) = line.split_once(" - ")?;
        let mut tail = tail.split(' ');
        Some(Self {
            point: plain(head.split(' ').nth(4)?),
            kind: tail.next()?.to_owned(),
            source: plain(tail.next()?),
        })
    }

    fn backing(self) -> Backing {
        if IN_MEMORY.contains(&self.kind.as_str()) {
            Backing::Memory(self.kind)
        } else if self.source.starts_with("/dev/")
            || WITHOUT_DEVICE_FILE.contains(&self.kind.as_str())
        {
            Backing::Device(self.source)
        } else {
            Backing::Unknown(self.kind)
        }
    }
}

/// Decodes a field of mountinfo, which writes spaces and some other characters as three octal
/// digits.
fn plain(text: &str) -> String {
    text.replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_says_what_is_behind_a_folder() {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = root.path().canonicalize().unwrap().join(name);
            std::fs::create_dir_all(&folder).unwrap();
            folder
        };
        let (disk, memory, layered, flash) = (
            folder("a disk"),
            folder("a disk/memory"),
            folder("layered"),
            folder("flash"),
        );
        std::fs::create_dir(root.path().join("self")).unwrap();
        let line = |number: u32, point: &Path, rest: &str| {
            format!(
                "{number} 1 8:1 / {} rw,relatime shared:1 - {rest}\n",
                point.display().to_string().replace(' ', "\\040")
            )
        };
        let text = line(20, Path::new("/"), "ext4 /dev/vda rw")
            + &line(21, &disk, "btrfs /dev/nvme0n1p2 rw,ssd")
            + &line(22, &memory, "tmpfs tmpfs rw")
            + &line(23, &layered, "overlay overlay rw,lowerdir=/a")
            + &line(24, &flash, "ubifs ubi0:data rw");
        std::fs::write(root.path().join("self/mountinfo"), text).unwrap();
        let host = Host {
            proc: root.path().to_owned(),
            ..Host::of_this_machine()
        };
        let of = |folder: &Path| Backing::of(folder, &host);
        assert_eq!(of(&disk), Backing::Device("/dev/nvme0n1p2".to_owned()));
        assert_eq!(of(&memory), Backing::Memory("tmpfs".to_owned()));
        assert_eq!(of(&flash), Backing::Device("ubi0:data".to_owned()));
        assert_eq!(of(&layered), Backing::Unknown("overlay".to_owned()));
        assert_eq!(of(root.path()), Backing::Device("/dev/vda".to_owned()));
    }
}
