//! Stopping the machine when it has settled, and going on with the job that the host has left in
//! the shared memory.
//!
//! The guest chooses the moment, not the host, and nothing of the job is in the machine's memory
//! before: any number of runs with different jobs can begin at the same state, each from the same
//! instruction on.

use std::io;

use super::pci;
use crate::exchange;
use crate::guest_job::{GuestJob, JOB_PATH};

/// PVPANIC_PANICKED of include/uapi/misc/pvpanic.h (Linux 6.1). The kernel has not panicked: QEMU
/// stops the machine when it is told so, and this is the one way in which a guest can have itself
/// stopped without a driver.
const STOP: u8 = 1;

/// Returns when the host has let the machine go on, with the job.
///
/// # Errors
/// Missing devices; `InvalidData` when the host has left no job.
pub(super) fn pause_for_job() -> io::Result<GuestJob> {
    // Everything that can be done before is: what is left afterwards is in every run that begins
    // here.
    let mut memory = pci::shared_memory()?;
    let (mut register, offset) = pci::panic_register()?;
    exchange::announce_pause(&mut memory)?;
    register.write_at(offset, &[STOP])?;
    let bytes = exchange::read_job(&memory)?;
    // Where every process of the guest looks for it.
    std::fs::write(JOB_PATH, &bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}
