//! Scheduling policy of threads, and timer slack. Policies are set with the system call
//! sched_setattr(2), because musl's sched_setscheduler(3) always fails.

use std::io;

/// The scheduling policy of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The fair class (SCHED_OTHER).
    Other {
        /// Nice value, -20 to 19.
        nice: i32,
    },
    /// SCHED_FIFO: runs before all tasks of the fair class; among equal priorities, the first to
    /// arrive runs first.
    Fifo {
        /// Priority, 1 to 99.
        priority: u32,
    },
    /// Like `Fifo`, but tasks of equal priority take turns in time slices.
    RoundRobin {
        /// Priority, 1 to 99.
        priority: u32,
    },
    /// SCHED_DEADLINE: the thread gets a guaranteed runtime in each period, before a deadline, and
    /// runs ahead of threads with any other policy. If the thread uses up the runtime of a period,
    /// the process gets SIGXCPU.
    Deadline {
        /// CPU time of each period in ns, at least 1024.
        runtime: u64,
        /// Time from the start of a period to the deadline, in ns. The thread gets its runtime
        /// before the deadline.
        deadline: u64,
        /// Length of a period in ns.
        period: u64,
    },
}

/// struct sched_attr as of Linux 3.14 (include/uapi/linux/sched/types.h, SCHED_ATTR_SIZE_VER0).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SCHED_ATTR_BYTES: u32 = 48;

/// Returns the calling thread's number.
#[must_use]
pub fn thread_id() -> i32 {
    // SAFETY: gettid has no preconditions and cannot fail.
    unsafe { libc::gettid() }
}

/// Sets the policy of thread `tid` (0: the calling one). New threads and processes inherit neither
/// a real-time policy nor a nice value below 0.
///
/// # Errors
/// Returns EPERM without CAP_SYS_NICE or a sufficient RLIMIT_RTPRIO; for `Deadline`, also if the
/// thread may not run on every CPU of its root domain. Returns ESRCH if the thread does not exist.
/// Returns EINVAL for a bad priority, or unless 1024 <= runtime <= deadline <= period. Returns
/// EBUSY if the CPUs have too little time left for SCHED_DEADLINE.
pub fn set_policy(tid: i32, policy: Policy) -> io::Result<()> {
    let mut attributes = Attributes::inherited(policy);
    if !matches!(policy, Policy::Other { nice: 0.. }) {
        attributes.0.flags |= libc::SCHED_FLAG_RESET_ON_FORK as u64;
    }
    attributes.give(tid)
}

/// Works like [`set_policy`] for the calling thread, but without SIGXCPU for `Deadline`. It is for
/// a thread that only tries whether the policy is allowed, and then ends. If such a thread used up
/// its runtime before it ended, SIGXCPU would end a process that does not block this signal.
///
/// # Errors
/// Fails as [`set_policy`] does.
pub fn try_policy(policy: Policy) -> io::Result<()> {
    let mut attributes = Attributes::inherited(policy);
    attributes.0.flags = libc::SCHED_FLAG_RESET_ON_FORK as u64;
    attributes.give(0)
}

/// A policy, converted to the kernel's structure. Code that must not allocate uses a policy that
/// was converted before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes(SchedAttr);

impl Attributes {
    /// Makes a policy that new threads and processes inherit.
    pub(crate) fn inherited(policy: Policy) -> Self {
        let mut attr = SchedAttr {
            size: SCHED_ATTR_BYTES,
            ..SchedAttr::default()
        };
        match policy {
            Policy::Other { nice } => attr.nice = nice,
            Policy::Fifo { priority } => {
                (attr.policy, attr.priority) = (libc::SCHED_FIFO as u32, priority)
            }
            Policy::RoundRobin { priority } => {
                (attr.policy, attr.priority) = (libc::SCHED_RR as u32, priority)
            }
            Policy::Deadline {
                runtime,
                deadline,
                period,
            } => {
                attr.policy = libc::SCHED_DEADLINE as u32;
                (attr.runtime, attr.deadline, attr.period) = (runtime, deadline, period);
                attr.flags = libc::SCHED_FLAG_DL_OVERRUN as u64;
            }
        }
        Self(attr)
    }

    /// Sets the policy of thread `tid` (0: the calling one), with a single system call.
    pub(crate) fn give(&self, tid: i32) -> io::Result<()> {
        // SAFETY: the kernel reads `size` bytes at the attributes, which is their exact size.
        let result = unsafe {
            libc::syscall(
                libc::SYS_sched_setattr,
                tid,
                std::ptr::from_ref(&self.0),
                0_u32,
            )
        };
        crate::check(result as libc::c_int).map(drop)
    }
}

/// The policy for threads that must react in time under load, although they are not real-time
/// tasks. With EEVDF (Linux 6.6 and later), a load that forks constantly keeps threads with nice 0
/// from running for seconds, because each new child has an earlier deadline. With the load `fork`
/// on Linux 6.18, a thread with nice 0 was up to 3.7 s late, and one with nice -20 only 0.5 ms.
pub const AHEAD: Policy = Policy::Other { nice: -20 };

