//! Resource usage of a running program's threads, from /proc.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// A thread, with its resource usage since it started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Thread {
    pub(crate) id: u32,
    /// The process to which the thread belongs.
    pub(crate) process: u32,
    pub(crate) name: String,
    /// CPU time in ns (schedstat).
    pub(crate) cpu_time: u64,
    /// How often the thread has given up its CPU to wait (voluntary context switches).
    pub(crate) waits: u64,
}

/// Returns all threads of a process and of its descendants.
pub(crate) fn of_tree(process: u32) -> Vec<Thread> {
    of_tree_in(Path::new("/proc"), process)
}

fn of_tree_in(root: &Path, process: u32) -> Vec<Thread> {
    let mut threads = Vec::new();
    let mut processes = vec![process];
    while let Some(process) = processes.pop() {
        let tasks = fs::read_dir(root.join(process.to_string()).join("task"))
            .into_iter()
            .flatten()
            .flatten();
        for task in tasks {
            // The thread may have ended since it was listed; then it is left out.
            threads.extend(thread(&task.path(), process));
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            processes.extend(
                children
                    .split_ascii_whitespace()
                    .filter_map(|child| child.parse::<u32>().ok()),
            );
        }
    }
    threads
}

fn thread(folder: &Path, process: u32) -> Option<Thread> {
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let status = read("status")?;
    let waits = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    Some(Thread {
        id: folder.file_name()?.to_str()?.parse().ok()?,
        process,
        name: read("comm")?.trim().to_owned(),
        cpu_time: read("schedstat")?.split(' ').next()?.parse().ok()?,
        waits: waits.trim().parse().ok()?,
    })
}

/// Returns what each thread of `after` has used since `before`, or since its start if it is not in
/// `before`.
pub(crate) fn since(before: &[Thread], after: &[Thread]) -> Vec<Thread> {
    let spent = |thread: &Thread| {
        let earlier = before.iter().find(|earlier| earlier.id == thread.id);
        Thread {
            cpu_time: thread.cpu_time - earlier.map_or(0, |earlier| earlier.cpu_time),
            waits: thread.waits - earlier.map_or(0, |earlier| earlier.waits),
            ..thread.clone()
        }
    };
    after.iter().map(spent).collect()
}

/// Returns the measuring thread. This is the thread that waited most often, among all threads
/// except the first one of each process. The threads cannot be found by name, because the peers do
/// not name them.
pub(crate) fn measuring(threads: &[Thread]) -> Option<&Thread> {
    threads
        .iter()
        .filter(|thread| thread.id != thread.process)
        .max_by_key(|thread| thread.waits)
}

/// Waits until a process has created its threads and completed its start-up, so that it measures.
/// Returns `None` if that takes more than half a minute.
pub(crate) fn when_measuring(process: u32) -> Option<Vec<Thread>> {
    const WAITS_MIN: u64 = 500;
    let patience = Instant::now() + Duration::from_secs(30);
    while Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(100));
        let threads = of_tree(process);
        if measuring(&threads).is_some_and(|thread| thread.waits >= WAITS_MIN) {
            return Some(threads);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, process: u32, id: u32, cpu_time: u64, waits: u64, children: &str) {
        let folder = root.join(format!("{process}/task/{id}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("comm"), "tool\n").unwrap();
        fs::write(folder.join("schedstat"), format!("{cpu_time} 17 23\n")).unwrap();
        fs::write(
            folder.join("status"),
            format!(
                "Name:\ttool\nvoluntary_ctxt_switches:\t{waits}\nnonvoluntary_ctxt_switches:\t4\n"
            ),
        )
        .unwrap();
        fs::write(folder.join("children"), children).unwrap();
    }

    #[test]
    fn the_threads_of_children_are_counted_and_the_busiest_sleeper_measures() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), 10, 10, 100, 9_000, "20 ");
        put(root.path(), 10, 11, 500, 70, "");
        put(root.path(), 20, 20, 1, 1, "");
        let before = of_tree_in(root.path(), 10);
        put(root.path(), 10, 10, 150, 9_900, "20 ");
        put(root.path(), 10, 11, 800, 370, "");
        put(root.path(), 10, 12, 30, 8, "");
        let spent = since(&before, &of_tree_in(root.path(), 10));
        assert_eq!(
            spent.iter().map(|thread| thread.cpu_time).sum::<u64>(),
            50 + 300 + 30
        );
        let measuring = measuring(&spent).unwrap();
        assert_eq!(
            (measuring.id, measuring.cpu_time, measuring.waits),
            (11, 300, 300)
        );
    }
}
