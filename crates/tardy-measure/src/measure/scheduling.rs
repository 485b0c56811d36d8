//! The scheduling of a thread: policy, priority and CPUs.
//!
//! Recorder, session, guardian and init run at nice -20, not at a real-time priority, and their
//! children at 0. Under EEVDF, a storm of forks keeps threads of nice 0 from their CPU for seconds,
//! because each new child has an earlier deadline. Beside the load `fork` on Linux 6.18, a thread
//! of nice 0 was up to 3.7 s late, one of nice -20 only 0.5 ms. Loads remain ordinary tasks.

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
