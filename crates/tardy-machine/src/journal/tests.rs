use super::*;

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    /// Simulates a command that changed two files and was then killed; the file `refuses` cannot be
    /// restored.
    fn killed_with_one_that_refuses(&self) {
        self.put("setting", "new");
        std::os::unix::fs::symlink("/dev/full", self.folder.path().join("refuses")).unwrap();
        let write = |name: &str| Undo::Write {
            path: self.folder.path().join(name),
            value: "old".into(),
            written: None,
        };
        kill(self.write(Vec::new(), vec![write("setting"), write("refuses")]));
    }

    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = Self { folder };
        machine.put("proc/sys/kernel/random/boot_id", "boot-1\n");
        machine.put("proc/irq/5/smp_affinity_list", "0-1\n");
        machine
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn affinity(&self) -> String {
        fs::read_to_string(self.folder.path().join("proc/irq/5/smp_affinity_list"))
            .unwrap()
            .trim()
            .to_owned()
    }

    fn root(&self) -> Root {
        Root::at(self.folder.path())
    }

    fn journals(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn write(&self, interrupts: Vec<IrqMove>, loads: Vec<Undo>) -> Journal {
        Journal::write(&self.journals(), &self.root(), interrupts, loads).unwrap()
    }

    fn change(&self) -> Journal {
        let path = self.folder.path().join("proc/irq/5/smp_affinity_list");
        let to = IrqMove {
            irq: 5,
            path,
            old: "0-1".parse().unwrap(),
            new: "1".parse().unwrap(),
        };
        let journal = self.write(vec![to.clone()], Vec::new());
        to.apply().unwrap();
        journal
    }
}

/// Simulates a SIGKILL: the changes stay, and the lock is released.
fn kill(mut journal: Journal) {
    journal.is_undone = true;
}

#[test]
fn what_was_changed_is_put_back_and_the_journal_is_gone() {
    let machine = Machine::new();
    let journal = machine.change();
    assert_eq!(machine.affinity(), "1");
    assert!(journal.undo().iter().all(|undone| undone.result.is_ok()));
    assert_eq!(machine.affinity(), "0-1");
    assert_eq!(fs::read_dir(machine.journals()).unwrap().count(), 0);
}

#[test]
fn a_run_that_fails_puts_back_what_it_changed() {
    let machine = Machine::new();
    drop(machine.change());
    assert_eq!(machine.affinity(), "0-1");
    assert_eq!(fs::read_dir(machine.journals()).unwrap().count(), 0);
}

#[test]
fn a_journal_left_by_a_killed_run_is_found_and_undone() {
    let machine = Machine::new();
    kill(machine.change());
    let found = left_behind(&machine.journals(), &machine.root())
        .unwrap()
        .journals;
    assert_eq!((found.len(), found[0].settings().len()), (1, 1));
    assert_eq!(found[0].undo().len(), 1);
    assert_eq!(machine.affinity(), "0-1");
    assert!(
        left_behind(&machine.journals(), &machine.root())
            .unwrap()
            .journals
            .is_empty()
    );
}

#[test]
fn of_two_commands_that_find_the_same_journal_one_undoes_it() {
    let machine = Machine::new();
    kill(machine.change());
    let find = || {
        left_behind(&machine.journals(), &machine.root())
            .unwrap()
            .journals
    };
    let (one, other, late) = (find(), find(), find());
    let held = lock(one[0].path()).unwrap();
    assert!(other[0].undo().is_empty(), "another command is at it");
    assert_eq!(machine.affinity(), "1");
    drop(held);
    assert_eq!(one[0].undo().len(), 1);
    machine.put("proc/irq/5/smp_affinity_list", "1\n");
    assert!(late[0].undo().is_empty(), "it is gone");
    assert_eq!(machine.affinity(), "1", "a later setting stays");
}

#[test]
fn what_another_command_could_put_back_is_not_put_back_again() {
    let machine = Machine::new();
    machine.killed_with_one_that_refuses();
    let find = || {
        left_behind(&machine.journals(), &machine.root())
            .unwrap()
            .journals
    };
    let (one, other) = (find(), find());
    assert_eq!(one[0].undo().len(), 2);
    machine.put("setting", "set later by a user");
    assert_eq!(other[0].undo().len(), 1, "only what is left in the journal");
    assert_eq!(
        fs::read_to_string(machine.folder.path().join("setting")).unwrap(),
        "set later by a user"
    );
}

#[test]
fn the_journal_of_a_run_that_is_under_way_is_left_alone() {
    let machine = Machine::new();
    let me = std::process::id();
    machine.put(
        &format!("proc/{me}/stat"),
        &format!("{me} (a b) c) S {}777 0", "0 ".repeat(18)),
    );
    let journal = machine.change();
    assert!(
        left_behind(&machine.journals(), &machine.root())
            .unwrap()
            .journals
            .is_empty()
    );
    kill(journal);
    assert!(
        left_behind(&machine.journals(), &machine.root())
            .unwrap()
            .journals
            .is_empty(),
        "without locks, the process tells"
    );
    machine.put(
        &format!("proc/{me}/stat"),
        &format!("{me} (a) S {}778 0", "0 ".repeat(18)),
    );
    assert_eq!(
        left_behind(&machine.journals(), &machine.root())
            .unwrap()
            .journals
            .len(),
        1,
        "another process with the same number"
    );
}

