//! Makes a control group (version 2 or 1) with a memory limit. A load's workers enter and leave the
//! group.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tardy_machine::groups;
use tardy_machine::host::Host;
use tardy_machine::undo::{FOLDER_PREFIX, Undo};

use super::Unsupported;

/// The file that lists the controllers of a group's children; version 2 only.
const CONTROLLERS_BELOW: &str = "cgroup.subtree_control";
const CONTROLLERS: &str = "cgroup.controllers";
const MEMBERS: &str = "cgroup.procs";
/// The file with the limit, in version 2 and in version 1.
const LIMITS: [&str; 2] = ["memory.max", "memory.limit_in_bytes"];

/// Returns the path at which the load `name` can make its group with a memory limit. Also returns
/// the change to undo after the run, if the memory controller must be enabled for the group.
/// Changes nothing permanently.
///
/// # Errors
/// Returns an error that names what is missing: a memory controller, or the right to make a group.
pub(super) fn place(host: &Host, name: &str) -> Result<(PathBuf, Option<Undo>), Unsupported> {
    let parent = parent(&host.proc).ok_or_else(|| {
        Unsupported::new(
            "support for memory limits of control groups",
            "use a kernel with CONFIG_MEMCG, and mount the control groups: mount -t cgroup2 none \
             /sys/fs/cgroup",
        )
    })?;
    let group = parent.folder.join(format!(
        "{FOLDER_PREFIX}{name}-{}-{}",
        std::process::id(),
        tardy_sys::clock::monotonic()
    ));
    groups::check_can_be_made(&group).map_err(|error| {
        Unsupported::new(
            format!(
                "the right to make control groups in {} ({error})",
                parent.folder.display()
            ),
            "run as root",
        )
    })?;
    let switch = parent.folder.join(CONTROLLERS_BELOW);
    Ok((
        group,
        parent.needs_switching_on.then_some(Undo::Write {
            path: switch,
            value: "-memory".to_owned(),
            written: None,
        }),
    ))
}

/// A group whose children have the memory controller, or will have it after the controller is
/// enabled in the group (`needs_switching_on`).
#[derive(Debug, PartialEq, Eq)]
struct Parent {
    folder: PathBuf,
    needs_switching_on: bool,
}

fn parent(proc: &Path) -> Option<Parent> {
    let mounts = std::fs::read_to_string(proc.join("self/mounts")).ok()?;
    let groups = std::fs::read_to_string(proc.join("self/cgroup")).ok()?;
    parent_of_version_2(&mounts, &groups).or_else(|| parent_of_version_1(&mounts, &groups))
}

/// Returns the nearest group whose children have the memory controller: the process's own group or
/// one of its ancestors. If there is none, returns the root group, if the controller can be enabled
/// there. Only the root group may contain both processes and groups with controllers.
fn parent_of_version_2(mounts: &str, groups: &str) -> Option<Parent> {
    let mount = mount_points(mounts, "cgroup2", None).next()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let has = |folder: &Path, file: &str| {
        std::fs::read_to_string(folder.join(file)).is_ok_and(|text| {
            text.split_whitespace()
                .any(|controller| controller == "memory")
        })
    };
    let own = mount.join(own);
    let above = own
        .ancestors()
        .take_while(|folder| folder.starts_with(&mount));
    if let Some(folder) = above
        .into_iter()
        .find(|folder| has(folder, CONTROLLERS_BELOW))
    {
        return Some(Parent {
            folder: folder.to_owned(),
            needs_switching_on: false,
        });
    }
    has(&mount, CONTROLLERS).then_some(Parent {
        folder: mount,
        needs_switching_on: true,
    })
}

fn parent_of_version_1(mounts: &str, groups: &str) -> Option<Parent> {
    let mount = mount_points(mounts, "cgroup", Some("memory")).next()?;
    let own = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        controllers
            .split(',')
            .any(|controller| controller == "memory")
            .then(|| path.trim_start_matches('/').to_owned())
    })?;
    let own = mount.join(own);
    // In a container, the path may be a path of the host that is not mounted here.
    Some(Parent {
        folder: if own.is_dir() { own } else { mount },
        needs_switching_on: false,
    })
}

fn mount_points<'a>(
    mounts: &'a str,
    kind: &'a str,
    option: Option<&'a str>,
) -> impl Iterator<Item = PathBuf> + 'a {
    mounts.lines().filter_map(move |line| {
        let mut fields = line.split(' ');
        let (point, has_kind, options) = (fields.nth(1)?, fields.next()? == kind, fields.next()?);
        let has_option =
            option.is_none_or(|option| options.split(',').any(|given| given == option));
        (has_kind && has_option).then(|| PathBuf::from(point))
    })
}

