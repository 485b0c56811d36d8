//! All tasks of the machine and their scheduling. Format: proc_pid_stat(5), proc_pid_status(5), PF_
//! flags of include/linux/sched.h.

use std::collections::BTreeMap;

use tardy_core::cpu::{CpuId, CpuList};

use super::root::Root;

/// PF_KTHREAD: the task is a thread of the kernel.
const KERNEL_THREAD: u32 = 0x0020_0000;
/// PF_NO_SETAFFINITY: only the kernel chooses the task's CPUs.
const BOUND_BY_THE_KERNEL: u32 = 0x0400_0000;

/// The scheduling policy of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, or a policy that this program does not know.
    Ordinary,
    /// SCHED_FIFO.
    Fifo,
    /// SCHED_RR.
    RoundRobin,
    /// SCHED_DEADLINE.
    Deadline,
}

/// A task: a thread of a process or of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub thread: u32,
    /// The number of the task's process.
    pub process: u32,
    /// The task's name, at most 15 bytes.
    pub name: String,
    /// Whether the task is a kernel thread.
    pub is_of_kernel: bool,
    /// Whether only the kernel may choose the task's CPUs.
    pub is_bound_by_kernel: bool,
    pub policy: Policy,
    /// The real-time priority, 1 to 99; 0 for an ordinary or a deadline task.
    pub priority: u32,
    /// The CPU on which the task ran last.
    pub last_cpu: Option<CpuId>,
    /// The CPUs on which the task may run; absent if its status could not be read.
    pub allowed: Option<CpuList>,
    /// Page faults without disk access, since the task started.
    pub minor_faults: u64,
    /// Page faults with disk access, since the task started.
    pub major_faults: u64,
}

impl Task {
    /// Returns whether the task takes precedence over all ordinary tasks.
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        self.policy != Policy::Ordinary
    }

    /// Returns whether the task may run on one of `cpus`.
    #[must_use]
    pub fn may_run_on(&self, cpus: &CpuList) -> bool {
        self.allowed
            .as_ref()
            .is_some_and(|allowed| !allowed.and(cpus).is_empty())
    }

    /// Returns the name, the number and the priority, as in `irq/9-acpi (61, FIFO 50)`.
    #[must_use]
    pub fn label(&self) -> String {
        let policy = match self.policy {
            Policy::Ordinary => return format!("{} ({})", self.name, self.thread),
            Policy::Fifo => format!("FIFO {}", self.priority),
            Policy::RoundRobin => format!("RR {}", self.priority),
            Policy::Deadline => "DEADLINE".to_owned(),
        };
        format!("{} ({}, {policy})", self.name, self.thread)
    }
}

/// Reads all tasks, in the order of their numbers. A task that ends during the call is left out.
#[must_use]
pub fn read(root: &Root) -> Vec<Task> {
    let processes: BTreeMap<u32, ()> = root
        .names("proc")
        .iter()
        .filter_map(|name| Some((name.parse().ok()?, ())))
        .collect();
    processes
        .keys()
        .flat_map(|&process| of_process(root, process))
        .collect()
}

/// Reads the threads of one process.
#[must_use]
pub fn of_process(root: &Root, process: u32) -> Vec<Task> {
    let folder = format!("proc/{process}/task");
    let mut threads: Vec<u32> = root
        .names(&folder)
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    threads.sort_unstable();
    threads
        .into_iter()
        .filter_map(|thread| read_one(root, process, thread, &format!("{folder}/{thread}")))
        .collect()
}

fn read_one(root: &Root, process: u32, thread: u32, folder: &str) -> Option<Task> {
    let stat = root.text(format!("{folder}/stat"))?;
    // A name may contain blanks and parentheses, so the last parenthesis of the line ends the name.
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = after.split_whitespace().collect();
    // The first field after the name is number 3 of proc_pid_stat(5).
    let field = |number: usize| fields.get(number - 3).copied();
    let number = |at: usize| field(at)?.parse::<u64>().ok();
    let flags = field(9)?.parse::<u32>().ok()?;
    let status = root.text(format!("{folder}/status"));
    let allowed = status.and_then(|status| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:")?.trim().parse().ok())
    });
    Some(Task {
        thread,
        process,
        name,
        is_of_kernel: flags & KERNEL_THREAD != 0,
        is_bound_by_kernel: flags & BOUND_BY_THE_KERNEL != 0,
        policy: match field(41) {
            Some("1") => Policy::Fifo,
            Some("2") => Policy::RoundRobin,
            Some("6") => Policy::Deadline,
            _ => Policy::Ordinary,
        },
        priority: field(40)
            .and_then(|priority| priority.parse().ok())
            .unwrap_or(0),
        last_cpu: field(39).and_then(|cpu| cpu.parse().ok()).map(CpuId),
        allowed,
        minor_faults: number(10).unwrap_or(0),
        major_faults: number(12).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::super::fake_root::FakeRoot;
    use super::*;

    #[test]
    fn a_task_is_read_whatever_its_name_is() {
        let fake = FakeRoot::new()
            .with(
                "proc/61/task/61/stat",
                fake_stat("irq/9-a) S (b", KERNEL_THREAD | BOUND_BY_THE_KERNEL, 1, 50),
            )
            .with(
                "proc/61/task/61/status",
                "Name:\tirq\nCpus_allowed_list:\t0-1\n",
            )
            .with("proc/7/task/8/stat", fake_stat("loop", 0, 6, 0))
            .with("proc/9/task/9/stat", "torn");
        let tasks = read(&fake.root());
        assert_eq!(
            tasks
                .iter()
                .map(|task| (task.process, task.thread))
                .collect::<Vec<_>>(),
            [(7, 8), (61, 61)]
        );
        assert_eq!(tasks[1].label(), "irq/9-a) S (b (61, FIFO 50)");
        assert!(tasks[1].is_of_kernel && tasks[1].is_bound_by_kernel && !tasks[0].is_of_kernel);
        assert!(
            tasks[1].may_run_on(&"1-2".parse().unwrap())
                && !tasks[1].may_run_on(&"2".parse().unwrap())
        );
        assert_eq!(
            (tasks[0].policy, tasks[0].last_cpu, &tasks[0].allowed),
            (Policy::Deadline, Some(CpuId(3)), &None)
        );
        assert_eq!((tasks[0].minor_faults, tasks[0].major_faults), (11, 12));
    }

    /// Returns the text of a stat file, with most fields 0.
    fn fake_stat(name: &str, flags: u32, policy: u32, priority: u32) -> String {
        let zeros = "0 ".repeat(38 - 12);
        format!("1 ({name}) S 2 0 0 0 -1 {flags} 11 0 12 {zeros}3 {priority} {policy} 0 0 0\n")
    }
}