#[test]
fn the_journal_of_a_process_that_another_container_cannot_see_is_left_alone() {
    let machine = Machine::new();
    let journal = machine.change();
    machine.put("proc/sys/kernel/random/boot_id", "boot-of-another-host\n");
    assert!(
        left_behind(&machine.journals(), &machine.root())
            .unwrap()
            .journals
            .is_empty()
    );
    kill(journal);
    assert_eq!(
        left_behind(&machine.journals(), &machine.root())
            .unwrap()
            .journals
            .len(),
        1
    );
}

#[test]
fn a_command_of_the_same_number_in_another_container_has_a_journal_of_its_own() {
    let machine = Machine::new();
    let mine = machine.change();
    // The names that this process would use next are already taken, alternately by a temporary file
    // and by a journal.
    let number: u32 = mine
        .path
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .rsplit('-')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    // Other tests in this process also take names.
    let others: Vec<String> = (number + 1..number + 1_000)
        .map(|number| format!("state/journal-{}-{number}", std::process::id()))
        .collect();
    for (index, other) in others.iter().enumerate() {
        machine.put(
            &format!(
                "{other}{}",
                if index.is_multiple_of(2) {
                    PART
                } else {
                    ".json"
                }
            ),
            "another's",
        );
    }
    let setting = machine.folder.path().join("setting");
    let second = machine.write(
        Vec::new(),
        vec![Undo::Write {
            path: setting,
            value: "old".into(),
            written: None,
        }],
    );
    assert!(second.path.is_file() && mine.path.is_file());
    drop((mine, second));
    for (index, other) in others.iter().enumerate() {
        let path = machine.folder.path().join(format!(
            "{other}{}",
            if index.is_multiple_of(2) {
                PART
            } else {
                ".json"
            }
        ));
        assert_eq!(fs::read_to_string(path).unwrap(), "another's");
    }
    assert_eq!(
        fs::read_dir(machine.journals()).unwrap().count(),
        others.len()
    );
}

#[test]
fn after_a_restart_nothing_is_written_and_the_journal_is_removed() {
    let machine = Machine::new();
    kill(machine.change());
    machine.put("proc/sys/kernel/random/boot_id", "boot-2\n");
    let found = left_behind(&machine.journals(), &machine.root())
        .unwrap()
        .journals;
    assert!(found[0].settings().is_empty() && found[0].undo().is_empty());
    assert_eq!(machine.affinity(), "1");
    assert_eq!(fs::read_dir(machine.journals()).unwrap().count(), 0);
}

#[test]
fn files_of_loads_are_removed_after_a_restart() {
    let machine = Machine::new();
    let scratch = machine.folder.path().join("tardy-scratch-fs-1");
    fs::create_dir(&scratch).unwrap();
    let setting = machine.folder.path().join("setting");
    let loads = vec![
        Undo::RemoveFolder(scratch.clone()),
        Undo::Write {
            path: setting.clone(),
            value: "1".into(),
            written: None,
        },
    ];
    kill(machine.write(Vec::new(), loads));
    machine.put("proc/sys/kernel/random/boot_id", "boot-2\n");
    let found = left_behind(&machine.journals(), &machine.root())
        .unwrap()
        .journals;
    assert_eq!((found[0].settings().len(), found[0].undo().len()), (1, 1));
    assert!(!scratch.exists() && !setting.exists());
}

#[test]
fn what_cannot_be_put_back_stays_in_the_journal_alone() {
    let machine = Machine::new();
    machine.killed_with_one_that_refuses();
    let undone = left_behind(&machine.journals(), &machine.root())
        .unwrap()
        .journals[0]
        .undo();
    assert_eq!(
        undone.iter().filter(|undone| undone.result.is_ok()).count(),
        1
    );
    machine.put("setting", "set later by a user");
    let left = left_behind(&machine.journals(), &machine.root())
        .unwrap()
        .journals;
    assert_eq!((left.len(), left[0].settings().len()), (1, 1));
    assert!(left[0].undo()[0].result.is_err());
    assert_eq!(
        fs::read_to_string(machine.folder.path().join("setting")).unwrap(),
        "set later by a user"
    );
}

#[test]
fn a_journal_that_cannot_be_read_is_told_and_the_others_are_undone() {
    let machine = Machine::new();
    kill(machine.change());
    machine.put("state/journal-1-0.json", "");
    machine.put("state/journal-2-0.part", "half of i");
    let found = left_behind(&machine.journals(), &machine.root()).unwrap();
    assert_eq!((found.journals.len(), found.unreadable.len()), (1, 1));
    assert!(
        found.unreadable[0].0.ends_with("journal-1-0.json")
            && found.unreadable[0].1.contains("remove the journal by hand"),
        "{found:?}"
    );
    assert_eq!(found.journals[0].undo().len(), 1);
    assert_eq!(machine.affinity(), "0-1");
    assert!(!machine.journals().join("journal-2-0.part").exists());
}
