//! Tracks the threads whose wake-ups are explained while they wait.

use super::{DueFrom, Waker};
use crate::event::Thread;
use crate::text::Text;

/// Whose wake-ups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The threads with these numbers, outside any container.
    Pids(Vec<i32>),
    /// All threads of these names.
    Names(Vec<Text>),
}

impl Target {
    pub(super) fn is(&self, thread: Thread) -> bool {
        match self {
            Self::Pids(pids) => pids.contains(&thread.pid),
            Self::Names(names) => names.contains(&thread.name),
        }
    }
}

/// The wait that an interval belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) thread: Thread,
    pub(super) waking_cpu: u32,
    pub(super) interrupted_depth: Option<u8>,
    pub(super) functions: Functions,
}

/// The functions that were interrupted by the waking interrupt, if stacks were recorded.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Functions {
    pub(super) stack: Option<u32>,
    pub(super) is_softirq: bool,
}

#[derive(Debug)]
pub(super) struct WaitingThread {
    pub(super) thread: Thread,
    pub(super) due: u64,
    /// Latest expiry within the timer's slack.
    pub(super) slack_end: u64,
    pub(super) due_from: DueFrom,
    pub(super) waker: Waker,
    pub(super) interrupt: Option<u64>,
    pub(super) expiry: Option<u64>,
    pub(super) waking: u64,
    pub(super) waking_cpu: u32,
    pub(super) interrupted_depth: Option<u8>,
    pub(super) functions: Functions,
    /// The first CPU that had the thread in its run queue, and since when.
    pub(super) queue: (u64, u32),
    /// The CPUs that it was moved to.
    pub(super) moves: Vec<(u64, u32)>,
}

impl WaitingThread {
    /// Returns the CPU that it waits for last, and from when on.
    pub(super) fn last_queue(&self) -> (u64, u32) {
        self.moves.last().copied().unwrap_or(self.queue)
    }
}
