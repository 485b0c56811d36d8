//! Stops the machine when the kernel's work after the boot is over. When the host resumes the
//! machine, it continues with the job that the host has written into the shared memory.
//!
//! The guest itself chooses this moment, not the host, and until then the machine's memory contains
//! nothing of the job. Any number of runs with different jobs can therefore start from the same
//! state, at the same instruction.

use std::io;

use super::pci;
use crate::exchange;
use crate::guest_job::{GuestJob, JOB_PATH};

/// PVPANIC_PANICKED of include/uapi/misc/pvpanic.h (Linux 6.1). The kernel has not panicked, but
/// QEMU stops the machine on this report. The guest uses it because it has no other way to stop
/// itself without a driver.
const STOP: u8 = 1;

/// Stops the machine; returns the job once the host has resumed the machine.
///
/// # Errors
/// Returns an error if a device is missing, and `InvalidData` if the host has left no job.
pub(super) fn pause_for_job() -> io::Result<GuestJob> {
    // Everything is prepared before the machine stops, because every run that starts from the
    // snapshot would have to repeat what is done later.
    let mut memory = pci::shared_memory()?;
    let (mut register, offset) = pci::panic_register()?;
    exchange::announce_pause(&mut memory)?;
    register.write_at(offset, &[STOP])?;
    let bytes = exchange::read_job(&memory)?;
    // Every process of the guest reads the job from this path.
    std::fs::write(JOB_PATH, &bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}
