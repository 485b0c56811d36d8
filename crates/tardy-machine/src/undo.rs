//! Describes changes that the tool and its loads make to the machine beyond their own processes.
//! Each change is journaled before it is made. When a run or command ends, the tool undoes its own
//! changes, and the supervisor undoes the changes of loads. If these processes were killed, the
//! next start or `tardy restore` undoes them.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tardy_sys::{console, kernel_file, private_folder, say};

use crate::root::Root;
use crate::tracefs::Tracefs;

/// Prefix of the name of every temporary folder; other folders are never removed.
pub const FOLDER_PREFIX: &str = "tardy-scratch-";
/// Prefix of the name of the folder that a run makes below `--spool`.
pub const SPOOL_PREFIX: &str = "tardy-spool-";

/// A change, described by the action that undoes it. The action can be repeated without harm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Undo {
    /// Remove a temporary folder of a command, with its content.
    RemoveFolder(PathBuf),
    /// Move samples to the folder of their run, and remove the folder in which they were.
    StoreSamples {
        /// The folder below `--spool`.
        spool: PathBuf,
        /// The folder `samples` of the run folder.
        samples: PathBuf,
    },
    /// Remove a control group that a load made, with its subgroups. They must not contain
    /// processes.
    RemoveCgroup(PathBuf),
    /// Restore the value of a setting.
    Write {
        /// The file, in /sys or /proc.
        path: PathBuf,
        value: String,
        /// The value that the tool wrote. If the file contains a different number when the change
        /// is undone, another process wrote that number, and it stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        written: Option<String>,
    },
    /// Show a virtual terminal again.
    ShowTerminal {
        /// Any open virtual terminal, such as /dev/tty0.
        console: PathBuf,
        /// The terminal's number.
        number: u16,
    },
    /// Remove the trace instance with this name, which a run made.
    RemoveTraceInstance(String),
    /// Make the keyboard's lights show its state again.
    FollowKeyboardState {
        /// Any open virtual terminal, such as /dev/tty0.
        console: PathBuf,
    },
}

/// Why a change could not be undone.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The folder's name is not one that tardy uses. This is checked because a manipulated journal
    /// could name any folder.
    #[error("{} has a name that tardy does not use: remove it by hand if you do not need \
             it", .0.display())]
    NotOurs(PathBuf),
    /// The path is not a kernel setting.
    #[error(
        "{} is not a setting of the kernel, so tardy wrote nothing to it",
        .0.display()
    )]
    NotASetting(PathBuf),
    /// The kernel returned an error.
    #[error("{}: {source}; undo it by hand", path.display())]
    System {
        /// The path of the setting, file or folder.
        path: PathBuf,
        /// The error that the kernel returned.
        source: io::Error,
    },
}

impl std::fmt::Display for Undo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RemoveFolder(path) => write!(formatter, "remove the folder {}", path.display()),
            Self::StoreSamples { spool, samples } => write!(
                formatter,
                "move samples from {} to {}",
                spool.display(),
                samples.display()
            ),
            Self::RemoveCgroup(path) => {
                write!(formatter, "remove the control group {}", path.display())
            }
            Self::Write { path, value, .. } => {
                write!(formatter, "write {value:?} back to {}", path.display())
            }
            Self::ShowTerminal { number, .. } => {
                write!(formatter, "show the virtual terminal {number} again")
            }
            Self::RemoveTraceInstance(name) => {
                write!(formatter, "remove the trace instance {name}")
            }
            Self::FollowKeyboardState { .. } => {
                formatter.write_str("let the keyboard's lights show its state again")
            }
        }
    }
}

impl Undo {
    /// Undoes the change. Succeeds if the change was never made, or is already undone.
    ///
    /// # Errors
    /// Returns an error that names the remaining change and asks the user to undo it.
    pub fn run(&self) -> Result<(), UndoError> {
        self.run_as(Claim::Own)
    }

