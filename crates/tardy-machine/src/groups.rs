//! Control groups that the user supplies: for the measuring threads, and for the loads.
//!
//! A single thread can join a group that accepts threads: `cgroup.threads` of a threaded group
//! (Documentation/admin-guide/cgroup-v2.rst), `tasks` of version 1. The tool's other threads then
//! stay in the group in which they were started.

use std::io;
use std::path::Path;

use tardy_core::cpu::CpuList;
use tardy_sys::scoped;

use crate::undo;

/// Moves the calling thread into the group in `folder`.
///
/// # Errors
/// Returns an error if the group does not accept a thread of this process.
pub fn join_thread(folder: &Path) -> io::Result<()> {
    let own = tardy_sys::sched::thread_id().to_string();
    let (threaded, tasks) = (folder.join("cgroup.threads"), folder.join("tasks"));
    if tasks.exists() {
        std::fs::write(tasks, own)
    } else {
        std::fs::write(threaded, own)
    }
}

/// Moves the calling process into the group in `folder`.
///
/// # Errors
/// Returns an error if the group does not accept a process.
pub fn join_process(folder: &Path) -> io::Result<()> {
    std::fs::write(folder.join("cgroup.procs"), "0")
}

/// Checks whether the control group `group` can be made: makes it and removes it again. Only an
/// attempt shows this, because groups can be delegated to any user.
///
/// # Errors
/// Returns the errors of mkdir(2) and rmdir(2).
pub fn check_can_be_made(group: &Path) -> io::Result<()> {
    std::fs::create_dir(group)?;
    undo::remove_group_without_subgroups(group)
}

/// Returns the CPUs of the group in `folder`, if it has a cpuset of version 1 or 2.
#[must_use]
pub fn cpuset(folder: &Path) -> Option<CpuList> {
    let read = |name: &str| {
        std::fs::read_to_string(folder.join(name))
            .ok()?
            .trim()
            .parse::<CpuList>()
            .ok()
    };
    ["cpuset.cpus.effective", "cpuset.effective_cpus"]
        .iter()
        .find_map(|name| read(name))
        .filter(|cpus| !cpus.is_empty())
}

/// Runs `work` on a thread in the group, and returns its result. For example, `work` can find out
/// to which CPUs the group limits its threads.
///
/// # Errors
/// Fails as [`join_thread`] does.
pub fn within<T: Send>(folder: &Path, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    scoped::apart(|| join_thread(folder).map(|()| work()))?
}
