//! Which process a number means.

use crate::root::Root;

/// Start time of a process in clock ticks since the boot: field 22 of /proc/PID/stat (proc(5)),
/// which stands 19 fields behind the command's bracket. It tells a process from a later one with
/// the same number.
#[must_use]
pub fn start_time(root: &Root, process: u32) -> Option<u64> {
    start_time_of(&root.text(format!("proc/{process}/stat"))?)
}

/// The same of the file's text.
#[must_use]
pub fn start_time_of(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(19)?
        .parse()
        .ok()
}