    /// Works like [`Self::run`]; `claim` is who states that the change was made.
    ///
    /// # Errors
    /// Fails as [`Self::run`] does.
    pub fn run_as(&self, claim: Claim) -> Result<(), UndoError> {
        let (path, result) = match self {
            Self::RemoveTraceInstance(name) => return remove_instance(name),
            Self::RemoveFolder(path) | Self::RemoveCgroup(path)
                if !is_ours(path, FOLDER_PREFIX) =>
            {
                return Err(UndoError::NotOurs(path.clone()));
            }
            Self::StoreSamples { spool, .. } if !is_ours(spool, SPOOL_PREFIX) => {
                return Err(UndoError::NotOurs(spool.clone()));
            }
            Self::StoreSamples { spool, samples } => (spool, store_samples(spool, samples)),
            Self::RemoveFolder(path) => (path, remove_folder(path)),
            Self::RemoveCgroup(path) => (path, remove_cgroup(path)),
            Self::Write {
                path,
                value,
                written,
            } => {
                let setting = match pin(path, claim) {
                    Ok(Some(setting)) => setting,
                    Ok(None) => return Err(UndoError::NotASetting(path.clone())),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                    Err(source) => {
                        return Err(UndoError::System {
                            path: path.clone(),
                            source,
                        });
                    }
                };
                (path, write_back(path, &setting, value, written.as_deref()))
            }
            Self::ShowTerminal {
                console: path,
                number,
            } => (
                path,
                File::open(path).and_then(|file| console::show(&file, *number)),
            ),
            Self::FollowKeyboardState { console: path } => (
                path,
                File::open(path)
                    .and_then(|file| console::set_lights(&file, console::LED_FOLLOW_STATE)),
            ),
        };
        match result {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(UndoError::System {
                path: path.clone(),
                source,
            }),
            _ => Ok(()),
        }
    }
}

impl Undo {
    /// Returns whether the change survives a reboot. Changes to files do, but settings of the
    /// running kernel do not.
    #[must_use]
    pub fn survives_restart(&self) -> bool {
        matches!(self, Self::RemoveFolder(_) | Self::StoreSamples { .. })
    }
}

/// Maximum length of a kernel setting: a page.
const SETTING_BYTES: u64 = 4096;

/// Who states that a change was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// This process, or a process that it trusts.
    Own,
    /// A journal file, which may be forged. Because of this, only kernel settings are written.
    File,
}

/// Opens the file of a setting. The caller writes to this open file, so if another file gets the
/// same name later, that file is not changed. Returns `None` if the path cannot be a setting.
///
/// # Errors
/// Fails as [`kernel_file::pin`] does.
pub fn pin(path: &Path, claim: Claim) -> io::Result<Option<File>> {
    let file = kernel_file::pin(path)?;
    let may_be_one = claim == Claim::Own || kernel_file::is_kernels(&file)?;
    Ok(may_be_one.then_some(file))
}

/// Writes the old value. Writes nothing if the file already has this value, or if `written` is a
/// number and the file now contains another number. A file that already has the old value is not
/// opened for writing, because it may be read-only: the change was then never made.
fn write_back(path: &Path, setting: &File, value: &str, written: Option<&str>) -> io::Result<()> {
    let setting = private_folder::inside(setting);
    let mut found = String::new();
    let _ =
        File::open(&setting).and_then(|file| file.take(SETTING_BYTES).read_to_string(&mut found));
    let has = |value: &str| {
        found.trim() == value.trim()
            || [format!("[{value}]"), format!("({value})")]
                .iter()
                .any(|chosen| found.contains(chosen))
    };
    if has(value) {
        Ok(())
    } else if written.is_some_and(|written| is_another_number(&found, written)) {
        say!(
            "tardy: another program changed {}: it stays {:?}, and is not restored to {value:?}",
            path.display(),
            found.trim()
        );
        Ok(())
    } else {
        std::fs::write(setting, value)
    }
}

/// Returns whether both texts are numbers and differ. Texts that are not numbers are not compared,
/// because the kernel may print them in a different form than they were written.
fn is_another_number(found: &str, written: &str) -> bool {
    let number = |text: &str| text.trim().parse::<i64>().ok();
    number(found)
        .zip(number(written))
        .is_some_and(|(found, written)| found != written)
}

/// Returns an iterator that undoes the changes, starting with the last one, and yields each change
/// with its result.
pub fn run_all(changes: &[Undo]) -> impl Iterator<Item = (&Undo, Result<(), UndoError>)> {
    changes.iter().rev().map(|undo| (undo, undo.run()))
}

