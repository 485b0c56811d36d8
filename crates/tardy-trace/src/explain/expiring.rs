//! Timers, and those whose function a CPU is in.

/// A timer that is set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timer {
    pub(super) expires: i64,
    pub(super) soft_expires: i64,
    pub(super) mode: Option<i64>,
    /// The thread that set it.
    pub(super) by: i32,
}

/// A timer whose function a CPU is in.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpiringTimer {
    pub(super) time: u64,
    pub(super) now: i64,
    pub(super) function: u64,
    pub(super) timer: Option<Timer>,
    pub(super) interrupt: Option<u64>,
    /// The thread that it is above, and whether it is in a hard interrupt: another thread's waking
    /// is not its.
    pub(super) pid: i32,
    pub(super) is_in_interrupt: bool,
}
