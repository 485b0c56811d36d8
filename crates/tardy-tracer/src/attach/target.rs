//! The threads to follow: either threads of a program, or every real-time thread of the machine.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tardy_machine::root::Root;

use super::process::{PF_KTHREAD, Process, printable};

/// Policies of real-time threads (include/uapi/linux/sched.h): SCHED_FIFO, SCHED_RR and
/// SCHED_DEADLINE.
const REAL_TIME: [u32; 3] = [1, 2, 6];
/// After a search through all threads, the next one waits for at least this many times the duration
/// of the search, so that searches take at most 5 % of one CPU.
const PAUSES: u32 = 19;

/// Which threads to follow.
#[derive(Debug)]
pub enum Target {
    /// The threads of a program, or only one of them.
    Process { process: Process, only: Option<i32> },
    /// Every thread with a real-time policy, except threads of the kernel.
    RealTime(RealTimeThreads),
}

/// What a search for threads has found.
#[derive(Debug)]
pub(super) enum Look {
    /// The threads that exist now, with their names.
    There(BTreeMap<i32, String>),
    /// The threads could not be listed, or it is too early for another search.
    Unknown,
    /// The program exited.
    Ended,
}

impl Target {
    /// Returns which of the threads to follow exist now.
    pub(super) fn look(&mut self) -> Look {
        match self {
            Self::Process { process, .. } if !process.is_there() => Look::Ended,
            Self::Process { process, only } => {
                let mut there = process.threads();
                // A running program has at least one thread, so an empty list means that reading
                // /proc failed.
                if there.is_empty() {
                    return Look::Unknown;
                }
                there.retain(|thread, _| only.is_none_or(|only| only == *thread));
                Look::There(there)
            }
            Self::RealTime(threads) => threads.look(),
        }
    }
}

/// Searches for real-time threads. Threads of the kernel are left out, because they set no timers
/// for themselves, and a machine has a dozen of them for each CPU. tardy's own threads are left
/// out, too.
#[derive(Debug)]
pub struct RealTimeThreads {
    root: Root,
    /// Process ID of tardy.
    own: u32,
    next: Option<Instant>,
}

impl RealTimeThreads {
    /// Creates a search on the machine whose files are below `root`.
    #[must_use]
    pub fn new(root: &Root) -> Self {
        Self {
            root: root.clone(),
            own: std::process::id(),
            next: None,
        }
    }

    fn look(&mut self) -> Look {
        let begin = Instant::now();
        if self.next.is_some_and(|next| begin < next) {
            return Look::Unknown;
        }
        let processes = self.root.names("proc");
        let mut is_readable = false;
        let mut there = BTreeMap::new();
        for process in processes.iter().filter_map(|name| name.parse().ok()) {
            // The process may have exited since its folder was listed.
            let Some(stat) = self.stat(&format!("proc/{process}/stat")) else {
                continue;
            };
            is_readable = true;
            if !stat.is_of_kernel && process != self.own {
                self.add_threads(process, &mut there);
            }
        }
        let took: Duration = begin.elapsed();
        self.next = Some(begin + took + took * PAUSES);
        if is_readable {
            Look::There(there)
        } else {
            Look::Unknown
        }
    }

    fn add_threads(&self, process: u32, there: &mut BTreeMap<i32, String>) {
        for thread in self.root.names(format!("proc/{process}/task")) {
            let stat = self.stat(&format!("proc/{process}/task/{thread}/stat"));
            if let Some(stat) = stat
                && let Ok(thread) = thread.parse()
                && REAL_TIME.contains(&stat.policy)
                && !stat.has_ended
            {
                there.insert(thread, stat.name);
            }
        }
    }

    fn stat(&self, path: &str) -> Option<Stat> {
        Stat::parse(&self.root.text(path)?)
    }
}

/// Fields of /proc/PID/stat (proc(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stat {
    name: String,
    has_ended: bool,
    is_of_kernel: bool,
    policy: u32,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        let (head, rest) = text.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        // The first two fields end at the closing bracket.
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let flags: u64 = fields.nth(5)?.parse().ok()?;
        let policy = fields.nth(31)?.parse().ok()?;
        Some(Self {
            name: printable(name),
            has_ended: matches!(state, "Z" | "X"),
            is_of_kernel: flags & PF_KTHREAD != 0,
            policy,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn put(root: &Path, process: u32, thread: u32, name: &str, (flags, policy): (u64, u32)) {
        let stat = format!(
            "{thread} ({name}) S 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 -2 0 2 0 555 0 0 0 1 1 0 0 0 0 \
             0 0 0 0 0 0 17 1 80 {policy} 0 0 0 0 0 0 0 0 0 0 0"
        );
        let task = root.join(format!("proc/{process}/task/{thread}"));
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("stat"), &stat).unwrap();
        if process == thread {
            fs::write(root.join(format!("proc/{process}/stat")), stat).unwrap();
        }
    }

    #[test]
    fn real_time_threads_of_programs_are_found_and_those_of_the_kernel_and_of_the_tool_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        put(root, 2, 2, "kthreadd", (0x0020_8040, 0));
        put(root, 19, 19, "migration/0", (0x0420_8040, 1));
        put(root, 70, 70, "my) loop", (0x0040_0000, 0));
        put(root, 70, 71, "fifo", (0x0040_0040, 1));
        put(root, 80, 80, "rr\u{1b}", (0x0040_0000, 2));
        put(root, 80, 81, "deadline", (0x0040_0040, 6));
        put(root, 80, 82, "batch", (0x0040_0040, 3));
        put(root, 90, 90, "tardy", (0x0040_0000, 1));
        let mut threads = RealTimeThreads {
            own: 90,
            ..RealTimeThreads::new(&Root::at(root))
        };
        let Look::There(there) = threads.look() else {
            panic!("they are there");
        };
        let named = |id, name: &str| (id, name.to_owned());
        assert_eq!(
            there,
            BTreeMap::from([named(71, "fifo"), named(80, "rr?"), named(81, "deadline")])
        );
        fs::remove_dir_all(root.join("proc")).unwrap();
        threads.next = None;
        assert!(
            matches!(threads.look(), Look::Unknown),
            "threads may still run if /proc cannot be read"
        );
    }

    #[test]
    fn a_search_rests_for_many_times_its_length() {
        let folder = tempfile::tempdir().unwrap();
        let mut threads = RealTimeThreads::new(&Root::at(folder.path()));
        threads.next = Some(Instant::now() + Duration::from_secs(3600));
        put(folder.path(), 70, 70, "loop", (0, 1));
        assert!(matches!(threads.look(), Look::Unknown));
        threads.next = None;
        let before = Instant::now();
        assert!(matches!(threads.look(), Look::There(_)));
        let took = before.elapsed();
        let rest = threads.next.unwrap() - before;
        assert!(rest <= took * (PAUSES + 1), "{rest:?} after {took:?}");
        assert!(rest > Duration::ZERO);
    }
}