/// Moves all files of `spool` to the existing folder `samples`, syncs them, and removes `spool`.
/// After a reboot, another user may have made a folder with this name and links in it. Files of
/// other users are therefore not moved, and links are not followed.
fn store_samples(spool: &Path, samples: &Path) -> io::Result<()> {
    let (from, to) = (
        private_folder::open(spool)?,
        private_folder::open_itself(samples)?,
    );
    let names = std::fs::read_dir(private_folder::inside(&from))?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<io::Result<Vec<_>>>()?;
    for name in &names {
        let mut source = private_folder::open_file(&from, name)?;
        let mut target = private_folder::create_file(&private_folder::inside(&to).join(name))?;
        io::copy(&mut source, &mut target)?;
        target.sync_all()?;
    }
    for name in &names {
        std::fs::remove_file(private_folder::inside(&from).join(name))?;
    }
    std::fs::remove_dir(spool)
}

fn is_ours(path: &Path, prefix: &str) -> bool {
    let named = path
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(prefix));
    named
        && path.is_absolute()
        && path
            .components()
            .all(|part| part != std::path::Component::ParentDir)
}

fn remove_instance(name: &str) -> Result<(), UndoError> {
    let result = Tracefs::open(&Root::system()).and_then(|tracefs| tracefs.remove_instance(name));
    result.map_err(|source| UndoError::System {
        path: Path::new("instances").join(name),
        source,
    })
}

/// Removes a folder with its content. If a call fails, for example because the disk is busy, tries
/// once more.
pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    std::fs::remove_dir_all(path).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Err(error),
        _ => std::fs::remove_dir_all(path),
    })
}

/// Removes a control group. The files in its folder cannot be removed, but disappear with the
/// folder.
fn remove_cgroup(path: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(path)?.filter_map(Result::ok) {
        if entry.file_type()?.is_dir() {
            remove_cgroup(&entry.path())?;
        }
    }
    remove_group_without_subgroups(path)
}

/// Removes a control group without opening any file.
pub(crate) fn remove_group_without_subgroups(path: &Path) -> io::Result<()> {
    // A killed process remains a member of its group until the kernel has fully removed it,
    // although it is no longer visible.
    let end = Instant::now() + MEMBERS_GONE_LIMIT;
    loop {
        match std::fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < end => {
                std::thread::sleep(MEMBERS_GONE_CHECK)
            }
            result => return result,
        }
    }
}