/// Runs the calling thread with the policy [`AHEAD`] until the guard is dropped. Nothing changes if
/// the process lacks the privilege, or if the thread's policy is not SCHED_OTHER.
#[derive(Debug)]
pub struct AheadGuard(Option<SchedAttr>);

impl AheadGuard {
    #[must_use]
    pub fn of_ordinary() -> Self {
        let ordinary = attributes(0)
            .ok()
            .filter(|attr| attr.policy == libc::SCHED_OTHER as u32);
        Self(ordinary.filter(|_| set_policy(0, AHEAD).is_ok()))
    }
}

impl Drop for AheadGuard {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            let _ = Attributes(before).give(0);
        }
    }
}

/// Returns the policy of thread `tid` (0: the calling one) as (policy number, real-time priority).
///
/// # Errors
/// Returns ESRCH if the thread does not exist.
pub fn policy(tid: i32) -> io::Result<(u32, u32)> {
    attributes(tid).map(|attr| (attr.policy, attr.priority))
}

fn attributes(tid: i32) -> io::Result<SchedAttr> {
    let mut attr = SchedAttr::default();
    // SAFETY: the kernel writes at most the given number of bytes to `attr`, which is its exact
    // size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            tid,
            std::ptr::from_mut(&mut attr),
            SCHED_ATTR_BYTES,
            0_u32,
        )
    };
    crate::check(result as libc::c_int).map(|_| attr)
}

/// Returns the name of a policy number from [`policy`], as in the kernel's documentation.
#[must_use]
pub fn policy_name(policy: u32) -> &'static str {
    // The order is that of the numbers in include/uapi/linux/sched.h.
    [
        "SCHED_OTHER",
        "SCHED_FIFO",
        "SCHED_RR",
        "SCHED_BATCH",
        "SCHED_ISO",
        "SCHED_IDLE",
        "SCHED_DEADLINE",
        "SCHED_EXT",
    ]
    .get(policy as usize)
    .copied()
    .unwrap_or("an unknown policy")
}

/// Sets the timer slack of the calling thread, in ns. Real-time threads have no timer slack.
///
/// # Errors
/// Returns the errors of prctl(2).
pub fn set_timer_slack(slack: u32) -> io::Result<()> {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and reads no memory.
    crate::check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, libc::c_ulong::from(slack)) })
        .map(drop)
}

/// Returns the calling thread's timer slack in ns.
///
/// # Errors
/// Returns the errors of prctl(2).
pub fn timer_slack() -> io::Result<u32> {
    // SAFETY: PR_GET_TIMERSLACK takes no argument.
    crate::check(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) }).map(|slack| slack as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    /// The children of a thread with the guard must not inherit its policy. Without the privilege,
    /// the thread and its children keep the policy of the test process.
    #[test]
    fn a_thread_is_ahead_for_a_time_and_its_children_are_not() {
        let nice = || attributes(0).unwrap().nice;
        std::thread::spawn(move || {
            let usual = nice();
            let ahead = AheadGuard::of_ordinary();
            let is_allowed = ahead.0.is_some();
            assert_eq!(nice(), if is_allowed { -20 } else { usual });
            assert_eq!(
                std::thread::spawn(nice).join().unwrap(),
                if is_allowed { 0 } else { usual }
            );
            drop(ahead);
            assert_eq!(nice(), usual);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_policy_that_is_set_is_the_policy_that_is_read() {
        std::thread::spawn(|| {
            set_policy(0, Policy::Other { nice: 3 }).unwrap();
            assert_eq!(policy(0).unwrap(), (libc::SCHED_OTHER as u32, 0));
            set_timer_slack(1).unwrap();
            assert_eq!(timer_slack().unwrap(), 1);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_deadline_that_cannot_be_is_an_error() {
        let policy = Policy::Deadline {
            runtime: 2_000_000,
            deadline: 1_000_000,
            period: 1_000_000,
        };
        assert_eq!(
            set_policy(0, policy).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }

    #[test]
    fn a_thread_that_tries_the_deadline_class_is_in_it_and_no_signal_comes_of_what_it_used() {
        let policy = Policy::Deadline {
            runtime: 500_000,
            deadline: 1_000_000,
            period: 1_000_000,
        };
        let tried = move || match try_policy(policy) {
            Ok(()) => {
                assert_eq!(super::policy(0).unwrap(), (libc::SCHED_DEADLINE as u32, 0));
                // The loop uses a hundred times the runtime that the thread has per period. At the
                // next tick, the kernel would send a signal, which would end the process.
                let end = clock::thread_cpu_time() + 50_000_000;
                while clock::thread_cpu_time() < end {}
            }
            Err(error) => assert!(
                matches!(error.raw_os_error(), Some(libc::EPERM | libc::EBUSY)),
                "{error}"
            ),
        };
        std::thread::spawn(tried).join().unwrap();
    }

    #[test]
    fn a_priority_that_does_not_exist_is_an_error() {
        assert_eq!(
            set_policy(0, Policy::Fifo { priority: 100 })
                .unwrap_err()
                .raw_os_error(),
            Some(libc::EINVAL)
        );
        assert_eq!(
            policy(i32::MAX).unwrap_err().raw_os_error(),
            Some(libc::ESRCH)
        );
    }
}
