//! A running program and its threads, read from /proc.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use tardy_machine::process;
use tardy_machine::root::Root;
use tardy_sys::sched;

/// Flag of a kernel thread in /proc/PID/stat (include/linux/sched.h).
pub(super) const PF_KTHREAD: u64 = 0x0020_0000;
/// Error number (errno-base.h) that a read returns if the process has exited since the file was
/// opened.
const ESRCH: i32 = 3;

/// Why the program that the user requested was not found. Each message suggests an argument that
/// would be valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoProcess {
    #[error(
        "there is no process {0}: give the process ID of a running program, as `pidof NAME` \
         prints it"
    )]
    Absent(u32),
    #[error(
        "there is no process {inside}, but process {id} ({name}) has this number in its PID \
         namespace: give {id}"
    )]
    InNamespace { inside: u32, id: u32, name: String },
    #[error(
        "process {0} has ended, and waits for its parent: give the process ID of a running program"
    )]
    Ended(u32),
    #[error(
        "{0} ({1}) is a kernel thread, which sets no user-space timers: give the process ID of a \
         program"
    )]
    OfKernel(u32, String),
    #[error("{thread} is a thread of process {process}: give {process} --thread {thread}")]
    IsThread { thread: u32, process: u32 },
    #[error("process {process} has no thread {thread}: it has {threads}")]
    NoThread {
        process: u32,
        thread: u32,
        threads: String,
    },
}

/// A running program.
#[derive(Debug, Clone)]
pub struct Process {
    root: Root,
    /// Process ID.
    pub id: u32,
    /// Name of the process, as shown by ps(1).
    pub name: String,
    /// Distinguishes the process from a later process with the same ID.
    start_time: Option<u64>,
}

impl Process {
    /// Returns the program with this process ID.
    ///
    /// # Errors
    /// Returns [`NoProcess`].
    pub fn find(root: &Root, id: u32) -> Result<Self, NoProcess> {
        let stat = root
            .text(format!("proc/{id}/stat"))
            .ok_or_else(|| absent(root, id))?;
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_ascii_whitespace().collect())
            .unwrap_or_default();
        let name = printable(&root.text(format!("proc/{id}/comm")).unwrap_or_default());
        // proc(5): the state is the third field, and the flags are the ninth. The first two fields
        // end at the closing bracket.
        if fields
            .get(6)
            .and_then(|flags| flags.parse::<u64>().ok())
            .is_some_and(|flags| flags & PF_KTHREAD != 0)
        {
            return Err(NoProcess::OfKernel(id, name));
        }
        if matches!(fields.first(), Some(&("Z" | "X"))) {
            return Err(NoProcess::Ended(id));
        }
        let status = root.text(format!("proc/{id}/status")).unwrap_or_default();
        let group = field(&status, "Tgid:").and_then(|group| group.parse().ok());
        if let Some(process) = group.filter(|&process| process != id) {
            return Err(NoProcess::IsThread {
                thread: id,
                process,
            });
        }
        Ok(Self {
            root: root.clone(),
            id,
            name,
            start_time: process::start_time(root, id),
        })
    }

    /// Returns the ID under which /proc lists a thread of the program. `thread` is either this ID
    /// or the thread's ID in the PID namespace of the program.
    ///
    /// # Errors
    /// Returns [`NoProcess::NoThread`].
    pub fn thread(&self, thread: u32) -> Result<u32, NoProcess> {
        let threads = self.threads();
        if i32::try_from(thread).is_ok_and(|thread| threads.contains_key(&thread)) {
            return Ok(thread);
        }
        let is_inside = |id: &u32| {
            let status = self.root.text(format!("proc/{}/task/{id}/status", self.id));
            status.and_then(|status| number_inside(&status)) == Some(thread)
        };
        let ids = threads.keys().filter_map(|&id| u32::try_from(id).ok());
        if let Some(id) = ids.into_iter().find(is_inside) {
            return Ok(id);
        }
        let words: Vec<String> = threads
            .iter()
            .take(8)
            .map(|(id, name)| format!("{id} ({name})"))
            .collect();
        let more = threads.len().saturating_sub(words.len());
        let threads = words.join(", ")
            + &if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
        Err(NoProcess::NoThread {
            process: self.id,
            thread,
            threads,
        })
    }

    /// Returns the current threads with their names.
    #[must_use]
    pub fn threads(&self) -> BTreeMap<i32, String> {
        let ids = self
            .root
            .names(format!("proc/{}/task", self.id))
            .into_iter()
            .filter_map(|name| name.parse().ok());
        ids.map(|id| (id, self.thread_name(id).unwrap_or_default()))
            .collect()
    }

    /// Returns the name of a thread; `None` if the thread has ended.
    #[must_use]
    pub fn thread_name(&self, thread: i32) -> Option<String> {
        self.root
            .text(format!("proc/{}/task/{thread}/comm", self.id))
            .map(|name| printable(&name))
    }

    /// Returns the files whose code the program has mapped, the program's own file first. Each path
    /// leads through /proc, so it is valid even for deleted files and outside the program's
    /// container.
    ///
    /// # Errors
    /// Returns an error if the list of mappings cannot be read.
    pub fn code_files(&self) -> io::Result<Vec<PathBuf>> {
        let maps = self.root.read(format!("proc/{}/maps", self.id))?;
        let mut seen = BTreeSet::new();
        let mut files = Vec::new();
        for line in maps.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(range), Some(rights)) = (words.next(), words.next()) else {
                continue;
            };
            let (device, inode) = (words.nth(1), words.next());
            if rights.contains('x')
                && inode.is_some_and(|inode| inode != "0")
                && seen.insert((device, inode))
            {
                // The kernel pads addresses with zeros in /proc/PID/maps, but not in the file names
                // in /proc/PID/map_files.
                let range: Vec<&str> = range
                    .split('-')
                    .map(|address| address.trim_start_matches('0'))
                    .collect();
                let range = range.join("-");
                files.push(
                    self.root
                        .path(format!("proc/{}/map_files/{range}", self.id)),
                );
            }
        }
        Ok(files)
    }

    /// Returns whether the program still runs. If /proc cannot be read, for example because no
    /// descriptor is free, assumes that the program runs.
    #[must_use]
    pub fn is_there(&self) -> bool {
        let stat = match self.root.read(format!("proc/{}/stat", self.id)) {
            Ok(stat) => stat,
            Err(error) => {
                return error.kind() != ErrorKind::NotFound && error.raw_os_error() != Some(ESRCH);
            }
        };
        let state = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.trim_start().chars().next());
        state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
            && process::start_time_of(&stat) == self.start_time
    }
}

