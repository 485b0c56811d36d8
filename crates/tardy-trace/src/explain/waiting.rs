//! Keeps track of the threads whose wake-ups are explained. Waits of other threads are not of
//! interest here.

use super::{DueFrom, Waker};
use crate::event::Thread;
use crate::text::Text;

/// The threads whose wake-ups are explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The threads with these IDs in the initial PID namespace.
    Pids(Vec<i32>),
    /// All threads with one of these names.
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

/// Facts about the wait to which an interval belongs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) thread: Thread,
    pub(super) waking_cpu: u32,
    pub(super) interrupted_depth: Option<u8>,
    pub(super) functions: Functions,
}

/// The stack of the functions that the waking interrupt interrupted, if it was recorded.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Functions {
    pub(super) stack: Option<u32>,
    pub(super) is_softirq: bool,
}

#[derive(Debug)]
pub(super) struct WaitingThread {
    pub(super) thread: Thread,
    pub(super) due: u64,
    /// Latest time at which the timer may expire: the due time plus the timer's slack.
    pub(super) slack_end: u64,
    pub(super) due_from: DueFrom,
    pub(super) waker: Waker,
    pub(super) interrupt: Option<u64>,
    pub(super) expiry: Option<u64>,
    pub(super) waking: u64,
    pub(super) waking_cpu: u32,
    pub(super) interrupted_depth: Option<u8>,
    pub(super) functions: Functions,
    /// When the thread was first put on a run queue, and to which CPU the queue belongs.
    pub(super) queue: (u64, u32),
    /// The CPUs to which the thread was moved.
    pub(super) moves: Vec<(u64, u32)>,
}

impl WaitingThread {
    /// Returns the last CPU for which the thread waits, and when it started to wait for it.
    pub(super) fn last_queue(&self) -> (u64, u32) {
        self.moves.last().copied().unwrap_or(self.queue)
    }
}
