//! Measures the cost of the tool itself. The cost is stored with every result and never subtracted
//! from it.

use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;
use tardy_run::overhead::ThreadOverhead;
use tardy_sys::clock;
use tardy_sys::usage::{Usage, UsageScope, usage};

/// The thread's counts at the start of its loop.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartCounts {
    cpu_time: i64,
    usage: Usage,
}

impl StartCounts {
    /// Reads the counts. Must be called on the measuring thread, directly before the loop.
    pub(super) fn now() -> Self {
        // The first call of each function causes page faults (for the page of `usage`, and for the
        // clock's code). These two calls cause them in advance, so that they are not counted as
        // page faults of the loop.
        let _ = usage(UsageScope::Thread);
        let _ = clock::thread_cpu_time();
        Self {
            usage: usage(UsageScope::Thread).unwrap_or_default(),
            cpu_time: clock::thread_cpu_time(),
        }
    }

    /// Returns by how much the counts increased since the start of the loop. Must be called on the
    /// same thread, directly after the loop.
    pub(super) fn since(&self, probe: &str, cpu: Option<CpuId>) -> ThreadOverhead {
        let cpu_time = clock::thread_cpu_time() - self.cpu_time;
        let after = usage(UsageScope::Thread).unwrap_or_default();
        let before = &self.usage;
        ThreadOverhead {
            probe: probe.to_owned(),
            cpu,
            cpu_time_ns: Nanos(cpu_time),
            faults: (after.faults_minor + after.faults_major)
                - (before.faults_minor + before.faults_major),
            switches_voluntary: after.switches_voluntary - before.switches_voluntary,
            switches_involuntary: after.switches_involuntary - before.switches_involuntary,
        }
    }
}

/// Returns the median time between two clock reads, in ns.
pub(super) fn clock_read_cost() -> Nanos {
    const READS: usize = 1001;
    let mut gaps = Vec::with_capacity(READS);
    let mut before = clock::monotonic();
    for _ in 0..READS {
        let after = clock::monotonic();
        gaps.push(after - before);
        before = after;
    }
    gaps.sort_unstable();
    Nanos(gaps[READS / 2])
}
