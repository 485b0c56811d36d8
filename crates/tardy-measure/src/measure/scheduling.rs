//! The scheduling of a thread: policy, priority and CPUs, as read from the kernel.
//! [`super::scheduling_watch`] compares it with later readings.

use std::fmt;
use std::io;

use tardy_core::cpu::{CpuId, CpuList};
use tardy_sys::{affinity, sched};

/// The scheduling of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scheduling {
    pub(super) policy: u32,
    pub(super) priority: u32,
    pub(super) cpus: CpuList,
}

impl Scheduling {
    /// Reads the scheduling of thread `tid`; 0 is the calling thread.
    pub(super) fn of(tid: i32) -> io::Result<Self> {
        let (policy, priority) = sched::policy(tid)?;
        Ok(Self {
            policy,
            priority,
            cpus: affinity::get(tid)?.into_iter().map(CpuId).collect(),
        })
    }
}

impl fmt::Display for Scheduling {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(sched::policy_name(self.policy))?;
        if self.priority > 0 {
            write!(formatter, " {}", self.priority)?;
        }
        write!(formatter, " on CPU {}", self.cpus)
    }
}
