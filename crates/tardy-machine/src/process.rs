//! Identifies the process of a number.

use crate::root::Root;

/// Returns the start time of a process in clock ticks since the boot: field 22 of /proc/PID/stat
/// (proc(5)), 19 fields after the command's bracket. It distinguishes a process from a later one
/// with the same number.
#[must_use]
pub fn start_time(root: &Root, process: u32) -> Option<u64> {
    start_time_of(&root.text(format!("proc/{process}/stat"))?)
}

/// Parses the start time in the file's text.
#[must_use]
pub fn start_time_of(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(19)?
        .parse()
        .ok()
}
