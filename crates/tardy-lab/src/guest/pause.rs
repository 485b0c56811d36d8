//! Stops the machine once it has settled, and resumes with the job that the host has left in the
//! shared memory.
//!
//! The guest chooses the moment, not the host, and nothing of the job is in the machine's memory
//! before: any number of runs with different jobs can start at the same state, each from the same
//! instruction on.

use std::io;

use super::pci;
use crate::exchange;
use crate::guest_job::{GuestJob, JOB_PATH};

/// PVPANIC_PANICKED of include/uapi/misc/pvpanic.h (Linux 6.1). The kernel has not panicked: QEMU
/// stops the machine on this report, the only way for a guest to stop itself without a driver.
const STOP: u8 = 1;

/// Returns the job after the host has resumed the machine.
///
/// # Errors
/// Missing devices; `InvalidData` when the host has left no job.
pub(super) fn pause_for_job() -> io::Result<GuestJob> {
    // All preparation happens before: later work would be in every run that starts here.
    let mut memory = pci::shared_memory()?;
    let (mut register, offset) = pci::panic_register()?;
    exchange::announce_pause(&mut memory)?;
    register.write_at(offset, &[STOP])?;
    let bytes = exchange::read_job(&memory)?;
    // The path at which every process of the guest looks for it.
    std::fs::write(JOB_PATH, &bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}