/// Number of attempts to enter a group that is removed again and again.
const ENTER_TRIES: usize = 10;

/// The calling process's membership in a group.
#[derive(Debug)]
pub(super) struct MemoryGroup {
    /// The file with the members of the group that the process was in before.
    home: File,
}

impl MemoryGroup {
    /// Makes the group if it does not exist, sets its limit and enters it. `undo` shows whether the
    /// controller must be enabled first.
    ///
    /// # Errors
    /// Returns an error if the group's files cannot be accessed: EACCES, EBUSY, or ENOENT if there
    /// is no controller.
    pub(super) fn enter(group: &Path, limit: u64, undo: &[Undo]) -> io::Result<Self> {
        let is_gone = |entered: &io::Result<Self>| {
            let is_absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
            entered.as_ref().is_err_and(is_absent) && !group.exists()
        };
        // The group may be removed after it was made and before this worker has entered it.
        for _ in 1..ENTER_TRIES {
            let entered = Self::enter_once(group, limit, undo);
            if !is_gone(&entered) {
                return entered;
            }
        }
        Self::enter_once(group, limit, undo)
    }

    fn enter_once(group: &Path, limit: u64, undo: &[Undo]) -> io::Result<Self> {
        for change in undo {
            if let Undo::Write { path, value, .. } = change
                && path.ends_with(CONTROLLERS_BELOW)
            {
                std::fs::write(path, value.replace('-', "+"))?;
            }
        }
        match std::fs::create_dir(group) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let file = LIMITS
            .map(|name| group.join(name))
            .into_iter()
            .find(|file| file.exists());
        std::fs::write(file.ok_or(io::ErrorKind::NotFound)?, limit.to_string())?;
        let home = home(group).ok_or(io::ErrorKind::NotFound)?.join(MEMBERS);
        let home = File::options().write(true).open(home)?;
        // The kernel interprets 0 as the process that writes it.
        std::fs::write(group.join(MEMBERS), "0")?;
        Ok(Self { home })
    }

    /// Moves the process back to its previous group. The guardian removes the group that the
    /// process left.
    ///
    /// # Errors
    /// Returns an error if the file of members cannot be written.
    pub(super) fn leave(mut self) -> io::Result<()> {
        self.home.write_all(b"0")
    }
}

/// Returns the group that this process is in now, in the hierarchy of `group`.
fn home(group: &Path) -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let version_2 = mount_points(&mounts, "cgroup2", None)
        .find(|mount| group.starts_with(mount))
        .and_then(|mount| {
            let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
            Some(mount.join(own))
        });
    let own =
        version_2.or_else(|| parent_of_version_1(&mounts, &groups).map(|parent| parent.folder));
    own.filter(|folder| folder.is_dir())
        .or_else(|| group.parent().map(Path::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_has_groups_below_the_own_one() {
        let root = tempfile::tempdir().unwrap();
        let memory = root.path().join("memory");
        std::fs::create_dir_all(memory.join("a/b")).unwrap();
        let mounts = format!(
            "cgroup {} cgroup rw,cpu 0 0\ncgroup {} cgroup rw,relatime,memory 0 0\n",
            root.path().display(),
            memory.display()
        );
        let of = |groups: &str| parent_of_version_1(&mounts, groups).map(|parent| parent.folder);
        assert_eq!(
            of("3:cpu:/x\n4:memory:/a/b\n0::/\n"),
            Some(memory.join("a/b"))
        );
        assert_eq!(of("4:memory:/not/here\n"), Some(memory.clone()));
        assert_eq!(of("3:cpu:/x\n"), None);
    }

    #[test]
    fn version_2_has_groups_where_the_controller_is_switched_on_or_can_be() {
        let root = tempfile::tempdir().unwrap();
        let top = root.path();
        let session = top.join("user.slice/session.scope");
        std::fs::create_dir_all(&session).unwrap();
        let mounts = format!("cgroup2 {} cgroup2 rw 0 0\n", top.display());
        let of = || parent_of_version_2(&mounts, "0::/user.slice/session.scope\n");
        assert_eq!(of(), None, "without a memory controller");
        std::fs::write(top.join(CONTROLLERS), "cpu memory\n").unwrap();
        assert_eq!(
            of(),
            Some(Parent {
                folder: top.to_owned(),
                needs_switching_on: true
            })
        );
        std::fs::write(top.join("user.slice").join(CONTROLLERS_BELOW), "memory\n").unwrap();
        assert_eq!(
            of(),
            Some(Parent {
                folder: top.join("user.slice"),
                needs_switching_on: false
            })
        );
    }
}
