//! Applies settings temporarily. Old values are journaled before any new value is written, and are
//! restored on every exit. If the process is killed, the next start of the tool or `tardy restore`
//! restores them.
//!
//! A search applies and restores its settings for each run. Between runs, the machine has its
//! original settings, and a search that is killed leaves at most one journal.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tardy_machine::journal::{Journal, JournalError, UndoResult};
use tardy_machine::root::Root;
use tardy_machine::undo::{self, Claim, Undo};
use tardy_sys::{child, process, signal};

use crate::setting::{Change, Setting, Standing, current, is_alike};

/// Why settings were not applied. Values that were already written have been restored.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("setting {0} does not apply to this machine: {1}")]
    Absent(String, String),
    #[error("setting {0} needs a restart with {line} on the kernel's command line (`tardy tune \
             --plan` shows where)", line = .1.join(" "))]
    Restart(String, Vec<String>),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("setting {name}: cannot write {value:?} to {path}: {error}")]
    Write {
        name: String,
        path: PathBuf,
        value: String,
        error: std::io::Error,
    },
    #[error("setting {name}: {path} accepted {wanted:?} but then had {now:?}")]
    NotTaken {
        name: String,
        path: PathBuf,
        wanted: String,
        now: String,
    },
    #[error(
        "setting {0}: {1} is not a setting of the kernel, so tardy could not restore it after a \
         crash: name a file below /proc or /sys"
    )]
    NotASetting(String, PathBuf),
    #[error("setting {0}: cannot start {1:?}: {2}")]
    Start(String, String, std::io::Error),
}

/// The error that is returned if another process has applied settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("another `tardy tune` or `tardy run --tune` has settings in force: wait until it ends")]
pub struct InForce;

/// The exclusive right to apply settings. If two processes applied settings at the same time, the
/// process that ends last could restore values that the other one wrote.
#[derive(Debug)]
pub struct SettingsLock {
    /// Folder of the journals.
    folder: PathBuf,
    /// The open folder, which holds the lock; `None` if the folder cannot be made or opened.
    /// Without the folder, settings that change files cannot be applied, because the journal of the
    /// changes is stored in this folder.
    _file: Option<File>,
}

impl SettingsLock {
    /// Takes the lock for journals in `folder`. The lock must be taken before current values are
    /// read.
    ///
    /// # Errors
    /// Returns [`InForce`].
    pub fn take(folder: PathBuf) -> Result<Self, InForce> {
        let file = std::fs::create_dir_all(&folder)
            .and_then(|()| File::open(&folder))
            .ok();
        match file.as_ref().map(File::try_lock) {
            Some(Err(TryLockError::WouldBlock)) => Err(InForce),
            _ => Ok(Self {
                folder,
                _file: file,
            }),
        }
    }
}

/// Applied settings. Dropping this value ends the settings' programs and restores the old values.
#[derive(Debug)]
pub struct AppliedSettings {
    /// The changes that were made.
    pub changes: Vec<Change>,
    programs: Vec<Program>,
    journal: Option<Journal>,
}

impl AppliedSettings {
    /// Applies `settings`. If two settings change the same file, the later one wins.
    ///
    /// The calling thread must live as long as the returned value, because the kernel kills the
    /// programs of settings when that thread ends.
    ///
    /// # Errors
    /// Returns [`ApplyError`].
    pub fn apply<'a>(
        settings: impl IntoIterator<Item = &'a Setting>,
        lock: &SettingsLock,
        root: &Root,
    ) -> Result<Self, ApplyError> {
        let settings: Vec<&Setting> = settings.into_iter().collect();
        let mut changes: BTreeMap<PathBuf, (&str, Change)> = BTreeMap::new();
        for setting in &settings {
            match setting.standing() {
                Standing::AsWanted => {}
                Standing::Changeable(of_setting) => {
                    changes.extend(
                        of_setting
                            .into_iter()
                            .map(|change| (change.path.clone(), (setting.name.as_str(), change))),
                    );
                }
                Standing::TakesRestart(words) => {
                    return Err(ApplyError::Restart(setting.name.clone(), words));
                }
                Standing::Absent(why) => return Err(ApplyError::Absent(setting.name.clone(), why)),
            }
        }
        // Only the files of the real system are checked, because tests use ordinary files in place
        // of settings.
        if *root == Root::system()
            && let Some((name, change)) = changes
                .values()
                .find(|(_, change)| matches!(undo::pin(&change.path, Claim::File), Ok(None)))
        {
            let (name, path) = ((*name).to_owned(), change.path.clone());
            return Err(ApplyError::NotASetting(name, path));
        }
        let undo = |(_, change): &(&str, Change)| Undo::Write {
            path: change.path.clone(),
            value: change.now.clone(),
            written: Some(change.wanted.clone()),
        };
        let undos: Vec<Undo> = changes.values().map(undo).collect();
        let journal = if undos.is_empty() {
            None
        } else {
            Some(Journal::write(&lock.folder, root, Vec::new(), undos)?)
        };
        let mut applied = Self {
            changes: Vec::new(),
            programs: Vec::new(),
            journal,
        };
        for (name, change) in changes.into_values() {
            write(name, &change)?;
            applied.changes.push(change);
        }
        for setting in settings
            .iter()
            .filter(|setting| !setting.while_on.is_empty())
        {
            applied.programs.push(Program::start(setting)?);
        }
        Ok(applied)
    }

    /// Ends the programs and restores the old values. Returns one result per restored value.
    pub fn undo(mut self) -> Vec<UndoResult> {
        self.programs.clear();
        self.journal.take().map_or_else(Vec::new, Journal::undo)
    }
}

fn write(name: &str, change: &Change) -> Result<(), ApplyError> {
    let Change { path, wanted, .. } = change;
    std::fs::write(path, wanted).map_err(|error| ApplyError::Write {
        name: name.to_owned(),
        path: path.clone(),
        value: wanted.clone(),
        error,
    })?;
    match current(path) {
        Ok(now) if !is_alike(&now, wanted) => Err(ApplyError::NotTaken {
            name: name.to_owned(),
            path: path.clone(),
            wanted: wanted.clone(),
            now,
        }),
        _ => Ok(()),
    }
}

/// A program that runs while a setting is on. Dropping this value ends the program's whole process
/// group.
#[derive(Debug)]
struct Program(Child);

impl Program {
    fn start(setting: &Setting) -> Result<Self, ApplyError> {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(&setting.while_on[0]);
        command
            .args(&setting.while_on[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let started = child::kill_with_parent(&mut command).spawn();
        started.map(Self).map_err(|error| {
            ApplyError::Start(setting.name.clone(), setting.while_on[0].clone(), error)
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SIGTERM is sent first, because a load of this tool then undoes its own changes.
        let group = i32::try_from(self.0.id()).unwrap_or(i32::MAX);
        let _ = process::kill_group(group, signal::TERMINATE);
        for _ in 0..40 {
            if matches!(self.0.try_wait(), Ok(Some(_)) | Err(_)) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let _ = process::kill_group(group, process::KILL);
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            std::fs::write(machine.path("a"), "1\n").unwrap();
            std::fs::write(machine.path("b"), "[x] y z\n").unwrap();
            machine
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn setting(&self, name: &str, files: &[(&str, &str)]) -> Setting {
            let files = files
                .iter()
                .map(|(file, value)| (self.path(file), (*value).to_owned()))
                .collect();
            Setting {
                name: name.into(),
                why: String::new(),
                files,
                while_on: Vec::new(),
                words: Vec::new(),
                only_named: false,
            }
        }

        fn apply(&self, settings: &[Setting]) -> Result<AppliedSettings, ApplyError> {
            let lock = SettingsLock::take(self.path("state")).unwrap();
            AppliedSettings::apply(settings, &lock, &Root::at(self.0.path()))
        }

        fn text(&self, name: &str) -> String {
            std::fs::read_to_string(self.path(name))
                .unwrap()
                .trim()
                .to_owned()
        }

        fn journals(&self) -> usize {
            std::fs::read_dir(self.path("state")).map_or(0, Iterator::count)
        }
    }

    #[test]
    fn what_is_applied_is_journalled_and_put_back() {
        let machine = Machine::new();
        let applied = machine
            .apply(&[
                machine.setting("one", &[("a", "2")]),
                machine.setting("two", &[("b", "y")]),
            ])
            .unwrap();
        assert_eq!(
            (
                machine.text("a").as_str(),
                machine.text("b").as_str(),
                machine.journals()
            ),
            ("2", "y", 1)
        );
        assert_eq!(applied.changes.len(), 2);
        assert!(applied.undo().iter().all(|undone| undone.result.is_ok()));
        assert_eq!(
            (
                machine.text("a").as_str(),
                machine.text("b").as_str(),
                machine.journals()
            ),
            ("1", "x", 0)
        );
    }

    #[test]
    fn what_cannot_be_applied_leaves_nothing_behind() {
        let machine = Machine::new();
        std::os::unix::fs::symlink("/dev/full", machine.path("full")).unwrap();
        for bad in [
            machine.setting("absent", &[("c", "2")]),
            machine.setting("full", &[("full", "2")]),
        ] {
            let error = machine
                .apply(&[machine.setting("one", &[("a", "2")]), bad])
                .unwrap_err();
            assert!(error.to_string().starts_with("setting "), "{error}");
            assert_eq!(
                (machine.text("a").as_str(), machine.journals()),
                ("1", 0),
                "{error}"
            );
        }
    }

    #[test]
    fn one_at_a_time_may_put_settings_in_force() {
        let machine = Machine::new();
        let first = SettingsLock::take(machine.path("state")).unwrap();
        assert_eq!(
            SettingsLock::take(machine.path("state")).unwrap_err(),
            InForce
        );
        drop(first);
        SettingsLock::take(machine.path("state")).unwrap();
    }

    #[test]
    fn a_dropped_set_is_put_back_and_nothing_is_journalled_where_nothing_changes() {
        let machine = Machine::new();
        drop(
            machine
                .apply(&[machine.setting("one", &[("a", "2")])])
                .unwrap(),
        );
        assert_eq!((machine.text("a").as_str(), machine.journals()), ("1", 0));
        let as_wanted = machine
            .apply(&[machine.setting("one", &[("a", "1")])])
            .unwrap();
        assert_eq!((as_wanted.changes.len(), machine.journals()), (0, 0));
    }

    #[test]
    fn a_program_runs_while_its_setting_is_on_and_no_longer() {
        let machine = Machine::new();
        let started = machine.path("started");
        let mut setting = machine.setting("program", &[]);
        let script = format!("echo $$ > {}; exec sleep 1000", started.display());
        setting.while_on = ["sh", "-c", &script].map(str::to_owned).to_vec();
        let applied = machine.apply(&[setting]).unwrap();
        let pid = loop {
            match std::fs::read_to_string(&started)
                .ok()
                .and_then(|text| text.trim().parse::<u32>().ok())
            {
                Some(pid) => break pid,
                None => std::thread::sleep(std::time::Duration::from_millis(10)),
            }
        };
        assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
        drop(applied);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
