//! The start time of a process. The start time and the process ID together identify a process.

use crate::root::Root;

/// Returns the start time of a process in clock ticks since boot: field 22 of /proc/PID/stat
/// (proc(5)). The start time distinguishes the process from a later one with the same number.
#[must_use]
pub fn start_time(root: &Root, process: u32) -> Option<u64> {
    start_time_of(&root.text(format!("proc/{process}/stat"))?)
}

/// Parses the start time from the text of the file. Fields are counted from the parenthesis that
/// ends the process name, because the name may contain blanks.
#[must_use]
pub fn start_time_of(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(19)?
        .parse()
        .ok()
}
