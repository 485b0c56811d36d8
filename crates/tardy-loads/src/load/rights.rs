//! Drops all rights of root except those that a load keeps.
//!
//! A load's process drops its rights itself. First the process takes its share of the CPUs and
//! opens the files that only root can open; then it drops the rights and starts to work. The
//! guardian keeps its rights, because it must undo groups and settings.

use std::fmt;
use std::path::PathBuf;

use tardy_sys::capability::{self, Capability};
use tardy_sys::{landlock, process, rlimit, user};

use super::info::{ErrorContext, WorkError};
use super::worker::{Worker, WorkerPlan};

/// The rights of root that a load keeps when the tool runs as root. Programs that the load executes
/// get no other rights.
#[derive(Debug, Clone, Copy)]
pub enum Rights {
    /// The process changes to the user `nobody`.
    Nobody {
        keeps: &'static [Capability],
        /// Description of the resource that the process opens before it changes the user, for
        /// [`super::info::Run::Prepared`]; may be empty.
        opens: &'static str,
    },
    /// The process stays root, but may write only certain files.
    Confined {
        keeps: &'static [Capability],
        /// Description of these files.
        writes: &'static str,
        /// Paths of these files, or of folders in which everything may be written.
        paths: fn(&WorkerPlan) -> Vec<PathBuf>,
    },
    /// The process keeps all rights, because the load mounts a file system and starts a server, or
    /// because its program is the user's.
    All,
}

impl Rights {
    /// The rights of a load that needs no rights of root.
    pub const NONE: Self = Self::Nobody {
        keeps: &[],
        opens: "",
    };

    /// Returns the names of the kept capabilities, as `setpriv` writes them.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        match self {
            Self::Nobody { keeps, .. } | Self::Confined { keeps, .. } => {
                keeps.iter().map(|capability| capability.name).collect()
            }
            Self::All => vec!["all"],
        }
    }

    /// Returns the name of the user under which the load's process runs when the tool runs as root.
    #[must_use]
    pub fn user(self) -> &'static str {
        match self {
            Self::Nobody { .. } => "nobody",
            Self::Confined { .. } | Self::All => "root",
        }
    }

    /// Drops all other rights permanently. An ordinary user has no rights to drop.
    pub(super) fn keep_only(self, worker: &mut Worker) -> Result<(), WorkError> {
        let (keeps, paths) = match self {
            Self::All => return Ok(()),
            Self::Nobody { keeps, .. } => (keeps, Vec::new()),
            Self::Confined { keeps, paths, .. } => (keeps, paths(&worker.plan)),
        };
        if user::is_root() {
            match self {
                Self::Nobody { .. } => {
                    // The kernel does not limit the number of root's processes. The limit is lifted
                    // for the user `nobody`, too, because the load's plan bounds the number.
                    let _ = rlimit::set(
                        rlimit::Resource::Processes,
                        rlimit::UNLIMITED,
                        rlimit::UNLIMITED,
                    );
                    if let Err(error) = capability::become_nobody() {
                        confine(
                            worker,
                            &paths,
                            &format!("cannot switch to the user nobody ({error})"),
                        );
                    }
                }
                _ => confine(worker, &paths, "needs the user root"),
            }
        }
        capability::keep_only(keeps).doing("give up the rights that the load does not need")?;
        // The kernel cancels the parent-death signal with each change of rights.
        process::set_parent_death_signal(process::KILL)
            .doing("request a signal for the parent's death")
    }
}

