//! System calls that are made to fail, and the error that each returns.

/// Calls by which a command reads, writes, names or starts something.
pub(crate) const CALLS: &[(&str, &str)] = &[
    ("openat", "EMFILE"),
    ("read", "EIO"),
    ("pread64", "EIO"),
    ("write", "ENOSPC"),
    ("writev", "EIO"),
    ("pwrite64", "EIO"),
    ("pwritev", "EIO"),
    ("fsync", "EIO"),
    ("fdatasync", "EIO"),
    ("fallocate", "ENOSPC"),
    ("ftruncate", "EIO"),
    ("mkdir", "ENOSPC"),
    ("mkdirat", "ENOSPC"),
    ("rename", "EIO"),
    ("renameat", "EIO"),
    ("renameat2", "EIO"),
    ("link", "EIO"),
    ("linkat", "EIO"),
    ("unlink", "EIO"),
    ("unlinkat", "EIO"),
    ("statx", "EIO"),
    ("memfd_create", "EMFILE"),
    ("eventfd2", "EMFILE"),
    ("timerfd_create", "EMFILE"),
    ("clone", "EAGAIN"),
    ("clone3", "EAGAIN"),
    ("sched_setscheduler", "EPERM"),
    ("sched_setaffinity", "EINVAL"),
    ("mlockall", "ENOMEM"),
];

/// Further calls by which a command sets something up.
const OF_SET_UPS: &[(&str, &str)] = &[
    ("mount", "EPERM"),
    ("umount2", "EBUSY"),
    ("fsopen", "EMFILE"),
    ("fsconfig", "EPERM"),
    ("fsmount", "EMFILE"),
    ("move_mount", "EPERM"),
    ("unshare", "ENOSPC"),
    ("setns", "EPERM"),
    ("rmdir", "EBUSY"),
    ("symlink", "ENOSPC"),
    ("flock", "ENOLCK"),
    ("getdents64", "EIO"),
    ("newfstatat", "EIO"),
    ("fstat", "EIO"),
    ("readlink", "EIO"),
    ("copy_file_range", "EIO"),
    ("chmod", "EPERM"),
    ("fchmod", "EPERM"),
    ("fcntl", "EMFILE"),
    ("dup", "EMFILE"),
    ("dup2", "EMFILE"),
    ("dup3", "EMFILE"),
    ("pipe2", "EMFILE"),
    ("socket", "EMFILE"),
    ("socketpair", "EMFILE"),
    ("bind", "EADDRINUSE"),
    ("listen", "EADDRINUSE"),
    ("connect", "ECONNREFUSED"),
    ("setsockopt", "ENOBUFS"),
    ("sendto", "ENOBUFS"),
    ("epoll_create1", "EMFILE"),
    ("epoll_ctl", "ENOSPC"),
    ("inotify_init1", "EMFILE"),
    ("inotify_add_watch", "ENOSPC"),
    ("io_uring_setup", "ENOMEM"),
    ("perf_event_open", "EMFILE"),
    ("ioctl", "EIO"),
    ("vfork", "EAGAIN"),
    ("execve", "ENOMEM"),
    ("wait4", "ECHILD"),
    ("waitid", "ECHILD"),
    ("kill", "EPERM"),
    ("pidfd_open", "EMFILE"),
    ("prlimit64", "EPERM"),
    ("prctl", "EPERM"),
    ("sched_setattr", "EPERM"),
    ("sched_getaffinity", "EINVAL"),
    ("setpriority", "EPERM"),
    ("mlock", "ENOMEM"),
    ("timer_create", "EAGAIN"),
    ("timerfd_settime", "EINVAL"),
    ("signalfd4", "EMFILE"),
    ("poll", "ENOMEM"),
    ("ppoll", "ENOMEM"),
];

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    CALLS.iter().chain(OF_SET_UPS).copied()
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
