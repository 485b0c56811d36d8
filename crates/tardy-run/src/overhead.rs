//! What the tool itself costs. This is reported with every result and never subtracted from it.

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;

/// Overhead of the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Cost of one read of the monotonic clock: the median of many reads.
    pub clock_read_ns: Nanos,
    /// Overhead of each measuring thread.
    pub threads: Vec<ThreadOverhead>,
    /// CPU time of the whole process between arming and disarming.
    pub process_cpu_time_ns: Nanos,
    /// Largest resident size of the process, in bytes.
    pub resident_bytes_max: u64,
}

/// Overhead of one measuring thread, between arming and disarming.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadOverhead {
    /// Probe of the thread.
    pub probe: String,
    /// CPU that the thread was bound to.
    pub cpu: Option<CpuId>,
    /// CPU time, including the time to go to sleep and to wake up in the kernel.
    pub cpu_time_ns: Nanos,
    /// Number of page faults.
    pub faults: u64,
    /// How often the thread was switched out because it slept.
    pub switches_voluntary: u64,
    /// How often the thread was switched out because the kernel preempted it.
    pub switches_involuntary: u64,
}