/// Restricts writing to `paths` by Landlock. If the kernel lacks Landlock, the load still works,
/// and the run reports that its writing was not restricted.
fn confine(worker: &mut Worker, paths: &[PathBuf], reason: &str) {
    if let Err(error) = landlock::write_only_below(paths) {
        worker.tell(format!(
            "its process {reason}, and the kernel cannot limit where the process writes (Landlock: \
             {error}): the load could change root's files"
        ));
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => return formatter.write_str("user root; all rights that tardy has"),
            Self::Nobody { .. } | Self::Confined { .. } => {}
        }
        let names = self.names();
        let names = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        write!(formatter, "user {}; capabilities: {names}", self.user())?;
        match self {
            Self::Nobody { opens, .. } if !opens.is_empty() => {
                write!(formatter, "; opened as root: {opens}")
            }
            Self::Confined { writes, .. } => write!(formatter, "; writes only {writes} (Landlock)"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::path::Path;
    use std::process::Command;

    use tardy_core::cpu::CpuList;
    use tardy_core::units::Nanos;
    use tardy_run::plan::{Budget, LoadPlan, Share};

    use crate::load::info::Run;
    use crate::load::{LOADS, LoadInfo};

    const LOAD: &str = "TARDY_TEST_LOAD";
    const FOLDER: &str = "TARDY_TEST_FOLDER";
    /// Environment variable that the test sets for a child process in which root may not switch to
    /// another user.
    const STAYS: &str = "TARDY_TEST_STAYS";
    const CHILD: &str = "load::rights::tests::no_load_can_write_what_is_roots";

    fn worker(info: &LoadInfo, folder: &Path) -> Worker {
        let load = LoadPlan {
            label: info.name.to_owned(),
            name: info.name.to_owned(),
            parameters: Default::default(),
            cpus: CpuList::default(),
            each_cpu: false,
            budget: Budget::default(),
            finish_limit: Nanos::ZERO,
            scratch: Some(folder.join("own/group")),
            undo: Vec::new(),
            device_writes: None,
            note: None,
            share: Share::Tasks,
            beside: 0,
        };
        Worker::new(WorkerPlan {
            load,
            cpus: CpuList::default(),
            index: 0,
            memory: 0,
        })
    }

    fn can_write(path: impl AsRef<Path>) -> bool {
        OpenOptions::new().write(true).open(path).is_ok()
    }

    /// Runs in a separate process, because the rights are lost permanently.
    fn try_what_the_load_may_do(info: &LoadInfo, folder: &Path) {
        let mut worker = worker(info, folder);
        info.rights.keep_only(&mut worker).unwrap();
        let name = info.name;
        let is_nobodys = matches!(info.rights, Rights::Nobody { .. });
        let becomes_nobodys = is_nobodys && std::env::var_os(STAYS).is_none();
        assert_eq!(user::user_and_group().0 == 65534, becomes_nobodys, "{name}");
        for place in ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe"] {
            assert!(!can_write(place), "{name} can write {place}");
        }
        for place in ["roots", "everybodys"] {
            let may = place == "everybodys" && becomes_nobodys;
            assert_eq!(can_write(folder.join(place)), may, "{name}: {place}");
        }
        if let Rights::Confined { paths, .. } = info.rights {
            for path in paths(&worker.plan) {
                let file = if path.is_dir() {
                    path.join("file")
                } else {
                    path
                };
                assert!(can_write(&file), "{name}: {}", file.display());
            }
        }
    }

    #[test]
    fn no_load_can_write_what_is_roots() {
        use std::os::unix::fs::PermissionsExt;
        if let Some(name) = std::env::var_os(LOAD) {
            let info = LOADS.iter().find(|info| *info.name == *name).unwrap();
            let folder = std::env::var_os(FOLDER).unwrap();
            return try_what_the_load_may_do(info, Path::new(&folder));
        }
        if !user::is_root() {
            // An ordinary user has no rights to drop.
            return assert!(!can_write("/proc/sys/kernel/core_pattern"));
        }
        assert!(can_write("/proc/sys/kernel/core_pattern"));
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("own/group")).unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        for (file, mode) in [
            ("roots", 0o644),
            ("everybodys", 0o666),
            ("own/group/file", 0o644),
            ("own/cgroup.procs", 0o644),
        ] {
            std::fs::write(folder.path().join(file), "").unwrap();
            let mode = PermissionsExt::from_mode(mode);
            std::fs::set_permissions(folder.path().join(file), mode).unwrap();
        }
        let limited = LOADS
            .iter()
            .filter(|info| !matches!(info.rights, Rights::All));
        let test = std::env::current_exe().unwrap();
        for (info, stays) in limited.flat_map(|info| [(info, false), (info, true)]) {
            let mut command = Command::new(if stays { Path::new("setpriv") } else { &test });
            if stays {
                command.arg("--bounding-set=-setuid,-setgid").arg(&test);
                command.env(STAYS, "");
            }
            let child = command
                .args(["--exact", CHILD, "--nocapture"])
                .env(LOAD, info.name)
                .env(FOLDER, folder.path())
                .output()
                .unwrap();
            let text = [child.stdout, child.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            let is_done = child.status.success() && text.contains("1 passed");
            assert!(is_done, "{}: {text}", info.name);
        }
    }

    #[test]
    fn a_load_says_what_it_opens_where_it_opens_something() {
        for info in LOADS {
            let opens = matches!(info.rights, Rights::Nobody { opens, .. } if !opens.is_empty());
            let is_nobodys = matches!(info.rights, Rights::Nobody { .. });
            // `operations` is prepared only because it raises its limits as root; it opens nothing.
            let is_prepared = matches!(info.run, Run::Prepared(_)) && info.name != "operations";
            assert!(!is_nobodys || opens == is_prepared, "{}", info.name);
        }
    }
}
