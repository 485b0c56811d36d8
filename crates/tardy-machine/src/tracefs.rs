//! The kernel's tracing file system, and the instances that tardy makes in it. An instance has
//! separate buffers, events and a clock, so it does not affect other tracing.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use tardy_sys::mount;

use crate::process;
use crate::root::Root;

/// Prefix of the name of every instance that tardy makes. The number and the start time of the
/// process follow. Other instances are never removed.
pub const INSTANCE_PREFIX: &str = "tardy-";
/// Suffix of the name of a process's second instance.
const SECOND: &str = "-2";
/// Possible mount points.
const PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// The open tracing file system.
#[derive(Debug)]
pub struct Tracefs {
    path: PathBuf,
    /// A private mount, if the file system was not mounted.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds the file system where it is mounted, or mounts it for this process alone.
    ///
    /// # Errors
    /// Returns the errors of mount(2): `PermissionDenied` without CAP_SYS_ADMIN, ENODEV if the
    /// kernel has no tracing. Also returns `PermissionDenied` if the file system is mounted but
    /// access to it is denied.
    pub fn open(root: &Root) -> io::Result<Self> {
        for place in PLACES {
            let path = root.path(place);
            match fs::metadata(path.join("instances")) {
                Ok(_) => return Ok(Self { path, _mount: None }),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
                Err(_) => {}
            }
        }
        if *root != Root::system() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mount = mount::detached("tracefs")?;
        Ok(Self {
            path: PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd())),
            _mount: Some(mount),
        })
    }

    /// Returns the path of the file system.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of an instance.
    #[must_use]
    pub fn instance(&self, name: &str) -> PathBuf {
        self.path.join("instances").join(name)
    }

    /// Removes an instance that a run made; succeeds if the instance is missing.
    ///
    /// # Errors
    /// Returns `InvalidInput` if the name is not one that tardy uses, and EBUSY while another
    /// process reads the instance.
    pub fn remove_instance(&self, name: &str) -> io::Result<()> {
        if maker(name).is_none() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is not a trace instance of a run",
            ));
        }
        fs::remove_dir(self.instance(name)).or_else(unless_gone)?;
        self.remove_uprobes(&uprobe_group(name))
    }

    /// Makes an event for calls of a program's function; `definition` is a line for
    /// `uprobe_events`. If the event is in the [`uprobe_group`] of an instance, it is removed with
    /// that instance.
    ///
    /// # Errors
    /// Returns `NotFound` if the kernel lacks such events (CONFIG_UPROBE_EVENTS), otherwise the
    /// kernel's error.
    pub fn add_uprobe(&self, definition: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).open(self.uprobes())?;
        file.write_all(definition.as_bytes())
    }

    fn uprobes(&self) -> PathBuf {
        self.path.join("uprobe_events")
    }

    fn remove_uprobes(&self, group: &str) -> io::Result<()> {
        let known = match fs::read_to_string(self.uprobes()) {
            Ok(known) => known,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let names = known.lines().filter_map(|line| {
            let (_, name) = line.split_ascii_whitespace().next()?.split_once(':')?;
            (name.split_once('/')?.0 == group).then_some(name)
        });
        for name in names {
            self.add_uprobe(&format!("-:{name}"))?;
        }
        Ok(())
    }

    /// Removes the instances of ended processes, and returns their names. An instance that another
    /// process is reading is not removed.
    pub fn remove_left_behind(&self, root: &Root) -> Vec<String> {
        let entries = fs::read_dir(self.path.join("instances"))
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let is_gone = |name: &String| {
            maker(name)
                .is_some_and(|(process, start)| process::start_time(root, process) != Some(start))
        };
        names
            .filter(is_gone)
            .filter(|name| self.remove_instance(name).is_ok())
            .collect()
    }
}

/// Returns the name of the second instance of the process whose first instance is called `first`.
#[must_use]
pub fn second_instance_name(first: &str) -> String {
    format!("{first}{SECOND}")
}

/// Returns the name of this process's instance.
#[must_use]
pub fn instance_name(root: &Root) -> String {
    // If the process runs in a PID namespace but sees /proc of another namespace, /proc/self shows
    // a different process number, and that number is used.
    let process = root
        .text("proc/self/stat")
        .and_then(|stat| stat.split_once(' ')?.0.parse().ok())
        .unwrap_or_else(std::process::id);
    format!(
        "{INSTANCE_PREFIX}{process}-{}",
        process::start_time(root, process).unwrap_or_default()
    )
}

/// Returns the group of events that belong to the instance with this name. Names of groups have no
/// hyphens.
#[must_use]
pub fn uprobe_group(instance: &str) -> String {
    instance.replace('-', "_")
}

/// Parses number and start time of the process that made an instance.
fn maker(name: &str) -> Option<(u32, u64)> {
    let (process, start) = name.strip_prefix(INSTANCE_PREFIX)?.split_once('-')?;
    let start = start.strip_suffix(SECOND).unwrap_or(start);
    Some((process.parse().ok()?, start.parse().ok()?))
}

/// Ignores the error if the instance is missing. The kernel reports ENODEV if another process
/// removed it during the call (`instance_rmdir` in kernel/trace/trace.c).
fn unless_gone(error: io::Error) -> io::Result<()> {
    const ENODEV: i32 = 19;
    if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ENODEV) {
        Ok(())
    } else {
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_of_processes_that_are_gone_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let put = |path: &str| fs::create_dir_all(folder.path().join(path)).unwrap();
        let stat = |process: u32, start: u64| {
            put(&format!("proc/{process}"));
            let fields = format!("{process} (a) b) S {} {start} 0", ["1"; 18].join(" "));
            fs::write(folder.path().join(format!("proc/{process}/stat")), fields).unwrap();
        };
        stat(7, 100);
        stat(8, 200);
        for name in [
            "tardy-7-100",
            "tardy-8-100",
            "tardy-7-100-2",
            "tardy-8-100-2",
            "tardy-9-1",
            "tardy-x-1",
            "theirs",
        ] {
            put(&format!("sys/kernel/tracing/instances/{name}"));
        }
        let tracefs = Tracefs::open(&root).unwrap();
        let mut removed = tracefs.remove_left_behind(&root);
        removed.sort();
        assert_eq!(removed, ["tardy-8-100", "tardy-8-100-2", "tardy-9-1"]);
        assert_eq!(
            fs::read_dir(tracefs.path().join("instances"))
                .unwrap()
                .count(),
            4
        );
        assert!(tracefs.remove_instance("theirs").is_err());
        tracefs.remove_instance("tardy-9-1").unwrap();
    }

    #[test]
    fn where_there_is_none_below_a_root_the_machine_s_own_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            Tracefs::open(&Root::at(folder.path())).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn an_instance_that_another_process_removed_is_gone() {
        let outcome = |errno| unless_gone(io::Error::from_raw_os_error(errno));
        assert!(outcome(2).is_ok() && outcome(19).is_ok());
        assert_eq!(outcome(16).unwrap_err().raw_os_error(), Some(16));
    }
}
