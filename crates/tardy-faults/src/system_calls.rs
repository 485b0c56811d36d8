//! The system calls that are made to fail, with the error that each returns.

/// Calls that read, write, name or start something.
const CALLS: &str = "\
EMFILE: openat memfd_create eventfd2 timerfd_create
EIO: read pread64 writev pwrite64 pwritev fsync fdatasync ftruncate rename renameat
EIO: renameat2 link linkat unlink unlinkat statx
ENOSPC: write fallocate mkdir mkdirat
EAGAIN: clone clone3
EPERM: sched_setscheduler
EINVAL: sched_setaffinity
ENOMEM: mlockall
";

/// Further calls. Most of these calls set something up.
const OF_SET_UPS: &str = "\
EPERM: mount fsconfig move_mount setns chmod fchmod kill prlimit64 prctl sched_setattr
EPERM: setpriority
EBUSY: umount2 rmdir
EMFILE: fsopen fsmount fcntl dup dup2 dup3 pipe2 socket socketpair epoll_create1
EMFILE: inotify_init1 perf_event_open pidfd_open signalfd4
ENOSPC: unshare symlink epoll_ctl inotify_add_watch
ENOLCK: flock
EIO: getdents64 newfstatat fstat readlink copy_file_range ioctl
EADDRINUSE: bind listen
ECONNREFUSED: connect
ENOBUFS: setsockopt sendto
ENOMEM: io_uring_setup execve mlock poll ppoll
EAGAIN: vfork timer_create
ECHILD: wait4 waitid
EINVAL: sched_getaffinity timerfd_settime
";

/// Returns the calls that read, write, name or start something, each with its error.
pub(crate) fn calls() -> impl Iterator<Item = (&'static str, &'static str)> {
    listed(CALLS)
}

/// Returns the calls of both lists, each with its error.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    calls().chain(listed(OF_SET_UPS))
}

fn listed(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = table.lines().filter_map(|line| line.split_once(": "));
    rows.flat_map(|(error, calls)| calls.split(' ').map(move |call| (call, error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_listed_twice() {
        let mut names: Vec<&str> = all().map(|(name, _)| name).collect();
        names.sort_unstable();
        assert!(names.is_sorted_by(|one, next| one < next), "{names:?}");
    }
}
