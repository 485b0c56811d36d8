//! A running real-time program: its memory, its threads, its limits. Format: proc_pid_status(5),
//! proc_pid_limits(5).

use std::collections::BTreeMap;

use super::root::Root;
use super::tasks::{self, Task};

/// What two readings of /proc show about a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub process: u32,
    pub name: String,
    /// Number of threads at the first reading.
    pub threads_before: usize,
    /// The threads at the second reading.
    pub threads: Vec<Task>,
    /// Page faults of each thread between the readings: the number without disk access, and the
    /// number with disk access.
    pub faults: BTreeMap<u32, (u64, u64)>,
    /// Locked memory in KiB; absent if the process's status cannot be read.
    pub locked_kib: Option<u64>,
    /// Resident memory in KiB.
    pub resident_kib: Option<u64>,
    /// Timer slack of each ordinary thread, in ns; a thread is left out if its file cannot be read.
    pub timer_slack_ns: BTreeMap<u32, u64>,
    /// RLIMIT_RTTIME: the time for which a real-time thread may run without sleeping before it gets
    /// a signal; absent if the process's limits cannot be read.
    pub real_time_limit: Option<RealTimeLimit>,
}

/// A value of RLIMIT_RTTIME.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RealTimeLimit {
    /// No limit.
    Unlimited,
    /// The limit in us.
    Microseconds(u64),
}

/// The first reading.
#[derive(Debug, Clone)]
pub struct ProgramWatch {
    process: u32,
    faults: BTreeMap<u32, (u64, u64)>,
}

impl ProgramWatch {
    /// Takes the first reading; `None` if the process does not exist.
    #[must_use]
    pub fn begin(root: &Root, process: u32) -> Option<Self> {
        let threads = tasks::of_process(root, process);
        let faults = threads
            .iter()
            .map(|thread| (thread.thread, (thread.minor_faults, thread.major_faults)))
            .collect();
        (!threads.is_empty()).then_some(Self { process, faults })
    }

    /// Takes the second reading; `None` if the process has ended. If a thread started between the
    /// readings, all its page faults count.
    #[must_use]
    pub fn end(self, root: &Root) -> Option<Program> {
        let process = self.process;
        let threads = tasks::of_process(root, process);
        let grown = |thread: &Task| {
            let (minor, major) = self.faults.get(&thread.thread).copied().unwrap_or_default();
            (
                thread.thread,
                (
                    thread.minor_faults.saturating_sub(minor),
                    thread.major_faults.saturating_sub(major),
                ),
            )
        };
        let status = root
            .text(format!("proc/{process}/status"))
            .unwrap_or_default();
        let kib = |name: &str| {
            status.lines().find_map(|line| {
                line.strip_prefix(name)?
                    .trim()
                    .strip_suffix("kB")?
                    .trim()
                    .parse()
                    .ok()
            })
        };
        // A listing of /proc shows only processes, but /proc/NUMBER can also be opened with the
        // number of a thread.
        let slack = |thread: &Task| {
            Some((
                thread.thread,
                root.number(format!("proc/{}/timerslack_ns", thread.thread))?,
            ))
        };
        let limits = root
            .text(format!("proc/{process}/limits"))
            .unwrap_or_default();
        let real_time_limit = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max realtime timeout"));
        Some(Program {
            process,
            name: root.text(format!("proc/{process}/comm"))?,
            threads_before: self.faults.len(),
            faults: threads.iter().map(grown).collect(),
            locked_kib: kib("VmLck:"),
            resident_kib: kib("VmRSS:"),
            timer_slack_ns: threads.iter().filter_map(slack).collect(),
            real_time_limit: real_time_limit.and_then(|limit| {
                match limit.split_whitespace().next()? {
                    "unlimited" => Some(RealTimeLimit::Unlimited),
                    microseconds => microseconds.parse().ok().map(RealTimeLimit::Microseconds),
                }
            }),
            threads,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::fake_root::FakeRoot;
    use super::*;

    /// Returns the text of a thread's stat file.
    pub(crate) fn stat(name: &str, policy: u32, priority: u32, faults: (u64, u64)) -> String {
        let zeros = "0 ".repeat(26);
        format!(
            "1 ({name}) S 1 0 0 0 -1 0 {} 0 {} {zeros}1 {priority} {policy} 0 0 0\n",
            faults.0, faults.1
        )
    }

    #[test]
    fn faults_between_two_looks_are_told_thread_by_thread() {
        let fake = FakeRoot::new()
            .with("proc/7/comm", "loop\n")
            .with("proc/7/status", "VmLck:\t  512 kB\nVmRSS:\t 2048 kB\n")
            .with(
                "proc/7/limits",
                "Max realtime timeout      200000    unlimited    us\n",
            )
            .with("proc/7/timerslack_ns", "50000\n")
            .with("proc/7/task/7/stat", stat("loop", 0, 0, (10, 1)))
            .with("proc/7/task/8/stat", stat("worker", 1, 80, (5, 0)));
        let watch = ProgramWatch::begin(&fake.root(), 7).unwrap();
        fake.write("proc/7/task/8/stat", stat("worker", 1, 80, (9, 2)));
        let program = watch.end(&fake.root()).unwrap();
        assert_eq!(program.faults, BTreeMap::from([(7, (0, 0)), (8, (4, 2))]));
        assert_eq!((program.threads_before, program.threads.len()), (2, 2));
        assert_eq!(
            (program.locked_kib, program.resident_kib),
            (Some(512), Some(2048))
        );
        assert_eq!(
            (program.timer_slack_ns.get(&7), program.real_time_limit),
            (Some(&50_000), Some(RealTimeLimit::Microseconds(200_000)))
        );
        assert!(ProgramWatch::begin(&fake.root(), 9).is_none());
    }
}
