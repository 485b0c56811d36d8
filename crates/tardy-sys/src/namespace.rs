//! New namespaces: unshare(2), setns(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// What a namespace separates from the rest of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespace {
    /// Process numbers. The calling thread itself does not enter the namespace; only children that
    /// it starts later do. The first child is the namespace's init process; when it ends, the
    /// kernel kills all others.
    Processes,
    /// Like `Processes`, in a new user namespace, for callers without CAP_SYS_ADMIN. The caller
    /// must write the namespace's user and group maps.
    ProcessesAsUser,
    Mounts,
    /// Network devices, addresses, sockets.
    Network,
    HostName,
}

/// Moves the calling thread into a new namespace. A namespace of process numbers applies only to
/// the thread's future children.
///
/// # Errors
/// Returns EPERM without CAP_SYS_ADMIN, or if user namespaces are forbidden. Returns EINVAL if the
/// kernel lacks this kind of namespace; for [`Namespace::ProcessesAsUser`], also if the process has
/// several threads. Returns ENOSPC or EUSERS if there are already as many namespaces as allowed.
pub fn unshare(namespace: Namespace) -> io::Result<()> {
    let flags = match namespace {
        Namespace::Processes => libc::CLONE_NEWPID,
        Namespace::ProcessesAsUser => libc::CLONE_NEWUSER | libc::CLONE_NEWPID,
        Namespace::Mounts => libc::CLONE_NEWNS,
        Namespace::Network => libc::CLONE_NEWNET,
        Namespace::HostName => libc::CLONE_NEWUTS,
    };
    // SAFETY: unshare takes flags and no memory. These flags do not change the memory or
    // descriptors that the threads of the process share.
    crate::check(unsafe { libc::unshare(flags) }).map(drop)
}

/// Enters a network namespace, given by a descriptor of /proc/PID/ns/net. Open sockets stay in
/// their namespace.
///
/// # Errors
/// Returns EPERM without CAP_SYS_ADMIN; EINVAL for a descriptor that is not a network namespace.
pub fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: setns takes a descriptor, which is open while it is borrowed, and a flag.
    crate::check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_had_or_the_reason_is_named() {
        // A single thread can enter a namespace of the host name, so the test moves only a new
        // thread.
        std::thread::spawn(|| match unshare(Namespace::HostName) {
            Ok(()) => assert_ne!(
                std::fs::read_link("/proc/thread-self/ns/uts").unwrap(),
                std::fs::read_link("/proc/self/ns/uts").unwrap(),
                "the thread's namespace is still the process's"
            ),
            Err(error) => assert!(
                matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSPC)),
                "{error}"
            ),
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_user_namespace_is_refused_to_one_thread_of_many() {
        std::thread::spawn(|| assert!(unshare(Namespace::ProcessesAsUser).is_err()))
            .join()
            .unwrap();
    }

    #[test]
    fn a_network_namespace_is_left_and_entered_again() {
        use std::os::fd::AsFd;
        let network = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        std::thread::spawn(move || {
            let (before, first) = (
                network(),
                std::fs::File::open("/proc/thread-self/ns/net").unwrap(),
            );
            match unshare(Namespace::Network) {
                Ok(()) => {
                    assert_ne!(network(), before);
                    enter_network(first.as_fd()).unwrap();
                    assert_eq!(network(), before);
                }
                Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
            }
            let other = std::fs::File::open("/proc/self/stat").unwrap();
            assert!(enter_network(other.as_fd()).is_err());
        })
        .join()
        .unwrap();
    }
}