/// Returns the ID under which /proc lists this thread. It differs from gettid(2) if /proc belongs
/// to another PID namespace.
#[must_use]
pub(super) fn own_number(root: &Root) -> i32 {
    let status = root.text("proc/thread-self/status");
    let number = status.as_deref().and_then(|status| field(status, "Pid:"));
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(sched::thread_id)
}

/// Returns the name of a thread of any program; an empty text if the thread has ended.
pub(super) fn name(root: &Root, thread: i32) -> String {
    let name = root.text(format!("proc/{thread}/comm")).unwrap_or_default();
    let name = printable(&name);
    // The kernel appends a worker's current task to its name, and this task changes.
    match name.split_once(['-', '+']) {
        Some((worker, _)) if worker.starts_with("kworker/") => worker.to_owned(),
        _ => name,
    }
}

/// Returns the kernel's priority of a thread of any program: 0 to 98 for real-time threads.
pub(super) fn priority(root: &Root, thread: i32) -> Option<i32> {
    let stat = root.text(format!("proc/{thread}/stat"))?;
    let (_, fields) = stat.rsplit_once(')')?;
    // proc(5): the priority is field 18, relative to MAX_RT_PRIO of the kernel.
    let priority: i32 = fields.split_ascii_whitespace().nth(15)?.parse().ok()?;
    Some(priority + 100)
}

/// Returns the error that /proc has no process with this ID.
fn absent(root: &Root, inside: u32) -> NoProcess {
    let ids = root.names("proc").into_iter();
    let mut ids = ids.filter_map(|name| name.parse().ok()).filter(|id: &u32| {
        let status = root.text(format!("proc/{id}/status"));
        status.and_then(|status| number_inside(&status)) == Some(inside)
    });
    match (ids.next(), ids.next()) {
        (Some(id), None) => NoProcess::InNamespace {
            inside,
            id,
            name: printable(&root.text(format!("proc/{id}/comm")).unwrap_or_default()),
        },
        _ => NoProcess::Absent(inside),
    }
}