/// How long to wait until the killed members of a group are gone, and the interval between
/// attempts.
const MEMBERS_GONE_LIMIT: Duration = Duration::from_secs(5);
const MEMBERS_GONE_CHECK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_that_loads_made_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let ours = root.path().join("tardy-scratch-1");
        let other = root.path().join("precious");
        std::fs::create_dir_all(ours.join("in/side")).unwrap();
        std::fs::create_dir(&other).unwrap();
        Undo::RemoveFolder(ours.clone()).run().unwrap();
        Undo::RemoveFolder(ours.clone()).run().unwrap();
        assert!(!ours.exists());
        for path in [
            other.clone(),
            root.path().join("tardy-scratch-1/.."),
            root.path().join("x/../tardy-scratch-2"),
            "tardy-scratch-3".into(),
        ] {
            assert!(
                matches!(
                    Undo::RemoveFolder(path.clone()).run(),
                    Err(UndoError::NotOurs(_))
                ),
                "{path:?}"
            );
            assert!(matches!(
                Undo::RemoveCgroup(path).run(),
                Err(UndoError::NotOurs(_))
            ));
        }
        assert!(other.exists());
    }

    #[test]
    fn a_value_that_is_there_already_is_not_written() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("policy");
        for text in ["default\n", "[default] performance powersave\n"] {
            std::fs::write(&path, text).unwrap();
            Undo::Write {
                path: path.clone(),
                value: "default".into(),
                written: None,
            }
            .run()
            .unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        Undo::Write {
            path: path.clone(),
            value: "performance".into(),
            written: None,
        }
        .run()
        .unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "performance");
    }

    #[test]
    fn samples_of_a_spool_are_moved_to_their_run() {
        let root = tempfile::tempdir().unwrap();
        let (spool, samples, other) = (
            root.path().join("tardy-spool-7"),
            root.path().join("samples"),
            root.path().join("precious"),
        );
        for folder in [&spool, &samples, &other] {
            private_folder::make_new(folder).unwrap();
        }
        std::fs::write(spool.join("cyclic.cpu0.series"), "samples").unwrap();
        let undo = Undo::StoreSamples {
            spool: spool.clone(),
            samples: samples.clone(),
        };
        undo.run().unwrap();
        undo.run().unwrap();
        assert_eq!(
            std::fs::read(samples.join("cyclic.cpu0.series")).unwrap(),
            b"samples"
        );
        assert!(!spool.exists() && undo.survives_restart());
        assert!(matches!(
            Undo::StoreSamples {
                spool: other.clone(),
                samples
            }
            .run(),
            Err(UndoError::NotOurs(_))
        ));
        assert!(other.exists());
    }

    #[test]
    fn samples_are_taken_only_from_a_folder_of_ones_own_and_not_through_links() {
        use std::os::unix::fs::{PermissionsExt, chown, symlink};
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let (spool, samples) = (path("tardy-spool-7"), path("samples"));
        let refused = |why: &str| {
            let undo = Undo::StoreSamples {
                spool: spool.clone(),
                samples: samples.clone(),
            };
            let refused = undo.run().unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
            assert_eq!(std::fs::read_dir(&samples).unwrap().count(), 0, "{why}");
        };
        for folder in [&spool, &samples, &path("tardy-spool-8")] {
            private_folder::make_new(folder).unwrap();
        }
        std::fs::write(path("secret"), "private").unwrap();
        symlink(path("secret"), spool.join("cyclic.cpu0.series")).unwrap();
        refused("cyclic.cpu0.series is a symbolic link");
        std::fs::remove_file(spool.join("cyclic.cpu0.series")).unwrap();
        std::fs::write(spool.join("cyclic.cpu0.series"), "forged").unwrap();
        std::fs::set_permissions(&spool, std::fs::Permissions::from_mode(0o777)).unwrap();
        refused("other users may access the folder");
        std::fs::set_permissions(&spool, std::fs::Permissions::from_mode(0o700)).unwrap();
        // Only root can change the owner of a file.
        if tardy_sys::user::is_root() {
            chown(&spool, Some(65534), None).unwrap();
            refused("the folder belongs to user 65534");
        }
        std::fs::remove_dir_all(&spool).unwrap();
        symlink(path("tardy-spool-8"), &spool).unwrap();
        refused("this is a link");
        assert_eq!(std::fs::read(path("secret")).unwrap(), b"private");
    }

    #[test]
    fn groups_are_removed_from_the_inside() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("tardy-scratch-group");
        std::fs::create_dir_all(group.join("a/b")).unwrap();
        Undo::RemoveCgroup(group.clone()).run().unwrap();
        assert!(!group.exists());
    }

    #[test]
    fn what_was_planned_last_is_undone_first() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("trigger");
        std::fs::write(&path, "").unwrap();
        let changes = ["first", "second"].map(|value| Undo::Write {
            path: path.clone(),
            value: value.into(),
            written: None,
        });
        assert!(run_all(&changes).all(|(_, result)| result.is_ok()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first");
        assert!(
            Undo::RemoveFolder(path.clone()).survives_restart() && !changes[0].survives_restart()
        );
    }

    #[test]
    fn a_value_is_written_back() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("online");
        std::fs::write(&path, "0").unwrap();
        Undo::Write {
            path: path.clone(),
            value: "1".into(),
            written: None,
        }
        .run()
        .unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1");
    }

    #[test]
    fn a_setting_that_somebody_changed_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("swappiness");
        let undo = Undo::Write {
            path: path.clone(),
            value: "60".to_owned(),
            written: Some("10".to_owned()),
        };
        for (found, expected) in [
            ("10\n", "60"),
            ("60\n", "60\n"),
            ("33\n", "33\n"),
            ("never", "60"),
        ] {
            std::fs::write(&path, found).unwrap();
            undo.run().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), expected, "{found}");
        }
    }
}
