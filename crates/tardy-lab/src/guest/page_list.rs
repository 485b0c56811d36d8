//! Empties the CPU's list of free pages, which is full after the boot.
//!
//! The kernel frees the initial file system's archive page by page. The kernel keeps freed pages on
//! a list of the CPU, up to the low watermark. In a guest of 768 MB with Linux 6.1, the list holds
//! 9555 pages after the boot, and the watermark is 9816. In Linux 5.18 to 6.6, the whole list is
//! freed when some later process exits, and freeing it keeps interrupts off for 12 ms. That process
//! could exit in any phase of the measurement, and the delay would have nothing to do with the
//! phase's load (docs/lab.md). A guest therefore empties the list before its snapshot.

use std::io;

use tardy_sys::mapping::Mapping;
use tardy_sys::process::{self, WaitResult};

use super::system;

/// To empty the list, a process touches a part of the guest's memory: the size of the memory
/// divided by this number. This is more than the list can hold, because the list's maximum is the
/// low watermark. The low watermark is at most a sixteenth of the memory: a twentieth that is kept
/// free for huge pages, plus a quarter of this twentieth. Source: set_recommended_min_free_kbytes
/// and __setup_per_zone_wmarks of Linux 6.1.
const PART_OF_MEMORY: usize = 12;

/// Starts a process that touches more pages than the list can hold. When the process ends, the
/// kernels named above empty the list.
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

/// Allocates this many bytes and touches them; they are freed only when the process ends.
fn touch(bytes: usize) -> io::Result<()> {
    let mut area = Mapping::anonymous(bytes)?;
    // Kernels without huge pages refuse this call and do not need it.
    let _ = area.forbid_huge_pages();
    area.touch(0, bytes);
    std::mem::forget(area);
    Ok(())
}
