//! Emptying the CPU's list of free pages, which the boot has left full.
//!
//! The kernel frees the initial file system's archive page by page, and keeps up to its low
//! watermark of freed pages on a list of the CPU (9555 pages of at most 9816 in a guest of 768 MB
//! with Linux 6.1). Linux 5.18 to 6.6 return the whole list at the end of some later process, with
//! interrupts off for 12 ms: that would fall into an arbitrary phase of the measurement, and be
//! unrelated to its load.
//!
//! A guest empties the CPU's list of free pages before the snapshot. Its boot leaves the list full,
//! and kernels 5.18 to 6.6 return it with interrupts off at the end of some later process. That is
//! not a property of the load running then (docs/lab.md).

use std::io;

use tardy_sys::mapping::Mapping;
use tardy_sys::process::{self, WaitResult};

use super::system;

/// More pages than the list holds: at most the low watermark, which is at most a sixteenth of the
/// memory (a twentieth kept free for huge pages, and a quarter of that;
/// set_recommended_min_free_kbytes and __setup_per_zone_wmarks of Linux 6.1).
const PART_OF_MEMORY: usize = 12;

/// Has a process touch and free more pages than the list holds: at its end the kernels named above
/// give the list back.
///
/// # Errors
/// Returns an error if the process cannot be made, or fails.
pub(super) fn empty() -> io::Result<()> {
    let bytes = system::memory()? / PART_OF_MEMORY;
    let process = process::fork(|| i32::from(touch(bytes).is_err()))?;
    match process::reap(process, true)? {
        WaitResult::Ended(_, status) if status.success() => Ok(()),
        _ => Err(io::Error::other("the process that frees pages failed")),
    }
}

/// The mapping is returned at the end of the process.
fn touch(bytes: usize) -> io::Result<()> {
    let mut area = Mapping::anonymous(bytes)?;
    // Kernels without huge pages refuse, and need not be asked.
    let _ = area.forbid_huge_pages();
    area.touch(0, bytes);
    std::mem::forget(area);
    Ok(())
}
