//! The cost of the tool itself; reported with every result, never subtracted from it.

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;

/// Overhead of the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Cost of one read of the monotonic clock: the median of many.
    pub clock_read_ns: Nanos,
    /// The measuring threads.
    pub threads: Vec<ThreadOverhead>,
    /// CPU time of the whole process between arming and disarming.
    pub process_cpu_time_ns: Nanos,
    /// Largest resident size of the process, in bytes.
    pub resident_bytes_max: u64,
}

/// Overhead of one measuring thread, between arming and disarming.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadOverhead {
    /// The thread's probe.
    pub probe: String,
    /// The CPU that it was bound to.
    pub cpu: Option<CpuId>,
    /// CPU time, sleeping and waking included.
    pub cpu_time_ns: Nanos,
    /// Page faults.
    pub faults: u64,
    /// Context switches because it slept.
    pub switches_voluntary: u64,
    /// Context switches because the kernel preempted the thread.
    pub switches_involuntary: u64,
}