/// Returns the ID that a task has in its own PID namespace; `None` if /proc belongs to this
/// namespace.
fn number_inside(status: &str) -> Option<u32> {
    let numbers = field(status, "NSpid:")?.split_ascii_whitespace();
    numbers.skip(1).last()?.parse().ok()
}

/// Returns the value of a line of /proc/PID/status.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines();
    lines
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

/// Replaces control characters, because a program chooses the names of its threads, and the names
/// must not act on a terminal.
pub(super) fn printable(name: &str) -> String {
    name.chars()
        .map(|character| {
            if character.is_control() {
                '?'
            } else {
                character
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Creates a machine with a process of two threads, a kernel thread, and a process that has
    /// ended.
    fn machine() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let stat = |id: u32, state: &str, flags: u64| {
            format!("{id} (my) loop) {state} 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 555 0 0")
        };
        for (id, group, state, flags, name, inside) in [
            (70, 70, "S", 0x0040_0000, "my) loop\n", "\t12\t5"),
            (71, 70, "S", 0x0040_0000, "wor\u{1b}ker\n", "\t13\t6"),
            (2, 2, "S", 0x0020_8040, "kthreadd\n", ""),
            (9, 9, "Z", 0, "gone\n", ""),
        ] {
            put(
                folder.path(),
                &format!("proc/{id}/stat"),
                &stat(id, state, flags),
            );
            put(
                folder.path(),
                &format!("proc/{id}/status"),
                &format!("Name:\tx\nTgid:\t{group}\nPid:\t{id}\nNSpid:\t{id}{inside}\n"),
            );
            put(
                folder.path(),
                &format!("proc/{group}/task/{id}/status"),
                &format!("Name:\tx\nPid:\t{id}\nNSpid:\t{id}{inside}\n"),
            );
            put(folder.path(), &format!("proc/{id}/comm"), name);
            put(folder.path(), &format!("proc/{group}/task/{id}/comm"), name);
        }
        (folder, root)
    }

    #[test]
    fn a_program_has_its_threads_and_is_no_other_of_its_number() {
        let (folder, root) = machine();
        let process = Process::find(&root, 70).unwrap();
        assert_eq!(
            (process.name.as_str(), process.is_there()),
            ("my) loop", true)
        );
        assert_eq!(
            process.threads(),
            BTreeMap::from([(70, "my) loop".to_owned()), (71, "wor?ker".to_owned())])
        );
        assert_eq!(process.thread(71), Ok(71));
        assert_eq!(
            (priority(&root, 70), priority(&root, 72)),
            (Some(120), None)
        );
        assert_eq!(process.thread(6), Ok(71), "its number in its namespace");
        let error = process.thread(72).unwrap_err().to_string();
        assert_eq!(
            error,
            "process 70 has no thread 72: it has 70 (my) loop), 71 (wor?ker)"
        );
        let stat = fs::read_to_string(folder.path().join("proc/70/stat")).unwrap();
        put(
            folder.path(),
            "proc/70/stat",
            &stat.replace(" 555 ", " 556 "),
        );
        assert!(!process.is_there(), "another process has the number now");
        put(folder.path(), "proc/70/stat", &stat.replace(") S ", ") Z "));
        assert!(!process.is_there(), "it has ended");
        let path = folder.path().join("proc/70/stat");
        fs::remove_file(&path).unwrap();
        assert!(!process.is_there(), "and is gone");
        fs::create_dir(&path).unwrap();
        assert!(process.is_there(), "an unreadable file proves nothing");
    }

    #[test]
    fn what_is_no_program_is_refused_by_what_it_is() {
        let (_folder, root) = machine();
        let refused = |id| Process::find(&root, id).unwrap_err();
        assert_eq!(refused(4), NoProcess::Absent(4));
        let inside = "there is no process 5, but process 70 (my) loop) has this number in its PID \
                      namespace: give 70";
        assert_eq!(refused(5).to_string(), inside);
        assert_eq!(refused(9), NoProcess::Ended(9));
        assert_eq!(refused(2), NoProcess::OfKernel(2, "kthreadd".into()));
        assert_eq!(
            refused(71),
            NoProcess::IsThread {
                thread: 71,
                process: 70
            }
        );
    }
}
